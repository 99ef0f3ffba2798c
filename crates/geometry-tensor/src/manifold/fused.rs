//! The fused operations of `conifer_kernels`: lifts and, for the root at the origin, cone hinges and angles. They
//! return `None` for an unsupported root, dtype or device; the space then composes tensor operations instead.

use burn::tensor::Tensor;
use conifer_geometry::safe::{EPS_F64, MAX_RAPIDITY};
use conifer_kernels::{AngleGeometry, ConeHinge};

use super::curvature::Curvature;
use super::{ConeShape, Manifold};
use crate::{RootT, safe};

/// Fused [`super::Manifold::lift_scaled`]; the default scale is 1.
pub(super) fn lift(features: &Tensor<2>, scale: Option<&Tensor<1>>, curv: &Curvature) -> Option<Tensor<2>> {
    let curv = curv.tensor(features);
    let scale = match scale {
        Some(scale) => scale.clone().expand(curv.dims()),
        None => Tensor::ones(curv.dims(), (&features.device(), features.dtype())),
    };
    conifer_kernels::lift(features.clone(), scale, curv, MAX_RAPIDITY)
}

/// Fused [`super::Manifold::cone_hinge`] of a hyperboloid or a product.
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
    let cone = ConeHinge { min_radius, aperture_scale, max_aperture, tiny, straight };
    conifer_kernels::cone_hinge(parent.clone(), child.clone(), curv.tensor(parent), cone)
}

/// Parameters of the fused angle operations in `conifer_kernels`.
pub struct FusedAngles {
    /// Curvatures `[K]`; ones in Euclidean space.
    pub curv: Tensor<1>,
    /// Hyperbolic or flat geometry.
    pub geometry: AngleGeometry,
    /// Lengths up to this value count as zero.
    pub tiny: f64,
}

/// [`super::Manifold::fused_angles`] of a hyperboloid or a product, or of Euclidean space if `curv` is `None`.
pub(super) fn angles(like: &Tensor<2>, curv: Option<&Curvature>, root: &RootT) -> Option<FusedAngles> {
    let RootT::Origin = root else { return None };
    let (geometry, curv) = match curv {
        Some(curv) => (AngleGeometry::Hyperbolic, curv.tensor(like)),
        None => (AngleGeometry::Flat, Tensor::ones([1], (&like.device(), like.dtype()))),
    };
    Some(FusedAngles { curv, geometry, tiny: safe::tiny(like.dtype()) })
}

/// Fused [`super::Manifold::pairwise_exterior_angle`] of a space with fused angles.
pub(super) fn pairwise_exterior_angle(
    space: &dyn Manifold,
    parent: &Tensor<2>,
    child: &Tensor<2>,
    root: &RootT,
) -> Option<Tensor<2>> {
    let FusedAngles { curv, geometry, tiny } = space.fused_angles(parent, root)?;
    conifer_kernels::pairwise_exterior_angle(parent.clone(), child.clone(), curv, geometry, tiny)
}
