use std::sync::Arc;

use conifer_data::ImageRef;
use conifer_data::transform::crop_box;
use conifer_geometry::space;

use super::{Benchmark, Context, RequiredInput, images, lacking, open};
use crate::record::{Baseline, Record, RecordKey};
use crate::{Error, Outcomes, Result};

/// Fraction of samples in which the more general view is nearer to the root than the more specific one.
///
/// Four pairs (general and specific) are compared: phrase and caption, box and photo, caption and photo, phrase and box
/// (HyCoCLIP Figure 5(a); PHyCLIP Figure 3, as a rate). The phrase is the first phrase of the sample with a box or a
/// crop. The caption is the one that contains the first span of the phrase; without a span, the first caption. Chance
/// is one half. The mean depth of each view is also recorded.
pub(super) struct DepthOrder;

impl Benchmark for DepthOrder {
    fn name(&self) -> &'static str {
        "depth_order"
    }
    fn summary(&self) -> &'static str {
        "share of samples whose general view is nearer to the root than the specific one"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Figure 5(a), PHyCLIP Figure 3 (norm histograms)"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Captions, RequiredInput::Phrases]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let samples = context.samples(self.name())?;
        let photos = images(self.name(), &samples)?;
        let (mut grounded_photos, mut crops, mut phrases, mut captions) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (sample, photo) in samples.iter().zip(&photos) {
            let Some(phrase) = sample.phrases.iter().find(|p| p.crop.is_some() || !p.boxes.is_empty()) else {
                continue;
            };
            let caption = phrase.spans.first().map_or(0, |span| span.caption);
            let caption = sample
                .captions
                .get(caption)
                .ok_or_else(|| lacking(self.name(), sample, "the caption", "each sample needs at least one"))?;
            let crop = match &phrase.crop {
                Some(crop) => crop.clone(),
                None => {
                    let picture = open(self.name(), photo, samples.len())?;
                    ImageRef::Pixels(Arc::new(crop_box(&picture, &phrase.boxes[0])))
                }
            };
            grounded_photos.push(photo.clone());
            crops.push(crop);
            phrases.push(phrase.text.clone());
            captions.push(caption.clone());
        }
        if grounded_photos.is_empty() {
            return Err(Error::Missing {
                benchmark: self.name(),
                missing: "every phrase with a box".into(),
                expected: "expected grounded samples".into(),
            });
        }
        if grounded_photos.len() < samples.len() {
            context.leaves_out(format!(
                "{} of {} samples have a phrase with a box",
                grounded_photos.len(),
                samples.len()
            ));
        }
        let root = context.embedder.root()?;
        let space = space::<f64>(context.embedder.spec())?;
        let dim = context.embedder.spec().dim;
        let depth = |points: Vec<f32>| -> Vec<f64> {
            points
                .chunks(dim)
                .map(|p| space.depth(&p.iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), &root))
                .collect()
        };
        let crop = context.options.crop;
        let image = depth(context.embedder.images(&grounded_photos, crop)?);
        let box_image = depth(context.embedder.images(&crops, crop)?);
        let text = depth(context.embedder.texts(&captions)?);
        let box_text = depth(context.embedder.texts(&phrases)?);

        let seed = context.options.seed;
        let record = |split, metric, outcomes: Outcomes, baseline| {
            let key = RecordKey { benchmark: self.name(), split, protocol: "first grounded phrase", metric };
            Record::of(key, outcomes, baseline, seed)
        };
        let rate = |split, parent: &[f64], child: &[f64]| {
            let right = parent.iter().zip(child).map(|(p, c)| p < c).collect();
            record(split, "parent is shallower", right, Baseline::chance(0.5))
        };
        let mean_depth = |split, values: &[f64]| record(split, "mean depth", values.to_vec().into(), None);
        Ok(vec![
            rate("box_text < text", &box_text, &text),
            rate("box_image < image", &box_image, &image),
            rate("text < image", &text, &image),
            rate("box_text < box_image", &box_text, &box_image),
            mean_depth("box_text", &box_text),
            mean_depth("text", &text),
            mean_depth("box_image", &box_image),
            mean_depth("image", &image),
        ])
    }
}
