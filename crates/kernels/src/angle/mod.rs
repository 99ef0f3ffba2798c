//! The angle at every parent to every child, a few rows of the table at a time: the table itself ([`pairwise_exterior_angle`]), and the
//! contrast of wholes and parts by their angles ([`angle_contrast`]).

use std::sync::Arc;

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod answers;
mod autodiff;
mod contrast;
mod pass;
mod queries;
mod sides;
#[cfg(test)]
mod tests;
mod tiles;

pub use answers::Answers;

/// The geometry of the angles.
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

/// Contrastive losses of wholes and parts among some points by the angles between them, root at the origin: `[N, K d]`, `[K]`, `[1]` to
/// `[W + P]`, those of the wholes first.
///
/// With `X` the mean over factors of the exterior angle at its first argument and `s` = `scale`, a whole x asks the parts by
/// `beta_xy = pi - X(x, y)` and a part y the wholes by `alpha_xy = X(y, x)`:
/// `down_x = log sum_{y not same} exp(s beta_xy) - log sum_{y positive} exp(s beta_xy)`, `up_y` likewise over x. Who has no right answer
/// adds 0. Source: Wang et al., Sec. 3.2. Gradients flow to all three tensors.
///
/// One matrix product gives both angles of all pairs. Fused for `f32` on the CPU; `None` for everything else, where the caller composes
/// it of [`pairwise_exterior_angle`] and [`multi_positive_nce`](crate::multi_positive_nce). Precision, `tiny`, memory and threads as of
/// the angles; what is kept has the size of the points and of the list of answers.
///
/// # Panics
/// Where the shapes do not fit together, or an answer names a point that is none.
pub fn angle_contrast(
    points: Tensor<2>,
    curv: Tensor<1>,
    scale: Tensor<1>,
    answers: &Arc<Answers>,
    bend: Bend,
    tiny: f64,
) -> Option<Tensor<1>> {
    let ([count, width], [factors]) = (points.dims(), curv.dims());
    assert!(
        width.is_multiple_of(factors.max(1)) && scale.dims() == [1],
        "points of width {width}, {factors} factors, scale {:?}",
        scale.dims()
    );
    let named = answers.wholes().iter().chain(answers.parts()).max();
    assert!(named.is_none_or(|&point| (point as usize) < count), "point {named:?} of {count}");
    if !(is_fused(&points) && is_fused(&curv) && is_fused(&scale)) {
        return None;
    }
    let contrast = Contrast { answers: Arc::clone(answers), bend, tiny };
    let (points, [curv, scale]) = (points.into_dispatch(), [curv, scale].map(Tensor::into_dispatch));
    Some(Tensor::from_dispatch(<Dispatch as AngleOps>::angle_contrast(points, curv, scale, contrast)))
}

/// What [`angle_contrast`] is told beside the tensors.
#[derive(Clone, Debug)]
struct Contrast {
    answers: Arc<Answers>,
    bend: Bend,
    tiny: f64,
}

/// The operations as an extension of the engine's backends.
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

    /// See [`angle_contrast`].
    fn angle_contrast(
        points: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        contrast: Contrast,
    ) -> FloatTensor<Self>;
}
