#![allow(clippy::unwrap_used)]
use burn::tensor::DType;

use super::*;
use crate::testing::{TestMatrix, check, check_differences, check_threads, outcome, vector};

const EPSILON: f64 = 1e-5;

fn fused(x: &[Tensor<2>]) -> Tensor<2> {
    layer_norm(x[0].clone(), vector(&x[1]), vector(&x[2]), EPSILON)
}

fn plain(x: &[Tensor<2>]) -> Tensor<2> {
    layer_norm_plain(x[0].clone(), vector(&x[1]), vector(&x[2]), EPSILON)
}

fn arguments([rows, width]: [usize; 2]) -> [TestMatrix; 3] {
    [
        TestMatrix::scattered([rows, width], 1, 3.0),
        TestMatrix::scattered([1, width], 2, 1.5),
        TestMatrix::scattered([1, width], 3, 1.0),
    ]
}

#[test]
fn fused_equals_plain_value_and_gradient() {
    for shape in [[0, 8], [1, 2], [5, 7], [33, 16], [3, 100], [65, 384], [200, 33]] {
        check(&fused, &plain, &arguments(shape), 1e-6);
    }
    check_differences(&fused, &plain, &arguments([4, 19]), 2e-6);
    check_threads(fused, &arguments([131, 50]));
}

/// Rows whose mean is about a thousand standard deviations, which costs three of the seven digits.
#[test]
fn rows_far_from_zero() {
    let [mut x, gain, bias] = arguments([9, 64]);
    x.numbers.iter_mut().for_each(|x| *x = f64::from((*x + 2000.0) as f32));
    check(&fused, &plain, &[x, gain, bias], 2e-4);
}

/// A row of equal numbers has variance 0: the result is the bias, and only epsilon keeps the derivative finite.
#[test]
fn equal_numbers_in_a_row() {
    let [_, gain, bias] = arguments([3, 20]);
    let constant = [TestMatrix::filled([3, 20], 0.25), gain, bias.clone()];
    check(&fused, &plain, &constant, 1e-6);
    let found = outcome(&fused, &constant, DType::F32);
    assert!(found[0].chunks(20).all(|row| row == bias.numbers));
}

#[test]
fn nan_stays_in_its_row() {
    for odd in [f64::NAN, f64::INFINITY] {
        let mut arguments = arguments([3, 20]);
        arguments[0].numbers[25] = odd;
        let found = outcome(&fused, &arguments, DType::F32);
        for part in &found[..2] {
            assert!(part[20..40].iter().all(|x| x.is_nan()), "{odd}");
            assert!(part[..20].iter().chain(&part[40..]).all(|x| x.is_finite()), "{odd}");
        }
    }
}
