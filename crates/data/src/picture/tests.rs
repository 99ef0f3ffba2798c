#![allow(clippy::unwrap_used)]
use std::io::{Cursor, Write};
use std::sync::Arc;

use image::{ExtendedColorType, ImageEncoder};

use super::*;
use crate::fixtures::shared_data;

/// A colour ramp of 16 x 12 pixels.
fn ramp() -> Picture {
    let rgb = (0..12u8).flat_map(|y| (0..16u8).flat_map(move |x| [x * 16, y * 20, 128])).collect();
    Picture::new(16, 12, rgb).unwrap()
}

fn png(bytes: &[u8], width: u32, height: u32, colour: ExtendedColorType) -> Vec<u8> {
    let mut out = Vec::new();
    image::codecs::png::PngEncoder::new(&mut out).write_image(bytes, width, height, colour).unwrap();
    out
}

fn open(bytes: &[u8]) -> Result<Picture, Broken> {
    ImageRef::Encoded(Arc::from(bytes)).open(&PixelLimits::default())
}

fn fault(bytes: &[u8]) -> (Cause, String) {
    let broken = open(bytes).unwrap_err();
    (broken.cause, broken.detail)
}

/// Inserts an EXIF block after the start marker of a JPEG. The block is TIFF, big endian, with one entry: tag 0x0112
/// (orientation), type SHORT.
fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut tiff = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01".to_vec();
    tiff.extend([0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0]);
    tiff.extend([0, 0, 0, 0]);
    let mut out = vec![0xff, 0xd8, 0xff, 0xe1];
    out.extend((tiff.len() as u16 + 2).to_be_bytes());
    out.extend(tiff);
    out.extend(&jpeg[2..]);
    out
}

#[test]
fn every_format_by_content() {
    let rgb = ramp();
    let encoded = |format| {
        let mut out = Cursor::new(Vec::new());
        image::RgbImage::from_raw(16, 12, rgb.rgb.clone()).unwrap().write_to(&mut out, format).unwrap();
        out.into_inner()
    };
    for format in [ImageFormat::Png, ImageFormat::Bmp, ImageFormat::WebP] {
        assert_eq!(open(&encoded(format)).unwrap(), rgb, "{format:?}");
    }
    // Lossy formats preserve the size, and the colours within the tolerance of the compression.
    for format in [ImageFormat::Jpeg, ImageFormat::Gif] {
        let picture = open(&encoded(format)).unwrap();
        assert_eq!((picture.width, picture.height), (16, 12), "{format:?}");
        let off = picture.rgb.iter().zip(&rgb.rgb).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(off.unwrap() < 60, "{format:?}: {off:?}");
    }
}

/// Black at alpha 0 -> white; black at alpha 51 = 255 * 0.2 -> 255 * 0.8 = 204; red at alpha 255 -> red; grey 100 at
/// alpha 127 -> (100 * 127 + 255 * 128) / 255 = 177.8.
#[test]
fn transparency_is_blended_with_white() {
    let rgba = [[0, 0, 0, 0], [0, 0, 0, 51], [255, 0, 0, 255], [100, 100, 100, 127]];
    let picture = open(&png(rgba.as_flattened(), 2, 2, ExtendedColorType::Rgba8)).unwrap();
    assert_eq!(picture.rgb, [[255, 255, 255], [204, 204, 204], [255, 0, 0], [178, 178, 178]].as_flattened());
    let grey_alpha = [0, 0, 0, 51, 200, 255, 0, 255];
    let picture = open(&png(&grey_alpha, 2, 2, ExtendedColorType::La8)).unwrap();
    assert_eq!(picture.rgb, [[255; 3], [204; 3], [200; 3], [0; 3]].as_flattened());
}

#[test]
fn grey_becomes_three_channels() {
    let picture = open(&png(&[0, 50, 100, 255], 2, 2, ExtendedColorType::L8)).unwrap();
    assert_eq!(picture.rgb, [[0; 3], [50; 3], [100; 3], [255; 3]].as_flattened());
}

