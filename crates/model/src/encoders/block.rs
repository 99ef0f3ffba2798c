//! A pre-norm transformer block over borrowed parameters. Encoders with different parameter names share this code.
//!
//! `x <- x + scale1 out(attention(norm1(x)))`, then `x <- x + scale2 down(activation(up(norm2(x))))`.

use burn::tensor::{Bool, Int, Tensor};
use conifer_kernels::{Mask, attention, feed_forward, linear, linear_add, self_attention};

use super::layers::{ActivationFn, LayerNorm, Linear};
use crate::params::{Bias, LinearWeight, NormParam};

/// Width of the hidden layer of the feed-forward parts of [`Vit`](super::vit::Vit), as a multiple of the token width.
pub(super) const MLP_RATIO: usize = 4;

/// The parameters of one block.
pub(super) struct TransformerBlock<'a> {
    pub(super) norm1: &'a LayerNorm,
    /// `[width, 3 width]`: queries, keys, values.
    pub(super) qkv_weight: &'a LinearWeight,
    pub(super) qkv_bias: &'a Bias,
    pub(super) out: &'a Linear,
    /// Factor per channel of the attention output (LayerScale), `[width]`; `None`: 1.
    pub(super) scale1: Option<&'a NormParam>,
    pub(super) norm2: &'a LayerNorm,
    pub(super) up: &'a Linear,
    pub(super) down: &'a Linear,
    /// Like `scale1`, for the feed-forward part.
    pub(super) scale2: Option<&'a NormParam>,
}

/// Settings of a block besides its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSettings {
    pub(super) heads: usize,
    pub(super) causal: bool,
    pub(super) activation: ActivationFn,
    /// Added to the variances of both norms.
    pub(super) epsilon: f64,
}

impl TransformerBlock<'_> {
    /// Computes all rows: `[B*L, width] -> [B*L, width]`.
    pub(super) fn forward(&self, x: Tensor<2>, batch: usize, settings: BlockSettings) -> Tensor<2> {
        self.forward_mapped(x, batch, settings, |joint| joint)
    }

    /// Like [`TransformerBlock::forward`]; `map` changes queries, keys and values `[B*L, 3 width]` before the
    /// attention.
    pub(super) fn forward_mapped(
        &self,
        x: Tensor<2>,
        batch: usize,
        settings: BlockSettings,
        map: impl FnOnce(Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        let normed = self.norm1.forward_with(x.clone(), settings.epsilon);
        let joint = linear(normed, self.qkv_weight.value.val(), self.qkv_bias.value.val());
        let mask = if settings.causal { Mask::Causal } else { Mask::None };
        self.residual(x, self_attention(map(joint), batch, settings.heads, mask), settings)
    }

    /// The last block, for the one row of each sequence that is used afterwards: keys and values of all rows,
    /// everything else for `rows` only. Equal to [`TransformerBlock::forward`] followed by selecting `rows`. Of the
    /// linear maps, only those of keys and values run on all rows. These take a sixth of the multiplications if the
    /// hidden width is 4 times the token width.
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
        let normed = self.norm1.forward_with(x.clone(), settings.epsilon);
        let query = self.project(normed.clone().select(0, rows.clone()), 0, 1);
        let key_value = self.project(normed, 1, 2);
        let context = attention(query, key_value, batch, settings.heads, hidden.map_or(Mask::None, Mask::Hidden));
        self.residual(x.select(0, rows), context, settings)
    }

    /// `x + scale1 out(context)`, then the feed-forward part.
    fn residual(&self, x: Tensor<2>, context: Tensor<2>, settings: BlockSettings) -> Tensor<2> {
        let (weight, bias) = scaled(self.out, self.scale1);
        let x = linear_add(x, context, weight, bias);
        let normed = self.norm2.forward_with(x.clone(), settings.epsilon);
        let down = scaled(self.down, self.scale2);
        feed_forward(x, normed, scaled(self.up, None), down, settings.activation.into())
    }

    /// Projects `rows` to `parts` of (query, key, value), starting at index `first`, side by side.
    fn project(&self, rows: Tensor<2>, first: usize, parts: usize) -> Tensor<2> {
        let weight = self.qkv_weight.value.val();
        let width = weight.dims()[0];
        let bias = self.qkv_bias.value.val().narrow(0, first * width, parts * width);
        linear(rows, weight.narrow(1, first * width, parts * width), bias)
    }
}

/// Weight and bias of `layer` with its outputs multiplied by `scale`. The weight has far fewer rows than the batch, so
/// this costs less than to scale the outputs.
pub(super) fn scaled(layer: &Linear, scale: Option<&NormParam>) -> (Tensor<2>, Tensor<1>) {
    let (weight, bias) = (layer.weight.value.val(), layer.bias.value.val());
    match scale.map(|scale| scale.value.val()) {
        None => (weight, bias),
        Some(scale) => (weight * scale.clone().unsqueeze::<2>(), bias * scale),
    }
}
