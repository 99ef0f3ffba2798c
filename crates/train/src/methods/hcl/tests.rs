#![allow(clippy::unwrap_used)]
use burn::tensor::{Device, Tensor};

use super::super::testkit::{method, numbers, settings, space_f64};
use super::*;

/// One photo (object 0) and two crops of its box (object 1), as points in the plane.
fn batch(keys: MomentumKeys) -> BatchPoints {
    let points =
        Tensor::from_data([[0.5f64, 0.0], [1.0, 0.0], [0.0, 2.0]], (&Device::flex(), burn::tensor::DType::F64));
    let edges = Edges { points, things: vec![0, 1, 1], parts: vec![[0, 1]] };
    BatchPoints { edges: Some(edges), keys: Some(keys), ..BatchPoints::default() }
}

fn rows<const N: usize>(rows: [[f64; 2]; N]) -> Tensor<2> {
    Tensor::from_data(rows, (&Device::flex(), burn::tensor::DType::F64))
}

fn terms(text: &str, keys: MomentumKeys) -> [Vec<f64>; 2] {
    let scale = Tensor::from_data([2.0f64], (&Device::flex(), burn::tensor::DType::F64));
    let space = space_f64(&ManifoldSpec::euclidean(2), None, scale);
    let loss = method(NAME, text).loss(&batch(keys), &space).unwrap();
    TERMS.iter().map(|term| numbers(loss.term(term).unwrap())).collect::<Vec<_>>().try_into().unwrap()
}

/// The expected values were computed by hand, with temperature 1/2 in flat space.
#[test]
fn negatives_come_from_the_queue_alone() {
    // The keys of the two crops, and a queue of one point.
    let keys = || MomentumKeys { parts: rows([[3.0, 0.0], [4.0, 0.0]]), queue: Some(rows([[0.0, 1.0]])) };
    let [object, scene] = terms("", keys());
    // Crop 1 lies along the first axis: its cosine is 1 to the key of crop 2, and 0 to the point in the queue. Crop 2
    // lies along the second axis: its cosine is 0 to the key of crop 1, and 1 to the point in the queue. A crop's own
    // key is not a candidate.
    let expected = [(2f64.exp() + 1.0).ln() - 2.0, (1.0 + 2f64.exp()).ln()];
    assert!(object.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{object:?} {expected:?}");
    // The scene at (1/2, 0) has the distances 2.5 and 3.5 to the keys, and sqrt(1.25) to the point in the queue.
    let right = (-5f64).exp() + (-7f64).exp();
    let expected = (1.0 + (-2.0 * 1.25f64.sqrt()).exp() / right).ln();
    assert!((scene[0] - expected).abs() < 1e-9 && scene.len() == 1, "{scene:?} {expected}");

    // Before the first step there are no negatives.
    let [object, scene] = terms("", MomentumKeys { queue: None, ..keys() });
    assert!([object, scene].concat().iter().all(|it| it.abs() < 1e-12));
    // With negatives from the batch, each crop has the other as its only candidate, and the keys are not read.
    let [object, scene] = terms("negatives = 'batch'", keys());
    assert!([object, scene].concat().iter().all(|it| it.abs() < 1e-12));
}

#[test]
fn keys_of_another_shape_are_rejected() {
    let scale = Tensor::from_data([2.0f64], (&Device::flex(), burn::tensor::DType::F64));
    let space = space_f64(&ManifoldSpec::euclidean(2), None, scale);
    let message = |keys| method(NAME, "").loss(&batch(keys), &space).err().unwrap().to_string();
    let few = message(MomentumKeys { parts: rows([[3.0, 0.0]]), queue: None });
    assert!(few.contains("keys of the batch") && few.contains("[1, 2]") && few.contains("[2, 2]"), "{few}");
    let wide = Tensor::from_data([[1.0f64, 2.0, 3.0]], (&Device::flex(), burn::tensor::DType::F64));
    let wide = message(MomentumKeys { parts: rows([[3.0, 0.0], [4.0, 0.0]]), queue: Some(wide) });
    assert!(wide.contains("queue of keys") && wide.contains("[1, 3]") && wide.contains("2 columns"), "{wide}");
}

#[test]
fn settings_out_of_range_are_rejected() {
    let build = |text: &str| (ENTRY.from_config)(&settings(text));
    for (text, words) in [
        ("momentum = 1.0", ["method.momentum", "less than 1"]),
        ("momentum = -0.1", ["method.momentum", "at least 0"]),
        ("momentum = nan", ["method.momentum", "NaN"]),
        ("queue_size = 0", ["method.queue_size", "1 to 16777216"]),
        ("queue_size = 16777217", ["method.queue_size", "16777217"]),
        ("negatives = 'both'", ["queue", "batch"]),
    ] {
        let message = build(text).err().unwrap().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{text}: {message}");
    }
    let asked = |text: &str| build(text).unwrap().momentum();
    assert_eq!(asked(""), Some(MomentumSettings { momentum: 0.999, queue_size: 65_536 }));
    assert_eq!(asked("negatives = 'batch'"), None);
    let own = asked("momentum = 0.5\nqueue_size = 3");
    assert_eq!(own, Some(MomentumSettings { momentum: 0.5, queue_size: 3 }));
}