/// EXIF orientation 6: the stored photo must be rotated by 90 degrees clockwise, so the stored top left pixel becomes
/// the top right pixel.
#[test]
fn exif_orientation_is_applied() {
    // One black block of 8 x 8 at the top left of 24 x 16. It coincides with a JPEG block, so it stays sharp.
    let rgb = (0..16).flat_map(|y| (0..24).flat_map(move |x| [if x < 8 && y < 8 { 0 } else { 255 }; 3])).collect();
    let jpeg = encode_jpeg(&Picture::new(24, 16, rgb).unwrap(), 95).unwrap();
    let at = |picture: &Picture, x: u32, y: u32| picture.rgb[3 * (y * picture.width + x) as usize];

    let plain = open(&with_orientation(&jpeg, 1)).unwrap();
    assert_eq!((plain.width, plain.height), (24, 16));
    assert!(at(&plain, 2, 2) < 30 && at(&plain, 20, 2) > 220);
    let turned = open(&with_orientation(&jpeg, 6)).unwrap();
    assert_eq!((turned.width, turned.height), (16, 24));
    let size = |bytes: Vec<u8>| ImageRef::Encoded(bytes.into()).size(&PixelLimits::default()).unwrap();
    assert_eq!((size(jpeg.clone()), size(with_orientation(&jpeg, 6))), ((24, 16), (16, 24)));
    assert!(at(&turned, 13, 2) < 30 && at(&turned, 2, 2) > 220 && at(&turned, 13, 20) > 220);
}

#[test]
fn truncated_jpeg() {
    let jpeg = encode_jpeg(&ramp(), 90).unwrap();
    for keep in [jpeg.len() / 2, jpeg.len() - 2] {
        let (cause, detail) = fault(&jpeg[..keep]);
        assert_eq!(cause, Cause::UndecodableImage);
        assert_eq!(detail, format!("JPEG stops after {keep} bytes without its end marker; expected a whole image"));
    }
}

/// The end marker of the thumbnail in an EXIF block does not count as the photo's end marker.
#[test]
fn truncated_jpeg_with_a_whole_thumbnail() {
    let small = encode_jpeg(&ramp(), 50).unwrap();
    let mut jpeg = vec![0xff, 0xd8, 0xff, 0xe1];
    jpeg.extend((small.len() as u16 + 2).to_be_bytes());
    jpeg.extend(&small);
    jpeg.extend(&encode_jpeg(&ramp(), 90).unwrap()[2..]);
    assert_eq!(open(&jpeg).unwrap().width, 16);
    // Bytes that programs append after the end marker are ignored.
    assert_eq!(open(&[&jpeg[..], &[0; 100]].concat()).unwrap().width, 16);
    let (_, detail) = fault(&jpeg[..jpeg.len() - 20]);
    assert!(detail.contains("without its end marker"), "{detail}");
}

#[test]
fn random_bytes_after_a_jpeg_header() {
    // A linear congruential generator (Knuth's MMIX constants) gives the same random bytes on every run.
    let mut state = 7u64;
    let rubbish: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    })
    .take(20_000)
    .collect();
    let (cause, detail) = fault(&rubbish);
    assert_eq!(cause, Cause::UndecodableImage);
    assert!(
        detail.starts_with("file begins with ") && detail.ends_with("; expected JPEG, PNG, WebP, GIF or BMP"),
        "{detail}"
    );
    let mut jpeg = vec![0xff, 0xd8, 0xff, 0xe0];
    jpeg.extend(&rubbish);
    jpeg.extend([0xff, 0xd9]);
    let (cause, detail) = fault(&jpeg);
    assert_eq!(cause, Cause::UndecodableImage);
    assert!(detail.ends_with("; expected a whole image"), "{detail}");
}

