//! Decodes image files to pixels, and encodes pixels as PNG or JPEG.

mod other_formats;

use std::borrow::Cow;
use std::fmt::Display;
use std::fs;

use conifer_jpeg::{JpegError, JpegPixels, JpegSummary};
use image::metadata::Orientation;
use image::{DynamicImage, ImageFormat};

use crate::files;
use crate::sample::guarded;
use crate::sample::{Broken, Cause, ImageRef, Picture, PixelLimits, Sample};
use crate::vectors::SharedVector;

type ImageFault = (Cause, String);

impl ImageRef {
    /// Reads and decodes the image: JPEG, PNG, WebP, GIF (first frame) or BMP. The format is detected from the
    /// content; the file name is ignored.
    ///
    /// Transparent pixels are blended with white, and grey is expanded to three equal channels. The EXIF orientation
    /// is applied, so the picture is upright.
    ///
    /// # Errors
    /// [`Broken`] with the name of the file or shard member. Limits are checked on the header, before pixels are
    /// decoded.
    pub fn open(&self, limits: &PixelLimits) -> Result<Picture, Broken> {
        without_panic(|| self.place(), || self.decode(limits))
    }

    /// Width and height that [`ImageRef::open`] would return, without decoding the pixels.
    ///
    /// # Errors
    /// The errors of [`ImageRef::open`] that the header reveals.
    pub fn size(&self, limits: &PixelLimits) -> Result<(u32, u32), Broken> {
        let size = || match (self, self.read(limits.max_bytes)?) {
            (Self::Pixels(picture), _) => Ok((picture.width, picture.height)),
            (_, bytes) => Ok(ImageHeader::read(bytes.as_deref().unwrap_or_default(), limits)?.upright_size()),
        };
        without_panic(|| self.place(), size)
    }

    /// The encoded bytes, at most `max_bytes`; `None` for decoded pixels.
    ///
    /// # Errors
    /// The file is missing, cannot be read, or is longer than `max_bytes`.
    pub fn bytes(&self, max_bytes: u64) -> Result<Option<Cow<'_, [u8]>>, Broken> {
        self.read(max_bytes).map_err(|(cause, detail)| Broken::new(self.place(), cause, detail))
    }

    /// Path, shard member or size of the image, for messages.
    pub fn place(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Member { shard, name, .. } => format!("{}/{name}", shard.display()),
            Self::Encoded(bytes) => format!("image of {} bytes in memory", bytes.len()),
            Self::Pixels(picture) => {
                format!("picture {} x {} in memory", picture.width, picture.height)
            }
            Self::Vector(values) => format!("vector of width {} in memory", values.len()),
        }
    }

    /// Returns the vector, which must have `width` values.
    ///
    /// # Errors
    /// [`Broken`] if this is a photo, or a vector of another width.
    pub fn vector(&self, width: usize) -> Result<&SharedVector, Broken> {
        let found = match self {
            Self::Vector(values) if values.len() == width => return Ok(values),
            Self::Vector(values) => format!("a vector of width {}", values.len()),
            _ => "a photo".to_owned(),
        };
        let detail = format!("{found}; expected a vector of width {width}, because this model reads vectors");
        Err(Broken::new(self.place(), Cause::BadRecord, detail))
    }

    fn decode(&self, limits: &PixelLimits) -> Result<Picture, ImageFault> {
        match (self, self.read(limits.max_bytes)?) {
            (_, Some(bytes)) => decode(&bytes, limits),
            (Self::Pixels(picture), None) => {
                check_size(picture.width, picture.height, limits)?;
                Ok(Picture::clone(picture))
            }
            (_, None) => Err(undecodable("no bytes", "an image file")),
        }
    }

    fn read(&self, max_bytes: u64) -> Result<Option<Cow<'_, [u8]>>, ImageFault> {
        let missing = |error: std::io::Error| {
            let detail = format!("cannot be read: {error}; expected an image file");
            (Cause::MissingFile, detail)
        };
        let fits = |len: u64| match len {
            0 => Err(undecodable("an empty file", "an image file")),
            _ if len > max_bytes => {
                Err((Cause::ImageTooLarge, format!("file has {len} bytes; expected at most {max_bytes}")))
            }
            _ => Ok(()),
        };
        match self {
            Self::File(path) => {
                fits(fs::metadata(path).map_err(missing)?.len())?;
                Ok(Some(fs::read(path).map_err(missing)?.into()))
            }
            Self::Member { shard, offset, len, .. } => {
                fits(*len)?;
                let bytes = files::read_range(shard, *offset, *len).map_err(missing)?;
                Ok(Some(bytes.into()))
            }
            Self::Encoded(bytes) => {
                fits(bytes.len() as u64)?;
                Ok(Some(Cow::Borrowed(bytes)))
            }
            Self::Pixels(_) => Ok(None),
            Self::Vector(_) => {
                Err((Cause::BadRecord, "a vector, not a photo; this needs a model for vectors".to_owned()))
            }
        }
    }
}

