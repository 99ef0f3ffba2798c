#![allow(clippy::unwrap_used)]
use super::*;
use crate::onnx::{OnnxElement, OnnxPort};

fn output(shape: &[usize], values: impl Into<Vec<f32>>) -> OnnxOutput {
    OnnxOutput { shape: shape.to_vec(), values: values.into() }
}

/// The plan of a file with float32 outputs of these names and shapes.
fn plan(ports: &[(&str, &[i64])]) -> OutputPlan {
    let port = |(name, shape): &(&str, &[i64])| OnnxPort {
        name: (*name).to_owned(),
        element: OnnxElement::F32,
        shape: shape.to_vec(),
    };
    OutputPlan::new(&ports.iter().map(port).collect::<Vec<_>>()).unwrap()
}

fn in_corners(outputs: &[OnnxOutput]) -> Result<Vec<RawBox>, String> {
    let ports: &[(&str, &[i64])] = &[("boxes", &[-1, 4]), ("scores", &[-1]), ("labels", &[-1])];
    decode(&plan(&ports[..outputs.len()]), outputs, (64, 64), 0.5, LogitKind::Softmax)
}

fn in_queries(outputs: &[OnnxOutput], kind: LogitKind) -> Result<Vec<RawBox>, String> {
    let ports: &[(&str, &[i64])] = &[("pred_boxes", &[1, -1, 4]), ("logits", &[1, -1, 3])];
    decode(&plan(ports), outputs, (200, 100), 0.0, kind)
}

fn in_grid(declared: &[i64], output: OnnxOutput) -> Result<Vec<RawBox>, String> {
    decode(&plan(&[("output0", declared)]), &[output], (64, 64), 0.5, LogitKind::Softmax)
}

fn near(found: f32, expected: f32) -> bool {
    (found - expected).abs() < 1e-6
}

#[test]
fn corners_with_and_without_labels() {
    let boxes = output(&[3, 4], [1.0, 2.0, 30.0, 40.0, 5.0, 5.0, 9.0, 9.0, 0.0, 0.0, 64.0, 64.0]);
    let scores = output(&[3], [0.9, 0.4, 0.5]);
    let found = in_corners(&[boxes.clone(), scores.clone(), output(&[3], [7.0, 1.0, 0.0])]).unwrap();
    let expected = [
        RawBox { corners: [1.0, 2.0, 30.0, 40.0], score: 0.9, class: Some(7) },
        RawBox { corners: [0.0, 0.0, 64.0, 64.0], score: 0.5, class: Some(0) },
    ];
    assert_eq!(found, expected);
    let found = in_corners(&[output(&[1, 3, 4], boxes.values), output(&[1, 3], scores.values)]).unwrap();
    assert_eq!(found.iter().map(|it| it.class).collect::<Vec<_>>(), [None, None]);
    assert_eq!(in_corners(&[output(&[0, 4], []), output(&[0], [])]), Ok(Vec::new()));
}

#[test]
fn queries_by_softmax_and_sigmoid() {
    // Two queries. By hand: exp(ln 3) / (3 + 1 + 1) = .6 for class 0; the second is no object with 8 / 10.
    let logits = output(&[1, 2, 3], [3.0_f32.ln(), 0.0, 0.0, 0.0, 0.0, 8.0_f32.ln()]);
    let boxes = output(&[1, 2, 4], [0.5, 0.5, 0.2, 0.4, 0.25, 0.5, 0.5, 1.0]);
    let found = in_queries(&[boxes.clone(), logits.clone()], LogitKind::Softmax).unwrap();
    assert_eq!(found.iter().map(|it| it.class).collect::<Vec<_>>(), [Some(0), Some(0)]);
    assert!(near(found[0].score, 0.6) && near(found[1].score, 0.1), "{found:?}");
    // Centre (100, 50), 40 x 40 pixels.
    assert!(found[0].corners.iter().zip([80.0, 30.0, 120.0, 70.0]).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?}");
    // With sigmoids, the last column is a class: 8 / 9.
    let found = in_queries(&[boxes, logits], LogitKind::Sigmoid).unwrap();
    assert_eq!(found.iter().map(|it| it.class).collect::<Vec<_>>(), [Some(0), Some(2)]);
    assert!(near(found[0].score, 0.75) && near(found[1].score, 8.0 / 9.0), "{found:?}");
}

/// Seven boxes with two classes, in the order of v8: rows x, y, width, height, class 0, class 1.
fn v8() -> Vec<f32> {
    let mut rows = [10.0, 20.0, 4.0, 8.0, 0.1, 0.2].map(|value| [value; 7]);
    rows[5][0] = 0.9;
    rows[4][6] = 0.6;
    rows.concat()
}

