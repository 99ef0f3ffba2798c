use super::{Benchmark, Context, RequiredInput, images, lacking};
use crate::metrics::chance_hit_at_k;
use crate::record::{Baseline, Record, RecordKey};
use crate::score::ranks_both_ways;
use crate::{Outcomes, Result};

/// Retrieval of captions by photos and of photos by captions. Every caption of a photo is correct for it.
///
/// Recall@k follows the CLIP literature: the fraction of queries with *any* correct candidate in the top k. A tie with
/// a wrong candidate counts as a miss.
pub(super) struct CrossModalRetrieval;

const TOP: [usize; 3] = [1, 5, 10];

impl Benchmark for CrossModalRetrieval {
    fn name(&self) -> &'static str {
        "cross_modal_retrieval"
    }
    fn summary(&self) -> &'static str {
        "Recall@1/5/10 of photo to caption and caption to photo"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 2, PHyCLIP Table 2, HierarCaps Table 3"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Captions]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let samples = context.samples(self.name())?;
        let mut captions = Vec::new();
        let mut photo_of = Vec::new();
        for (photo, sample) in samples.iter().enumerate() {
            if sample.captions.is_empty() {
                return Err(lacking(self.name(), sample, "the caption", "each sample needs at least one"));
            }
            captions.extend(sample.captions.iter().cloned());
            photo_of.extend(std::iter::repeat_n(photo, sample.captions.len()));
        }
        let texts = context.embedder.texts(&captions)?;
        let photos = context.embedder.images(&images(self.name(), &samples)?, context.options.crop)?;
        let score = context.options.score;
        let (to_text, to_photo) = ranks_both_ways(context.embedder.spec(), score, &photos, &texts, &photo_of)?;

        let clusters: Vec<u32> = photo_of.iter().map(|&photo| photo as u32).collect();
        let mut records = Vec::new();
        for (split, ranks, candidates) in
            [("image_to_text", to_text, captions.len()), ("text_to_image", to_photo, samples.len())]
        {
            for k in TOP {
                let chance = match split {
                    "text_to_image" => chance_hit_at_k(candidates, 1, k),
                    _ => {
                        samples.iter().map(|it| chance_hit_at_k(candidates, it.captions.len(), k)).sum::<f64>()
                            / samples.len() as f64
                    }
                };
                let hits: Outcomes = ranks.iter().map(|&rank| rank < k).collect();
                let metric = format!("recall@{k}");
                let key = RecordKey { benchmark: self.name(), split, protocol: score.name(), metric: &metric };
                let (chance, seed) = (Baseline::chance(chance), context.options.seed);
                records.push(match split {
                    // Captions of one photo are dependent, so the bootstrap draws them together.
                    "text_to_image" => Record::clustered(key, hits, clusters.clone(), chance, seed),
                    _ => Record::of(key, hits, chance, seed),
                });
            }
        }
        Ok(records)
    }
}
