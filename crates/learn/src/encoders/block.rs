//! One pre-norm transformer block, on borrowed parts: the encoders name their parameters differently and compute the same.
//!
//! `x <- x + out(attention(norm1(x)))`, then `x <- x + down(activation(up(norm2(x))))`.

use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Int, Tensor, activation, module};

use super::layers::{Activation, LayerNorm, Linear};
use crate::params::{Bias, Matrix};

/// Size of the hidden layer of every feed-forward part, in widths.
pub(super) const MLP_RATIO: usize = 4;

/// The parameters of one block.
pub(super) struct Block<'a> {
    pub(super) norm1: &'a LayerNorm,
    /// `[width, 3 width]`: queries, keys, values.
    pub(super) qkv_weight: &'a Matrix,
    pub(super) qkv_bias: &'a Bias,
    pub(super) out: &'a Linear,
    pub(super) norm2: &'a LayerNorm,
    pub(super) up: &'a Linear,
    pub(super) down: &'a Linear,
}

/// What a block does beside its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) heads: usize,
    pub(super) causal: bool,
    pub(super) activation: Activation,
}

impl Block<'_> {
    /// All rows: `[B*L, width] -> [B*L, width]`.
    pub(super) fn forward(&self, x: Tensor<2>, batch: usize, form: Form) -> Tensor<2> {
        let normed = self.norm1.forward(x.clone());
        let [query, key, value] = [0, 1, 2].map(|part| heads(self.project(normed.clone(), part), batch, form.heads));
        let context = attention(query, key, value, form.causal.then_some(Mask::Causal));
        self.residual(x, context, form.activation)
    }

    /// The last block, for the one row of each sequence that is read afterwards: keys and values of all rows, everything else for
    /// `rows` only. Equal to [`Block::forward`] followed by selecting `rows`, at a sixth of the work.
    ///
    /// `x` is `[B*L, width]`, `rows` `[B]` indexes its rows, `hidden` `[B, 1, 1, L]` is true where a key lies after the row.
    pub(super) fn forward_rows(
        &self,
        x: Tensor<2>,
        rows: Tensor<1, Int>,
        hidden: Option<Tensor<4, Bool>>,
        form: Form,
    ) -> Tensor<2> {
        let [batch] = rows.dims();
        let normed = self.norm1.forward(x.clone());
        let query = heads(self.project(normed.clone().select(0, rows.clone()), 0), batch, form.heads);
        let [key, value] = [1, 2].map(|part| heads(self.project(normed.clone(), part), batch, form.heads));
        let context = attention(query, key, value, hidden.map(Mask::Hidden));
        self.residual(x.select(0, rows), context, form.activation)
    }

    /// `x + out(context)`, then the feed-forward part.
    fn residual(&self, x: Tensor<2>, context: Tensor<4>, activation: Activation) -> Tensor<2> {
        let [rows, width] = x.dims();
        let context = context.swap_dims(1, 2).reshape([rows, width]);
        let x = x + self.out.forward(context);
        let hidden = activation.apply(self.up.forward(self.norm2.forward(x.clone())));
        x + self.down.forward(hidden)
    }

    fn project(&self, rows: Tensor<2>, part: usize) -> Tensor<2> {
        project(rows, self.qkv_weight, self.qkv_bias, part)
    }
}

/// Query (`part` 0), key (1) or value (2), from a slice of the joint weight. Slicing the weight and not the activations keeps the
/// backward pass from filling three activation-sized buffers with zeros.
pub(super) fn project(rows: Tensor<2>, weight: &Matrix, bias: &Bias, part: usize) -> Tensor<2> {
    let weight = weight.value.val();
    let width = weight.dims()[0];
    let columns = part * width..(part + 1) * width;
    let bias = bias.value.val().slice([columns.clone()]);
    module::linear(rows, weight.slice([0..width, columns]), Some(bias))
}

/// `[B*L, width] -> [B, heads, L, width / heads]`, a view.
pub(super) fn heads(rows: Tensor<2>, batch: usize, heads: usize) -> Tensor<4> {
    let [count, width] = rows.dims();
    rows.reshape([batch, count / batch, heads, width / heads]).swap_dims(1, 2)
}

/// Which keys a query may not see.
#[expect(clippy::large_enum_variant, reason = "one per call, on the stack, next to tensors of the same size")]
pub(super) enum Mask {
    /// Those after it.
    Causal,
    /// Where this is true, `[B, 1, 1, L]`.
    Hidden(Tensor<4, Bool>),
}

/// `softmax(Q K^T / sqrt(d)) V`, `[B, heads, Lq, d], [B, heads, L, d] x 2 -> [B, heads, Lq, d]`.
///
/// Without gradients the engine's fused attention runs. With gradients it would fall back to a composition that scales and clamps
/// the whole `[B, heads, L, L]` table; here the queries are scaled instead, and the softmax is shifted by a detached maximum.
pub(super) fn attention(query: Tensor<4>, key: Tensor<4>, value: Tensor<4>, mask: Option<Mask>) -> Tensor<4> {
    let [batch, heads, queries, width] = query.dims();
    let keys = key.dims()[2];
    let shape = [batch, heads, queries, keys];
    if !query.is_autodiff() {
        let is_causal = matches!(mask, Some(Mask::Causal));
        let hidden = match mask {
            Some(Mask::Hidden(hidden)) => Some(hidden.expand(shape)),
            _ => None,
        };
        let options = AttentionModuleOptions { is_causal, ..Default::default() };
        return module::attention(query, key, value, hidden, None, options);
    }
    let scores = (query * (width as f64).powf(-0.5)).matmul(key.transpose());
    let scores = match mask {
        None => scores,
        Some(mask) => {
            let hidden = match mask {
                Mask::Causal => {
                    Tensor::<2, Bool>::tril_mask([queries, keys], 0, &scores.device()).reshape([1, 1, queries, keys])
                }
                Mask::Hidden(hidden) => hidden,
            };
            scores.mask_fill(hidden.expand(shape), f32::NEG_INFINITY)
        }
    };
    activation::softmax(scores, 3).matmul(value)
}
