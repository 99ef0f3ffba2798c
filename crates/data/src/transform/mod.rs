//! From a decoded photo of any size to `[3, size, size]` bytes: [`evaluate`] for measuring, [`Augment`] for training.
//!
//! Resampling is Pillow's (convolution, antialiased when shrinking), target sizes are rounded as torchvision rounds
//! them. Every function takes pictures of any shape, from 1 x 1 to 20,000 x 1, in memory that depends on the photo and
//! the result only.

mod at_scale;
mod augment;
mod colour;
mod crop;
mod pad;
mod resample;
mod warp;

use serde::{Deserialize, Serialize};

pub use augment::{Augment, Blur, Crop, Jitter};
pub use pad::white_pad;
pub use resample::shrink;

use crate::sample::{BBox, Picture, PixelLimits};
use resample::{Filter, Region, resample};

/// How a photo becomes a square when measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalCrop {
    /// Shorter side to `size`, then the middle: torchvision's `Resize(size, BICUBIC)` and `CenterCrop(size)`, as every
    /// published evaluation of this family.
    #[default]
    Center,
    /// Both sides to `size`; nothing is cut off, shapes are distorted.
    Squeeze,
}

/// The photo as `[3, size, size]` bytes, the same every time.
pub fn evaluate(picture: &Picture, size: u32, crop: EvalCrop) -> Vec<u8> {
    let region = match crop {
        EvalCrop::Center => crop::center(picture.width, picture.height, size),
        EvalCrop::Squeeze => Region::whole(picture),
    };
    planar(&resample(picture, region, size, size, Filter::Bicubic))
}

/// The pixels `[x1, y1, x2, y2]` (half open, as [`crate::BBox::to_pixels`] gives them), cut to the photo; white where
/// none is left.
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

/// A box of a photo as a picture of its own. A box that is thinner than a photo may be ([`PixelLimits::default`]) is grown
/// around its middle, within the photo: a box of one pixel is there, and has to be looked at.
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

/// `[height, width, 3]` to `[3, height, width]`.
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

/// The nearest level. (`round` is a call into the C library on processors of 2003, the ones we build for.)
fn to_byte(value: f32) -> u8 {
    (value + 0.5) as u8
}

pub(crate) fn white(width: u32, height: u32) -> Picture {
    Picture { width, height, rgb: vec![255; width as usize * height as usize * 3] }
}

#[cfg(test)]
mod tests;
