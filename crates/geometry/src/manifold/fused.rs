//! The fused operations of `conifer_kernels` with the root at the origin: `None` where the tensors are not for them (another root,
//! dtype or device), and a space composes its own.

use burn::tensor::Tensor;
use conifer_kernels::{Bend, Cone};
use conifer_space::safe::{EPS_F64, MAX_RAPIDITY};

use super::ConeShape;
use super::curvature::Curvature;
use crate::{RootT, safe};

/// [`super::Manifold::lift_scaled`]; a missing scale is 1.
pub(super) fn lift(features: &Tensor<2>, scale: Option<&Tensor<1>>, curv: &Curvature) -> Option<Tensor<2>> {
    let curv = curv.tensor(features);
    let scale = match scale {
        Some(scale) => scale.clone().expand(curv.dims()),
        None => Tensor::ones(curv.dims(), (&features.device(), features.dtype())),
    };
    conifer_kernels::lift(features.clone(), scale, curv, MAX_RAPIDITY)
}

/// [`super::Manifold::cone_hinge`] of a hyperboloid or the factors of a product.
pub(super) fn cone_hinge(
    parent: &Tensor<2>,
    child: &Tensor<2>,
    curv: &Curvature,
    shape: &ConeShape,
    root: &RootT,
) -> Option<Tensor<1>> {
    let RootT::Origin = root else { return None };
    let ConeShape { min_radius, aperture_scale, max_aperture } = *shape;
    let (tiny, straight) = (safe::tiny(parent.dtype()), EPS_F64);
    let cone = Cone { min_radius, aperture_scale, max_aperture, tiny, straight };
    conifer_kernels::cone_hinge(parent.clone(), child.clone(), curv.tensor(parent), cone)
}

/// [`super::Manifold::pairwise_exterior_angle`] of a hyperboloid or the factors of a product; of flat space without a curvature.
pub(super) fn pairwise_exterior_angle(
    parent: &Tensor<2>,
    child: &Tensor<2>,
    curv: Option<&Curvature>,
    root: &RootT,
) -> Option<Tensor<2>> {
    let RootT::Origin = root else { return None };
    let (bend, curv) = match curv {
        Some(curv) => (Bend::Hyperbolic, curv.tensor(parent)),
        None => (Bend::Flat, Tensor::ones([1], (&parent.device(), parent.dtype()))),
    };
    let tiny = safe::tiny(parent.dtype());
    conifer_kernels::pairwise_exterior_angle(parent.clone(), child.clone(), curv, bend, tiny)
}
