#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use rand::{Rng, RngExt};

use super::*;
use crate::rng::{Stream, rng_for};
use crate::sample::{ImageRef, PixelLimits};

fn noise(width: u32, height: u32, seed: u64) -> Picture {
    let mut rgb = vec![0; (width * height * 3) as usize];
    rng_for(seed, 0, 0, Stream::Photo).fill_bytes(&mut rgb);
    Picture { width, height, rgb }
}

/// A smooth gradient: red increases to the right, green downwards. Every pixel has a different colour if no side
/// exceeds 256 pixels.
fn ramp(width: u32, height: u32) -> Picture {
    let pixel = |i: u32| {
        let share = |at: u32, side: u32| (255 * at / (side - 1).max(1)) as u8;
        [share(i % width, width), share(i / width, height), 60]
    };
    Picture { width, height, rgb: (0..width * height).flat_map(pixel).collect() }
}

fn full() -> Augment {
    Augment {
        white_pad: true,
        hflip: 0.5,
        vflip: 0.5,
        rotation: 15.0,
        jitter: Jitter { brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1 },
        blur: Some(Blur { kernel: 5, sigma: [0.3, 1.5], probability: 0.5 }),
        ..Augment::default()
    }
}

/// Compares with Pillow's bicubic resize and centre crop, and with squeeze (goldens/README.md). One level of
/// difference would be acceptable; the result is exact.
#[test]
fn golden_photos_match_pillow() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/goldens/preprocess"));
    let Ok(bytes) = std::fs::read(folder.join("expected.safetensors")) else {
        eprintln!("skipped: {} not found", folder.display());
        return;
    };
    // A safetensors file is the header length, the JSON header and the data.
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let mut checked = 0;
    for (name, entry) in header.as_object().unwrap() {
        let [number, crop, size] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let crop = if crop == "squeeze" { EvalCrop::Squeeze } else { EvalCrop::Center };
        let offset = |i: usize| 8 + header_len + entry["data_offsets"][i].as_u64().unwrap() as usize;
        let expected = &bytes[offset(0)..offset(1)];
        let photo = ImageRef::File(folder.join(format!("{number}.png")));
        let photo = photo.open(&PixelLimits::default()).unwrap();
        let ours = evaluate(&photo, size.parse().unwrap(), crop);
        assert_eq!(ours.len(), expected.len(), "{name}");
        let worst = ours.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max();
        assert_eq!(worst, Some(0), "{name}");
        checked += 1;
    }
    assert_eq!(checked, 20);
}

#[test]
fn too_small_boxes_are_enlarged() {
    let photo = ramp(200, 100);
    let sides = |x1: f32, y1: f32, x2: f32, y2: f32| {
        let crop = crop_box(&photo, &BBox { x1, y1, x2, y2 });
        (crop.width, crop.height)
    };
    assert_eq!(sides(0.25, 0.25, 0.5, 0.75), (50, 50));
    assert_eq!(sides(0.5, 0.5, 0.505, 0.51), (2, 2)); // a box of one pixel
    assert_eq!(sides(0.995, 0.99, 1.0, 1.0), (2, 2)); // a box of the last pixel
    assert_eq!(sides(0.0, 0.5, 1.0, 0.51), (200, 4)); // a line of 200 pixels; aspect ratio limit 50 to 1
    assert_eq!(crop_box(&ramp(1, 1), &BBox { x1: 0.0, y1: 0.0, x2: 1.0, y2: 1.0 }).width, 1);
}

/// Resampling only the window equals resizing the whole photo and cropping it, up to one level.
#[test]
fn center_equals_resize_then_crop() {
    for (width, height, size) in [(333, 251, 224), (150, 200, 64), (97, 33, 32), (64, 65, 64), (5, 3, 16)] {
        let photo = ramp(width, height);
        let shorter = width.min(height);
        let (w, h) = (size * width / shorter, size * height / shorter);
        let resized = resample(&photo, ResampleRegion::whole(&photo), w, h, ResampleFilter::Bicubic);
        // Python's round((w - size) / 2.0) rounds half to even.
        let half_even = |n: u32| (f64::from(n) / 2.0).round_ties_even() as u32;
        let (x, y) = (half_even(w - size), half_even(h - size));
        let cut = crop_pixels(&resized, [x, y, x + size, y + size]);
        let ours = evaluate(&photo, size, EvalCrop::Center);
        let worst = ours.iter().zip(planar(&cut)).map(|(a, b)| a.abs_diff(b)).max();
        assert!(worst <= Some(1), "{width} x {height}: {worst:?}");
    }
}

