#![allow(clippy::unwrap_used)]
use std::path::Path;

use image::ExtendedColorType::Rgb8;
use image::codecs::jpeg::JpegEncoder;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

fn encode(pixels: &JpegPixels, quality: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
    encoder.encode(&pixels.rgb, pixels.width, pixels.height, Rgb8).unwrap();
    bytes
}

fn whole(bytes: &[u8]) -> JpegPixels {
    let (width, height) = summary(bytes).unwrap().size;
    decode(bytes, 1, [0, 0, width, height]).unwrap().pixels
}

/// The pixels of `[x1, y1, x2, y2]` (half open).
fn crop(pixels: &JpegPixels, [x1, y1, x2, y2]: [u32; 4]) -> JpegPixels {
    let row = |y: u32| {
        let start = (y * pixels.width) as usize;
        pixels.rgb[3 * (start + x1 as usize)..3 * (start + x2 as usize)].iter().copied()
    };
    JpegPixels { width: x2 - x1, height: y2 - y1, rgb: (y1..y2).flat_map(row).collect() }
}

fn rng(seed: u8) -> ChaCha8Rng {
    let mut key = [0; 32];
    (key[0], key[24]) = (seed, 3);
    ChaCha8Rng::from_seed(key)
}

/// Mean colour of the `scale` x `scale` pixels that one output pixel covers; `None` if the photo ends inside these
/// pixels.
fn means(whole: &JpegPixels, scale: u32, x: u32, y: u32) -> Option<[f64; 3]> {
    if (x + 1) * scale > whole.width || (y + 1) * scale > whole.height {
        return None;
    }
    let mut sums = [0.0; 3];
    for row in y * scale..(y + 1) * scale {
        for column in x * scale..(x + 1) * scale {
            let at = (row * whole.width + column) as usize * 3;
            sums.iter_mut().zip(&whole.rgb[at..at + 3]).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }
    Some(sums.map(|sum| sum / f64::from(scale * scale)))
}

/// Largest and mean absolute difference between a decoded part and the means of `whole`.
fn compare(bytes: &[u8], whole: &JpegPixels, scale: u32, part: [u32; 4]) -> (f64, f64) {
    let JpegPart { pixels: picture, left, top } = decode(bytes, scale, part).unwrap();
    assert_eq!((left, top), (part[0] / scale, part[1] / scale));
    assert_eq!(picture.width, part[2].div_ceil(scale) - left);
    assert_eq!(picture.height, part[3].div_ceil(scale) - top);
    let (mut worst, mut sum, mut count) = (0.0_f64, 0.0, 0);
    for y in 0..picture.height {
        for x in 0..picture.width {
            let Some(expected) = means(whole, scale, left + x, top + y) else { continue };
            let at = (y * picture.width + x) as usize * 3;
            for (found, expected) in picture.rgb[at..at + 3].iter().zip(expected) {
                let off = (f64::from(*found) - expected).abs();
                (worst, sum, count) = (worst.max(off), sum + off, count + 1);
            }
        }
    }
    (worst, sum / f64::from(count))
}

/// A test picture of low contrast, so that no value is clipped at 0 or 255. Grey if `chroma` is 0.
fn waves(width: u32, height: u32, chroma: f32) -> JpegPixels {
    let rgb = (0..width * height).flat_map(|i| {
        let (x, y) = ((i % width) as f32, (i / width) as f32);
        let (a, b) = (20.0 * (x * 0.9 + 1.0).sin() * (y * 0.7).cos() + (x + y) * 0.2, chroma * (0.05 * x).sin());
        [128.0 + a + b, 128.0 + a, 128.0 + a - b].map(|value| value as u8)
    });
    JpegPixels { width, height, rgb: rgb.collect() }
}

/// Uses files without chroma subsampling, so full-size decoding differs from the exact values by rounding only: half a
/// level per pixel, which averages out in the mean. On the scaled side, colour conversion adds three roundings (up to
/// 1.772 * 0.5 + 0.5 + 0.5 levels). The mean difference is checked only where there are enough pixels.
#[test]
fn scaled_pixels_are_means() {
    for (width, height) in [(64, 48), (67, 45), (9, 31), (8, 8), (1, 1), (3, 200)] {
        for chroma in [0.0, 15.0] {
            let bytes = encode(&waves(width, height, chroma), 92);
            let whole = whole(&bytes);
            for scale in [2, 4, 8] {
                let (worst, mean) = compare(&bytes, &whole, scale, [0, 0, width, height]);
                assert!(
                    worst <= 1.9 && (width * height < 3000 || mean <= 0.6),
                    "{width} x {height} at 1/{scale}: {worst} {mean}"
                );
                let inner = [width / 3, height / 4, width - width / 5, height - height / 5];
                let (worst, _) = compare(&bytes, &whole, scale, inner);
                assert!(worst <= 1.9, "part of {width} x {height} at 1/{scale}: {worst}");
            }
        }
    }
}

/// A part has the same pixels as the same area of the whole photo.
#[test]
fn parts_equal_the_whole_photo() {
    let bytes = encode(&waves(150, 110, 20.0), 80);
    for scale in [1, 2, 4, 8] {
        let whole = decode(&bytes, scale, [0, 0, 150, 110]).unwrap().pixels;
        for part in [[0, 0, 1, 1], [149, 109, 150, 110], [17, 33, 90, 91], [64, 0, 72, 110]] {
            let JpegPart { pixels: picture, left, top } = decode(&bytes, scale, part).unwrap();
            for y in 0..picture.height {
                let at = |picture: &JpegPixels, x: u32, y: u32| (y * picture.width + x) as usize * 3;
                let n = picture.width as usize * 3;
                let (from, own) = (at(&whole, left, top + y), at(&picture, 0, y));
                assert_eq!(picture.rgb[own..own + n], whole.rgb[from..from + n], "{part:?} at 1/{scale}, row {y}");
            }
        }
    }
}

/// Real photos include 4:2:0 files and values clipped at 0 and 255. For 4:2:0 the full-size decoder interpolates
/// chroma, while the scaled decoder averages the stored samples. The mean difference stays well below 1.5 levels.
#[test]
fn photographs_agree_on_average() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/coco_mini/val2017"));
    if !folder.exists() {
        eprintln!("skipped: {} not found", folder.display());
        return;
    }
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut read = 0;
    for path in paths.iter().take(12) {
        let bytes = std::fs::read(path).unwrap();
        let whole = whole(&bytes);
        for scale in [2, 4, 8] {
            if decode(&bytes, scale, [0, 0, 1, 1]).is_err() {
                continue;
            }
            read += 1;
            let (_, mean) = compare(&bytes, &whole, scale, [0, 0, whole.width, whole.height]);
            assert!(mean < 1.5, "{} at 1/{scale}: {mean}", path.display());
        }
    }
    assert!(read >= 30, "{read} of 36 were read");
}

