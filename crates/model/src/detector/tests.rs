//! Conversion of boxes to the photo; and the detectors of `fixtures/onnx`, which need the ONNX Runtime library. Without
//! it, those tests print that they are skipped.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::onnx::runtime_for_tests;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/onnx").join(name)
}

/// 100 x 50 pixels, dark grey, with a red rectangle from (20, 10) to (60, 40).
fn photo() -> Picture {
    let is_red = |x: usize, y: usize| (20..60).contains(&x) && (10..40).contains(&y);
    let rgb = (0..5000).flat_map(|at| if is_red(at % 100, at / 100) { [255, 0, 0] } else { [50; 3] });
    Picture { width: 100, height: 50, rgb: rgb.collect() }
}

fn open(name: &str, change: impl FnOnce(&mut OnnxDetectorOptions)) -> Result<OnnxDetector> {
    let mut options = OnnxDetectorOptions::default();
    change(&mut options);
    OnnxDetector::open(&fixture(name), options)
}

/// True if the box is that of the red rectangle, up to a pixel of the input, in which the photo has 64 x 32 pixels.
fn is_red(bbox: &BBox) -> bool {
    let near = |found: f32, expected: f32, side: f32| (found - expected).abs() <= 1.001 / side;
    near(bbox.x1, 0.2, 64.0) && near(bbox.x2, 0.6, 64.0) && near(bbox.y1, 0.2, 32.0) && near(bbox.y2, 0.8, 32.0)
}

#[test]
fn boxes_are_clipped_to_the_photo() {
    // The photo has 64 x 32 pixels of the input, below 16 rows of padding.
    let padded = letterbox(&photo(), 64, 64, PADDING);
    let raw = |corners: [f32; 4], score: f32| RawBox { corners, score, class: Some(0) };
    let boxes = vec![
        raw([0.0, 0.0, 64.0, 10.0], 0.4),
        raw([f32::NAN, 0.0, 64.0, 10.0], 0.9),
        raw([-10.0, 24.0, 32.0, 90.0], 0.5),
        raw([16.0, 16.0, 48.0, 48.0], 0.6),
        raw([48.0, 30.0, 16.0, 40.0], 0.3),
        raw([0.0, 0.0, 64.0, 64.0], f32::INFINITY),
    ];
    let found = boxes_of_photo(boxes, &padded, DetectionLayout::Corners, 0.5);
    let corners: Vec<[f32; 4]> =
        found.boxes.iter().map(|it| [it.bbox.x1, it.bbox.y1, it.bbox.x2, it.bbox.y2]).collect();
    assert_eq!(corners, [[0.25, 0.0, 0.75, 1.0], [0.0, 0.25, 0.5, 1.0]]);
    assert_eq!(found.rejected.len(), 3, "{:?}", found.rejected);
    assert_eq!(found.rejected[0], "2 boxes with a border or score that is not finite");
    let empty = boxes_of_photo(Vec::new(), &padded, DetectionLayout::Grid, 0.5);
    assert_eq!(empty, DetectedBoxes::default());
}

#[test]
fn a_photo_has_at_most_a_hundred_boxes() {
    let padded = letterbox(&photo(), 64, 64, PADDING);
    let raw = |number: usize| RawBox { corners: [0.0, 16.0, 64.0, 48.0], score: number as f32 / 200.0, class: None };
    let found = boxes_of_photo((0..150).map(raw).collect(), &padded, DetectionLayout::Corners, 0.5);
    let scores: Vec<f32> = found.boxes.iter().map(|it| it.score).collect();
    assert_eq!((scores.len(), scores[0], scores[99]), (100, 149.0 / 200.0, 50.0 / 200.0));
    // In a grid, they suppress each other.
    let found = boxes_of_photo((0..150).map(raw).collect(), &padded, DetectionLayout::Grid, 0.5);
    assert_eq!(found.boxes.len(), 1);
}

