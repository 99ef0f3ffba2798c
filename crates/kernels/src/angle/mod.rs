//! [`pairwise_exterior_angle`]: the angle at every parent to every child, a few rows of the table at a time.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod pass;
mod sides;
#[cfg(test)]
mod tests;
mod tiles;

/// The geometry of [`pairwise_exterior_angle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bend {
    /// Hyperboloids of curvature `-c`.
    Hyperbolic,
    /// Flat space: no curvature is read, and none gets a gradient.
    Flat,
}

/// The mean over factors of the exterior angle of all pairs, radians, root at the origin: `[P, K d]`, `[C, K d]`, `[K]` to `[P, C]`.
///
/// With `y` the child's component along the parent, the vector at the parent towards the child has the length
/// `a = sqrt(|child|^2 - y^2)` across the outward direction and `sqrt(c) (t(p) y - t(c) |p|)` along it (HyCoCLIP Eq. 9), `y - |p|` in
/// flat space (Wang et al., Eq. 10). One matrix product gives every `y`; `a` is a difference of squares, so that angles within about
/// the square root of the rounding error of 0 or pi are not resolved. Lengths up to `tiny` are none: an angle there is 0, and no
/// gradient flows. Gradients flow to all three tensors.
///
/// Fused for `f32` on the CPU; `None` for everything else, where the caller composes it. Both passes work through one tile of a few
/// MiB at a time and keep the points alone, no second table. The same bits for any number of threads.
///
/// # Panics
/// Where the shapes do not fit together.
pub fn pairwise_exterior_angle(
    parent: Tensor<2>,
    child: Tensor<2>,
    curv: Tensor<1>,
    bend: Bend,
    tiny: f64,
) -> Option<Tensor<2>> {
    let ([_, width], [_, child_width], [factors]) = (parent.dims(), child.dims(), curv.dims());
    let fits = width == child_width && width.is_multiple_of(factors.max(1));
    assert!(fits, "parents of width {width}, children of {child_width}, {factors} factors");
    if !(is_fused(&parent) && is_fused(&child) && is_fused(&curv)) {
        return None;
    }
    let [parent, child] = [parent, child].map(Tensor::into_dispatch);
    let curv = curv.into_dispatch();
    Some(Tensor::from_dispatch(<Dispatch as AngleOps>::pairwise_exterior_angle(parent, child, curv, bend, tiny)))
}

/// The operation as an extension of the engine's backends.
#[backend_extension(Flex, Autodiff)]
trait AngleOps: Backend {
    /// See [`pairwise_exterior_angle`].
    fn pairwise_exterior_angle(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        bend: Bend,
        tiny: f64,
    ) -> FloatTensor<Self>;
}