/// An encoded image file in memory, with its parsed header.
pub(crate) struct EncodedImage<'a> {
    bytes: Cow<'a, [u8]>,
    header: ImageHeader,
}

/// Properties of an image file that are known without decoding its pixels.
struct ImageHeader {
    format: ImageFormat,
    /// Width and height before `orientation` is applied.
    size: (u32, u32),
    orientation: Orientation,
}

/// Pixels of an upright photo. The top left pixel of `picture` is at (`left`, `top`) of the photo.
pub(crate) struct Cutout {
    pub(crate) picture: Picture,
    pub(crate) left: u32,
    pub(crate) top: u32,
}

/// A part of a photo decoded at reduced scale, in the orientation of the file. [`StoredPart::upright`] applies the
/// EXIF orientation.
pub(crate) struct StoredPart {
    /// Pixels at reduced scale. They cover at least `window`.
    pub(crate) picture: Picture,
    /// The requested part, `[left, top, width, height]` in pixels of `picture`.
    pub(crate) window: [f64; 4],
    orientation: Orientation,
}

impl ImageRef {
    /// Reads the file and its header; `None` for decoded pixels.
    ///
    /// # Errors
    /// The errors of [`ImageRef::size`].
    pub(crate) fn encoded(&self, limits: &PixelLimits) -> Result<Option<EncodedImage<'_>>, Broken> {
        let encoded = || {
            let Some(bytes) = self.read(limits.max_bytes)? else { return Ok(None) };
            let header = ImageHeader::read(&bytes, limits)?;
            Ok(Some(EncodedImage { bytes, header }))
        };
        without_panic(|| self.place(), encoded)
    }
}

