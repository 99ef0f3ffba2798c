//! Euclidean space.

use burn::tensor::Tensor;
use conifer_geometry::ManifoldSpec;

use super::{FusedAngles, Manifold, ManifoldEntry, chord, fused};
use crate::{RootT, safe};

/// Euclidean space with the exterior angle of Wang et al. (Eq. 10) and the flat cones of Ganea et al. 2018.
struct EuclideanManifold {
    dim: usize,
}

/// The entry in [`super::MANIFOLDS`].
pub(super) const ENTRY: ManifoldEntry =
    ManifoldEntry { kind: "euclidean", build: |spec, _| Box::new(EuclideanManifold { dim: spec.dim }) };

impl Manifold for EuclideanManifold {
    fn spec(&self) -> ManifoldSpec {
        ManifoldSpec::euclidean(self.dim)
    }

    /// The identity.
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2> {
        tangent
    }

    /// The identity.
    fn unlift(&self, points: Tensor<2>) -> Tensor<2> {
        points
    }

    /// `|x - y|`.
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        safe::norm(x - y).squeeze_dim(1)
    }

    /// `sqrt(|x|^2 + |y|^2 - 2 <x, y>)`. This formula loses digits for close points; [`Manifold::dist`] does not.
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        safe::sqrt(chord::pairwise_square(x, y))
    }

    /// `<x, y>`.
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        safe::dot(x, y).squeeze_dim(1)
    }

    /// `X Y^T`.
    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        x.matmul(y.transpose())
    }

    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1> {
        chord::exterior_angle(parent, child, root)
    }

    fn fused_angles(&self, like: &Tensor<2>, root: &RootT) -> Option<FusedAngles> {
        fused::angles(like, None, root)
    }

    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2> {
        fused::pairwise_exterior_angle(self, &parent, &child, root)
            .unwrap_or_else(|| chord::pairwise_exterior_angle(parent, child, root))
    }

    /// `asin(K / |parent - root|)`.
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1> {
        chord::half_aperture(parent, min_radius, root)
    }

    /// `(1 - t) from + t to`.
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2> {
        from * (1.0 - t) + to * t
    }

    /// `|x - root|`.
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1> {
        chord::depth(x, root)
    }
}