#[test]
fn truncated_png_gif_bmp_webp() {
    for format in [ImageFormat::Png, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::WebP] {
        let mut out = Cursor::new(Vec::new());
        image::RgbImage::from_raw(16, 12, ramp().rgb).unwrap().write_to(&mut out, format).unwrap();
        let bytes = out.into_inner();
        let (cause, detail) = fault(&bytes[..bytes.len() / 2]);
        assert_eq!(cause, Cause::UndecodableImage, "{format:?}");
        assert!(detail.ends_with("; expected a whole image"), "{format:?}: {detail}");
    }
}

#[test]
fn sizes_out_of_bounds() {
    let grey = |w: u32, h: u32| png(&vec![9; (w * h) as usize], w, h, ExtendedColorType::L8);
    assert_eq!(
        fault(&grey(1, 1)),
        (Cause::ImageTooSmall, "photo has 1 x 1 pixels; expected at least 2 a side".to_owned())
    );
    assert_eq!(
        fault(&grey(20_000, 1)),
        (Cause::ImageTooSmall, "photo has 20000 x 1 pixels; expected at least 2 a side".to_owned())
    );
    assert_eq!(
        fault(&grey(20_000, 2)),
        (Cause::ImageTooNarrow, "photo has 20000 x 2 pixels; expected an aspect ratio of at most 50 to 1".to_owned())
    );
    assert_eq!(open(&grey(100, 2)).unwrap().width, 100);
}

/// The header declares 60,000 x 60,000 pixels, but no pixel data follow. A decoder that read past the header would
/// report a different error.
#[test]
fn oversized_image_is_rejected_by_its_header() {
    let mut bomb = png(&[0; 4], 2, 2, ExtendedColorType::L8);
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = png_crc(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(
        fault(&bomb),
        (Cause::ImageTooLarge, "photo has 60000 x 60000 pixels; expected at most 100000000 in all".to_owned())
    );
}

/// A PNG chunk with its length and CRC.
fn png_chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [kind.as_slice(), content].concat();
    let length = (content.len() as u32).to_be_bytes();
    [&length, named.as_slice(), &png_crc(&named).to_be_bytes()].concat()
}

/// A compressed colour profile of 40 kB that decompresses to 40 MB is removed before the decoder sees it. A short
/// profile is kept.
#[test]
fn long_png_colour_profiles_are_removed() {
    let profile = |length: usize| {
        let mut packed = flate2::write::ZlibEncoder::new(b"bomb\0\0".to_vec(), flate2::Compression::best());
        packed.write_all(&vec![0; length]).unwrap();
        png_chunk(b"iCCP", &packed.finish().unwrap())
    };
    let plain = encode_png(&ramp()).unwrap();
    // Inserts chunks after the signature and IHDR.
    let with = |chunks: &[u8]| [&plain[..33], chunks, &plain[33..]].concat();
    let bomb = profile(40_000_000);
    assert!((20_000..80_000).contains(&bomb.len()), "{}", bomb.len());
    let short = profile(1000);
    for (chunks, left) in
        [(bomb.clone(), vec![]), ([&bomb[..], &bomb].concat(), vec![]), ([&bomb[..], &short].concat(), short.clone())]
    {
        let bytes = with(&chunks);
        assert_eq!(*other_formats::without_long_profile(&bytes, ImageFormat::Png), with(&left));
        assert_eq!(open(&bytes).unwrap(), ramp());
    }
    assert_eq!(open(&with(&short)).unwrap(), ramp());
    // A chunk whose declared length exceeds the file.
    let mut torn = with(&bomb);
    torn[33..37].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(fault(&torn).0, Cause::UndecodableImage);
}

/// CRC-32 of PNG chunks, computed bit by bit (PNG specification, annex D).
fn png_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 })
    })
}

