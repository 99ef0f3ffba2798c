//! Products of hyperboloids, the space of PHyCLIP: `K` factors, each with its own curvature.
//!
//! A point is the concatenation of its factors. All factors are computed at once: on `[B, K, d]` for row-wise functions
//! and on `[K, B, d]` for pairwise functions.

use burn::tensor::Tensor;
use conifer_geometry::ManifoldSpec;
use conifer_kernels::{DistanceNorm, DistanceRule, pairwise_distance};

use super::curvature::Curvature;
use super::lorentz::Hyperboloid;
use super::{ConeShape, FusedAngles, Manifold, ManifoldEntry, fused, scaled};
use crate::{RootT, safe};

/// A product of hyperboloids.
struct ProductManifold {
    factors: usize,
    factor_dim: usize,
    curv: Curvature,
    norm: DistanceNorm,
}

/// The l1 entry in [`super::MANIFOLDS`].
pub(super) const ENTRY_L1: ManifoldEntry = ManifoldEntry {
    kind: "product_l1",
    build: |spec, curv| Box::new(ProductManifold::new(spec, curv, DistanceNorm::L1)),
};

/// The l2 entry in [`super::MANIFOLDS`].
pub(super) const ENTRY_L2: ManifoldEntry = ManifoldEntry {
    kind: "product_l2",
    build: |spec, curv| Box::new(ProductManifold::new(spec, curv, DistanceNorm::L2)),
};

impl Manifold for ProductManifold {
    fn spec(&self) -> ManifoldSpec {
        let build = match self.norm {
            DistanceNorm::L1 => ManifoldSpec::product_l1,
            DistanceNorm::L2 => ManifoldSpec::product_l2,
        };
        build(self.factors, self.factor_dim, self.curv.values())
    }

    /// The lift in each factor.
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2> {
        fused::lift(&tangent, None, &self.curv)
            .unwrap_or_else(|| self.joined(self.by_row(&tangent).lift(self.split(tangent))))
    }

    fn lift_scaled(&self, features: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
        fused::lift(&features, Some(&scale), &self.curv).unwrap_or_else(|| self.lift(scaled(features, scale)))
    }

    /// The inverse of the lift in each factor.
    fn unlift(&self, points: Tensor<2>) -> Tensor<2> {
        self.joined(self.by_row(&points).unlift(self.split(points)))
    }

    /// l1: `mean_i d_i(x_i, y_i)`; l2: `sqrt(mean_i d_i(x_i, y_i)^2)`. PHyCLIP Eq. 2 divided by `K` (l1) or `sqrt(K)`.
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        rows(self.norm, self.by_row(&x).dist(self.split(x), self.split(y)))
    }

    /// [`Manifold::dist`] of all pairs. The fused operation does not store a tensor `[K, M, N]`.
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.pairs(x, y, false)
    }

    /// The negated distances. The fused operation negates them.
    fn pairwise_similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.pairs(x, y, true)
    }

    /// Sum over factors of `<x_i, y_i>_L`: the score of PHyCLIP's released evaluation. With more than one factor, this
    /// score and the distance can rank points differently.
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        self.by_row(&x).inner(self.split(x), self.split(y)).sum_dim(1).squeeze_dims(&[1, 2])
    }

    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.by_pair(&x).pairwise_inner(self.by_factor(x), self.by_factor(y)).sum_dim(0).squeeze_dim(0)
    }

    /// Mean of the angles of the factors. PHyCLIP averages its entailment terms in the same way.
    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1> {
        rows(DistanceNorm::L1, self.factor_angles(parent, child, root))
    }

    fn fused_angles(&self, like: &Tensor<2>, root: &RootT) -> Option<FusedAngles> {
        fused::angles(like, Some(&self.curv), root)
    }

    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2> {
        fused::pairwise_exterior_angle(self, &parent, &child, root).unwrap_or_else(|| {
            let root = self.root(root).map(|r| r.swap_dims(0, 1));
            let space = self.by_pair(&parent);
            let angles = space.pairwise_exterior_angle(self.by_factor(parent), self.by_factor(child), root);
            angles.mean_dim(0).squeeze_dim(0)
        })
    }

    /// Mean of the half apertures of the factors.
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1> {
        rows(DistanceNorm::L1, self.factor_apertures(parent, min_radius, root))
    }

    /// `mean_i max(0, ext_i - eta aperture_i)` (PHyCLIP Eq. 5).
    fn cone_hinge(&self, parent: Tensor<2>, child: Tensor<2>, shape: &ConeShape, root: &RootT) -> Tensor<1> {
        fused::cone_hinge(&parent, &child, &self.curv, shape, root).unwrap_or_else(|| {
            let (space, root) = (self.by_row(&parent), self.root(root));
            rows(DistanceNorm::L1, space.cone_hinge(self.split(parent), self.split(child), shape, root))
        })
    }

    /// The geodesic in each factor.
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2> {
        self.joined(self.by_row(&from).geodesic(self.split(from), self.split(to), t))
    }

    /// The factor depths, aggregated like the distance.
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1> {
        rows(self.norm, self.by_row(&x).depth(self.split(x), self.root(root)))
    }
}

