#![allow(clippy::unwrap_used)]
use burn::tensor::{DType, Device};

use super::*;
use crate::testing::{TestMatrix, check, check_differences, check_threads, outcome, vector};

fn fused(x: &[Tensor<2>]) -> Tensor<2> {
    linear(x[0].clone(), x[1].clone(), vector(&x[2]))
}

fn plain(x: &[Tensor<2>]) -> Tensor<2> {
    linear_plain(x[0].clone(), x[1].clone(), vector(&x[2]))
}

fn fused_add(x: &[Tensor<2>]) -> Tensor<2> {
    linear_add(x[3].clone(), x[0].clone(), x[1].clone(), vector(&x[2]))
}

fn plain_add(x: &[Tensor<2>]) -> Tensor<2> {
    linear_add_plain(x[3].clone(), x[0].clone(), x[1].clone(), vector(&x[2]))
}

/// Rows, weight, bias and base.
fn arguments([rows, inputs, outputs]: [usize; 3]) -> [TestMatrix; 4] {
    [
        TestMatrix::scattered([rows, inputs], 1, 1.0),
        TestMatrix::scattered([inputs, outputs], 2, 0.5),
        TestMatrix::scattered([1, outputs], 3, 1.0),
        TestMatrix::scattered([rows, outputs], 4, 2.0),
    ]
}

#[test]
fn fused_equals_plain_value_and_gradient() {
    for size in [[0, 3, 2], [1, 1, 1], [1, 7, 5], [5, 3, 1], [33, 17, 40], [97, 200, 130]] {
        check(&fused, &plain, &arguments(size)[..3], 1e-6);
        check(&fused_add, &plain_add, &arguments(size), 1e-6);
    }
    check_differences(&fused_add, &plain_add, &arguments([3, 5, 4]), 1e-6);
    check_threads(fused_add, &arguments([150, 130, 140]));
}

/// A transposed slice of a weight gives the same result as with [`plain`].
#[test]
fn slices_and_transposes_of_weights() {
    let part = |f: fn(&[Tensor<2>]) -> Tensor<2>| {
        move |x: &[Tensor<2>]| {
            let weight = x[1].clone().narrow(1, 2, 3).transpose();
            f(&[x[0].clone(), weight, x[2].clone().narrow(1, 0, 6)])
        }
    };
    let mut arguments = arguments([9, 6, 8])[..3].to_vec();
    arguments[0] = TestMatrix::scattered([9, 3], 5, 1.0);
    check(&part(fused), &part(plain), &arguments, 1e-6);
}

#[test]
fn nan_stays_in_its_row() {
    let mut arguments = arguments([3, 4, 5]);
    arguments[3].numbers[7] = f64::NAN;
    arguments[0].numbers[9] = f64::INFINITY;
    let values = &outcome(&fused_add, &arguments, DType::F32)[0];
    assert!(values[7].is_nan() && values[10..].iter().all(|x| !x.is_finite()));
    assert!(values[..7].iter().chain(&values[8..10]).all(|x| x.is_finite()));
}

/// A constant weight gets no gradient, and no product is computed for it.
#[test]
fn only_tracked_operands_get_a_gradient() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::ones([2, 3], &device).require_grad();
    let (weight, bias) = (Tensor::<2>::ones([3, 4], &device), Tensor::<1>::ones([4], &device));
    let gradients = linear(x.clone(), weight.clone(), bias.clone()).sum().backward();
    assert!(weight.grad(&gradients).is_none() && bias.grad(&gradients).is_none());
    assert_eq!(x.grad(&gradients).unwrap().into_data().try_into_vec::<f32>().unwrap(), [4.0; 6]);
}
