//! Images for evaluation and embedding: each image once, in order, without random augmentation.

use std::sync::Arc;

use super::ordered::OrderedParallelMap;
use crate::batch::ImageBatch;
use crate::sample::guarded;
use crate::sample::{Broken, ImageRef, PixelLimits};
use crate::transform::{EvalCrop, evaluate};

/// Decodes one image to `[3, size, size]` bytes.
///
/// # Errors
/// The image is missing, cannot be decoded, or exceeds `limits`.
pub fn eval_pixels(image: &ImageRef, size: usize, crop: EvalCrop, limits: &PixelLimits) -> Result<Vec<u8>, Broken> {
    guarded(|| image.place(), || Ok(evaluate(&image.open(limits)?, size as u32, crop)))
}

/// A batch of consecutive images.
#[derive(Clone, Debug)]
pub struct EvalBatch {
    /// `[n]`, the index of each row's image in the input list.
    pub rows: Vec<usize>,
    /// The images that could be read.
    pub images: ImageBatch,
    /// The images that could not be read, with their indices.
    pub broken: Vec<(usize, Broken)>,
}

/// Iterator over the batches of [`eval_batches`].
pub struct EvalBatches {
    pixels: OrderedParallelMap<usize, (usize, Result<Vec<u8>, Broken>)>,
    batch_size: usize,
    size: usize,
}

/// Reads all `images` in batches of `batch_size` images, broken ones included. Reads at most two batches ahead on
/// `workers` threads (0: one per core).
pub fn eval_batches(
    images: Vec<ImageRef>,
    size: usize,
    crop: EvalCrop,
    limits: PixelLimits,
    batch_size: usize,
    workers: usize,
) -> EvalBatches {
    let batch_size = batch_size.max(1);
    let images = Arc::new(images);
    let pixels = OrderedParallelMap::new(0..images.len(), workers, 2 * batch_size, move |row| {
        (row, eval_pixels(&images[row], size, crop, &limits))
    });
    EvalBatches { pixels, batch_size, size }
}

impl Iterator for EvalBatches {
    type Item = EvalBatch;

    fn next(&mut self) -> Option<EvalBatch> {
        let (mut rows, mut pictures, mut broken) = (Vec::new(), Vec::new(), Vec::new());
        for (row, pixels) in self.pixels.by_ref().take(self.batch_size) {
            match pixels {
                Ok(pixels) => {
                    rows.push(row);
                    pictures.push(pixels);
                }
                Err(error) => broken.push((row, error)),
            }
        }
        let images = ImageBatch::from_rows(&pictures, self.size);
        (!rows.is_empty() || !broken.is_empty()).then_some(EvalBatch { rows, images, broken })
    }
}