/// Files and their pixels as Pillow (libjpeg-turbo) decodes them. See golden/make.py.
const GOLDENS: [(&str, &[u8], &[u8]); 8] = [
    ("4:2:0", include_bytes!("golden/s420.jpg"), include_bytes!("golden/s420.png")),
    ("4:2:2", include_bytes!("golden/s422.jpg"), include_bytes!("golden/s422.png")),
    ("4:4:0", include_bytes!("golden/s440.jpg"), include_bytes!("golden/s440.png")),
    ("4:4:4", include_bytes!("golden/s444.jpg"), include_bytes!("golden/s444.png")),
    ("grey", include_bytes!("golden/grey.jpg"), include_bytes!("golden/grey.png")),
    ("restarts", include_bytes!("golden/restarts.jpg"), include_bytes!("golden/restarts.png")),
    ("noise", include_bytes!("golden/noise.jpg"), include_bytes!("golden/noise.png")),
    ("even", include_bytes!("golden/even.jpg"), include_bytes!("golden/even.png")),
];

fn golden(png: &[u8]) -> JpegPixels {
    let image = image::load_from_memory(png).unwrap().into_rgb8();
    JpegPixels { width: image.width(), height: image.height(), rgb: image.into_raw() }
}

/// The pixels are equal byte for byte, for whole files and for parts with arbitrary borders.
#[test]
fn full_size_pixels_equal_pillow() {
    for (name, jpeg, png) in GOLDENS {
        let whole = golden(png);
        let (w, h) = (whole.width, whole.height);
        let mut parts =
            vec![[0, 0, w, h], [0, 0, 1, 1], [w - 1, h - 1, w, h], [w / 2, 0, w / 2 + 1, h], [0, h - 1, w, h]];
        for at in 0..20 {
            parts.push([at, at / 2, w - at / 3, h - at]);
            parts.push([w / 3, h / 3, w / 3 + 1 + at, h / 3 + 1 + at / 2]);
        }
        for part in parts {
            let JpegPart { pixels: picture, left, top } = decode(jpeg, 1, part).unwrap();
            assert_eq!((left, top), (part[0], part[1]));
            assert_eq!(picture, crop(&whole, part), "{name}, {part:?}");
        }
    }
}

