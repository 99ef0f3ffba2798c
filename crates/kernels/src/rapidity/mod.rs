//! [`weighted_rapidity`]: hyperbolic distances of all pairs over many factors, without a tensor per factor.
//!
//! The plain composition holds several tensors `[K, M, N]` (150 MB each for PHyCLIP's 64 factors and a batch of 768)
//! and runs each operation on them on one thread. The fused operation works through them a few rows at a time, on all
//! threads, and keeps only its operands for the backward pass.

use burn::backend::{Backend, Dispatch, DispatchDevice, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

mod acosh;
mod autodiff;
#[cfg(test)]
mod tests;
mod tiles;

/// To which power the rapidities of the factors are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// Rapidities: the l1 product.
    One,
    /// Their squares: the l2 product.
    Two,
}

/// `sum_k w_k acosh(1 + u_k)^p` with `u_k = left_k right_k^T`: `[K, M, E]`, `[K, N, E]`, `[K]` to `[M, N]`.
///
/// `acosh(1 + u) = log1p(u + sqrt(u (u + 2)))`. Where `u` is below `floor` it counts as `floor`, and no gradient flows:
/// the slope is bounded by `1 / sqrt(2 floor)`. Gradients flow to all three tensors.
///
/// Fused for `f32` on the CPU; [`weighted_rapidity_plain`] for everything else. Both give the same result for any
/// number of threads.
///
/// # Panics
/// Where the shapes do not fit together.
pub fn weighted_rapidity(left: Tensor<3>, right: Tensor<3>, weights: Tensor<1>, power: Power, floor: f64) -> Tensor<2> {
    let ([k, _, e], [right_k, _, right_e], [weights_k]) = (left.dims(), right.dims(), weights.dims());
    assert!(k == right_k && k == weights_k && e == right_e, "operands {k} x {e}, {right_k} x {right_e}, {weights_k}");
    let fused = [left.dtype(), right.dtype(), weights.dtype()] == [DType::F32; 3]
        && matches!(left.device().inner().as_dispatch(), DispatchDevice::Flex(_));
    if !fused {
        return weighted_rapidity_plain(left, right, weights, power, floor);
    }
    let [left, right] = [left, right].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as RapidityOps>::weighted_rapidity(
        left,
        right,
        weights.into_dispatch(),
        power,
        floor,
    ))
}

/// The slow twin of [`weighted_rapidity`], composed of tensor operations.
pub fn weighted_rapidity_plain(
    left: Tensor<3>,
    right: Tensor<3>,
    weights: Tensor<1>,
    power: Power,
    floor: f64,
) -> Tensor<2> {
    let factors = weights.dims()[0];
    let u = left.matmul(right.transpose()).clamp_min(floor);
    let sinh = (u.clone() * (u.clone() + 2.0)).sqrt();
    let rapidity = (u + sinh).log1p();
    let powers = match power {
        Power::One => rapidity,
        Power::Two => rapidity.square(),
    };
    (powers * weights.reshape([factors, 1, 1])).sum_dim(0).squeeze_dim(0)
}

/// The operation as an extension of the engine's backends.
#[backend_extension(Flex, Autodiff)]
trait RapidityOps: Backend {
    /// See [`weighted_rapidity`].
    fn weighted_rapidity(
        left: FloatTensor<Self>,
        right: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        power: Power,
        floor: f64,
    ) -> FloatTensor<Self>;
}
