//! Fused softmax attention (forward and backward) on projected queries, keys and values, one token per row:
//! [`attention`] and [`self_attention`].

use std::sync::Arc;

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Bool, Tensor, activation};

use crate::arrays::is_fused;

mod autodiff;
mod heads;
mod softmax;
#[cfg(test)]
mod tests;

/// Selects the keys that are masked.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per call, on the stack, next to tensors of the same size")]
pub enum Mask {
    /// No key is masked.
    None,
    /// Keys after the query are masked, that is, keys with a higher index.
    Causal,
    /// Keys are masked where this is true, `[B, L]`.
    Hidden(Tensor<2, Bool>),
}

/// Computes `softmax(Q K^T / sqrt(d)) V` for every head (Vaswani et al., NeurIPS 2017, eq. 1) of `B` sequences, with `d
/// = W / heads`. Shapes: queries `[B Lq, W]` and concatenated keys and values `[B L, 2 W]` to `[B Lq, W]`.
///
/// Fused for `f32` on the CPU, otherwise [`attention_plain`]. Heads are read in place. Besides the operands, only two
/// numbers per row of the score matrix are saved: the largest score and the reciprocal of the sum of exponentials. With
/// a saved probability matrix, the backward pass would need four matrix products instead of five, but the matrix would
/// take `4 B heads L^2` bytes per layer (15 MB for 8 sequences, 12 heads and 197 keys). The result is bit-identical for
/// any number of threads. It is NaN for a query whose keys are all masked.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention(query: Tensor<2>, key_value: Tensor<2>, batch: usize, heads: usize, mask: Mask) -> Tensor<2> {
    let ([queries, width], [keys, double]) = (query.dims(), key_value.dims());
    assert!(
        double == 2 * width,
        "expected keys and values of twice the width of the queries; found queries of width {width}, keys and values of width {double}"
    );
    let shape = AttentionShape::new(batch, heads, width, queries, keys);
    mask.check(shape);
    if !(is_fused(&query) && is_fused(&key_value)) {
        return attention_plain(query, key_value, batch, heads, mask);
    }
    let [query, key_value] = [query, key_value].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as AttentionOps>::fused_attention(query, key_value, shape, mask.into()))
}

/// [`attention`] of a sequence with itself: concatenated queries, keys and values `[B L, 3 W]` to `[B L, W]`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn self_attention(joint: Tensor<2>, batch: usize, heads: usize, mask: Mask) -> Tensor<2> {
    let [rows, triple] = joint.dims();
    assert!(
        triple.is_multiple_of(3),
        "expected rows of queries, keys and values of equal width; found rows of width {triple}"
    );
    let shape = AttentionShape::new(batch, heads, triple / 3, rows, rows);
    mask.check(shape);
    if !is_fused(&joint) {
        return self_attention_plain(joint, batch, heads, mask);
    }
    Tensor::from_dispatch(<Dispatch as AttentionOps>::fused_self_attention(joint.into_dispatch(), shape, mask.into()))
}

/// Reference implementation of [`attention`], composed of tensor operations.
pub fn attention_plain(query: Tensor<2>, key_value: Tensor<2>, batch: usize, heads: usize, mask: Mask) -> Tensor<2> {
    let ([rows, width], [keys, _]) = (query.dims(), key_value.dims());
    let split = |rows: Tensor<2>| {
        let [count, _] = rows.dims();
        rows.reshape([batch, count / batch, heads, width / heads]).swap_dims(1, 2)
    };
    let (key, value) = (key_value.clone().narrow(1, 0, width), key_value.narrow(1, width, width));
    let (queries, keys) = (rows / batch, keys / batch);
    let scores = (split(query) * ((width / heads) as f64).powf(-0.5)).matmul(split(key).transpose());
    let hidden = match mask {
        Mask::None => None,
        Mask::Causal => {
            let after = Tensor::<2, Bool>::tril_mask([queries, keys], 0, &scores.device());
            Some(after.reshape([1, 1, queries, keys]))
        }
        Mask::Hidden(hidden) => Some(hidden.reshape([batch, 1, 1, keys])),
    };
    let scores = match hidden {
        None => scores,
        Some(hidden) => scores.mask_fill(hidden.expand([batch, heads, queries, keys]), f32::NEG_INFINITY),
    };
    activation::softmax(scores, 3).matmul(split(value)).swap_dims(1, 2).reshape([rows, width])
}

/// Reference implementation of [`self_attention`].
pub fn self_attention_plain(joint: Tensor<2>, batch: usize, heads: usize, mask: Mask) -> Tensor<2> {
    let width = joint.dims()[1] / 3;
    attention_plain(joint.clone().narrow(1, 0, width), joint.narrow(1, width, 2 * width), batch, heads, mask)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttentionShape {
    batch: usize,
    heads: usize,
    /// Width of all heads together.
    width: usize,
    /// Queries per sequence.
    queries: usize,
    /// Keys per sequence.
    keys: usize,
}

impl AttentionShape {
    fn new(batch: usize, heads: usize, width: usize, queries: usize, keys: usize) -> Self {
        assert!(
            heads > 0 && width.is_multiple_of(heads),
            "expected a width that is a multiple of the number of heads; found width {width}, {heads} heads"
        );
        let each = |rows: usize| rows.checked_div(batch).unwrap_or(0);
        let it = Self { batch, heads, width, queries: each(queries), keys: each(keys) };
        assert!(
            it.queries * batch == queries && it.keys * batch == keys,
            "expected multiples of the number of sequences; found {queries} query rows, {keys} key rows, {batch} sequences"
        );
        it
    }
}

impl Mask {
    fn check(&self, shape: AttentionShape) {
        if let Self::Hidden(hidden) = self {
            assert_eq!(hidden.dims(), [shape.batch, shape.keys], "shape of the mask");
        }
    }
}

/// A [`Mask`] in host memory.
#[derive(Clone, Debug)]
struct HostMask {
    causal: bool,
    /// `[B, L]`: keys that are masked for all queries.
    hidden: Option<Arc<[bool]>>,
}

impl From<Mask> for HostMask {
    fn from(mask: Mask) -> Self {
        let hidden = match &mask {
            Mask::Hidden(hidden) => Some(hidden.to_data().iter::<bool>().collect()),
            Mask::None | Mask::Causal => None,
        };
        Self { causal: matches!(mask, Mask::Causal), hidden }
    }
}

/// Burn backend extension that declares the fused operation.
#[backend_extension(Flex, Autodiff)]
trait AttentionOps: Backend {
    /// See [`attention`].
    fn fused_attention(
        query: FloatTensor<Self>,
        key_value: FloatTensor<Self>,
        shape: AttentionShape,
        mask: HostMask,
    ) -> FloatTensor<Self>;

    /// See [`self_attention`].
    fn fused_self_attention(joint: FloatTensor<Self>, shape: AttentionShape, mask: HostMask) -> FloatTensor<Self>;
}
