//! A pre-norm transformer block over borrowed parameters. The encoders name their parameters differently but compute
//! the same.
//!
//! `x <- x + out(attention(norm1(x)))`, then `x <- x + down(activation(up(norm2(x))))`.

use burn::tensor::{Bool, Int, Tensor};
use conifer_kernels::{Mask, attention, linear, self_attention};

use super::layers::{ActivationFn, LayerNorm, Linear, feed_forward};
use crate::params::{Bias, LinearWeight};

/// Width of the hidden layer of every feed-forward part, as a multiple of the token width.
pub(super) const MLP_RATIO: usize = 4;

/// The parameters of one block.
pub(super) struct TransformerBlock<'a> {
    pub(super) norm1: &'a LayerNorm,
    /// `[width, 3 width]`: queries, keys, values.
    pub(super) qkv_weight: &'a LinearWeight,
    pub(super) qkv_bias: &'a Bias,
    pub(super) out: &'a Linear,
    pub(super) norm2: &'a LayerNorm,
    pub(super) up: &'a Linear,
    pub(super) down: &'a Linear,
}

/// Settings of a block besides its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSettings {
    pub(super) heads: usize,
    pub(super) causal: bool,
    pub(super) activation: ActivationFn,
}

impl TransformerBlock<'_> {
    /// All rows: `[B*L, width] -> [B*L, width]`.
    pub(super) fn forward(&self, x: Tensor<2>, batch: usize, settings: BlockSettings) -> Tensor<2> {
        let normed = self.norm1.forward(x.clone());
        let joint = linear(normed, self.qkv_weight.value.val(), self.qkv_bias.value.val());
        let mask = if settings.causal { Mask::Causal } else { Mask::None };
        self.residual(x, self_attention(joint, batch, settings.heads, mask), settings.activation)
    }

    /// The last block, for the one row of each sequence that is used afterwards: keys and values of all rows,
    /// everything else for `rows` only. Equal to [`TransformerBlock::forward`] followed by selecting `rows`. Of the
    /// linear maps, only keys and values run on all rows: a sixth of the products if the hidden width is 4 times the
    /// token width.
    ///
    /// `x` is `[B*L, width]`, `rows` `[B]` indexes its rows, and `hidden` `[B, L]` is true for masked keys, which come
    /// after the row.
    pub(super) fn forward_rows(
        &self,
        x: Tensor<2>,
        rows: Tensor<1, Int>,
        hidden: Option<Tensor<2, Bool>>,
        settings: BlockSettings,
    ) -> Tensor<2> {
        let [batch] = rows.dims();
        let normed = self.norm1.forward(x.clone());
        let query = self.project(normed.clone().select(0, rows.clone()), 0, 1);
        let key_value = self.project(normed, 1, 2);
        let context = attention(query, key_value, batch, settings.heads, hidden.map_or(Mask::None, Mask::Hidden));
        self.residual(x.select(0, rows), context, settings.activation)
    }

    /// `x + out(context)`, then the feed-forward part.
    fn residual(&self, x: Tensor<2>, context: Tensor<2>, activation: ActivationFn) -> Tensor<2> {
        let x = self.out.forward_onto(x, context);
        feed_forward(x.clone(), self.norm2.forward(x), self.up, self.down, activation)
    }

    /// Projects `rows` to `parts` of (query, key, value), starting at index `first`, side by side.
    fn project(&self, rows: Tensor<2>, first: usize, parts: usize) -> Tensor<2> {
        let weight = self.qkv_weight.value.val();
        let width = weight.dims()[0];
        let bias = self.qkv_bias.value.val().narrow(0, first * width, parts * width);
        linear(rows, weight.narrow(1, first * width, parts * width), bias)
    }
}
