#![allow(clippy::unwrap_used)]
use burn::tensor::{DType, Device, TensorData};
use conifer_geometry::safe::{MAX_RAPIDITY, MAX_SINH};
use conifer_geometry::{ManifoldSpec, space};

use super::*;
use crate::testkit::{TestInput, curvatures, error, oracle, outcome, random, same_bits_on_any_number_of_threads};

/// Rows, factors, width: a single value, odd sizes, and more factors than [`WIDE`](crate::trigonometry::WIDE).
const SIZES: [[usize; 3]; 5] = [[1, 1, 1], [3, 1, 5], [5, 3, 7], [4, 13, 8], [7, 1, 40]];

fn run(x: Vec<Tensor<2>>) -> Tensor<2> {
    let [tangent, scale, curv] = <[_; 3]>::try_from(x).unwrap();
    lift(tangent, scale.flatten(0, 1), curv.flatten(0, 1), MAX_RAPIDITY).unwrap()
}

fn inputs([rows, factors, width]: [usize; 3], length: f32) -> Vec<TestInput> {
    let size = length / (width as f32).sqrt();
    let tangent = random(rows * factors * width, 1).into_iter().map(|v| 2.0 * size * v).collect();
    let scale = random(factors, 2).into_iter().map(|v| 1.0 + 0.5 * v).collect();
    vec![
        TestInput(tangent, [rows, factors * width]),
        TestInput(scale, [1, factors]),
        TestInput(curvatures(factors), [1, factors]),
    ]
}

/// The oracle: `conifer_geometry` in `f64`, with gradients by central differences.
fn exact(size: [usize; 3], inputs: &[TestInput], upstream: &[f32]) -> Vec<(Vec<f64>, f64)> {
    let [_, factors, width] = size;
    oracle(inputs, upstream, |x| {
        let spec = ManifoldSpec::product_l1(factors, width, x[2].clone());
        let space = space::<f64>(&spec).unwrap();
        let mut out = vec![0.0; x[0].len()];
        for (tangent, out) in x[0].chunks(factors * width).zip(out.chunks_mut(factors * width)) {
            let spread = tangent.iter().enumerate().map(|(i, v)| v * x[1][i / width]);
            space.lift(&spread.collect::<Vec<_>>(), out);
        }
        out
    })
}

/// Rapidities of about 1/100, 1 and 5. The difference quotients have about ten digits.
#[test]
fn value_and_gradients_equal_the_oracle() {
    for size in SIZES {
        for length in [1e-2, 1.0, 5.0] {
            let inputs = inputs(size, length);
            let upstream: Vec<f32> = random(inputs[0].0.len(), 3).into_iter().map(|v| 1.0 + 0.9 * v).collect();
            let (found, expected) = (outcome(&inputs, &upstream, run), exact(size, &inputs, &upstream));
            for (name, (found, expected)) in
                ["value", "tangent", "scale", "curv"].iter().zip(found.iter().zip(&expected))
            {
                let error = error(found, expected);
                assert!(error <= 1e-6, "{name}, {size:?}, length {length}: off by {error:e}");
            }
        }
    }
}

/// Above `MAX_RAPIDITY` the length is constant, and the gradient `d/dv (M v / (sqrt(c) |v|))` with `M = MAX_SINH` is
/// perpendicular to the vector.
#[test]
fn too_long_vectors_are_shortened() {
    let inputs = [TestInput(vec![30.0, 40.0], [1, 2]), TestInput(vec![1.0], [1, 1]), TestInput(vec![4.0], [1, 1])];
    let found = outcome(&inputs, &[1.0, 0.0], run);
    let end = MAX_SINH / 2.0;
    let expected = [vec![0.6 * end, 0.8 * end], vec![end / 50.0 * 0.64, -end / 50.0 * 0.48], vec![0.0]];
    for (found, expected) in found.iter().zip(&expected) {
        assert!(
            found.iter().zip(expected).all(|(f, e)| (f - e).abs() <= 1e-3 * end / 50.0),
            "{found:?}; expected {expected:?}"
        );
    }
    // The length is M / sqrt(c), so its derivative with respect to c is -1 / 2c times the length.
    assert!((found[3][0] + 0.6 * end / 8.0).abs() < 1e-2, "{found:?}");
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let inputs = inputs([300, 5, 40], 1.0);
    let upstream = random(300 * 200, 3);
    same_bits_on_any_number_of_threads(|| outcome(&inputs, &upstream, run));
}

#[test]
fn no_rows_zero_vectors_and_nan() {
    let empty = [TestInput(vec![], [0, 6]), TestInput(vec![1.0; 2], [1, 2]), TestInput(vec![1.0; 2], [1, 2])];
    assert_eq!(outcome(&empty, &[], run), [vec![], vec![], vec![0.0; 2], vec![0.0; 2]]);
    let odd = [
        TestInput(vec![0.0, 0.0, f32::NAN, 1.0, f32::INFINITY, 1.0], [3, 2]),
        TestInput(vec![0.5], [1, 1]),
        TestInput(vec![1.0], [1, 1]),
    ];
    let found = outcome(&odd, &[1.0; 6], run);
    assert_eq!((&found[0][..2], &found[1][..2]), (&[0.0; 2][..], &[0.5; 2][..]));
    assert!(found[0][2].is_nan() && found[0][3].is_nan() && found[0][4].is_nan());
}

#[test]
fn only_f32_on_the_cpu() {
    let device = Device::flex();
    let ones = |n: usize| Tensor::<1>::from_data(TensorData::new(vec![1.0_f64; n], [n]), (&device, DType::F64));
    assert!(lift(ones(2).reshape([1, 2]), ones(1), ones(1), MAX_RAPIDITY).is_none());
}
