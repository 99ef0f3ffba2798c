use conifer_data::Sample;

use super::zero_shot_classification::first_maximum;
use super::{Benchmark, Context, HierarcapsPoints, Input, hierarcaps_records, images};
use crate::record::{Baseline, Place, Record};
use crate::score::similarity_rows;
use crate::{Error, Result};

/// A taxonomy, rank by rank (RCME Tables 1 to 3): zero-shot accuracy among all taxa of a rank, and the taxa of a photo retrieved from
/// general to specific, as in [`super::hierarcaps`].
///
/// Samples without a taxon of at least two ranks are left out; `n` says how many are left. The text of a taxon is its names from the most general rank down, joined by spaces ("Animalia Chordata Aves"), without a prompt. A rank
/// has as many candidates as the data set has taxa of it.
pub(super) struct TaxonomicRanks;

impl Benchmark for TaxonomicRanks {
    fn name(&self) -> &'static str {
        "taxonomic_ranks"
    }
    fn summary(&self) -> &'static str {
        "zero-shot accuracy at each rank of a taxonomy; precision, recall, F1 and tau_d of the chain of taxa"
    }
    fn reference(&self) -> &'static str {
        "RCME Tables 1, 2, 3, 5 and 10"
    }
    fn needs(&self) -> &'static [Input] {
        &[Input::Images, Input::Taxa]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let samples: Vec<Sample> = context.samples(self.name())?.into_iter().filter(|it| it.taxon.len() > 1).collect();
        if samples.is_empty() {
            return Err(Error::Missing {
                benchmark: self.name(),
                missing: "the taxon of every sample".into(),
                expected: "at least two ranks, general before specific".into(),
            });
        }
        let chains: Vec<Vec<String>> = samples.iter().map(Sample::taxon_texts).collect();
        let photos = context.embedder.images(&images(self.name(), &samples)?, context.options.crop)?;
        let spec = context.embedder.spec();
        let dim = spec.dim;

        // Many photos share their higher taxa: each text is embedded once.
        let mut texts: Vec<String> = chains.iter().flatten().cloned().collect();
        texts.sort();
        texts.dedup();
        let points = context.embedder.texts(&texts)?;
        let point = |text: &String| &points[dim * texts.partition_point(|it| it < text)..][..dim];

        let mut records = Vec::new();
        let ranks = chains.iter().map(Vec::len).max().unwrap_or(0);
        for rank in 0..ranks {
            let rows: Vec<usize> = (0..chains.len()).filter(|&row| chains[row].len() > rank).collect();
            let mut taxa: Vec<&String> = rows.iter().map(|&row| &chains[row][rank]).collect();
            taxa.sort();
            taxa.dedup();
            let candidates: Vec<f32> = taxa.iter().flat_map(|taxon| point(taxon)).copied().collect();
            let queries: Vec<f32> = rows.iter().flat_map(|&row| &photos[row * dim..][..dim]).copied().collect();
            let score = context.options.score;
            let right = similarity_rows(spec, score, &queries, &candidates, |query, scores| {
                f64::from(u8::from(*taxa[first_maximum(scores)] == chains[rows[query]][rank]))
            })?;
            let (split, protocol) = (format!("rank {}", rank + 1), format!("names joined, {}", score.name()));
            let place = Place { benchmark: self.name(), split: &split, protocol: &protocol, metric: "accuracy" };
            records.push(Record::of(place, right, Baseline::chance(1.0 / taxa.len() as f64), context.options.seed));
        }

        let links: Vec<f32> = chains.iter().flatten().flat_map(point).copied().collect();
        let root = context.embedder.root()?;
        let points = HierarcapsPoints { spec, root: &root, tiers: &chains, texts: &links, images: &photos };
        let chain = hierarcaps_records(&points, context.options.steps, context.options.score, context.options.seed)?;
        records.extend(chain.into_iter().map(|record| Record { benchmark: self.name().into(), ..record }));
        Ok(records)
    }
}
