#![allow(clippy::unwrap_used)]
use burn::tensor::DType;
use conifer_geometry::ManifoldSpec;
use serde_json::Value;

use super::*;
use crate::methods::testkit::{method, numbers, space_f64};
use crate::methods::{BatchPoints, Edges};
use crate::trainer::averaged_model::average;

/// Compares average, queue and loss with values that NumPy computed (`fixtures/hcl_queue.json`, fixtures/RECIPE.md).
/// The queue wraps around: it holds six points, and each step adds four.
#[test]
fn average_queue_and_loss_are_those_of_numpy() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hcl_queue.json");
    let found: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let setting = |name: &str| found["settings"][name].as_f64().unwrap();
    let momentum = setting("momentum");
    let scale = tensor(vec![1.0 / setting("temperature")], [1]);
    let space = space_f64(&ManifoldSpec::lorentz(3, setting("curv")), None, scale);
    let lift = |inputs: &Tensor<2>, weights: &Tensor<2>| space.manifold.lift(inputs.clone().matmul(weights.clone()));
    // Two photos, each with two crops of its object.
    let (things, parts) = (vec![0, 1, 1, 2, 3, 3], vec![[0, 1], [2, 3]]);
    let hcl = method("hcl", &format!("hyperbolic_weight = {}", setting("hyperbolic_weight")));

    let mut queue = KeyQueue::new(setting("capacity") as usize);
    let mut followed: Option<Tensor<2>> = None;
    for step in found["steps"].as_array().unwrap() {
        let (inputs, weights) = (matrix(&step["inputs"]), matrix(&step["weights"]));
        let now = match followed.take() {
            Some(before) => average(before, weights.clone(), momentum),
            None => weights.clone(),
        };
        same("average", &numbers(&now), &flat(&step["average"]));
        let rows = part_rows(&things, &parts);
        assert_eq!(rows, [1, 2, 4, 5]);
        let keys =
            MomentumKeys { parts: lift(&crate::terms::select(&inputs, &rows), &now), queue: queue.points().cloned() };
        queue.push(keys.parts.clone());
        same("queue", &numbers(queue.points().unwrap()), &flat(&step["queue"]));
        let edges = Edges { points: lift(&inputs, &weights), things: things.clone(), parts: parts.clone() };
        let batch = BatchPoints { edges: Some(edges), keys: Some(keys), ..BatchPoints::default() };
        let loss = hcl.loss(&batch, &space).unwrap();
        for (term, key) in [("contrast_object_object", "object"), ("contrast_scene_object", "scene")] {
            same(key, &numbers(loss.term(term).unwrap()), &flat(&step[key]));
        }
        same("total", &numbers(&loss.total), &[step["total"].as_f64().unwrap()]);
        followed = Some(now);
    }
}

fn tensor<const D: usize>(values: Vec<f64>, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), (&Device::flex(), DType::F64))
}

fn matrix(rows: &Value) -> Tensor<2> {
    let (values, count) = (flat(rows), rows.as_array().unwrap().len());
    let shape = [count, values.len() / count];
    tensor(values, shape)
}

/// The numbers of a list, or of a list of lists.
fn flat(value: &Value) -> Vec<f64> {
    match value.as_array() {
        Some(list) => list.iter().flat_map(flat).collect(),
        None => vec![value.as_f64().unwrap()],
    }
}

#[track_caller]
fn same(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{what}: {found:?} {expected:?}");
    }
}
