#![allow(clippy::unwrap_used)]
use super::*;
use burn::tensor::{Device, TensorData};

/// The square of the smallest step above one in `f32`, as the geometry passes it.
const FLOOR: f64 = 1e-12;

/// Sizes: one factor, many, rows of all remainders of the vector width, more rows than one tile (4 MiB) holds.
const SIZES: [[usize; 4]; 6] =
    [[1, 1, 1, 3], [1, 5, 7, 66], [3, 4, 16, 10], [8, 33, 31, 10], [64, 40, 130, 10], [2, 2000, 700, 5]];

#[test]
fn fused_equals_plain_value_and_gradient() {
    for size in SIZES {
        for power in [Power::One, Power::Two] {
            let found = Outcome::of(size, power, DType::F32, weighted_rapidity);
            let plain = Outcome::of(size, power, DType::F32, weighted_rapidity_plain);
            let exact = Outcome::of(size, power, DType::F64, weighted_rapidity_plain);
            for (i, name) in ["value", "left", "right", "weights"].iter().enumerate() {
                let (found, plain) = (error(&found.0[i], &exact.0[i]), error(&plain.0[i], &exact.0[i]));
                assert!(found <= 2e-6, "{name}, {size:?}, {power:?}: off by {found:e}, plain by {plain:e}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Outcome::of([64, 40, 130, 10], Power::One, DType::F32, weighted_rapidity).0)
    };
    let one = run(1);
    for threads in [2, 3, 8] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

/// A constant operand gets no gradient and changes nothing for the others.
#[test]
fn only_tracked_operands_get_a_gradient() {
    let device = Device::flex().autodiff();
    let [left, right] = [[2, 3, 4], [2, 5, 4]].map(|dims| operand(dims, 1, &device, DType::F32));
    let weights = weights(2, &device, DType::F32);
    let right = right.require_grad();
    let sum = weighted_rapidity(left.clone(), right.clone(), weights.clone(), Power::One, FLOOR).sum();
    let gradients = sum.backward();
    assert!(left.grad(&gradients).is_none() && weights.grad(&gradients).is_none());
    assert!(right.grad(&gradients).unwrap().abs().sum().into_scalar::<f32>() > 0.0);
}

#[test]
fn nothing_flows_below_the_floor() {
    let device = Device::flex().autodiff();
    let at = |v: f32| Tensor::<3>::from_data([[[v]]], &device).require_grad();
    let (left, right) = (at(-1.0), at(2.0));
    let out = weighted_rapidity(left.clone(), right.clone(), Tensor::ones([1], &device), Power::One, FLOOR);
    let gradients = out.clone().sum().backward();
    assert_eq!(left.grad(&gradients).unwrap().into_scalar::<f32>(), 0.0);
    assert!((out.into_scalar::<f32>() - 2e-12_f32.sqrt()).abs() < 1e-12);
}

#[test]
fn no_rows_and_no_columns() {
    let device = Device::flex().autodiff();
    for [m, n] in [[0, 3], [3, 0]] {
        let left = Tensor::<3>::ones([2, m, 4], &device).require_grad();
        let right = Tensor::<3>::ones([2, n, 4], &device).require_grad();
        let out = weighted_rapidity(left.clone(), right.clone(), Tensor::ones([2], &device), Power::One, FLOOR);
        assert_eq!(out.dims(), [m, n]);
        let gradients = out.sum().backward();
        assert_eq!(left.grad(&gradients).unwrap().dims(), [2, m, 4]);
        assert_eq!(right.grad(&gradients).unwrap().dims(), [2, n, 4]);
    }
}

type Function = fn(Tensor<3>, Tensor<3>, Tensor<1>, Power, f64) -> Tensor<2>;

/// Value, and gradients with respect to left, right and weights.
struct Outcome([Vec<f64>; 4]);

impl Outcome {
    fn of([k, m, n, e]: [usize; 4], power: Power, dtype: DType, f: Function) -> Self {
        let device = Device::flex().autodiff();
        let left = operand([k, m, e], 1, &device, dtype).require_grad();
        let right = operand([k, n, e], 2, &device, dtype).require_grad();
        let weights = weights(k, &device, dtype).require_grad();
        let out = f(left.clone(), right.clone(), weights.clone(), power, FLOOR);
        assert_eq!(out.dims(), [m, n]);
        // One sign, so that the sums over it do not cancel.
        let upstream: Vec<f64> = wave(m * n, 3).into_iter().map(|v| 1.0 + 0.9 * v).collect();
        let upstream = Tensor::from_data(TensorData::new(upstream, [m, n]), (&device, dtype));
        let gradients = (out.clone() * upstream).sum().backward();
        Outcome([
            numbers(out),
            numbers(left.grad(&gradients).unwrap()),
            numbers(right.grad(&gradients).unwrap()),
            numbers(weights.grad(&gradients).unwrap()),
        ])
    }
}

/// Positive products: `u` between about 0.01 and 2 times the number of columns.
fn operand(dims: [usize; 3], phase: usize, device: &Device, dtype: DType) -> Tensor<3> {
    let values: Vec<f64> = wave(dims.iter().product(), phase).into_iter().map(|v| 0.1 + v.abs()).collect();
    // Rounded to f32, so that both precisions see the same operands.
    let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
    Tensor::from_data(TensorData::new(values, dims), (device, dtype))
}

fn weights(k: usize, device: &Device, dtype: DType) -> Tensor<1> {
    let values: Vec<f32> = (0..k).map(|i| 1.0 / (1.0 + i as f32)).collect();
    Tensor::from_data(TensorData::new(values, [k]), (device, dtype))
}

/// Numbers in (-1, 1) without a period that a sum could share.
fn wave(count: usize, phase: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7919 + phase * 104_729) as f64 * 0.618_033_988_75).sin()).collect()
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

/// Length of the difference over the length of what is expected.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|a| a * a).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    difference / length(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)
}
