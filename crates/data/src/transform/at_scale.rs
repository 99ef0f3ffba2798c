//! Decodes an image file to a training crop, without decoding more of the photo than the crop needs.

use rand::Rng;

use super::resample::{ResampleFilter, ResampleRegion, Resampling, resample};
use super::{Augment, white};
use crate::picture::EncodedImage;
use crate::sample::{Broken, ImageRef, Picture, PixelLimits};

impl Augment {
    /// Augments the photo in an image file to `[3, size, size]` bytes, like [`Augment::apply`] on the result of
    /// [`ImageRef::open`].
    ///
    /// It decodes no more of a JPEG than the crop needs, so damage below the crop may not be detected. With
    /// [`decode_at_scale`](Augment::decode_at_scale), large crops are decoded at reduced size. The random draws are the
    /// same in all cases.
    ///
    /// # Errors
    /// The errors of [`ImageRef::open`].
    pub fn open(
        &self,
        image: &ImageRef,
        limits: &PixelLimits,
        size: u32,
        rng: &mut impl Rng,
    ) -> Result<Vec<u8>, Broken> {
        if self.needs_only_a_part()
            && let Some(encoded) = image.encoded(limits)?
        {
            return self.open_encoded(&encoded, limits, size, rng, || image.place());
        }
        Ok(self.apply(&image.open(limits)?, size, rng))
    }

    /// True if the crop depends only on the size of the photo, so that pixels outside of the crop need not be decoded.
    pub(crate) fn needs_only_a_part(&self) -> bool {
        !self.white_pad
    }

    /// Like [`Augment::open`], for a file whose header has been read. Requires that [`Augment::needs_only_a_part`] is
    /// true.
    pub(crate) fn open_encoded(
        &self,
        encoded: &EncodedImage<'_>,
        limits: &PixelLimits,
        size: u32,
        rng: &mut impl Rng,
        place: impl FnOnce() -> String,
    ) -> Result<Vec<u8>, Broken> {
        let (width, height) = encoded.size();
        let region = self.region(width, height, size, rng);
        let least = f64::from(self.decode_at_scale.unwrap_or(f32::INFINITY)) * f64::from(size);
        if let Some(square) = square_at_scale(encoded, region, size, least) {
            return Ok(self.finish(square, rng));
        }
        let square = match Resampling::new((width, height), region, size, size, ResampleFilter::Bicubic) {
            Some(resampling) => {
                let cut = encoded.cut(resampling.reads(), limits, place)?;
                resampling.apply(&cut.picture, (cut.left, cut.top))
            }
            None => white(size, size),
        };
        Ok(self.finish(square, rng))
    }
}

/// Decodes the region at the smallest of the scales 1/8, 1/4 and 1/2 at which its shorter side has at least `least`
/// pixels, and resamples it. `None` if the region is too small for all three scales, or if decoding fails.
fn square_at_scale(encoded: &EncodedImage<'_>, region: ResampleRegion, size: u32, least: f64) -> Option<Picture> {
    let (upright, cut) = match region {
        ResampleRegion::Cut { left, top, width, height } => ([left, top, width, height].map(f64::from), true),
        ResampleRegion::Window { left, top, width, height } => ([left, top, width, height], false),
    };
    let [.., width, height] = upright;
    let scale = [8, 4, 2].into_iter().find(|&scale| width.min(height) >= least * f64::from(scale))?;
    // A kernel reads beyond the window by two pixels of the output or of the scaled photo, whichever are larger. One
    // more scaled pixel allows for rounding.
    let reach = (width.max(height) / f64::from(size)).max(scale.into());
    let part = encoded.part(scale, upright, if cut { 0.0 } else { 2.0 * reach + f64::from(scale) })?;
    let [left, top, width, height] = part.window;
    let square = resample(
        &part.picture,
        ResampleRegion::Window { left, top, width, height },
        size,
        size,
        ResampleFilter::Bicubic,
    );
    Some(part.upright(square))
}
