//! Transforms a decoded photo of any size to `[3, size, size]` bytes: [`evaluate`] for evaluation, [`Augment`] for
//! training.
//!
//! Resampling for model input equals Pillow's bicubic filter (convolution, antialiased when shrinking), and target
//! sizes are rounded as in torchvision. Every function accepts any shape, from 1 x 1 to 20,000 x 1.

mod at_scale;
mod augment;
mod colour;
mod crop;
mod pad;
mod resample;
mod warp;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use augment::{Augment, Blur, Crop, Jitter};
pub use pad::{PaddedPhoto, letterbox, white_pad};
pub use resample::shrink;

use crate::sample::{BBox, Picture, PixelLimits};
use resample::{ResampleFilter, ResampleRegion, resample};

/// Method of making a photo square for evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalCrop {
    /// Resizes the shorter side to `size` and crops the centre: torchvision's `Resize(size, BICUBIC)` and
    /// `CenterCrop(size)`, as in all published evaluations of these models.
    #[default]
    Center,
    /// Resizes both sides to `size`. Nothing is cropped, but shapes are distorted.
    Squeeze,
}

/// Transforms a photo to `[3, size, size]` bytes, without randomness.
pub fn evaluate(picture: &Picture, size: u32, crop: EvalCrop) -> Vec<u8> {
    let region = match crop {
        EvalCrop::Center => crop::center(picture.width, picture.height, size),
        EvalCrop::Squeeze => ResampleRegion::whole(picture),
    };
    planar(&resample(picture, region, size, size, ResampleFilter::Bicubic))
}

/// Blurs with a Gaussian of standard deviation `sigma` pixels (at least 1e-3), cut off at three standard deviations.
/// Borders are mirrored.
pub fn blurred(picture: &Picture, sigma: f32) -> Picture {
    warp::blur(picture, 2 * (3.0 * sigma).ceil() as u32 + 1, sigma)
}

/// The pixels `[x1, y1, x2, y2]` (half open, see [`crate::BBox::to_pixels`]), clipped to the photo. The result is one
/// white pixel if no pixel is inside the photo.
pub fn crop_pixels(picture: &Picture, [x1, y1, x2, y2]: [u32; 4]) -> Picture {
    let (x1, x2) = (x1.min(picture.width), x2.min(picture.width));
    let (y1, y2) = (y1.min(picture.height), y2.min(picture.height));
    if x1 >= x2 || y1 >= y2 {
        return white(1, 1);
    }
    let (width, height) = (x2 - x1, y2 - y1);
    let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
    for y in y1..y2 {
        let start = (y as usize * picture.width as usize + x1 as usize) * 3;
        rgb.extend_from_slice(&picture.rgb[start..start + width as usize * 3]);
    }
    Picture { width, height, rgb }
}

/// Crops a box out of a photo. A box that is smaller or thinner than [`PixelLimits::default`] allows is enlarged
/// around its centre, within the photo, so that it can be used as an image.
pub fn crop_box(picture: &Picture, bbox: &BBox) -> Picture {
    let limits = PixelLimits::default();
    let [x1, y1, x2, y2] = bbox.to_pixels(picture.width, picture.height);
    let least = |other: u32| limits.min_side.max((other as f32 / limits.max_aspect).ceil() as u32);
    let grown = |from: u32, to: u32, least: u32, side: u32| {
        let length = (to - from).max(least).min(side);
        let start = (from + to).saturating_sub(length) / 2;
        let start = start.min(side - length);
        (start, start + length)
    };
    let (left, right) = grown(x1, x2, least(y2 - y1), picture.width);
    let (top, bottom) = grown(y1, y2, least(x2 - x1), picture.height);
    crop_pixels(picture, [left, top, right, bottom])
}

/// Converts `[height, width, 3]` to `[3, height, width]`.
fn planar(picture: &Picture) -> Vec<u8> {
    let pixels = picture.rgb.len() / 3;
    let mut result = vec![0; 3 * pixels];
    let (red, rest) = result.split_at_mut(pixels);
    let (green, blue) = rest.split_at_mut(pixels);
    let planes = red.iter_mut().zip(green).zip(blue);
    for (&[r, g, b], ((red, green), blue)) in picture.rgb.as_chunks().0.iter().zip(planes) {
        (*red, *green, *blue) = (r, g, b);
    }
    result
}

/// Rounds to the nearest level. Avoids `round`, which is a C library call on baseline x86-64 (without SSE4.1).
fn to_byte(value: f32) -> u8 {
    (value + 0.5) as u8
}

pub(crate) fn white(width: u32, height: u32) -> Picture {
    Picture { width, height, rgb: vec![255; width as usize * height as usize * 3] }
}

#[cfg(test)]
mod tests;