#[test]
fn every_shape_gives_a_square() {
    let shapes = [(1, 1), (20_000, 1), (1, 20_000), (2, 3), (640, 480), (31, 977)];
    let crops = [
        Crop::default(),
        Crop::RandomResized { scale: [0.0, 0.01], ratio: [1.0, 1.0] },
        Crop::RandomWindow { margin: 256.0 / 224.0 },
        Crop::Center {},
        Crop::Squeeze {},
    ];
    for (width, height) in shapes {
        let photo = noise(width, height, 5);
        for size in [1, 7, 32] {
            for crop in [EvalCrop::Center, EvalCrop::Squeeze] {
                assert_eq!(evaluate(&photo, size, crop).len(), (3 * size * size) as usize);
            }
            for crop in &crops {
                for white_pad in [false, true] {
                    let augment = Augment { white_pad, crop: crop.clone(), ..full() };
                    augment.check().unwrap();
                    for sample in 0..3 {
                        let mut rng = rng_for(1, 2, sample, Stream::Photo);
                        assert_eq!(augment.apply(&photo, size, &mut rng).len(), (3 * size * size) as usize);
                    }
                }
            }
        }
    }
}

#[test]
fn uniform_photo_stays_uniform() {
    let photo = Picture { width: 50, height: 31, rgb: [200, 30, 90].repeat(50 * 31) };
    let flat: Vec<u8> = [200, 30, 90].iter().flat_map(|&v| [v; 16 * 16]).collect();
    let augment = Augment {
        hflip: 1.0,
        vflip: 1.0,
        blur: Some(Blur { kernel: 5, sigma: [2.0, 2.0], probability: 1.0 }),
        ..Augment::default()
    };
    assert_eq!(augment.apply(&photo, 16, &mut rng_for(0, 0, 0, Stream::Photo)), flat);
    assert_eq!(evaluate(&photo, 16, EvalCrop::Center), flat);
    assert_eq!(planar(&warp::rotate(&white(9, 9), 0.0)), vec![255; 3 * 81]);
}

/// Areas and shapes of 2,000 crops of a 400 x 300 photo are in their ranges (up to rounding to whole pixels) and fill
/// them. The crops cover the whole photo.
#[test]
fn random_resized_crops_cover_their_ranges() {
    let mut rng = rng_for(3, 0, 0, Stream::Photo);
    let (mut areas, mut shapes) = (Vec::new(), Vec::new());
    let mut edges = [u32::MAX, u32::MAX, 0, 0];
    for _ in 0..2000 {
        let ResampleRegion::Cut { left, top, width, height } =
            crop::random_resized(400, 300, [0.5, 1.0], [0.75, 4.0 / 3.0], &mut rng)
        else {
            panic!("not a cut")
        };
        areas.push(f64::from(width * height) / 120_000.0);
        shapes.push(f64::from(width) / f64::from(height));
        edges = [edges[0].min(left), edges[1].min(top), edges[2].max(left + width), edges[3].max(top + height)];
    }
    let range = |values: &[f64]| values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let ((small, large), (narrow, wide)) = (range(&areas), range(&shapes));
    assert!((0.495..0.52).contains(&small) && (0.97..=1.0).contains(&large), "{small} {large}");
    assert!((0.745..0.78).contains(&narrow) && (1.31..1.34).contains(&wide), "{narrow} {wide}");
    assert_eq!(edges, [0, 0, 400, 300]);
}

/// A 1000 x 10 photo has no part with at least half its area and width / height of at most 4 / 3, so the result is the
/// centre, 13 x 10.
#[test]
fn fallback_crop_is_centred() {
    let rng = &mut rng_for(3, 0, 0, Stream::Photo);
    let wide = crop::random_resized(1000, 10, [0.5, 1.0], [0.75, 4.0 / 3.0], rng);
    assert_eq!(wide, ResampleRegion::Cut { left: 493, top: 0, width: 13, height: 10 });
    let tall = crop::random_resized(9, 1000, [0.5, 1.0], [0.75, 4.0 / 3.0], rng);
    assert_eq!(tall, ResampleRegion::Cut { left: 0, top: 494, width: 9, height: 12 });
}

