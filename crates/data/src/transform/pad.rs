//! White padding.

use super::resample::{ResampleFilter, ResampleRegion, resample};
use super::white;
use crate::sample::Picture;

/// Fits the whole photo into a white `size` x `size` square (HyCoCLIP's preparation of GRIT, for photos and box crops).
/// The longer side becomes `size`, the aspect ratio is kept, and the photo is centred.
///
/// Shrinking averages the covered pixels, and enlarging uses a Lanczos kernel, as in the published preparation
/// (OpenCV's `INTER_AREA` and `INTER_LANCZOS4`). Two differences remain: the kernel here has three lobes instead of
/// four, and there is no intermediate JPEG file.
pub fn white_pad(picture: &Picture, size: u32) -> Picture {
    let longer = picture.width.max(picture.height);
    let scaled = |side: u32| {
        let scaled = f64::from(side) * f64::from(size) / f64::from(longer);
        (scaled.round() as u32).clamp(1, size)
    };
    let (width, height) = (scaled(picture.width), scaled(picture.height));
    let filter = if longer > size { ResampleFilter::Area } else { ResampleFilter::Lanczos };
    let inner = resample(picture, ResampleRegion::whole(picture), width, height, filter);
    let mut result = white(size, size);
    let (left, top) = ((size - width) / 2, (size - height) / 2);
    let row_bytes = width as usize * 3;
    for (y, row) in inner.rgb.chunks_exact(row_bytes).enumerate() {
        let start = ((top as usize + y) * size as usize + left as usize) * 3;
        result.rgb[start..start + row_bytes].copy_from_slice(row);
    }
    result
}
