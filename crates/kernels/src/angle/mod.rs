//! Exterior angles of all parent-child pairs, fused over tiles of rows: the table of angles
//! ([`pairwise_exterior_angle`]) and the contrast of wholes and parts by their angles ([`angle_contrast`]).

use std::sync::Arc;

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod contrast;
mod labels;
mod operands;
mod pass;
mod queries;
#[cfg(test)]
mod tests;
mod tiles;

pub use labels::PairLabels;

/// The geometry in which angles are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AngleGeometry {
    /// Hyperboloids of curvature `-c`.
    Hyperbolic,
    /// Flat space. The curvature is ignored and gets a zero gradient.
    Flat,
}

/// Computes the mean over factors of the exterior angle of all pairs, in radians, with the root at the origin. Shapes:
/// `[P, K d]`, `[C, K d]` and `[K]` to `[P, C]`.
///
/// Let `p` be the parent, `q` the child, `c` the curvature, `y` the component of `q` along `p`, and `t` the Lorentz
/// time component. The vector at the parent towards the child has the component `a = sqrt(|q|^2 - y^2)` perpendicular
/// to the outward direction and `sqrt(c) (t(p) y - t(q) |p|)` along it (HyCoCLIP Eq. 9), or `y - |p|` in flat space
/// (Wang et al., Eq. 10). One matrix product gives every `y`. `a` is the root of a difference of squares, so angles
/// within about the square root of the rounding error of 0 or pi are not resolved. Lengths up to `tiny` count as zero:
/// the angle is 0 and no gradient flows. Otherwise gradients flow to all three tensors.
///
/// Fused for `f32` on the CPU. Returns `None` for other tensors, for which the caller computes the angles with tensor
/// operations. Both passes process one tile of a few MiB at a time; only the inputs are saved. The result is
/// bit-identical for any number of threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn pairwise_exterior_angle(
    parent: Tensor<2>,
    child: Tensor<2>,
    curv: Tensor<1>,
    geometry: AngleGeometry,
    tiny: f64,
) -> Option<Tensor<2>> {
    let ([_, width], [_, child_width], [factors]) = (parent.dims(), child.dims(), curv.dims());
    let fits = width == child_width && width.is_multiple_of(factors.max(1));
    assert!(
        fits,
        "expected equal widths, a multiple of the number of factors; found parents of width {width}, children of width {child_width}, {factors} factors"
    );
    if !(is_fused(&parent) && is_fused(&child) && is_fused(&curv)) {
        return None;
    }
    let [parent, child] = [parent, child].map(Tensor::into_dispatch);
    let curv = curv.into_dispatch();
    Some(Tensor::from_dispatch(<Dispatch as AngleOps>::pairwise_exterior_angle(parent, child, curv, geometry, tiny)))
}

/// Computes contrastive losses of wholes and parts by the exterior angles between them, with the root at the origin.
/// Shapes: `[N, K d]`, `[K]` and `[1]` to `[W + P]`, with the losses of the wholes first.
///
/// Let `X` be the mean over factors of the exterior angle at its first argument, and `s` = `scale`. A whole x is a
/// query over the parts with the similarity `beta_xy = pi - X(x, y)`; a part y is a query over the wholes with
/// `alpha_xy = X(y, x)`. The losses are `down_x = log sum_{y not same} exp(s beta_xy) - log sum_{y positive} exp(s
/// beta_xy)`, and `up_y` likewise over x. A query without a positive has the loss 0. Source: Wang et al., Sec. 3.2.
/// Gradients flow to all three tensors.
///
/// One matrix product gives both angles of all pairs. Fused for `f32` on the CPU. Returns `None` for other tensors, for
/// which the caller combines [`pairwise_exterior_angle`] and [`multi_positive_nce`](crate::multi_positive_nce).
/// Precision, `tiny`, memory and threads are as in [`pairwise_exterior_angle`]. The saved state consists of the inputs,
/// two similarities per positive cell and a few numbers per query.
///
/// # Panics
/// Panics if the shapes do not match or if `labels` holds a point index of `N` or more.
pub fn angle_contrast(
    points: Tensor<2>,
    curv: Tensor<1>,
    scale: Tensor<1>,
    labels: &Arc<PairLabels>,
    geometry: AngleGeometry,
    tiny: f64,
) -> Option<Tensor<1>> {
    let ([count, width], [factors]) = (points.dims(), curv.dims());
    assert!(
        width.is_multiple_of(factors.max(1)) && scale.dims() == [1],
        "expected a width that is a multiple of the number of factors, and a scale of shape [1]; found width {width}, {factors} factors, scale {:?}",
        scale.dims()
    );
    let named = labels.wholes().iter().chain(labels.parts()).max();
    assert!(
        named.is_none_or(|&point| (point as usize) < count),
        "the answers name point {named:?}; expected a point below {count}"
    );
    if !(is_fused(&points) && is_fused(&curv) && is_fused(&scale)) {
        return None;
    }
    let contrast = ContrastRule { labels: Arc::clone(labels), geometry, tiny };
    let (points, [curv, scale]) = (points.into_dispatch(), [curv, scale].map(Tensor::into_dispatch));
    Some(Tensor::from_dispatch(<Dispatch as AngleOps>::angle_contrast(points, curv, scale, contrast)))
}

/// The arguments of [`angle_contrast`] that are not tensors.
#[derive(Clone, Debug)]
struct ContrastRule {
    labels: Arc<PairLabels>,
    geometry: AngleGeometry,
    tiny: f64,
}

/// Burn backend extension that declares the fused operations.
#[backend_extension(Flex, Autodiff)]
trait AngleOps: Backend {
    /// See [`pairwise_exterior_angle`].
    fn pairwise_exterior_angle(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        geometry: AngleGeometry,
        tiny: f64,
    ) -> FloatTensor<Self>;

    /// See [`angle_contrast`].
    fn angle_contrast(
        points: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        contrast: ContrastRule,
    ) -> FloatTensor<Self>;
}
