//! Hyperbolic distances of all pairs in one space or a product of many factors, without a tensor per factor:
//! [`pairwise_distance`].
//!
//! The composition of tensor operations holds several tensors `[K, M, N]` (150 MB each for PHyCLIP's 64 factors and a
//! batch of 768). The fused operation processes a few rows at a time on all threads, and recomputes the values of the
//! factors in the backward pass.

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

/// The way in which the distances of the factors are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceNorm {
    /// Arithmetic mean.
    L1,
    /// Root mean square.
    L2,
}

/// The distance function of [`pairwise_distance`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceRule {
    /// The way in which the distances of the factors are combined.
    pub norm: DistanceNorm,
    /// Lower limit of `u` in `acosh(1 + u)`, > 0. Below it no gradient flows, so the derivative with respect to `u` is
    /// at most `1 / sqrt(2 floor)`.
    pub floor: f64,
    /// Negates the distance, for contrastive logits.
    pub negative: bool,
}

/// Computes the distances of all pairs on a product of hyperboloids. Shapes: `x` `[M, D]`, `y` `[N, D]` and curvatures
/// c > 0 `[K]` to `[M, N]`.
///
/// A point is the concatenation of its K factors, each with D / K space components. Let `a` and `b` be `sqrt(c) t - 1`
/// of the two points, computed without cancellation. Then `u = a + b + a b - c <x, y>` equals `-c <x, y>_L - 1`, and
/// the distance in a factor is `acosh(1 + u) / sqrt(c)` (MERU Eq. 4). The error of `u` is about one unit in the last
/// place of `c |x| |y|`. So small distances near the origin are accurate, unlike in published code that first computes
/// `1 + u`. The factors are combined by their mean (PHyCLIP Eq. 2 divided by K) or root mean square. A single factor is
/// the hyperboloid itself. Gradients flow to points and curvatures.
///
/// Fused for `f32` on the CPU and, with the feature `vulkan`, on graphics cards; otherwise [`pairwise_distance_plain`].
/// The result does not depend on the number of threads.
///
/// # Panics
/// Panics if the shapes do not match or if `floor` is not positive.
pub fn pairwise_distance(x: Tensor<2>, y: Tensor<2>, curv: Tensor<1>, rule: DistanceRule) -> Tensor<2> {
    let ([_, dim], [_, y_dim], [factors]) = (x.dims(), y.dims(), curv.dims());
    assert!(
        dim == y_dim && factors > 0 && dim > 0 && dim % factors == 0,
        "expected equal widths, a multiple of the number of factors; found points of {dim} and {y_dim} coordinates, {factors} factors"
    );
    assert!(rule.floor > 0.0, "expected a positive floor; found {}", rule.floor);
    let single = [x.dtype(), y.dtype(), curv.dtype()] == [DType::F32; 3];
    if !single || !fits_device(&x, &y, factors) {
        return pairwise_distance_plain(x, y, curv, rule);
    }
    let [x, y] = [x, y].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as DistanceOps>::pairwise_distance(x, y, curv.into_dispatch(), rule))
}

/// True if the device has the fused operation and supports this number of pairs.
#[cfg_attr(not(feature = "vulkan"), allow(unused_variables, reason = "the CPU takes any number"))]
fn fits_device(x: &Tensor<2>, y: &Tensor<2>, factors: usize) -> bool {
    match x.device().inner().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "vulkan")]
        DispatchDevice::Cube(_) => cube::fits(x.dims()[0], y.dims()[0], factors),
        #[allow(unreachable_patterns, reason = "the kinds of devices depend on the features of Burn")]
        _ => false,
    }
}

/// Burn backend extension that declares the fused operation.
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