/// The inverse transform differs from the exact cosine transform by at most one level (the limit of IEEE 1180-1990),
/// and by at most half a level on average.
#[test]
fn inverse_transform_matches_cosine_sums() {
    let mut rng = rng(6);
    let scale = |k: usize| if k == 0 { 0.125_f64.sqrt() } else { 0.5 };
    let cosine = |x: usize, k: usize| scale(k) * ((2 * x + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
    let (mut worst, mut sum) = (0.0_f64, 0.0);
    for trial in 0..200 {
        let block: [i32; 64] = std::array::from_fn(|k| match k {
            0 => rand::RngExt::random_range(&mut rng, -900..900),
            _ if rand::RngExt::random_range(&mut rng, 0..200) < trial => rand::RngExt::random_range(&mut rng, -90..90),
            _ => 0,
        });
        let found = inverse::inverse(&block);
        for (y, row) in found.iter().enumerate() {
            for (x, &found) in row.iter().enumerate() {
                let exact: f64 =
                    (0..64).map(|k| f64::from(block[k]) * cosine(y, k / 8) * cosine(x, k % 8)).sum::<f64>() + 128.0;
                let off = (f64::from(found) - exact.clamp(0.0, 255.0)).abs();
                (worst, sum) = (worst.max(off), sum + off);
            }
        }
        if block[1..].iter().all(|&it| it == 0) {
            assert_eq!(found, [[inverse::flat(block[0]); 8]; 8]);
        }
    }
    assert!(worst <= 1.0 && sum / (200.0 * 64.0) <= 0.5, "{worst} {}", sum / (200.0 * 64.0));
}

/// Decoding random damage returns either the right number of pixels or an error, and never panics.
#[test]
fn damaged_files_do_not_panic() {
    let mut rng = rng(5);
    let own = encode(&waves(70, 50, 20.0), 85);
    let files =
        GOLDENS.iter().map(|(_, jpeg, png)| (jpeg.to_vec(), golden(png))).chain([(own.clone(), waves(70, 50, 20.0))]);
    for (bytes, JpegPixels { width: w, height: h, .. }) in files {
        let mut whole = 0;
        for _ in 0..600 {
            let mut damaged = bytes.clone();
            for _ in 0..rand::RngExt::random_range(&mut rng, 1..4) {
                let at = rand::RngExt::random_range(&mut rng, 0..damaged.len());
                damaged[at] = rand::RngExt::random(&mut rng);
            }
            damaged.truncate(rand::RngExt::random_range(&mut rng, damaged.len() / 2..=damaged.len()));
            for scale in [1, 2, 8] {
                if let Ok(part) = decode(&damaged, scale, [w / 4, h / 4, w / 2, h / 2]) {
                    let JpegPixels { width, height, rgb } = part.pixels;
                    assert_eq!(rgb.len(), (width * height * 3) as usize);
                    whole += 1;
                }
            }
        }
        assert!(whole > 100, "{whole}");
    }
    for cut in 0..own.len() - 2 {
        for scale in [1, 2] {
            assert!(decode(&own[..cut], scale, [0, 0, 70, 50]).is_err(), "{cut} of {}", own.len());
        }
    }
}

/// The error message of a file, as the user sees it.
fn refusal(bytes: &[u8]) -> String {
    let JpegError { found, expected } = decode(bytes, 1, [0, 0, 1, 1]).unwrap_err();
    format!("{found}; expected {expected}")
}

#[test]
fn unsupported_processes_are_reported() {
    let bytes = encode(&waves(20, 20, 20.0), 85);
    let frame = bytes.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    let with = |changes: &[(usize, u8)]| {
        let mut other = bytes.clone();
        changes.iter().for_each(|&(at, value)| other[frame + at] = value);
        refusal(&other)
    };
    let supported =
        "baseline or progressive JPEG with Huffman coding and 8 bits (convert the photo with an image editor)";
    let cases = [
        ((1, 0xc9), "has arithmetic coding (marker ff c9)"),
        ((1, 0xc3), "is lossless (marker ff c3)"),
        ((1, 0xc5), "is hierarchical (marker ff c5)"),
        ((4, 12), "has 12 bits per sample"),
    ];
    for (change, found) in cases {
        assert_eq!(with(&[change]), format!("JPEG {found}; expected {supported}"));
    }
    // A sequential scan header is invalid in a progressive file.
    let found = with(&[(1, 0xc2)]);
    assert!(found.ends_with("expected a valid progressive scan"), "{found}");
    // Luma 3 x 1 and Cb 2 x 1: the ratio 3 / 2 is not an integer.
    let found = with(&[(11, 0x31), (14, 0x21)]);
    assert!(
        found.starts_with("JPEG has a component sampled 2 x 1 in MCUs of 3 x 1; expected factors that divide"),
        "{found}"
    );
    let part = [0, 0, 20, 20];
    assert!(decode(&bytes, 4, part).is_ok());
    assert!(decode(&bytes, 3, part).is_err() && decode(&bytes, 2, [0, 0, 21, 20]).is_err());
}
