use super::zero_shot_classification::classify;
use super::{Benchmark, Context, RequiredInput};
use crate::metrics::{hierarchical_scores, random_hierarchical_scores};
use crate::record::{Baseline, Record, RecordKey};
use crate::{Error, Result};

/// Tree distances between the zero-shot predictions and the true classes, averaged over photos: TIE, LCA (as the paper
/// defines it and as released), Jaccard, P_H and R_H. A class may have several parents; see [`hierarchical_scores`].
pub(super) struct HierarchicalClassification;

impl Benchmark for HierarchicalClassification {
    fn name(&self) -> &'static str {
        "hierarchical_classification"
    }
    fn summary(&self) -> &'static str {
        "tree distance between zero-shot answers and the truth (TIE, LCA, J, P_H, R_H)"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 2 and appendix C, PHyCLIP Table 2"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Labels, RequiredInput::ClassTree]
    }

    fn prompts(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let graph = context.graph.ok_or_else(|| Error::Missing {
            benchmark: self.name(),
            missing: "the class tree".into(),
            expected: "expected a file of `parent child` edges whose nodes are the class labels".into(),
        })?;
        let it = classify(context, self.name())?;
        let nodes = it
            .classes
            .iter()
            .map(|class| {
                graph.find(&class.label).ok_or_else(|| Error::UnknownLabel {
                    label: class.label.clone(),
                    known: "node of the class tree",
                    count: graph.len(),
                    example: graph.leaves().next().map_or_else(String::new, |leaf| graph.name(leaf).to_owned()),
                })
            })
            .collect::<Result<Vec<usize>>>()?;
        let answers = it.predicted.iter().zip(&it.labels);
        let scores: Vec<_> = answers.map(|(&p, &l)| hierarchical_scores(graph, nodes[p], nodes[l])).collect();
        let truth: Vec<usize> = it.labels.iter().map(|&l| nodes[l]).collect();
        let chance = random_hierarchical_scores(graph, &nodes, &truth).named();
        let rows: Vec<_> = scores.iter().map(|s| s.named()).collect();
        Ok(chance
            .iter()
            .enumerate()
            .map(|(i, &(metric, baseline))| {
                let values: Vec<f64> = rows.iter().map(|row| row[i].1).collect();
                let key = RecordKey { benchmark: self.name(), split: "all", protocol: &it.protocol, metric };
                Record::of(key, values, Baseline::chance(baseline), context.options.seed)
            })
            .collect())
    }
}