#[test]
fn every_layout_finds_the_rectangle() {
    if !runtime_for_tests() {
        return;
    }
    // Corners: the file leaves the size open. Its other boxes are in the padding and not a number.
    let found = open("detector_corners.onnx", |options| options.size = Some(64)).unwrap().detect(&photo()).unwrap();
    assert!(found.boxes.len() == 1 && is_red(&found.boxes[0].bbox), "{found:?}");
    assert_eq!((found.boxes[0].score, found.boxes[0].class, found.rejected.len()), (0.9, Some(5), 2));

    // Queries: the second one is no object.
    let found = open("detector_queries.onnx", |_| {}).unwrap().detect(&photo()).unwrap();
    assert!(found.boxes.len() == 1 && is_red(&found.boxes[0].bbox), "{found:?}");
    // exp(6) / (exp(6) + 2); the logit is 6 only if the mask marks the padding.
    assert!((found.boxes[0].score - 0.995_07).abs() < 1e-4 && found.boxes[0].class == Some(1), "{found:?}");

    // Grids: box 1 is suppressed by box 0, box 2 has another class.
    for (name, factor) in [("detector_v8.onnx", 1.0), ("detector_v5.onnx", 0.5)] {
        let found = open(name, |_| {}).unwrap().detect(&photo()).unwrap();
        let scores: Vec<f32> = found.boxes.iter().map(|it| it.score).collect();
        assert_eq!(scores, [0.9 * factor, 0.6 * factor], "{name}");
        assert!(found.boxes.iter().all(|it| is_red(&it.bbox)), "{name}: {found:?}");
        let found = open(name, |options| options.max_overlap = 1.0).unwrap().detect(&photo()).unwrap();
        assert_eq!(found.boxes.len(), 3, "{name}");
        let found = open(name, |options| options.min_score = 0.95).unwrap().detect(&photo()).unwrap();
        assert_eq!(found, DetectedBoxes::default(), "{name}");
    }

    // The pixels are normalised as the options say: a grey photo is red if only the mean of the red channel is lower.
    let grey = Picture { rgb: vec![50; 15_000], ..photo() };
    let plain = open("detector_v8.onnx", |_| {}).unwrap().detect(&grey).unwrap();
    assert!(plain.boxes.is_empty(), "{plain:?}");
    let shifted = PixelStatistics { mean: [-0.5, 0.0, 0.0], std: [1.0; 3] };
    let found = open("detector_v8.onnx", |options| options.pixels = Some(shifted)).unwrap().detect(&grey).unwrap();
    assert!(found.boxes[0].bbox.area() > 0.99, "{found:?}");
}

#[test]
fn the_identity_names_the_file_and_the_settings() {
    if !runtime_for_tests() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.onnx");
    std::fs::copy(fixture("detector_v8.onnx"), &copy).unwrap();
    let original = open("detector_v8.onnx", |_| {}).unwrap().identity();
    assert_eq!(original, OnnxDetector::open(&copy, OnnxDetectorOptions::default()).unwrap().identity());
    assert_ne!(original, open("detector_v8.onnx", |options| options.min_score = 0.2).unwrap().identity());
    assert_ne!(original, open("detector_v5.onnx", |_| {}).unwrap().identity());
}

#[test]
fn other_files_are_refused() {
    if !runtime_for_tests() {
        return;
    }
    for (found, expected) in [
        (
            open("conv.onnx", |_| {}),
            "the outputs are `features` float32 [-1, 5], `maps` float32 [-1, 5, 6, 6]; expected",
        ),
        (open("nhwc.onnx", |_| {}), "expected float32 outputs `boxes` [N, 4]"),
        (open("detector_corners.onnx", |_| {}), "`--detector-size` is absent; expected a size in pixels"),
        (open("detector_v8.onnx", |options| options.size = Some(32)), "`--detector-size` is 32; expected 64"),
        (open("absent.onnx", |_| {}), "absent.onnx"),
    ] {
        let message = found.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    }
}
