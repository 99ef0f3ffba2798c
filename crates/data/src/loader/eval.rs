//! Photos for measuring and embedding: each once, in order, nothing drawn.

use std::sync::Arc;

use super::guard::guarded;
use super::ordered::Ordered;
use crate::batch::ImageBatch;
use crate::sample::{Broken, ImageRef, PixelLimits};
use crate::transform::{EvalCrop, evaluate};

/// One photo as `[3, size, size]` bytes.
///
/// # Errors
/// The photo is missing, cannot be decoded, or is beyond `limits`.
pub fn eval_pixels(image: &ImageRef, size: usize, crop: EvalCrop, limits: &PixelLimits) -> Result<Vec<u8>, Broken> {
    guarded(|| image.place(), || Ok(evaluate(&image.open(limits)?, size as u32, crop)))
}

/// Some of the photos, in order.
#[derive(Clone, Debug)]
pub struct EvalBatch {
    /// `[n]`, which of the photos each row is.
    pub rows: Vec<usize>,
    /// The photos that could be read.
    pub images: ImageBatch,
    /// Those that could not, with their numbers.
    pub broken: Vec<(usize, Broken)>,
}

/// Iterator of [`eval_batches`].
pub struct EvalBatches {
    pixels: Ordered<usize, (usize, Result<Vec<u8>, Broken>)>,
    batch_size: usize,
    size: usize,
}

/// All `images`, `batch_size` at a time (broken ones included in the count), read by `workers` threads (0: one per core) at most two
/// batches ahead.
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
    let pixels = Ordered::new(0..images.len(), workers, 2 * batch_size, move |row| {
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
