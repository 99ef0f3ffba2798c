use std::collections::HashMap;

use conifer_data::ClassEntry;

use super::{Benchmark, Context, RequiredInput, images, prompts};
use crate::record::{Baseline, Record, RecordKey};
use crate::score::similarity_rows;
use crate::{Outcomes, Result};

/// Zero-shot classification: each photo is assigned to the class whose prompt ensemble is most similar.
///
/// The point of a class is the mean of the points of its prompts: `exp0(mean(log0(.)))` in a hyperbolic space and the
/// normalised mean on the sphere, as published for MERU and CLIP. The records are the macro average (mean over classes,
/// which the MERU family prints for every data set) and the micro average.
pub(super) struct ZeroShotClassification;

impl Benchmark for ZeroShotClassification {
    fn name(&self) -> &'static str {
        "zero_shot_classification"
    }
    fn summary(&self) -> &'static str {
        "top-1 accuracy of photos against class prompts, macro and micro"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 1, PHyCLIP Table 1, MERU"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Labels]
    }

    fn prompts(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let it = classify(context, self.name())?;
        let values: Vec<f64> = it.predicted.iter().zip(&it.labels).map(|(p, l)| f64::from(u8::from(p == l))).collect();
        let groups = it.labels.iter().map(|&label| label as u32).collect();
        let record = |metric: &str, outcomes: Outcomes| {
            let key = RecordKey { benchmark: self.name(), split: "all", protocol: &it.protocol, metric };
            Record::of(key, outcomes, Baseline::chance(1.0 / it.classes.len() as f64), context.options.seed)
        };
        Ok(vec![
            record("accuracy (macro)", Outcomes::MeanOfGroups { values: values.clone(), groups }),
            record("accuracy (micro)", values.into()),
        ])
    }
}

/// Predictions of the zero-shot classifier.
pub(super) struct ClassPredictions {
    pub(super) classes: Vec<ClassEntry>,
    pub(super) predicted: Vec<usize>,
    pub(super) labels: Vec<usize>,
    pub(super) protocol: String,
}

pub(super) fn classify(context: &Context<'_>, benchmark: &'static str) -> Result<ClassPredictions> {
    let samples = context.samples(benchmark)?;
    let classes = context.classes(benchmark, &samples)?;
    let number: HashMap<&str, usize> = classes.iter().enumerate().map(|(i, class)| (class.label.as_str(), i)).collect();
    let labels = samples.iter().filter_map(|it| number.get(it.label.as_deref()?).copied()).collect();

    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    let centres = class_points(context, &names)?;
    let photos = context.embedder.images(&images(benchmark, &samples)?, context.options.crop)?;
    let (spec, score) = (context.embedder.spec(), context.options.score);
    let predicted = similarity_rows(spec, score, &photos, &centres, |_, scores| first_maximum(scores))?;
    let options = context.options;
    let protocol = format!("{} prompts ({}), {}", options.prompts, options.templates.len(), score.name());
    Ok(ClassPredictions { classes, predicted, labels, protocol })
}

/// [`prompts::class_points`] with the embedder and the templates of the context.
pub(super) fn class_points(context: &Context<'_>, names: &[&str]) -> Result<Vec<f32>> {
    prompts::class_points(context.embedder, &context.options.templates, names)
}

/// Index of the largest score; of equal scores the first.
pub(super) fn first_maximum(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, j| if scores[j] > scores[best] { j } else { best })
}