#[test]
fn white_padding_is_centred() {
    let black = Picture { width: 40, height: 20, rgb: vec![0; 2400] };
    let padded = white_pad(&black, 10);
    let rows: Vec<bool> = padded.rgb.chunks(30).map(|row| row.iter().all(|&v| v == 0)).collect();
    // 40 x 20 becomes 10 x 5: two white rows above, three below.
    assert_eq!(rows, [false, false, true, true, true, true, true, false, false, false]);
    assert!(padded.rgb.iter().all(|&v| v == 0 || v == 255));
    // Enlarging 4 x 4 to 8 x 8 fills the square.
    assert_eq!(white_pad(&crop_pixels(&black, [0, 0, 4, 4]), 8).rgb, vec![0; 192]);
}

#[test]
fn letterboxes_keep_the_shape_of_the_photo() {
    let black = Picture { width: 40, height: 20, rgb: vec![0; 2400] };
    // The width limits the scale to 3 / 4: 30 x 15 pixels, two rows above and three below.
    let padded = letterbox(&black, 30, 20, 114);
    assert_eq!((padded.left, padded.top, padded.width, padded.height), (0, 2, 30, 15));
    assert_eq!(padded.picture.rgb[..180], [114; 180]);
    assert_eq!(padded.picture.rgb[180..17 * 90], [0; 15 * 90]);
    assert_eq!(padded.picture.rgb[17 * 90..], [114; 270]);
    // The height limits the scale to 1 / 2.
    let padded = letterbox(&black, 30, 10, 114);
    assert_eq!((padded.left, padded.top, padded.width, padded.height), (5, 0, 20, 10));
    // A line keeps one pixel.
    let line = Picture { width: 1000, height: 1, rgb: vec![0; 3000] };
    let padded = letterbox(&line, 8, 8, 114);
    assert_eq!((padded.left, padded.top, padded.width, padded.height), (0, 3, 8, 1));
}

#[test]
fn flips_are_involutions_and_commute_with_the_crop() {
    let photo = noise(7, 4, 1);
    let mut twice = photo.clone();
    warp::flip_horizontal(&mut twice);
    assert_eq!(twice.rgb[..3], photo.rgb[18..21]);
    warp::flip_horizontal(&mut twice);
    assert_eq!(twice, photo);
    warp::flip_vertical(&mut twice);
    assert_eq!(twice.rgb[..21], photo.rgb[63..]);
    warp::flip_vertical(&mut twice);
    assert_eq!(twice, photo);
}

/// A quarter turn anticlockwise: the right column becomes the top row.
#[test]
fn quarter_turns_are_exact() {
    let photo = noise(9, 9, 2);
    let quarter = warp::rotate(&photo, 90.0);
    for i in 0..9 {
        let (from, to) = ((i * 9 + 8) * 3, i * 3);
        for channel in 0..3 {
            let (a, b) = (photo.rgb[from + channel], quarter.rgb[to + channel]);
            assert!(a.abs_diff(b) <= 1, "{i}: {a} {b}");
        }
    }
}

/// A white pixel in the centre spreads as the product of two normalised kernels exp(-0.5 (d / sigma)^2) with sigma 1
/// and five taps: 0.05449, 0.24420, 0.40262.
#[test]
fn blur_matches_the_gaussian() {
    let mut dot = Picture { width: 7, height: 7, rgb: vec![0; 147] };
    dot.rgb[24 * 3..25 * 3].fill(255);
    let blurred = warp::blur(&dot, 5, 1.0);
    let at = |x: usize, y: usize| i32::from(blurred.rgb[(y * 7 + x) * 3]);
    for (x, y, expected) in [
        (3, 3, 255.0 * 0.40262 * 0.40262),
        (2, 3, 255.0 * 0.24420 * 0.40262),
        (4, 4, 255.0 * 0.24420 * 0.24420),
        (1, 3, 255.0 * 0.05449 * 0.40262),
        (0, 3, 0.0),
    ] {
        assert!((f64::from(at(x, y)) - expected).abs() <= 1.0, "({x}, {y}) {} {expected}", at(x, y));
    }
}

/// Calculated by hand from torchvision's formulas. Grey of (200, 100, 50) is 0.299 * 200 + 0.587 * 100 + 0.114 * 50 =
/// 124.2, rounded to 124.
#[test]
fn colour_changes() {
    let pixel = |change: fn(&mut Picture, f32), factor: f32| {
        let mut one = Picture { width: 1, height: 1, rgb: vec![200, 100, 50] };
        change(&mut one, factor);
        one.rgb
    };
    assert_eq!(pixel(colour::brightness, 1.5), [255, 150, 75]);
    assert_eq!(pixel(colour::brightness, 0.0), [0, 0, 0]);
    assert_eq!(pixel(colour::saturation, 0.0), [124, 124, 124]);
    assert_eq!(pixel(colour::saturation, 2.0), [255, 76, 0]);
    assert_eq!(pixel(colour::contrast, 0.5), [162, 112, 87]);
    // A third of a turn maps red to green, green to blue, blue to red.
    assert_eq!(pixel(colour::hue, 1.0 / 3.0), [50, 200, 100]);
    assert_eq!(pixel(colour::hue, -1.0 / 3.0), [100, 50, 200]);
    assert_eq!(pixel(colour::hue, 0.0), [200, 100, 50]);
}

