use std::sync::Arc;

use conifer_data::transform::crop_box;
use conifer_data::{BBox, ImageRef, Sample};

use super::{Context, images, open};
use crate::Result;

/// Embedded crops of the boxes of all photos, in the order of the photos.
pub(super) struct EmbeddedBoxes {
    /// Row-major `[boxes, dim]`.
    pub(super) points: Vec<f32>,
    /// Text of the phrase of each box, which is its class.
    pub(super) class_of: Vec<String>,
    /// Index of the sample of each box.
    pub(super) photo_of: Vec<usize>,
    pub(super) bboxes: Vec<BBox>,
}

/// Bytes of crops to collect before they are embedded, because the crops of a whole data set do not fit in memory.
const MAX_CROP_BYTES: usize = 128 << 20;

/// Crops and embeds every box for which `keeps(is_group, box)` is true.
pub(super) fn embed_boxes(
    benchmark: &'static str,
    context: &Context<'_>,
    samples: &[Sample],
    keeps: impl Fn(bool, &BBox) -> bool,
) -> Result<EmbeddedBoxes> {
    let photos = images(benchmark, samples)?;
    let mut it = EmbeddedBoxes { points: Vec::new(), class_of: Vec::new(), photo_of: Vec::new(), bboxes: Vec::new() };
    let (mut crops, mut crop_bytes) = (Vec::new(), 0);
    for (photo, sample) in samples.iter().enumerate() {
        let boxes = sample.phrases.iter().flat_map(|phrase| phrase.boxes.iter().map(move |bbox| (phrase, bbox)));
        let boxes: Vec<_> = boxes.filter(|(phrase, bbox)| keeps(phrase.group_of, bbox)).collect();
        if boxes.is_empty() {
            continue;
        }
        let picture = open(benchmark, &photos[photo], samples.len())?;
        for (phrase, bbox) in boxes {
            let crop = crop_box(&picture, bbox);
            crop_bytes += crop.rgb.len();
            crops.push(ImageRef::Pixels(Arc::new(crop)));
            it.class_of.push(phrase.text.clone());
            it.photo_of.push(photo);
            it.bboxes.push(*bbox);
        }
        if crop_bytes > MAX_CROP_BYTES {
            it.points.extend(context.embedder.images(&crops, context.options.crop)?);
            crops.clear();
            crop_bytes = 0;
        }
    }
    if !crops.is_empty() {
        it.points.extend(context.embedder.images(&crops, context.options.crop)?);
    }
    Ok(it)
}
