//! Padding of a whole photo to another shape.

use super::resample::{ResampleFilter, ResampleRegion, resample};
use crate::sample::Picture;

/// A photo that was resized with its aspect ratio and centred in a larger picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaddedPhoto {
    /// The resized photo with the padding.
    pub picture: Picture,
    /// Left border of the photo in `picture`, in pixels.
    pub left: u32,
    /// Top border of the photo in `picture`, in pixels.
    pub top: u32,
    /// Width of the resized photo in pixels.
    pub width: u32,
    /// Height of the resized photo in pixels.
    pub height: u32,
}

/// Resizes a photo by `min(width / its width, height / its height)` and centres it in `width` x `height` pixels whose
/// channels are `level`. Sides are rounded to the nearest pixel and have at least one. The filter is Pillow's bicubic
/// one. `width` and `height` are at least 1.
pub fn letterbox(picture: &Picture, width: u32, height: u32, level: u8) -> PaddedPhoto {
    fit(picture, width, height, level, ResampleFilter::Bicubic)
}

/// Fits the whole photo into a white `size` x `size` square (HyCoCLIP's preparation of GRIT, for photos and box crops).
/// The longer side becomes `size`, the aspect ratio is kept, and the photo is centred.
///
/// Shrinking averages the covered pixels, and enlarging uses a Lanczos kernel, as in the published preparation
/// (OpenCV's `INTER_AREA` and `INTER_LANCZOS4`). Two differences remain: the kernel here has three lobes instead of
/// four, and there is no intermediate JPEG file.
pub fn white_pad(picture: &Picture, size: u32) -> Picture {
    let longer = picture.width.max(picture.height);
    let filter = if longer > size { ResampleFilter::Area } else { ResampleFilter::Lanczos };
    fit(picture, size, size, 255, filter).picture
}

fn fit(picture: &Picture, width: u32, height: u32, level: u8, filter: ResampleFilter) -> PaddedPhoto {
    // The side that limits the scale, as (available, own): a quotient of integers rounds exactly.
    let by_width = u64::from(width) * u64::from(picture.height) <= u64::from(height) * u64::from(picture.width);
    let (available, own) = if by_width { (width, picture.width) } else { (height, picture.height) };
    let scaled = |side: u32, limit: u32| {
        let scaled = f64::from(side) * f64::from(available) / f64::from(own);
        (scaled.round() as u32).clamp(1, limit)
    };
    let (inner_width, inner_height) = (scaled(picture.width, width), scaled(picture.height, height));
    let inner = resample(picture, ResampleRegion::whole(picture), inner_width, inner_height, filter);
    let mut padded = Picture { width, height, rgb: vec![level; width as usize * height as usize * 3] };
    let (left, top) = ((width - inner_width) / 2, (height - inner_height) / 2);
    let row_bytes = inner_width as usize * 3;
    for (y, row) in inner.rgb.chunks_exact(row_bytes).enumerate() {
        let start = ((top as usize + y) * width as usize + left as usize) * 3;
        padded.rgb[start..start + row_bytes].copy_from_slice(row);
    }
    PaddedPhoto { picture: padded, left, top, width: inner_width, height: inner_height }
}
