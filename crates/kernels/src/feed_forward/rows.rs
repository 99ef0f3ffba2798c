//! The feed-forward operation on the CPU.

use burn::backend::{Flex, TensorMetadata};
use rayon::prelude::*;

use super::FeedForwardOps;
use crate::activation::{Activation, Apply, Differentiate};
use crate::arrays::{Array, array, dense, forwards, matrix, numbers, total};
use crate::linear::rows::{affine, sum_of_rows};
use crate::raw::{BLOCK, View, in_pool, new_rows, new_rows_beside, product};

/// All operands, contiguous except the weights.
pub(super) struct Operands {
    pub(super) base: Array,
    pub(super) x: Array,
    pub(super) up_weight: Array,
    pub(super) up_bias: Array,
    pub(super) down_weight: Array,
    pub(super) down_bias: Array,
}

impl FeedForwardOps for Flex {
    fn fused_feed_forward(
        base: Array,
        x: Array,
        up_weight: Array,
        up_bias: Array,
        down_weight: Array,
        down_bias: Array,
        activation: Activation,
    ) -> Array {
        Operands::new(base, x, [up_weight, down_weight], [up_bias, down_bias]).forward_in_place(activation)
    }
}

impl Operands {
    pub(super) fn new(base: Array, x: Array, weights: [Array; 2], biases: [Array; 2]) -> Self {
        let [up_weight, down_weight] = weights.map(forwards);
        let [up_bias, down_bias] = [dense(&biases[0]), dense(&biases[1])];
        Self { base: dense(&base), x: dense(&x), up_weight, up_bias, down_weight, down_bias }
    }

    /// The result, without saved state.
    fn forward_in_place(&self, activation: Activation) -> Array {
        let width = numbers(&self.up_bias).len();
        let out = in_pool(|| {
            let mut hidden = affine(matrix(&self.x), matrix(&self.up_weight), numbers(&self.up_bias), None);
            hidden.par_chunks_mut((BLOCK * width).max(1)).for_each_init(Vec::new, |before: &mut Vec<f32>, chunk| {
                before.clear();
                before.extend_from_slice(chunk);
                Apply { activation, from: before, to: chunk }.run();
            });
            self.down(&hidden)
        });
        array(out, self.base.shape().as_slice())
    }

    /// The result, and `x W1 + b1`.
    pub(super) fn forward(&self, activation: Activation) -> (Array, Array) {
        let (count, width) = (self.x.shape()[0], numbers(&self.up_bias).len());
        let (out, before) = in_pool(|| {
            let before = affine(matrix(&self.x), matrix(&self.up_weight), numbers(&self.up_bias), None);
            let (hidden, _) = new_rows(count, width, |rows, to| {
                Apply { activation, from: &before[rows.start * width..rows.end * width], to }.run();
            });
            (self.down(&hidden), before)
        });
        (array(out, self.base.shape().as_slice()), array(before, &[count, width]))
    }

    fn down(&self, hidden: &[f32]) -> Vec<f32> {
        let weight = matrix(&self.down_weight);
        let hidden = View::new(hidden, [self.x.shape()[0], weight.shape()[0]], [weight.shape()[0], 1]);
        affine(hidden, weight, numbers(&self.down_bias), Some(numbers(&self.base)))
    }
}

/// State saved for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) x: Array,
    /// `x W1 + b1`; `None` if the backward pass recomputes it.
    pub(super) before: Option<Array>,
    pub(super) up_weight: Array,
    pub(super) up_bias: Array,
    pub(super) down_weight: Array,
    pub(super) activation: Activation,
}

/// The gradients selected by `wanted`, with respect to `x`, `W1`, `b1`, `W2` and `b2`.
pub(super) fn backward(kept: &Kept, gradient: &Array, wanted: [bool; 5]) -> [Option<Array>; 5] {
    let (up, down) = (matrix(&kept.up_weight), matrix(&kept.down_weight));
    let ([inputs, width], [_, outputs]) = (up.shape(), down.shape());
    let count = kept.x.shape()[0];
    let upstream = View::new(numbers(gradient), [count, outputs], [outputs, 1]);
    in_pool(|| {
        let again = match kept.before {
            Some(_) => Vec::new(),
            None => affine(matrix(&kept.x), up, numbers(&kept.up_bias), None),
        };
        let before = kept.before.as_ref().map_or(&*again, numbers);
        let mut slopes = product(upstream, down.transposed());
        let (hidden, sums) = new_rows_beside(&mut slopes, width, |rows, values, gradient| {
            let from = &before[rows.start * width..rows.end * width];
            Differentiate { activation: kept.activation, from, values, gradient }.run();
            let mut sum = vec![0.0; width];
            for row in gradient.chunks_exact(width.max(1)) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sum
        });
        let [hidden, slopes] = [&hidden, &slopes].map(|it| View::new(it, [count, width], [width, 1]));
        [
            wanted[0].then(|| array(product(slopes, up.transposed()), &[count, inputs])),
            wanted[1].then(|| array(product(matrix(&kept.x).transposed(), slopes), &[inputs, width])),
            wanted[2].then(|| array(total(sums, width), &[width])),
            wanted[3].then(|| array(product(hidden.transposed(), upstream), &[width, outputs])),
            wanted[4].then(|| array(sum_of_rows(numbers(gradient), outputs), &[outputs])),
        ]
    })
}