impl EncodedImage<'_> {
    /// Width and height of the upright photo.
    pub(crate) fn size(&self) -> (u32, u32) {
        self.header.upright_size()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes the columns and rows `[x1, y1, x2, y2]` (half open) of the upright photo; the result may be larger. The
    /// pixels equal those of [`ImageRef::open`]. `place` names the file in errors. Damage after the requested part may
    /// not be detected.
    ///
    /// # Errors
    /// The errors of [`ImageRef::open`].
    pub(crate) fn cut(
        &self,
        [x1, y1, x2, y2]: [u32; 4],
        limits: &PixelLimits,
        place: impl FnOnce() -> String,
    ) -> Result<Cutout, Broken> {
        let cut = || {
            if self.header.format != ImageFormat::Jpeg {
                let picture = other_formats::decode(&self.bytes, &self.header, limits)?;
                return Ok(Cutout { picture, left: 0, top: 0 });
            }
            let [x, y, width, height] = self.stored([x1, y1, x2 - x1, y2 - y1].map(f64::from)).map(|it| it as u32);
            let part = conifer_jpeg::decode(&self.bytes, 1, [x, y, x + width, y + height]).map_err(jpeg_fault)?;
            Ok(Cutout { picture: upright(part.pixels.into(), self.header.orientation), left: x1, top: y1 })
        };
        without_panic(place, cut)
    }

    /// Decodes all pixels; `place` names the file in errors.
    ///
    /// # Errors
    /// The errors of [`ImageRef::open`].
    pub(crate) fn whole(&self, limits: &PixelLimits, place: impl FnOnce() -> String) -> Result<Picture, Broken> {
        let (width, height) = self.size();
        self.cut([0, 0, width, height], limits, place).map(|it| it.picture)
    }

    /// Decodes the part `[left, top, width, height]` of the upright photo at 1/`scale` (2, 4 or 8), plus up to
    /// `margin` pixels of the photo on each side. Returns `None` if the file cannot be decoded at that scale, for any
    /// reason.
    pub(crate) fn part(&self, scale: u32, upright: [f64; 4], margin: f64) -> Option<StoredPart> {
        if self.header.format != ImageFormat::Jpeg {
            return None;
        }
        let [left, top, width, height] = self.stored(upright);
        let (w, h) = self.header.size;
        let within = |at: f64, side: u32| at.clamp(0.0, f64::from(side)) as u32;
        let part = [
            within((left - margin).floor(), w),
            within((top - margin).floor(), h),
            within((left + width + margin).ceil(), w),
            within((top + height + margin).ceil(), h),
        ];
        let decode = || conifer_jpeg::decode(&self.bytes, scale, part).map_err(jpeg_fault);
        let part = without_panic(String::new, decode).ok()?;
        let by = f64::from(scale);
        let window = [left / by - f64::from(part.left), top / by - f64::from(part.top), width / by, height / by];
        Some(StoredPart { picture: part.pixels.into(), window, orientation: self.header.orientation })
    }

    /// Converts `[left, top, width, height]` from coordinates of the upright photo to those of the stored image.
    fn stored(&self, [left, top, width, height]: [f64; 4]) -> [f64; 4] {
        let (w, h) = self.size();
        let (w, h) = (f64::from(w), f64::from(h));
        let (right, below) = (w - left - width, h - top - height);
        match self.header.orientation {
            Orientation::NoTransforms => [left, top, width, height],
            Orientation::FlipHorizontal => [right, top, width, height],
            Orientation::Rotate180 => [right, below, width, height],
            Orientation::FlipVertical => [left, below, width, height],
            Orientation::Rotate90FlipH => [top, left, height, width],
            Orientation::Rotate90 => [top, right, height, width],
            Orientation::Rotate270FlipH => [below, right, height, width],
            Orientation::Rotate270 => [below, left, height, width],
        }
    }
}

impl StoredPart {
    /// Applies the photo's EXIF orientation to a square picture resampled from this part.
    pub(crate) fn upright(&self, square: Picture) -> Picture {
        upright(square, self.orientation)
    }
}

fn upright(stored: Picture, orientation: Orientation) -> Picture {
    if orientation == Orientation::NoTransforms {
        return stored;
    }
    let Picture { width, height, rgb } = stored;
    let Some(image) = image::RgbImage::from_raw(width, height, rgb) else {
        return crate::transform::white(width, height);
    };
    let mut image = DynamicImage::ImageRgb8(image);
    image.apply_orientation(orientation);
    Picture { width: image.width(), height: image.height(), rgb: image.into_rgb8().into_raw() }
}

impl Sample {
    /// Decodes the sample's photo; `None` if the sample has no photo.
    ///
    /// # Errors
    /// The errors of [`ImageRef::open`], with the id of the sample.
    pub fn photo(&self, limits: &PixelLimits) -> Result<Option<Picture>, Broken> {
        self.image.as_ref().map(|image| image.open(limits)).transpose().map_err(|it| it.within(&self.id))
    }
}

/// Encodes as PNG (lossless).
///
/// # Errors
/// The length of `rgb` is not `3 * width * height`, or a side is 0.
pub fn encode_png(picture: &Picture) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut bytes);
    encode(picture, encoder).map(|()| bytes)
}

/// Encodes as JPEG with a quality of 1 to 100.
///
/// # Errors
/// The length of `rgb` is not `3 * width * height`, or a side exceeds 65,535 pixels, the limit of the format.
pub fn encode_jpeg(picture: &Picture, quality: u8) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut bytes, quality);
    encode(picture, encoder).map(|()| bytes)
}

/// The usual file name extension of an encoded image, by its content.
pub(crate) fn extension(bytes: &[u8]) -> &'static str {
    let format = image::guess_format(bytes).ok();
    format.and_then(|format| format.extensions_str().first().copied()).unwrap_or("jpg")
}

