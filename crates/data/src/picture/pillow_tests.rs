//! Compares the decoded files of `fixtures/jpeg` (written by `fixtures/make_jpegs.py`) with the pixels that Pillow
//! decodes from them.
#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::*;

#[derive(serde::Deserialize)]
struct PillowPixels {
    width: u32,
    height: u32,
    rgb_sha256: String,
}

/// Limits that also accept files with a single pixel, row or column.
fn limits() -> PixelLimits {
    PixelLimits { min_side: 1, ..PixelLimits::default() }
}

/// Name and expected pixels of each file.
fn files() -> BTreeMap<String, (ImageRef, PillowPixels)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpeg");
    let pixels: BTreeMap<String, PillowPixels> =
        serde_json::from_slice(&fs::read(folder.join("pixels.json")).unwrap()).unwrap();
    pixels
        .into_iter()
        .map(|(name, pixels)| {
            let bytes = fs::read(folder.join(format!("{name}.jpg"))).unwrap();
            (name, (ImageRef::Encoded(bytes.into()), pixels))
        })
        .collect()
}

#[test]
fn pixels_equal_pillow() {
    let files = files();
    assert_eq!(files.len(), 55);
    for (name, (image, expected)) in files {
        let picture = image.open(&limits()).unwrap();
        assert_eq!((picture.width, picture.height), (expected.width, expected.height), "{name}");
        assert_eq!(image.size(&limits()).unwrap(), (expected.width, expected.height), "{name}");
        let hash = hex::encode(Sha256::digest(&picture.rgb));
        assert_eq!(hash, expected.rgb_sha256, "{name}");
    }
}

/// The fixtures include files with several scans and with unusual sampling.
#[test]
fn decoded_parts_equal_the_whole_photo() {
    for (name, (image, PillowPixels { width, height, .. })) in files() {
        let whole = image.open(&limits()).unwrap();
        for part in [[0, 0, width, height], [width / 2, height / 3, width / 2 + 1, height], [width / 3, 0, width, 1]] {
            let cut = image.encoded(&limits()).unwrap().unwrap().cut(part, &limits(), String::new).unwrap();
            assert_eq!((cut.left, cut.top), (part[0], part[1]), "{name}");
            assert_eq!(cut.picture, crate::transform::crop_pixels(&whole, part), "{name}, {part:?}");
        }
    }
}

/// A truncated file without an end marker is rejected. With an end marker appended it may decode; if it is rejected,
/// the cause must be right.
#[test]
fn truncated_files_are_rejected() {
    for (name, (image, _)) in files() {
        let ImageRef::Encoded(bytes) = image else { unreachable!("files are read above") };
        for keep in (2..bytes.len() - 2).step_by(13) {
            let torn = [&bytes[..keep], &[0xff, 0xd9]].concat();
            let result = ImageRef::Encoded(torn.into()).open(&limits());
            if let Err(broken) = result {
                assert_eq!(broken.cause, Cause::UndecodableImage, "{name} at {keep}");
            }
            let broken = ImageRef::Encoded(bytes[..keep].into()).open(&limits()).unwrap_err();
            assert_eq!(broken.cause, Cause::UndecodableImage, "{name} at {keep}");
        }
    }
}

/// Start of a progressive grey JPEG: a quantisation table of ones, one-bit codes for the symbols `dc` and `ac`, and the
/// frame header.
fn progressive_start(side: u16, dc: u8, ac: u8) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    bytes.extend([1; 64]);
    for (class, symbol) in [(0x00, dc), (0x10, ac)] {
        bytes.extend([0xff, 0xc4, 0, 20, class, 1]);
        bytes.extend([0; 15]);
        bytes.push(symbol);
    }
    let [s1, s0] = side.to_be_bytes();
    bytes.extend([0xff, 0xc2, 0, 11, 8, s1, s0, s1, s0, 1, 1, 0x11, 0]);
    bytes
}

/// Appends a scan of coefficients `from` to `to` with all their bits.
fn scan(bytes: &mut Vec<u8>, from: u8, to: u8, data: &[u8]) {
    bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0x00, from, to, 0]);
    bytes.extend(data);
}

/// A file of a few bytes that declares 10,000 x 10,000 pixels is rejected before memory is allocated for the
/// coefficients.
#[test]
fn header_without_data_allocates_no_memory() {
    let mut bytes = progressive_start(10_000, 0, 0);
    scan(&mut bytes, 0, 0, &[0; 1000]);
    bytes.extend([0xff, 0xd9]);
    let broken = ImageRef::Encoded(bytes.into()).open(&limits()).unwrap_err();
    assert_eq!(broken.detail, "JPEG of 10000 x 10000 pixels has 1002 bytes of data; expected a whole image");
    let mut bytes = progressive_start(65_535, 0, 0);
    scan(&mut bytes, 0, 0, &[0; 1000]);
    bytes.extend([0xff, 0xd9]);
    let broken = ImageRef::Encoded(bytes.into()).open(&limits()).unwrap_err();
    assert_eq!(broken.cause, Cause::ImageTooLarge);
}

/// Repeats a scan of 250,000 blocks in 15 bytes (EOB runs of 32,767 blocks) up to 5,000 times.
#[test]
fn too_many_scans_are_rejected() {
    let with = |scans: usize| {
        let mut bytes = progressive_start(4000, 0, 0xe0);
        scan(&mut bytes, 0, 0, &[0; 250_000 / 8]);
        for _ in 0..scans {
            // Eight EOB runs: the one-bit code of symbol 0xe0 (EOB14), then its 14 extra bits, all ones. The runs cover
            // more blocks than the photo has. Bytes 0xff are stuffed.
            let mut data = Vec::new();
            let bits: Vec<u8> = (0..8).flat_map(|_| std::iter::once(0).chain([1; 14])).collect();
            for byte in bits.chunks(8).map(|bits| bits.iter().fold(0, |sum, bit| 2 * sum + bit)) {
                data.push(byte);
                data.extend((byte == 0xff).then_some(0));
            }
            scan(&mut bytes, 1, 63, &data);
        }
        bytes.extend([0xff, 0xd9]);
        ImageRef::Encoded(bytes.into()).open(&limits())
    };
    assert_eq!(with(20).map(|picture| picture.rgb[0]), Ok(128));
    assert_eq!(
        with(5000).unwrap_err().detail,
        "JPEG has at least 100 scans of 4000 x 4000 pixels; expected at most 32 full scans for a photo of this size"
    );
}

#[test]
fn panics_become_broken_photos() {
    let broken = without_panic::<Picture>(|| "a.png".to_owned(), || panic!("index 9 of 8")).unwrap_err();
    assert_eq!((broken.sample.as_str(), broken.cause), ("a.png", Cause::UndecodableImage));
    assert_eq!(broken.detail, "the parser panicked: index 9 of 8");
}
