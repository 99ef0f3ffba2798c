//! The feed-forward operation on the CPU.

use burn::backend::{Flex, TensorMetadata};
use rayon::prelude::*;

use super::FeedForwardOps;
use crate::activation::{Activation, ActivationBackward, ActivationForward};
use crate::arrays::{FlexArray, array, dense, matrix, numbers, total, with_forward_strides};
use crate::linear::rows::{affine, sum_of_rows};
use crate::raw::{BLOCK, MatrixView, in_pool, new_rows, new_rows_beside, product};

/// All operands, contiguous except the weights.
pub(super) struct FeedForwardOperands {
    pub(super) base: FlexArray,
    pub(super) x: FlexArray,
    pub(super) up_weight: FlexArray,
    pub(super) up_bias: FlexArray,
    pub(super) down_weight: FlexArray,
    pub(super) down_bias: FlexArray,
}

impl FeedForwardOps for Flex {
    fn fused_feed_forward(
        base: FlexArray,
        x: FlexArray,
        up_weight: FlexArray,
        up_bias: FlexArray,
        down_weight: FlexArray,
        down_bias: FlexArray,
        activation: Activation,
    ) -> FlexArray {
        FeedForwardOperands::new(base, x, [up_weight, down_weight], [up_bias, down_bias]).forward_in_place(activation)
    }
}

impl FeedForwardOperands {
    pub(super) fn new(base: FlexArray, x: FlexArray, weights: [FlexArray; 2], biases: [FlexArray; 2]) -> Self {
        let [up_weight, down_weight] = weights.map(with_forward_strides);
        let [up_bias, down_bias] = [dense(&biases[0]), dense(&biases[1])];
        Self { base: dense(&base), x: dense(&x), up_weight, up_bias, down_weight, down_bias }
    }

    /// The result, without saved state.
    fn forward_in_place(&self, activation: Activation) -> FlexArray {
        let width = numbers(&self.up_bias).len();
        let out = in_pool(|| {
            let mut hidden = affine(matrix(&self.x), matrix(&self.up_weight), numbers(&self.up_bias), None);
            hidden.par_chunks_mut((BLOCK * width).max(1)).for_each_init(Vec::new, |before: &mut Vec<f32>, chunk| {
                before.clear();
                before.extend_from_slice(chunk);
                ActivationForward { activation, from: before, to: chunk }.run();
            });
            self.down(&hidden)
        });
        array(out, self.base.shape().as_slice())
    }

    /// The result, and `x W1 + b1`.
    pub(super) fn forward(&self, activation: Activation) -> (FlexArray, FlexArray) {
        let (count, width) = (self.x.shape()[0], numbers(&self.up_bias).len());
        let (out, before) = in_pool(|| {
            let before = affine(matrix(&self.x), matrix(&self.up_weight), numbers(&self.up_bias), None);
            let (hidden, _) = new_rows(count, width, |rows, to| {
                ActivationForward { activation, from: &before[rows.start * width..rows.end * width], to }.run();
            });
            (self.down(&hidden), before)
        });
        (array(out, self.base.shape().as_slice()), array(before, &[count, width]))
    }

    fn down(&self, hidden: &[f32]) -> Vec<f32> {
        let weight = matrix(&self.down_weight);
        let hidden = MatrixView::new(hidden, [self.x.shape()[0], weight.shape()[0]], [weight.shape()[0], 1]);
        affine(hidden, weight, numbers(&self.down_bias), Some(numbers(&self.base)))
    }
}

/// State saved for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct FeedForwardState {
    pub(super) x: FlexArray,
    /// `x W1 + b1`; `None` if the backward pass recomputes it.
    pub(super) before: Option<FlexArray>,
    pub(super) up_weight: FlexArray,
    pub(super) up_bias: FlexArray,
    pub(super) down_weight: FlexArray,
    pub(super) activation: Activation,
}

/// The gradients selected by `needed`, with respect to `x`, `W1`, `b1`, `W2` and `b2`.
pub(super) fn backward(state: &FeedForwardState, gradient: &FlexArray, needed: [bool; 5]) -> [Option<FlexArray>; 5] {
    let (up, down) = (matrix(&state.up_weight), matrix(&state.down_weight));
    let ([inputs, width], [_, outputs]) = (up.shape(), down.shape());
    let count = state.x.shape()[0];
    let upstream = MatrixView::new(numbers(gradient), [count, outputs], [outputs, 1]);
    in_pool(|| {
        let again = match state.before {
            Some(_) => Vec::new(),
            None => affine(matrix(&state.x), up, numbers(&state.up_bias), None),
        };
        let before = state.before.as_ref().map_or(&*again, numbers);
        let mut derivatives = product(upstream, down.transposed());
        let (hidden, sums) = new_rows_beside(&mut derivatives, width, |rows, values, gradient| {
            let from = &before[rows.start * width..rows.end * width];
            ActivationBackward { activation: state.activation, from, values, gradient }.run();
            let mut sum = vec![0.0; width];
            for row in gradient.chunks_exact(width.max(1)) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sum
        });
        let [hidden, derivatives] = [&hidden, &derivatives].map(|it| MatrixView::new(it, [count, width], [width, 1]));
        [
            needed[0].then(|| array(product(derivatives, up.transposed()), &[count, inputs])),
            needed[1].then(|| array(product(matrix(&state.x).transposed(), derivatives), &[inputs, width])),
            needed[2].then(|| array(total(sums, width), &[width])),
            needed[3].then(|| array(product(hidden.transposed(), upstream), &[width, outputs])),
            needed[4].then(|| array(sum_of_rows(numbers(gradient), outputs), &[outputs])),
        ]
    })
}
