//! JPEG decoder for a part of a photo, in full size or at 1/2, 1/4 or 1/8.
//!
//! It reads baseline, extended sequential and progressive JPEG with Huffman coding and 8 bits per sample, in grey,
//! YCbCr, RGB, CMYK and YCCK. Any scan script is supported, and any sampling whose factors divide the largest factors.
//! Arithmetic coding, lossless and hierarchical processes, 12 bits per sample, and damaged data (as far as they are
//! read) are errors.
//!
//! In full size the pixels equal those of libjpeg-turbo with default settings byte for byte, and so those of Pillow and
//! torchvision. At a reduced scale, every pixel is the mean of the 4, 16 or 64 pixels it covers (a box filter, like
//! libjpeg-turbo's reduced transforms). The mean is computed directly from the coefficients, without the full-size
//! pixels.
//!
//! Files with a single scan are decoded only as far as the part requires: rows below it are not read, and blocks
//! beside it are parsed but not transformed. For files with several scans all coefficients are read.
//!
//! Modules in the order of decoding: `headers` (markers and colour model), `scans` and `progressive` with `huffman`,
//! `smoothing` (estimates of coefficients that the file does not send in full), `blocks` and `inverse` (inverse
//! transforms), `colour` (upsampling and conversion to RGB). [`wide`] runs code with the widest vector instructions
//! that the processor supports.
//!
//! ```
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden/s420.jpg");
//! let bytes = std::fs::read(path)?;
//! let (width, height) = conifer_jpeg::summary(&bytes)?.size;
//! let whole = conifer_jpeg::decode(&bytes, 1, [0, 0, width, height])?;
//! assert_eq!(whole.pixels.rgb.len(), (width * height * 3) as usize);
//! // The left half at a quarter of the size.
//! let part = conifer_jpeg::decode(&bytes, 4, [0, 0, width / 2, height])?;
//! assert_eq!((part.pixels.height, part.left, part.top), (height.div_ceil(4), 0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod colour;
mod decode;
mod headers;
mod huffman;
mod inverse;
mod progressive;
mod scans;
mod smoothing;
pub mod wide;

use std::fmt;

pub use decode::decode;
use headers::JpegHeaders;
pub use headers::has_end_marker;

/// Why a JPEG cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JpegError {
    /// Description of the content found.
    pub found: String,
    /// Description of the content expected.
    pub expected: &'static str,
}

impl JpegError {
    fn new(found: String, expected: &'static str) -> Self {
        Self { found, expected }
    }
}

impl fmt::Display for JpegError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.found, self.expected)
    }
}

impl std::error::Error for JpegError {}

/// Properties from the headers of a JPEG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JpegSummary {
    /// Width and height without the EXIF orientation.
    pub size: (u32, u32),
    /// The EXIF block, starting at its TIFF header.
    pub exif: Option<Vec<u8>>,
}

/// Decoded pixels of a photo or of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JpegPixels {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// `[height, width, 3]`, channels red, green, blue.
    pub rgb: Vec<u8>,
}

/// A decoded part of a photo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JpegPart {
    /// Pixels of the part, scaled. The top left pixel is at (`left`, `top`) of the scaled photo.
    pub pixels: JpegPixels,
    /// Column of the first pixel.
    pub left: u32,
    /// Row of the first pixel.
    pub top: u32,
}

/// Reads the size and the EXIF block from the headers.
///
/// # Errors
/// The headers are damaged or name a process that is not supported.
pub fn summary(bytes: &[u8]) -> Result<JpegSummary, JpegError> {
    let headers = JpegHeaders::read(bytes)?;
    Ok(JpegSummary { size: (headers.width, headers.height), exif: headers.exif })
}

#[cfg(test)]
mod tests;
