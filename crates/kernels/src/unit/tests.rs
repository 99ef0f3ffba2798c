#![allow(clippy::unwrap_used)]
use burn::tensor::{DType, Device, TensorData};

use super::*;
use crate::testkit::same_bits_on_any_number_of_threads;

const TINY: f64 = 1e-18;

#[test]
fn fused_equals_plain_value_and_gradient() {
    for [rows, dim] in [[1, 1], [3, 5], [40, 16], [7, 37], [0, 4], [4, 512]] {
        let numbers: Vec<f64> =
            (0..rows * dim).map(|i| f64::from((1.0 + (i as f64 * 4894.217).sin()) as f32)).collect();
        let found = outcome(unit_rows, &numbers, [rows, dim], DType::F32);
        let exact = outcome(unit_rows_plain, &numbers, [rows, dim], DType::F64);
        for (name, (found, exact)) in ["value", "gradient"].iter().zip(found.iter().zip(&exact)) {
            assert_eq!(found.len(), exact.len());
            for (i, (found, exact)) in found.iter().zip(exact).enumerate() {
                // A row of one coordinate becomes its sign. The exact gradient is 0, and the computed one is a
                // rounding error.
                assert!((found - exact).abs() < 1e-6, "{name} {i} of {rows} x {dim}: {found}, exact {exact}");
            }
        }
    }
}

/// Zero and almost zero rows give 0 with gradient 0. Long and short rows get length 1. NaN stays in its row.
#[test]
fn difficult_rows() {
    let numbers = [0.0, 0.0, 1e-19, 0.0, 3e18, 4e18, 3e-17, 4e-17, f64::NAN, 1.0];
    let [value, gradient] = outcome(unit_rows, &numbers, [5, 2], DType::F32);
    assert_eq!(value[..4], [0.0; 4]);
    assert_eq!(gradient[..4], [0.0; 4]);
    for pair in value[4..8].chunks(2) {
        assert!((pair[0] - 0.6).abs() < 1e-6 && (pair[1] - 0.8).abs() < 1e-6, "{pair:?}");
    }
    assert!(gradient[4..8].iter().all(|v| v.is_finite()));
    assert!(value[8..].iter().chain(&gradient[8..]).all(|v| v.is_nan()));
}

/// The derivative at (3, 4) with upstream (1, 0), computed by hand: (1 - 0.36, -0.48) / 5.
#[test]
fn derivative_by_hand() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_data([[3.0_f32, 4.0]], &device).require_grad();
    let found = x.grad(&unit_rows(x.clone(), TINY).slice([0..1, 0..1]).sum().backward()).unwrap();
    let found: Vec<f32> = found.into_data().try_into_vec().unwrap();
    assert!((found[0] - 0.128).abs() < 1e-7 && (found[1] + 0.096).abs() < 1e-7, "{found:?}");
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let numbers: Vec<f64> = (0..100 * 37).map(|i| (i as f64 * 4894.217).sin()).collect();
    same_bits_on_any_number_of_threads(|| outcome(unit_rows, &numbers, [100, 37], DType::F32).to_vec());
}

type UnitFunction = fn(Tensor<2>, f64) -> Tensor<2>;

/// The value, and the gradient of a weighted sum of it.
fn outcome(f: UnitFunction, x: &[f64], shape: [usize; 2], dtype: DType) -> [Vec<f64>; 2] {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_data(TensorData::new(x.to_vec(), shape), (&device, dtype)).require_grad();
    let out = f(x.clone(), TINY);
    let weights: Vec<f64> = (0..shape[0] * shape[1]).map(|i| f64::from((i as f64 * 31.7).cos() as f32)).collect();
    let weights = Tensor::<2>::from_data(TensorData::new(weights, shape), (&device, dtype));
    let gradient = x.grad(&(out.clone() * weights).sum().backward()).unwrap();
    [out, gradient].map(|values| values.into_data().iter::<f64>().collect())
}
