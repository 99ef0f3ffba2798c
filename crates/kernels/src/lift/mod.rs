//! The fused lift of features to points of the hyperboloid: [`lift`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// Computes the exponential map at the origin of scaled tangent vectors, factor by factor. Shapes: `[B, K d]`, `[K]`
/// and `[K]` to `[B, K d]`.
///
/// `x = sinh(r) / r s v` with `r = sqrt(c) s |v|` for each factor `v` of a row, where `s >= 0` is its scale and `c > 0`
/// its curvature (HyCoCLIP Eq. 4 at the origin). Above `max_rapidity` the length of the result is clamped to
/// `sinh(max_rapidity) / sqrt(c)`, and only the part of the gradient perpendicular to the vector remains. Gradients
/// flow to all three tensors. Only the inputs are saved for the backward pass.
///
/// Fused for `f32` on the CPU. Returns `None` for other tensors, for which the caller computes the lift with tensor
/// operations. The result is bit-identical for any number of threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn lift(tangent: Tensor<2>, scale: Tensor<1>, curv: Tensor<1>, max_rapidity: f64) -> Option<Tensor<2>> {
    let ([_, width], [scales], [factors]) = (tangent.dims(), scale.dims(), curv.dims());
    assert!(
        scales == factors && width.is_multiple_of(factors.max(1)),
        "expected one scale per factor, and a width that is a multiple of the number of factors; found width {width}, {scales} scales, {factors} factors"
    );
    if !(is_fused(&tangent) && is_fused(&scale) && is_fused(&curv)) {
        return None;
    }
    let [scale, curv] = [scale, curv].map(Tensor::into_dispatch);
    Some(Tensor::from_dispatch(<Dispatch as LiftOps>::lift(tangent.into_dispatch(), scale, curv, max_rapidity)))
}

/// Burn backend extension that declares the fused operation.
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
