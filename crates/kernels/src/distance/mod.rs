//! [`pairwise_distance`]: hyperbolic distances of all pairs, over one space or many factors, without a tensor per factor.
//!
//! The plain composition holds several tensors `[K, M, N]` (150 MB each for PHyCLIP's 64 factors and a batch of 768)
//! and runs each operation on them on one thread. The fused operation works through them a few rows at a time, on all
//! threads, and computes them again in the backward pass.

use burn::backend::{Backend, Dispatch, DispatchDevice, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

mod acosh;
mod autodiff;
mod cpu;
#[cfg(feature = "vulkan")]
mod cube;
mod narrow;
mod plain;
mod points;
#[cfg(test)]
mod tests;
mod wide;

pub use plain::pairwise_distance_plain;

/// How the distances of the factors become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Their mean.
    L1,
    /// Their root mean square.
    L2,
}

/// What is computed for a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceRule {
    /// How the distances of the factors become one.
    pub norm: Norm,
    /// What `u` in `acosh(1 + u)` counts as at least, > 0. Where it is below, no gradient flows: the slope is bounded by
    /// `1 / sqrt(2 floor)`.
    pub floor: f64,
    /// Minus the distance, which is what a contrastive logit is made of.
    pub negative: bool,
}

/// Distances of all pairs on a product of hyperboloids: `x` `[M, D]`, `y` `[N, D]`, curvatures c > 0 `[K]` to `[M, N]`.
///
/// A point is its K factors one after the other, each of D / K space components. With `a`, `b` the `sqrt(c) t - 1` of the
/// two, formed without cancellation, `u = a + b + a b - c <x, y>` is `-c <x, y>_L - 1`, and `acosh(1 + u) / sqrt(c)` the
/// distance in a factor (MERU Eq. 4). The error of `u` is about one unit in the last place of `c |x| |y|`: near the
/// origin, where published code forms `1 + u` first, small distances survive. Over factors their mean (PHyCLIP Eq. 2
/// divided by K) or root mean square. One factor is the hyperboloid itself. Gradients flow to points and curvatures.
///
/// Fused for `f32` on the CPU and on graphics cards; [`pairwise_distance_plain`] for everything else. Both give the same
/// result for any number of threads.
///
/// # Panics
/// Where the shapes do not fit together, or `floor` is not above zero.
pub fn pairwise_distance(x: Tensor<2>, y: Tensor<2>, curv: Tensor<1>, rule: DistanceRule) -> Tensor<2> {
    let ([_, dim], [_, y_dim], [factors]) = (x.dims(), y.dims(), curv.dims());
    assert!(
        dim == y_dim && factors > 0 && dim > 0 && dim % factors == 0,
        "points of {dim} and {y_dim} coordinates in {factors} factors"
    );
    assert!(rule.floor > 0.0, "a floor of {}", rule.floor);
    let single = [x.dtype(), y.dtype(), curv.dtype()] == [DType::F32; 3];
    if !single || !fits_device(&x, &y, factors) {
        return pairwise_distance_plain(x, y, curv, rule);
    }
    let [x, y] = [x, y].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as DistanceOps>::pairwise_distance(x, y, curv.into_dispatch(), rule))
}

/// Whether the device has the fused operation, and for as many pairs.
#[cfg_attr(not(feature = "vulkan"), allow(unused_variables, reason = "the CPU takes any number"))]
fn fits_device(x: &Tensor<2>, y: &Tensor<2>, factors: usize) -> bool {
    match x.device().inner().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "vulkan")]
        DispatchDevice::Cube(_) => cube::fits(x.dims()[0], y.dims()[0], factors),
        #[allow(unreachable_patterns, reason = "there are as many kinds of devices as features of the engine")]
        _ => false,
    }
}

/// The operation as an extension of the engine's backends.
#[backend_extension(Flex, Autodiff, Cube: cfg(feature = "vulkan"), Fusion: cfg(feature = "vulkan"))]
trait DistanceOps: Backend {
    /// See [`pairwise_distance`].
    #[fusion(dtype = x, shape = [x[0], y[0]].into())]
    fn pairwise_distance(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        rule: DistanceRule,
    ) -> FloatTensor<Self>;
}
