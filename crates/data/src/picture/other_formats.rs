//! Decodes PNG, WebP, GIF and BMP with the `image` crate.

use std::borrow::Cow;
use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader};

use super::{ImageFault, ImageHeader, check_size, undecodable};
use crate::sample::{Picture, PixelLimits};

/// Maximum length of a compressed PNG colour profile that is passed to the decoder. The decoder decompresses it (up
/// to 1,032 times the length) and then ignores it.
const MAX_PROFILE_BYTES: usize = 16 << 10;

/// Reads the header and checks the image size.
pub(super) fn header(bytes: &[u8], format: ImageFormat, limits: &PixelLimits) -> Result<ImageHeader, ImageFault> {
    let bytes = without_long_profile(bytes, format);
    let mut decoder = decoder(&bytes, format, limits)?;
    let size = decoder.dimensions();
    check_size(size.0, size.1, limits)?;
    // A damaged EXIF block is ignored, because the photo itself can still be used.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok(ImageHeader { format, size, orientation })
}

/// Decodes a file whose header has been read.
pub(super) fn decode(bytes: &[u8], header: &ImageHeader, limits: &PixelLimits) -> Result<Picture, ImageFault> {
    let bytes = without_long_profile(bytes, header.format);
    let decoder = decoder(&bytes, header.format, limits)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(incomplete)?;
    image.apply_orientation(header.orientation);
    let (width, height) = (image.width(), image.height());
    Ok(Picture { width, height, rgb: into_rgb(image) })
}

fn decoder<'a>(
    bytes: &'a [u8],
    format: ImageFormat,
    limits: &PixelLimits,
) -> Result<impl ImageDecoder + use<'a>, ImageFault> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    // Memory for pixels of up to 4 x 16 bits. The image size is checked separately, with a clearer message.
    reader.limits({
        let mut memory = image::Limits::no_limits();
        memory.max_alloc = Some(limits.max_pixels.saturating_mul(8).max(1 << 20));
        memory
    });
    reader.into_decoder().map_err(incomplete)
}

/// Removes colour profiles (iCCP chunks) longer than [`MAX_PROFILE_BYTES`] from a PNG, because one megabyte can
/// decompress to a gigabyte. The pixels do not depend on the profile.
pub(super) fn without_long_profile(bytes: &[u8], format: ImageFormat) -> Cow<'_, [u8]> {
    let mut shorter: Option<Vec<u8>> = None;
    // Chunks follow the signature; each has length, type, content and CRC.
    let (mut copied, mut at) = (0, 8);
    while format == ImageFormat::Png
        && let Some(&[l3, l2, l1, l0, a, b, c, d]) = bytes.get(at..).and_then(|rest| rest.first_chunk())
    {
        let length = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
        let next = at.saturating_add(length).saturating_add(12).min(bytes.len());
        match &[a, b, c, d] {
            b"iCCP" if length > MAX_PROFILE_BYTES => {
                shorter.get_or_insert_default().extend(&bytes[copied..at]);
                copied = next;
            }
            // Decoders ignore profiles after the pixel data.
            b"IDAT" => break,
            _ => {}
        }
        at = next;
    }
    match shorter {
        Some(mut shorter) => {
            shorter.extend(&bytes[copied..]);
            Cow::Owned(shorter)
        }
        None => Cow::Borrowed(bytes),
    }
}

fn into_rgb(image: DynamicImage) -> Vec<u8> {
    match image {
        DynamicImage::ImageRgb8(rgb) => rgb.into_raw(),
        image if image.color().has_alpha() => image
            .into_rgba8()
            .pixels()
            .flat_map(|&image::Rgba([r, g, b, alpha])| [r, g, b].map(|c| over_white(c, alpha)))
            .collect(),
        image => image.into_rgb8().into_raw(),
    }
}

/// `colour * alpha + white * (1 - alpha)`, rounded to the nearest level.
fn over_white(colour: u8, alpha: u8) -> u8 {
    let (colour, alpha) = (u32::from(colour), u32::from(alpha));
    ((colour * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

fn incomplete(error: ImageError) -> ImageFault {
    undecodable(error, "a whole image")
}