fn encode(picture: &Picture, encoder: impl image::ImageEncoder) -> Result<(), Broken> {
    let Picture { width, height, rgb } = picture;
    // Check the length first, because `write_image` panics if it is wrong.
    let pixels = u64::from(*width) * u64::from(*height);
    let expected = format!("{pixels} pixels of 3 bytes");
    let fault = |found: String| {
        let detail = format!("{found}; expected {expected}");
        let sample = format!("picture {width} x {height}");
        Broken::new(sample, Cause::UndecodableImage, detail)
    };
    if rgb.len() as u64 != 3 * pixels {
        return Err(fault(format!("{} bytes", rgb.len())));
    }
    encoder.write_image(rgb, *width, *height, image::ExtendedColorType::Rgb8).map_err(|error| fault(error.to_string()))
}

/// Runs `read` and turns a panic of the decoder into a [`Broken`].
fn without_panic<T>(place: impl FnOnce() -> String, read: impl FnOnce() -> Result<T, ImageFault>) -> Result<T, Broken> {
    let unnamed = || read().map_err(|(cause, detail)| Broken::new(String::new(), cause, detail));
    guarded(String::new, unnamed).map_err(|broken| Broken { sample: place(), ..broken })
}

fn decode(bytes: &[u8], limits: &PixelLimits) -> Result<Picture, ImageFault> {
    let header = ImageHeader::read(bytes, limits)?;
    if header.format != ImageFormat::Jpeg {
        return other_formats::decode(bytes, &header, limits);
    }
    let (width, height) = header.size;
    let whole = conifer_jpeg::decode(bytes, 1, [0, 0, width, height]).map_err(jpeg_fault)?;
    Ok(upright(whole.pixels.into(), header.orientation))
}

impl ImageHeader {
    /// Parses the header and runs all checks that need no decoding.
    fn read(bytes: &[u8], limits: &PixelLimits) -> Result<Self, ImageFault> {
        let Ok(format) = image::guess_format(bytes) else {
            let head: Vec<_> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
            let found = format!("file begins with {}", head.join(" "));
            return Err(undecodable(found, "JPEG, PNG, WebP, GIF or BMP"));
        };
        if format != ImageFormat::Jpeg {
            return other_formats::header(bytes, format, limits);
        }
        if !conifer_jpeg::has_end_marker(bytes) {
            let found = format!("JPEG stops after {} bytes without its end marker", bytes.len());
            return Err(undecodable(found, "a whole image"));
        }
        let JpegSummary { size, exif } = conifer_jpeg::summary(bytes).map_err(jpeg_fault)?;
        check_size(size.0, size.1, limits)?;
        // A damaged EXIF block is ignored, because the photo itself can still be used.
        let orientation = exif.and_then(|exif| Orientation::from_exif_chunk(&exif));
        Ok(Self { format, size, orientation: orientation.unwrap_or(Orientation::NoTransforms) })
    }

    fn upright_size(&self) -> (u32, u32) {
        let (width, height) = self.size;
        if is_turned(self.orientation) { (height, width) } else { (width, height) }
    }
}

fn is_turned(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

fn check_size(width: u32, height: u32, limits: &PixelLimits) -> Result<(), ImageFault> {
    let (short, long) = (width.min(height), width.max(height));
    let pixels = u64::from(width) * u64::from(height);
    let found = format!("photo has {width} x {height} pixels");
    if pixels > limits.max_pixels {
        let detail = format!("{found}; expected at most {} in all", limits.max_pixels);
        return Err((Cause::ImageTooLarge, detail));
    }
    if short < limits.min_side.max(1) {
        let detail = format!("{found}; expected at least {} a side", limits.min_side);
        return Err((Cause::ImageTooSmall, detail));
    }
    if f64::from(long) > f64::from(short) * f64::from(limits.max_aspect) {
        let expected = format!("an aspect ratio of at most {} to 1", limits.max_aspect);
        return Err((Cause::ImageTooNarrow, format!("{found}; expected {expected}")));
    }
    Ok(())
}

impl From<JpegPixels> for Picture {
    fn from(JpegPixels { width, height, rgb }: JpegPixels) -> Self {
        Self { width, height, rgb }
    }
}

fn jpeg_fault(error: JpegError) -> ImageFault {
    undecodable(error.found, error.expected)
}

fn undecodable(found: impl Display, expected: &str) -> ImageFault {
    (Cause::UndecodableImage, format!("{found}; expected {expected}"))
}

#[cfg(test)]
mod pillow_tests;
#[cfg(test)]
mod tests;
