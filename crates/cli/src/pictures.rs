use conifer_data::transform::shrink;
use conifer_data::{ImageRef, PixelLimits, encode_png};

/// A photo as PNG bytes, its shorter side at most `side` pixels; `None` if it cannot be read.
pub(crate) fn thumbnail(image: &ImageRef, side: u32) -> Option<Vec<u8>> {
    let picture = image.open(&PixelLimits::default()).ok()?;
    encode_png(&shrink(&picture, side).unwrap_or(picture)).ok()
}
