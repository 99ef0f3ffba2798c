use burn::tensor::DType;

use super::*;
use crate::testing::{TestMatrix, check, check_differences, check_threads, outcome, vector};

type FeedForwardFunction = fn(Tensor<2>, Tensor<2>, Affine, Affine, Activation) -> Tensor<2>;

fn of(operation: FeedForwardFunction, activation: Activation) -> impl Fn(&[Tensor<2>]) -> Tensor<2> + Sync {
    move |x| {
        let [up, down] = [2, 4].map(|i| (x[i].clone(), vector(&x[i + 1])));
        operation(x[0].clone(), x[1].clone(), up, down, activation)
    }
}

/// Base, rows, and the weight and bias of both maps.
fn arguments([rows, inputs, hidden, outputs]: [usize; 4]) -> [TestMatrix; 6] {
    [
        TestMatrix::scattered([rows, outputs], 1, 1.0),
        TestMatrix::scattered([rows, inputs], 2, 1.0),
        TestMatrix::scattered([inputs, hidden], 3, 0.6),
        TestMatrix::scattered([1, hidden], 4, 0.5),
        TestMatrix::scattered([hidden, outputs], 5, 0.6),
        TestMatrix::scattered([1, outputs], 6, 0.5),
    ]
}

#[test]
fn fused_equals_plain_value_and_gradient() {
    for activation in [Activation::Gelu, Activation::QuickGelu] {
        let (fused, plain) = (of(feed_forward, activation), of(feed_forward_plain, activation));
        for size in [[0, 3, 4, 2], [1, 1, 1, 1], [3, 5, 7, 2], [33, 16, 64, 16], [70, 48, 190, 50]] {
            check(&fused, &plain, &arguments(size), 1e-6);
        }
        check_differences(&fused, &plain, &arguments([3, 4, 5, 2]), 2e-6);
        check_threads(fused, &arguments([131, 64, 200, 64]));
    }
}

#[test]
fn nan_stays_in_its_row() {
    let mut arguments = arguments([3, 4, 9, 5]);
    arguments[1].numbers[5] = f64::NAN;
    let values = &outcome(&of(feed_forward, Activation::Gelu), &arguments, DType::F32)[0];
    assert!(values[5..10].iter().all(|x| x.is_nan()));
    assert!(values[..5].iter().chain(&values[10..]).all(|x| x.is_finite()));
}