/// Aggregates distances, depths, angles, apertures or hinges of the factors: `[B, K, 1] -> [B]`.
fn rows(norm: DistanceNorm, lengths: Tensor<3>) -> Tensor<1> {
    let mean = match norm {
        DistanceNorm::L1 => lengths.mean_dim(1),
        DistanceNorm::L2 => safe::sqrt(lengths.square().mean_dim(1)),
    };
    mean.squeeze_dims(&[1, 2])
}

impl ProductManifold {
    fn new(spec: &ManifoldSpec, curv: Option<Tensor<1>>, norm: DistanceNorm) -> Self {
        let curv = Curvature::new(spec, curv);
        ProductManifold { factors: spec.factors, factor_dim: spec.factor_dim(), curv, norm }
    }

    /// The factors for points `[B, K, d]`.
    fn by_row(&self, like: &Tensor<2>) -> Hyperboloid<3> {
        Hyperboloid::new(self.curv.tensor(like).reshape([1, self.factors, 1]))
    }

    /// The factors for points `[K, B, d]`.
    fn by_pair(&self, like: &Tensor<2>) -> Hyperboloid<3> {
        Hyperboloid::new(self.curv.tensor(like).reshape([self.factors, 1, 1]))
    }

    fn pairs(&self, x: Tensor<2>, y: Tensor<2>, negative: bool) -> Tensor<2> {
        let rule = DistanceRule { norm: self.norm, floor: safe::acosh_floor(x.dtype()), negative };
        let curv = self.curv.tensor(&x);
        pairwise_distance(x, y, curv, rule)
    }

    /// `[B, K d] -> [B, K, d]`.
    fn split(&self, points: Tensor<2>) -> Tensor<3> {
        let rows = points.dims()[0];
        points.reshape([rows, self.factors, self.factor_dim])
    }

    /// `[B, K, d] -> [B, K d]`.
    fn joined(&self, points: Tensor<3>) -> Tensor<2> {
        let rows = points.dims()[0];
        points.reshape([rows, self.factors * self.factor_dim])
    }

    /// `[B, K d] -> [K, B, d]`.
    fn by_factor(&self, points: Tensor<2>) -> Tensor<3> {
        self.split(points).swap_dims(0, 1)
    }

    /// The root as `[1, K, d]` or `[B, K, d]`; `None` for the origin.
    fn root(&self, root: &RootT) -> Option<Tensor<3>> {
        match root {
            RootT::Origin => None,
            RootT::Point(point) => Some(point.clone().reshape([1, self.factors, self.factor_dim])),
            RootT::Rows(points) => Some(self.split(points.clone())),
        }
    }

    /// The exterior angle in each factor, radians: `[B, K, 1]`.
    fn factor_angles(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<3> {
        self.by_row(&parent).exterior_angle(self.split(parent), self.split(child), self.root(root))
    }

    /// The half aperture in each factor, radians: `[B, K, 1]`.
    fn factor_apertures(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<3> {
        self.by_row(&parent).half_aperture(self.split(parent), min_radius, self.root(root))
    }
}
