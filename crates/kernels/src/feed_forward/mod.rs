//! The feed-forward part of a transformer block, both affine maps with the activation between, fused: [`feed_forward`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::activation::Activation;
use crate::arrays::is_fused;
use crate::linear::{linear_add_plain, linear_plain};

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// An affine map: weight `[in, out]` and bias `[out]`.
pub type Affine = (Tensor<2>, Tensor<1>);

/// Computes `base + f(x W1 + b1) W2 + b2`, `[N, in]` to `[N, out]`, with `base` `[N, out]`, `up = (W1, b1)` and `down =
/// (W2, b2)`.
///
/// Fused for `f32` on the CPU, otherwise [`feed_forward_plain`]. The backward pass recomputes `f` together with its
/// derivative from the saved `x` and `x W1 + b1`. With gradient checkpointing only `x` is saved. The result is
/// bit-identical for any number of threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn feed_forward(base: Tensor<2>, x: Tensor<2>, up: Affine, down: Affine, activation: Activation) -> Tensor<2> {
    let ([count, inputs], hidden, [outputs]) = (x.dims(), up.0.dims()[1], down.1.dims());
    assert!(
        up.0.dims() == [inputs, hidden] && up.1.dims() == [hidden] && down.0.dims() == [hidden, outputs],
        "expected weights and biases for rows of width {inputs}, hidden width {hidden} and output width {outputs}"
    );
    assert_eq!(base.dims(), [count, outputs], "shape of `base`");
    let matrices = [&base, &x, &up.0, &down.0].into_iter().all(is_fused);
    if !(matrices && is_fused(&up.1) && is_fused(&down.1)) {
        return feed_forward_plain(base, x, up, down, activation);
    }
    Tensor::from_dispatch(<Dispatch as FeedForwardOps>::fused_feed_forward(
        base.into_dispatch(),
        x.into_dispatch(),
        up.0.into_dispatch(),
        up.1.into_dispatch(),
        down.0.into_dispatch(),
        down.1.into_dispatch(),
        activation,
    ))
}

/// Reference implementation of [`feed_forward`].
pub fn feed_forward_plain(
    base: Tensor<2>,
    x: Tensor<2>,
    up: Affine,
    down: Affine,
    activation: Activation,
) -> Tensor<2> {
    let hidden = activation.apply_plain(linear_plain(x, up.0, up.1));
    linear_add_plain(base, hidden, down.0, down.1)
}

/// Burn backend extension that declares the fused operation.
#[backend_extension(Flex, Autodiff)]
trait FeedForwardOps: Backend {
    /// See [`feed_forward`].
    fn fused_feed_forward(
        base: FloatTensor<Self>,
        x: FloatTensor<Self>,
        up_weight: FloatTensor<Self>,
        up_bias: FloatTensor<Self>,
        down_weight: FloatTensor<Self>,
        down_bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;
}
