#![allow(clippy::unwrap_used)]
use burn::tensor::{DType, Device, TensorData};

use super::*;
use crate::testing::{TestMatrix, check, check_differences, check_threads, outcome};

/// The derivative is `Phi(x) + x phi(x)`; `Phi` at these points is from a table of the normal distribution with ten
/// digits.
#[test]
fn gelu_values_and_derivatives() {
    let table: [(f64, f64); 5] =
        [(-2.0, 0.022_750_131_95), (-0.5, 0.308_537_538_7), (0.0, 0.5), (1.0, 0.841_344_746_1), (3.0, 0.998_650_102)];
    for twin in [gelu::<1>, gelu_plain::<1>] {
        let xs: Vec<f32> = table.iter().map(|&(x, _)| x as f32).collect();
        let device = Device::flex().autodiff();
        let x = Tensor::<1>::from_data(TensorData::new(xs, [table.len()]), &device).require_grad();
        let y = twin(x.clone());
        let values: Vec<f32> = y.clone().into_data().try_into_vec().unwrap();
        let grads: Vec<f32> = x.grad(&y.sum().backward()).unwrap().into_data().try_into_vec().unwrap();
        for (i, &(x, cdf)) in table.iter().enumerate() {
            let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((f64::from(values[i]) - x * cdf).abs() < 1e-6, "gelu({x}) = {}", values[i]);
            assert!((f64::from(grads[i]) - (cdf + x * density)).abs() < 1e-6, "derivative at {x} is {}", grads[i]);
        }
    }
}

const ALL: [Activation; 3] = [Activation::Gelu, Activation::QuickGelu, Activation::TanhGelu];

#[test]
fn fused_equals_plain_value_and_gradient() {
    for activation in ALL {
        let (fused, plain) =
            (|x: &[Tensor<2>]| activation.apply(x[0].clone()), |x: &[Tensor<2>]| activation.apply_plain(x[0].clone()));
        for shape in [[0, 3], [1, 1], [3, 5], [2, 256], [7, 333], [33, 1024]] {
            for size in [0.1, 3.0, 12.0] {
                // At 12 the argument of the `exp` of the quick GELU is 20, with a rounding error of 1.2e-6.
                check(
                    &fused,
                    &plain,
                    &[TestMatrix::scattered(shape, 1, size)],
                    if size > 10.0 { 1.2e-6 } else { 5e-7 },
                );
            }
        }
        check_differences(&fused, &plain, &[TestMatrix::scattered([3, 7], 2, 4.0)], 1e-6);
        check_threads(fused, &[TestMatrix::scattered([40, 500], 3, 3.0)]);
    }
}

#[test]
fn large_numbers_infinity_and_nan() {
    for activation in ALL {
        let fused = |x: &[Tensor<2>]| activation.apply(x[0].clone());
        let most = f64::from(f32::MAX);
        let numbers = vec![0.0, 200.0, -200.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, most, -most];
        let found = outcome(&fused, &[TestMatrix { shape: [1, 8], numbers }], DType::F32);
        assert_eq!(&found[0][..4], [0.0, 200.0, 0.0, f64::INFINITY], "{activation:?}");
        assert!(
            found[0][4].is_nan() && found[0][5].is_nan() && found[1][5].is_nan(),
            "{activation:?}: NaN must stay NaN"
        );
        // The derivative is 1 for the largest number and 0 for its negative, times a weight between 0.1 and 1.9.
        let ends = (0.1..1.9).contains(&found[1][6]) && found[1][7] == 0.0;
        assert!(found[0][6..] == [most, 0.0] && ends, "{activation:?}: {found:?}");
        assert!(found[1][..3].iter().all(|derivative| derivative.is_finite()));
    }
}

/// Values of `torch.nn.functional.gelu(x, approximate="tanh")` and its derivative, in float64.
#[test]
fn tanh_gelu_values_and_derivatives() {
    let table: [(f32, f64, f64); 5] = [
        (-2.0, -0.0454023059, -0.0860992566),
        (-0.5, -0.1542859902, 0.1326300965),
        (0.0, 0.0000000000, 0.5000000000),
        (1.0, 0.8411919906, 1.0829640838),
        (3.0, 2.9963626079, 1.0115841666),
    ];
    for twin in [tanh_gelu::<1>, tanh_gelu_plain::<1>] {
        let device = Device::flex().autodiff();
        let xs: Vec<f32> = table.iter().map(|row| row.0).collect();
        let x = Tensor::<1>::from_data(TensorData::new(xs, [table.len()]), &device).require_grad();
        let y = twin(x.clone());
        let values: Vec<f32> = y.clone().into_data().try_into_vec().unwrap();
        let grads: Vec<f32> = x.grad(&y.sum().backward()).unwrap().into_data().try_into_vec().unwrap();
        for (i, &(x, value, derivative)) in table.iter().enumerate() {
            assert!((f64::from(values[i]) - value).abs() < 1e-6, "tanh_gelu({x}) = {}", values[i]);
            assert!((f64::from(grads[i]) - derivative).abs() < 1e-6, "derivative at {x} is {}", grads[i]);
        }
    }
}

/// A transposed tensor gives the same result as its contiguous copy.
#[test]
fn any_layout() {
    let x = Tensor::<2>::from_data([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]], &Device::flex());
    let found = gelu(x.clone().transpose()).transpose().into_data();
    assert_eq!(found, gelu(x).into_data());
}