#[test]
fn files_missing_empty_or_too_long() {
    let limits = PixelLimits { max_bytes: 10, ..PixelLimits::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jpg");
    let open = || ImageRef::File(path.clone()).open(&limits).unwrap_err();

    let broken = open();
    assert_eq!(broken.cause, Cause::MissingFile);
    assert_eq!(broken.sample, path.display().to_string());
    assert!(broken.detail.starts_with("cannot be read: "), "{broken}");
    fs::write(&path, b"").unwrap();
    assert_eq!(open().detail, "an empty file; expected an image file");
    fs::write(&path, [0; 11]).unwrap();
    let broken = open();
    assert_eq!(broken.cause, Cause::ImageTooLarge);
    assert_eq!(broken.detail, "file has 11 bytes; expected at most 10");
}

#[test]
fn shard_members_are_read_by_offset() {
    let folder = tempfile::tempdir().unwrap();
    let shard = folder.path().join("0.tar");
    let image = encode_png(&ramp()).unwrap();
    fs::write(&shard, [b"before".as_slice(), &image, b"behind"].concat()).unwrap();
    let member = |offset, len| ImageRef::Member { shard: shard.clone(), offset, len, name: "7.png".to_owned() };
    let limits = PixelLimits::default();
    assert_eq!(member(6, image.len() as u64).open(&limits).unwrap(), ramp());
    let broken = member(1000, 1000).open(&limits).unwrap_err();
    assert_eq!(broken.cause, Cause::MissingFile);
    assert!(broken.sample.ends_with("0.tar/7.png"));
}

#[test]
fn limits_apply_to_pixels_in_memory() {
    let limits = PixelLimits::default();
    let open = |picture| ImageRef::Pixels(Arc::new(picture)).open(&limits);
    assert_eq!(open(ramp()).unwrap(), ramp());
    let dot = Picture::new(1, 1, vec![0; 3]).unwrap();
    assert_eq!(open(dot).unwrap_err().cause, Cause::ImageTooSmall);
    assert_eq!(Picture::new(2, 2, vec![0; 11]), None);
}

#[test]
fn pixels_of_wrong_length_are_not_encoded() {
    let picture = Picture { width: 2, height: 2, rgb: vec![0; 3] };
    assert_eq!(encode_png(&picture).unwrap_err().detail, "3 bytes; expected 4 pixels of 3 bytes");
}

/// Decodes some photographs of `../shared/data` (256 x 256, a few of them grey).
#[test]
fn real_photographs_decode() {
    let Some(folder) = shared_data("hierarcaps/images") else { return };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files.into_iter().step_by(50) {
        let picture = ImageRef::File(path).open(&PixelLimits::default()).unwrap();
        assert_eq!((picture.width, picture.height), (256, 256));
    }
}

/// A crop decoded at a scale matches the crop of the photo decoded in full, for all eight EXIF orientations. Both
/// consume the same number of random values.
///
/// The photo is a ramp of 0.4 levels per pixel to the right and 0.3 down, and resampling a ramp gives a ramp. The
/// remaining difference comes from the rounding of both decoders (1.9 levels, see `jpeg`) and of resampling (1 level).
/// At the borders, kernels are truncated at a scaled pixel, which covers up to 8 photo pixels. Half of that width is 4
/// pixels, or 4 * 0.4 = 1.6 levels. A wrong orientation or offset would differ by about 100 levels.
#[test]
fn scaled_crop_matches_for_all_orientations() {
    use rand::Rng;

    use crate::rng::{Stream, rng_for};
    use crate::transform::{Augment, Crop};

    let rgb = (0..300).flat_map(|y| (0..400).flat_map(move |x| [(x * 2 / 5) as u8 + 40, (y * 3 / 10) as u8 + 60, 128]));
    let jpeg = encode_jpeg(&Picture::new(400, 300, rgb.collect()).unwrap(), 95).unwrap();
    let crops = [Crop::default(), Crop::RandomWindow { margin: 1.3 }, Crop::Center {}, Crop::Squeeze {}];
    for orientation in 1..=8 {
        let image = ImageRef::Encoded(with_orientation(&jpeg, orientation).into());
        for (crop, size) in crops.iter().flat_map(|crop| [20, 50, 100].map(|size| (crop, size))) {
            let taken = |decode_at_scale| {
                let augment = Augment { crop: crop.clone(), hflip: 0.5, decode_at_scale, ..Augment::default() };
                let mut rng = rng_for(3, 1, u64::from(orientation), Stream::Photo);
                (augment.open(&image, &PixelLimits::default(), size, &mut rng).unwrap(), rng.next_u64())
            };
            let ((whole, next), (scaled, same)) = (taken(None), taken(Some(1.0)));
            assert_eq!(next, same);
            assert_ne!(whole, scaled, "{crop:?} of {size} was not decoded at a scale");
            let worst = whole.iter().zip(&scaled).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(worst <= Some(5), "orientation {orientation}, {crop:?} of {size}: {worst:?}");
        }
    }
}

/// For all eight EXIF orientations, a crop made by decoding only part of the photo equals the crop of the whole photo
/// byte for byte.
#[test]
fn partial_decoding_gives_equal_crops() {
    use crate::rng::{Stream, rng_for};
    use crate::transform::{Augment, Crop};

    let rgb = (0..90)
        .flat_map(|y: u32| (0..130).flat_map(move |x: u32| [x * y % 251, x * 2 % 199, y * 3 % 211].map(|it| it as u8)));
    let jpeg = encode_jpeg(&Picture::new(130, 90, rgb.collect()).unwrap(), 90).unwrap();
    let limits = PixelLimits::default();
    let crops = [Crop::default(), Crop::RandomWindow { margin: 1.3 }, Crop::Center {}, Crop::Squeeze {}];
    for orientation in 1..=8 {
        let image = ImageRef::Encoded(with_orientation(&jpeg, orientation).into());
        let whole = image.open(&limits).unwrap();
        let cut = image.encoded(&limits).unwrap().unwrap().cut([11, 20, 52, 43], &limits, String::new).unwrap();
        assert_eq!((cut.left, cut.top), (11, 20));
        assert_eq!(cut.picture, crate::transform::crop_pixels(&whole, [11, 20, 52, 43]), "orientation {orientation}");
        for (crop, size) in crops.iter().flat_map(|crop| [20, 50, 200].map(|size| (crop, size))) {
            let augment = Augment { crop: crop.clone(), hflip: 0.5, ..Augment::default() };
            let rng = || rng_for(3, 1, u64::from(orientation), Stream::Photo);
            let part = augment.open(&image, &limits, size, &mut rng()).unwrap();
            assert_eq!(part, augment.apply(&whole, size, &mut rng()), "orientation {orientation}, {crop:?} of {size}");
        }
    }
}

/// A crop that is too small, or a format other than JPEG, falls back to full-size decoding.
#[test]
fn falls_back_to_full_size_decoding() {
    use crate::rng::{Stream, rng_for};
    use crate::transform::{Augment, Crop};

    let photo = ramp();
    let jpeg = encode_jpeg(&photo, 95).unwrap();
    let png = encode_png(&photo).unwrap();
    for (bytes, size) in [(jpeg.clone(), 9), (png, 2)] {
        let image = ImageRef::Encoded(bytes.into());
        let taken = |decode_at_scale| {
            let augment = Augment { crop: Crop::Squeeze {}, decode_at_scale, ..Augment::default() };
            augment.open(&image, &PixelLimits::default(), size, &mut rng_for(3, 1, 0, Stream::Photo)).unwrap()
        };
        assert_eq!(taken(None), taken(Some(1.0)));
    }
    let torn = ImageRef::Encoded(jpeg[..jpeg.len() / 2].into());
    let augment = Augment { decode_at_scale: Some(1.0), ..Augment::default() };
    let broken = augment.open(&torn, &PixelLimits::default(), 2, &mut rng_for(3, 1, 0, Stream::Photo)).unwrap_err();
    assert_eq!(broken.cause, Cause::UndecodableImage);
}
