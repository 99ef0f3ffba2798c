//! [`lift`]: from features to points of the hyperboloid, in one pass over the rows.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// Exponential map at the origin of scaled tangent vectors, factor by factor: `[B, K d]`, `[K]`, `[K]` to `[B, K d]`.
///
/// `x = sinh(r) / r s v` with `r = sqrt(c) s |v|` for each factor `v` of a row, `s >= 0` its scale and `c > 0` its curvature
/// (HyCoCLIP Eq. 4 at the origin). Beyond `max_rapidity` the result has the length of `sinh(max_rapidity) / sqrt(c)`, and its
/// gradient only turns it. Gradients flow to all three tensors; both passes keep the features and nothing else.
///
/// Fused for `f32` on the CPU; `None` for everything else, where the caller composes it. The same bits for any number of threads.
///
/// # Panics
/// Where the shapes do not fit together.
pub fn lift(tangent: Tensor<2>, scale: Tensor<1>, curv: Tensor<1>, max_rapidity: f64) -> Option<Tensor<2>> {
    let ([_, width], [scales], [factors]) = (tangent.dims(), scale.dims(), curv.dims());
    assert!(
        scales == factors && width.is_multiple_of(factors.max(1)),
        "{width} columns, {scales} scales, {factors} factors"
    );
    if !(is_fused(&tangent) && is_fused(&scale) && is_fused(&curv)) {
        return None;
    }
    let [scale, curv] = [scale, curv].map(Tensor::into_dispatch);
    Some(Tensor::from_dispatch(<Dispatch as LiftOps>::lift(tangent.into_dispatch(), scale, curv, max_rapidity)))
}

/// The operation as an extension of the engine's backends.
#[backend_extension(Flex, Autodiff)]
trait LiftOps: Backend {
    /// See [`lift`].
    fn lift(
        tangent: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        max_rapidity: f64,
    ) -> FloatTensor<Self>;
}