#[test]
fn grids_in_both_orders() {
    let expected = [
        RawBox { corners: [8.0, 16.0, 12.0, 24.0], score: 0.9, class: Some(1) },
        RawBox { corners: [8.0, 16.0, 12.0, 24.0], score: 0.6, class: Some(0) },
    ];
    assert_eq!(in_grid(&[1, 6, 7], output(&[1, 6, 7], v8())).unwrap(), expected);
    assert_eq!(in_grid(&[-1, -1, -1], output(&[1, 6, 7], v8())).unwrap(), expected);
    // v5 has a column with the probability of a thing before the classes: .8 x .9 = .72 and .8 x .6 = .48 < .5.
    let mut rows: Vec<f32> = Vec::new();
    for number in 0..8 {
        let classes = [if number == 3 { 0.9 } else { 0.6 }, 0.1];
        rows.extend([10.0, 20.0, 4.0, 8.0, 0.8].into_iter().chain(classes));
    }
    let found = in_grid(&[1, 8, 7], output(&[1, 8, 7], rows)).unwrap();
    assert!(found.len() == 1 && near(found[0].score, 0.72) && found[0].class == Some(0), "{found:?}");
    // Fewer boxes than columns: the axis whose size the file leaves open has the boxes.
    let few = output(&[1, 6, 2], [[1.0; 8].as_slice(), &[0.9, 0.1, 0.2, 0.2]].concat());
    assert_eq!(in_grid(&[-1, 6, -1], few.clone()).unwrap().len(), 1);
    assert!(in_grid(&[1, 6, 2], few).is_err());
}

#[test]
fn values_that_are_not_finite_are_kept_for_the_count() {
    let boxes = output(&[2, 4], [1.0, f32::NAN, 3.0, 4.0, 0.0, 0.0, f32::INFINITY, 4.0]);
    let found = in_corners(&[boxes, output(&[2], [0.9, 0.8])]).unwrap();
    assert!(found.len() == 2 && !found.iter().any(RawBox::is_finite), "{found:?}");
    let boxes = output(&[2, 4], [1.0; 8]);
    let found = in_corners(&[boxes.clone(), output(&[2], [f32::NAN, 0.1])]).unwrap();
    assert!(found.len() == 1 && !found[0].is_finite(), "{found:?}");
    let boxes = output(&[1, 2, 4], boxes.values);
    let logits = output(&[1, 2, 3], [f32::NAN, 0.0, 0.0, f32::INFINITY, 0.0, 0.0]);
    for kind in [LogitKind::Softmax, LogitKind::Sigmoid] {
        let found = in_queries(&[boxes.clone(), logits.clone()], kind).unwrap();
        assert!(found[0].score.is_nan(), "{kind:?}: {found:?}");
    }
    assert_eq!(in_grid(&[1, 6, 7], output(&[1, 6, 7], vec![f32::NAN; 42])).unwrap().len(), 7);
}

#[test]
fn other_shapes_and_scores_are_refused() {
    let boxes = || output(&[2, 4], [0.0; 8]);
    let cases = [
        (in_corners(&[output(&[2, 5], [0.0; 10]), output(&[2], [0.0; 2])]), "boxes have shape [2, 5]"),
        (in_corners(&[output(&[2, 2, 4], [0.0; 16]), output(&[4], [0.0; 4])]), "boxes have shape [2, 2, 4]"),
        (in_corners(&[output(&[2, 4], [0.0; 7]), output(&[2], [0.0; 2])]), "boxes have shape [2, 4] with 7 values"),
        (in_corners(&[boxes(), output(&[2, 3], [0.0; 6])]), "scores have shape [2, 3]"),
        (in_corners(&[boxes(), output(&[3], [0.0; 3])]), "there are 3 scores for 2 boxes"),
        (in_corners(&[boxes(), output(&[2], [0.0; 2]), output(&[1], [0.0])]), "there are 1 labels for 2 boxes"),
        (in_corners(&[boxes(), output(&[2], [0.9, 17.0])]), "a score is 17; expected scores in [0, 1]"),
        (in_corners(&[boxes(), output(&[2], [-3.0, 0.2])]), "a score is -3; expected scores in [0, 1]"),
        (
            in_queries(&[output(&[1, 2, 4], [0.0; 8]), output(&[1, 3, 3], [0.0; 9])], LogitKind::Softmax),
            "there are 3 rows of logits for 2 boxes",
        ),
        (
            in_queries(&[output(&[1, 2, 4], [0.0; 8]), output(&[1, 2, 1], [0.0; 2])], LogitKind::Softmax),
            "the logits have 1 columns; expected at least 2",
        ),
        (in_grid(&[-1, -1, -1], output(&[2, 6, 7], [0.0; 84])), "the output has shape [2, 6, 7]"),
        (in_grid(&[1, 6, 6], output(&[1, 6, 6], [0.0; 36])), "more boxes than columns"),
        (in_grid(&[1, 4, 9], output(&[1, 4, 9], [0.0; 36])), "at least one class"),
        (in_grid(&[1, 9, 5], output(&[1, 9, 5], [0.0; 45])), "at least one class"),
        // A layout with suppression inside: corners, score, number of the class.
        (in_grid(&[1, 9, 6], output(&[1, 9, 6], [1.0, 2.0, 3.0, 4.0, 0.9, 16.0].repeat(9))), "a score is 14.4"),
    ];
    for (found, expected) in cases {
        let message = found.unwrap_err();
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    }
}

#[test]
fn empty_outputs_have_no_boxes() {
    assert_eq!(in_queries(&[output(&[1, 0, 4], []), output(&[1, 0, 3], [])], LogitKind::Softmax), Ok(Vec::new()));
    assert_eq!(in_grid(&[1, 6, -1], output(&[1, 6, 0], [])), Ok(Vec::new()));
}