/// A half turn of hue gives the opposite colour with the same value and chroma: (200, 100, 50) has hue 20 degrees,
/// and hue 200 degrees is (50, 150, 200).
#[test]
fn half_turn_gives_the_opposite_hue() {
    let mut one = Picture { width: 1, height: 1, rgb: vec![200, 100, 50] };
    colour::hue(&mut one, 0.5);
    assert_eq!(one.rgb, [50, 150, 200]);
}

#[test]
fn only_equal_generators_give_equal_bytes() {
    let photo = noise(60, 40, 9);
    let draw = |sample| full().apply(&photo, 16, &mut rng_for(1, 0, sample, Stream::Photo));
    assert_eq!(draw(0), draw(0));
    let different: std::collections::BTreeSet<_> = (0..20).map(draw).collect();
    assert_eq!(different.len(), 20);
}

#[test]
fn shrinking_keeps_the_aspect_ratio() {
    let photo = noise(100, 40, 3);
    let small = shrink(&photo, 20).unwrap();
    assert_eq!((small.width, small.height), (50, 20));
    assert!(shrink(&photo, 40).is_none());
    let thin = shrink(&noise(2, 500, 3), 1).unwrap();
    assert_eq!((thin.width, thin.height), (1, 250));
}

#[test]
fn crops_are_clipped_to_the_photo() {
    let photo = ramp(10, 10);
    let cut = crop_pixels(&photo, [8, 2, 50, 4]);
    assert_eq!((cut.width, cut.height, cut.rgb.len()), (2, 2, 12));
    assert_eq!(cut.rgb[..6], photo.rgb[(2 * 10 + 8) * 3..][..6]);
    assert_eq!(crop_pixels(&photo, [10, 0, 12, 4]), white(1, 1));
}

#[test]
fn settings_out_of_range_are_rejected() {
    let augment = |json: &str| serde_json::from_str::<Augment>(json);
    assert_eq!(augment("{}").unwrap(), Augment::default());
    for (json, expected) in [
        (r#"{"hflip": 1.5}"#, "`augment.hflip` is 1.5; expected 0 to 1"),
        (r#"{"rotation": -3}"#, "`augment.rotation` is -3; expected 0 to 180"),
        (
            r#"{"crop": {"kind": "random_resized", "scale": [1.0, 0.5]}}"#,
            "`augment.crop.scale` is [1.0, 0.5]; expected [smallest, largest]",
        ),
        (r#"{"crop": {"kind": "random_window", "margin": 0.5}}"#, "`augment.crop.margin` is 0.5"),
        (r#"{"jitter": {"hue": 0.6}}"#, "`augment.jitter.hue` is 0.6; expected 0 to 0.5"),
        (r#"{"blur": {"kernel": 4, "sigma": [0.1, 2.0]}}"#, "`augment.blur.kernel` is 4; expected an odd number"),
        (r#"{"blur": {"kernel": 5, "sigma": [0.0, 2.0]}}"#, "`augment.blur.sigma`"),
    ] {
        let message = augment(json).unwrap().check().unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    for unknown in
        [r#"{"flip": 0.5}"#, r#"{"crop": {"kind": "center", "scale": [0.1, 1.0]}}"#, r#"{"jitter": {"colour": 1}}"#]
    {
        assert!(augment(unknown).is_err(), "{unknown}");
    }
}

/// Windows at random positions of photos of random shape stay inside the photo, and their weights add up to one.
#[test]
fn windows_stay_inside() {
    let mut rng = rng_for(8, 0, 0, Stream::Photo);
    for _ in 0..500 {
        let (width, height) = (rng.random_range(1..80), rng.random_range(1..80));
        let size = rng.random_range(1..40);
        let photo = white(width, height);
        for region in [crop::center(width, height, size), crop::random_window(width, height, size, 1.3, &mut rng)] {
            let result = resample(&photo, region, size, size, ResampleFilter::Bicubic);
            assert!(result.rgb.iter().all(|&v| v == 255));
        }
    }
}
