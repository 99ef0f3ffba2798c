use std::sync::Arc;

use conifer_data::transform::crop_box;
use conifer_data::{BBox, ImageRef, Sample};

use super::{Context, images, open};
use crate::Result;

/// Embedded crops of the boxes of all photos, in the order of the photos.
pub(super) struct Boxes {
    /// `[len, dim]`.
    pub(super) points: Vec<f32>,
    /// Text of the phrase of each box.
    pub(super) class_of: Vec<String>,
    /// Index of the sample of each box.
    pub(super) photo_of: Vec<usize>,
    pub(super) places: Vec<BBox>,
}

/// Bytes of crops to collect before they are embedded. The crops of a whole data set do not fit in memory.
const HELD: usize = 128 << 20;

/// Crops and embeds every box for which `wanted(is_group, box)` is true.
pub(super) fn embed_boxes(
    benchmark: &'static str,
    context: &Context<'_>,
    samples: &[Sample],
    wanted: impl Fn(bool, &BBox) -> bool,
) -> Result<Boxes> {
    let photos = images(benchmark, samples)?;
    let mut it = Boxes { points: Vec::new(), class_of: Vec::new(), photo_of: Vec::new(), places: Vec::new() };
    let (mut crops, mut held) = (Vec::new(), 0);
    for (photo, sample) in samples.iter().enumerate() {
        let boxes = sample.phrases.iter().flat_map(|phrase| phrase.boxes.iter().map(move |bbox| (phrase, bbox)));
        let boxes: Vec<_> = boxes.filter(|(phrase, bbox)| wanted(phrase.group_of, bbox)).collect();
        if boxes.is_empty() {
            continue;
        }
        let picture = open(benchmark, &photos[photo], samples.len())?;
        for (phrase, bbox) in boxes {
            let crop = crop_box(&picture, bbox);
            held += crop.rgb.len();
            crops.push(ImageRef::Pixels(Arc::new(crop)));
            it.class_of.push(phrase.text.clone());
            it.photo_of.push(photo);
            it.places.push(*bbox);
        }
        if held > HELD {
            it.points.extend(context.embedder.images(&crops, context.options.crop)?);
            crops.clear();
            held = 0;
        }
    }
    if !crops.is_empty() {
        it.points.extend(context.embedder.images(&crops, context.options.crop)?);
    }
    Ok(it)
}
