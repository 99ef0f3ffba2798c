#![allow(clippy::unwrap_used)]
use super::*;
use crate::testkit::same_bits_on_any_number_of_threads;
use burn::tensor::{Device, TensorData};

/// The square of `conifer_geometry::safe::EPS_F32`, the value that `conifer_geometry_tensor` passes.
const FLOOR: f64 = 1e-12;

/// `[K, M, N, d]`. Covers one factor and many, factors around the width at which the implementation changes, numbers
/// of rows and columns that are no multiple of the vector width, and more rows than a task or a tile (4 MiB) holds.
const SIZES: [[usize; 4]; 12] = [
    [1, 1, 1, 1],
    [1, 5, 7, 64],
    [1, 70, 33, 33],
    [1, 150, 31, 2],
    [3, 4, 16, 8],
    [8, 33, 31, 8],
    [64, 40, 130, 8],
    [2, 300, 67, 17],
    [5, 9, 18, 32],
    [3, 37, 50, 40],
    [2, 1100, 700, 36],
    [17, 1100, 20, 3],
];
const NORMS: [DistanceNorm; 2] = [DistanceNorm::L1, DistanceNorm::L2];

#[test]
fn fused_equals_plain_value_and_gradient() {
    for size in SIZES {
        for norm in NORMS {
            let found = DistanceOutcome::of(size, norm, DType::F32, pairwise_distance);
            let plain = DistanceOutcome::of(size, norm, DType::F32, pairwise_distance_plain);
            let exact = DistanceOutcome::of(size, norm, DType::F64, pairwise_distance_plain);
            for (i, name) in ["value", "x", "y", "curvatures"].iter().enumerate() {
                let (found, plain) = (error(&found.0[i], &exact.0[i]), error(&plain.0[i], &exact.0[i]));
                // Many points with few coordinates include close pairs, for which `u` has few accurate digits in `f32`.
                let most = 2e-6_f64.max(1.5 * plain);
                assert!(found <= most, "{name}, {size:?}, {norm:?}: off by {found:e}, plain by {plain:e}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for size in [[64, 40, 130, 8], [1, 300, 130, 5], [1, 300, 130, 64]] {
        same_bits_on_any_number_of_threads(|| {
            DistanceOutcome::of(size, DistanceNorm::L1, DType::F32, pairwise_distance).0.to_vec()
        });
    }
}

/// Central differences of the reference value in f64, which do not use the backward pass.
#[test]
fn gradients_equal_central_differences() {
    const STEP: f64 = 1e-5;
    for (size, norm) in
        [([1, 3, 4, 40], DistanceNorm::L1), ([3, 3, 4, 2], DistanceNorm::L1), ([3, 3, 4, 2], DistanceNorm::L2)]
    {
        let found = DistanceOutcome::of(size, norm, DType::F32, pairwise_distance);
        let at = |argument: usize, index: usize, step: f64| -> f64 {
            let [k, m, n, d] = size;
            let device = Device::flex();
            let mut numbers = [points(m, k * d, 1), points(n, k * d, 2), curvatures(k)];
            numbers[argument][index] += step;
            let [x, y, c] = numbers;
            let x = Tensor::<2>::from_data(TensorData::new(x, [m, k * d]), (&device, DType::F64));
            let y = Tensor::<2>::from_data(TensorData::new(y, [n, k * d]), (&device, DType::F64));
            let c = Tensor::<1>::from_data(TensorData::new(c, [k]), (&device, DType::F64));
            let out = pairwise_distance(x, y, c, rule(norm));
            out.into_data().iter::<f64>().zip(upstream(m * n)).map(|(value, weight)| value * weight).sum()
        };
        for argument in 0..3 {
            for index in 0..found.0[argument + 1].len() {
                let derivative = (at(argument, index, STEP) - at(argument, index, -STEP)) / (2.0 * STEP);
                let gradient = found.0[argument + 1][index];
                // The tolerance covers the rounding of `f32` and the error of the difference quotient.
                let close = 1e-5 * (1.0 + derivative.abs());
                assert!(
                    (gradient - derivative).abs() < close,
                    "{size:?} {argument} {index}: {gradient}, derivative {derivative}"
                );
            }
        }
    }
}

#[test]
fn the_negative_rule_negates_the_result() {
    for norm in NORMS {
        for size in [[4, 5, 20, 3], [1, 5, 20, 40]] {
            let found = DistanceOutcome::of(size, norm, DType::F32, pairwise_distance);
            let other: DistanceFunction =
                |x, y, c, rule| pairwise_distance(x, y, c, DistanceRule { negative: true, ..rule });
            let other = DistanceOutcome::of(size, norm, DType::F32, other);
            for (found, other) in found.0.iter().zip(&other.0) {
                let negated: Vec<f64> = other.iter().map(|v| -v).collect();
                assert_eq!(found, &negated);
            }
        }
    }
}

/// Equal points, the origin, far points and tiny ones: distances must agree with f64 within the precision of `u`, and
/// gradients must be finite.
#[test]
fn difficult_points() {
    for d in [2, 40] {
        let device = Device::flex().autodiff();
        let mut rows = vec![0.0_f32; 6 * d];
        for (row, length) in [0.0, 1.0, 1.0, 1e-12, 3e4, 1e-3].into_iter().enumerate() {
            rows[row * d] = length;
        }
        let make = || Tensor::<2>::from_data(TensorData::new(rows.clone(), [6, d]), &device).require_grad();
        let (x, y, c) = (make(), make(), Tensor::<1>::ones([1], &device).require_grad());
        let out = pairwise_distance(x.clone(), y.clone(), c.clone(), rule(DistanceNorm::L1));
        let gradients = out.clone().sum().backward();
        let values = numbers(out);
        for i in 0..6 {
            for j in 0..6 {
                let (from, to) = (f64::from(rows[i * d]), f64::from(rows[j * d]));
                let exact = (from.asinh() - to.asinh()).abs();
                // `u` may be off by eight roundings of the terms of its sum.
                let (a, b) = (from.hypot(1.0) - 1.0, to.hypot(1.0) - 1.0);
                let off = 8.0 * f64::from(f32::EPSILON) / 2.0 * (a + b + a * b + from * to);
                let u = 2.0 * (exact / 2.0).sinh().powi(2);
                let acosh_1p = |u: f64| (u + (u * (u + 2.0)).sqrt()).ln_1p();
                let [least, most] = [acosh_1p((u - off).max(FLOOR)), acosh_1p((u + off).max(FLOOR))];
                let value = values[i * 6 + j];
                let inside = least * (1.0 - 1e-6) <= value && value <= most * (1.0 + 1e-6);
                assert!(inside, "{d}: {from} to {to}: {value}, between {least} and {most}");
            }
        }
        for gradient in [numbers(x.grad(&gradients).unwrap()), numbers(y.grad(&gradients).unwrap())] {
            assert!(gradient.iter().all(|v| v.is_finite()), "{gradient:?}");
        }
        assert!(numbers(c.grad(&gradients).unwrap())[0].is_finite());
    }
}

/// NaN and infinity must propagate to their row only.
#[test]
fn nan_and_infinity_propagate() {
    for d in [2, 40] {
        for bad in [f32::NAN, f32::INFINITY] {
            let device = Device::flex().autodiff();
            let mut x = vec![0.5_f32; 3 * d];
            x[d] = bad;
            let x = Tensor::<2>::from_data(TensorData::new(x, [3, d]), &device).require_grad();
            let y = Tensor::<2>::from_data(TensorData::new(vec![0.25_f32; 18 * d], [18, d]), &device);
            let out = pairwise_distance(x.clone(), y, Tensor::ones([1], &device), rule(DistanceNorm::L1));
            let gradient = numbers(x.grad(&out.clone().sum().backward()).unwrap());
            let values = numbers(out);
            assert!(values[18..36].iter().all(|v| !v.is_finite()));
            assert!(values[..18].iter().chain(&values[36..]).all(|v| v.is_finite()));
            assert!(gradient[d..2 * d].iter().any(|v| !v.is_finite()));
            assert!(gradient[..d].iter().chain(&gradient[2 * d..]).all(|v| v.is_finite()));
        }
    }
}

/// A constant operand gets no gradient, and the other gradients do not change.
#[test]
fn only_tracked_operands_get_a_gradient() {
    let device = Device::flex().autodiff();
    let make =
        |rows, phase| Tensor::<2>::from_data(TensorData::new(points(rows, 6, phase), [rows, 6]), (&device, DType::F32));
    let (x, y) = (make(3, 1), make(5, 2).require_grad());
    let curv = Tensor::<1>::ones([2], &device);
    let sum = pairwise_distance(x.clone(), y.clone(), curv.clone(), rule(DistanceNorm::L1)).sum();
    let gradients = sum.backward();
    assert!(x.grad(&gradients).is_none() && curv.grad(&gradients).is_none());
    assert!(y.grad(&gradients).unwrap().abs().sum().into_scalar::<f32>() > 0.0);
}

/// The distance of equal points at the origin is sqrt(2 * 1e-12), the distance at the lower limit of `u`, and has no
/// gradient.
#[test]
fn no_gradient_below_the_floor() {
    let device = Device::flex().autodiff();
    for d in [1, 40] {
        let make = || Tensor::<2>::zeros([1, d], &device).require_grad();
        let (x, y) = (make(), make());
        let out = pairwise_distance(x.clone(), y.clone(), Tensor::ones([1], &device), rule(DistanceNorm::L1));
        let gradients = out.clone().sum().backward();
        assert_eq!(x.grad(&gradients).unwrap().abs().sum().into_scalar::<f32>(), 0.0);
        assert!((out.into_scalar::<f32>() - 2e-12_f32.sqrt()).abs() < 1e-12);
    }
}

#[test]
fn no_rows_and_no_columns() {
    let device = Device::flex().autodiff();
    for [m, n] in [[0, 3], [3, 0]] {
        for d in [4, 40] {
            let x = Tensor::<2>::ones([m, 2 * d], &device).require_grad();
            let y = Tensor::<2>::ones([n, 2 * d], &device).require_grad();
            let out = pairwise_distance(x.clone(), y.clone(), Tensor::ones([2], &device), rule(DistanceNorm::L2));
            assert_eq!(out.dims(), [m, n]);
            let gradients = out.sum().backward();
            assert_eq!(x.grad(&gradients).unwrap().dims(), [m, 2 * d]);
            assert_eq!(y.grad(&gradients).unwrap().dims(), [n, 2 * d]);
        }
    }
}

type DistanceFunction = fn(Tensor<2>, Tensor<2>, Tensor<1>, DistanceRule) -> Tensor<2>;

/// The value, and the gradients with respect to points and curvatures.
struct DistanceOutcome([Vec<f64>; 4]);

impl DistanceOutcome {
    fn of([k, m, n, d]: [usize; 4], norm: DistanceNorm, dtype: DType, f: DistanceFunction) -> Self {
        let device = Device::flex().autodiff();
        let make = |rows: usize, phase| {
            let data = TensorData::new(points(rows, k * d, phase), [rows, k * d]);
            Tensor::<2>::from_data(data, (&device, dtype)).require_grad()
        };
        let (x, y) = (make(m, 1), make(n, 2));
        let curv = Tensor::<1>::from_data(TensorData::new(curvatures(k), [k]), (&device, dtype)).require_grad();
        let out = f(x.clone(), y.clone(), curv.clone(), rule(norm));
        assert_eq!(out.dims(), [m, n]);
        let upstream = Tensor::from_data(TensorData::new(upstream(m * n), [m, n]), (&device, dtype));
        let gradients = (out.clone() * upstream).sum().backward();
        DistanceOutcome([
            numbers(out),
            numbers(x.grad(&gradients).unwrap()),
            numbers(y.grad(&gradients).unwrap()),
            numbers(curv.grad(&gradients).unwrap()),
        ])
    }
}

fn rule(norm: DistanceNorm) -> DistanceRule {
    DistanceRule { norm, floor: FLOOR, negative: false }
}

/// Coordinates in (-1, 1), rounded to `f32` so that both precisions have the same operands.
fn points(rows: usize, dim: usize, phase: usize) -> Vec<f64> {
    wave(rows * dim, phase).into_iter().map(|v| f64::from(v as f32)).collect()
}

fn curvatures(k: usize) -> Vec<f64> {
    (0..k).map(|i| f64::from(1.0 / (1.0 + 0.1 * i as f32))).collect()
}

/// Positive numbers, so that sums over them do not cancel.
fn upstream(count: usize) -> Vec<f64> {
    wave(count, 3).into_iter().map(|v| f64::from((1.0 + 0.9 * v) as f32)).collect()
}

/// Numbers in (-1, 1) without a period that could correlate with sums or with other phases.
fn wave(count: usize, phase: usize) -> Vec<f64> {
    let step = [0.0, 7919.0, 6007.0, 5003.0][phase] * 0.618_033_988_75;
    (0..count).map(|i| (i as f64 * step + phase as f64).sin()).collect()
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

/// Length of the difference divided by the length of the expected vector.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|a| a * a).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    difference / length(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)
}
