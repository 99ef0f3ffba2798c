//! [`Manifold`], and [`MANIFOLDS`]: every implementation of it.

use burn::tensor::Tensor;
use conifer_space::{ManifoldSpec, Registry};

use crate::{Error, Result, RootT};

mod chord;
mod curvature;
mod euclidean;
mod fused;
mod lorentz;
mod product;
mod sphere;

pub use fused::FusedAngles;

/// A space in which embeddings live, over tensors.
///
/// Points are `[B, D]`, stored by their space components. A name that begins with `pairwise_` compares every row of
/// its first argument with every row of its second, `[M, D], [N, D] -> [M, N]`; the plain name goes row by row.
/// Angles are radians. Where two points play different parts, `parent` (general, near the root) comes before `child`.
///
/// Shapes are the caller's duty: tensors of another width or of unequal row counts panic inside the tensor engine.
pub trait Manifold: Send + Sync {
    /// Description with the current curvature values (this reads the curvature back from its device).
    fn spec(&self) -> ManifoldSpec;

    /// Exponential map at the origin: tangent vectors `[B, D]` to points `[B, D]`.
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2>;

    /// [`Manifold::lift`] of `scale` times `features`: `[B, D]`, and `[1]` or one number `>= 0` for each factor, `[K]`.
    fn lift_scaled(&self, features: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
        self.lift(scaled(features, scale))
    }

    /// Logarithmic map at the origin: points `[B, D]` to tangent vectors `[B, D]`. Inverse of [`Manifold::lift`].
    fn unlift(&self, points: Tensor<2>) -> Tensor<2>;

    /// Geodesic distance, row by row: `[B, D], [B, D] -> [B]`.
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1>;

    /// Geodesic distance of all pairs: `[M, D], [N, D] -> [M, N]`.
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2>;

    /// Inner product, row by row: `[B, D], [B, D] -> [B]`.
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1>;

    /// Inner product of all pairs: `[M, D], [N, D] -> [M, N]`.
    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2>;

    /// What a contrastive logit is made of, row by row, larger is closer: `-dist`, except on the sphere (cosine).
    fn similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        -self.dist(x, y)
    }

    /// [`Manifold::similarity`] of all pairs: `[M, D], [N, D] -> [M, N]`.
    fn pairwise_similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        -self.pairwise_dist(x, y)
    }

    /// Angle at `parent` between the geodesic that goes on from the root and the one to `child`, row by row:
    /// `[B, D], [B, D] -> [B]`, radians in `[0, pi]`; 0 where `child` lies straight behind `parent`.
    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1>;

    /// [`Manifold::exterior_angle`] of all pairs: `[P, D], [C, D] -> [P, C]`.
    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2>;

    /// What the fused operations over these angles need, for points like `like`; `None` where a space has no such operation, or none with
    /// this root.
    fn fused_angles(&self, like: &Tensor<2>, root: &RootT) -> Option<FusedAngles> {
        let _ = (like, root);
        None
    }

    /// Half aperture of the cone under each `parent`: `[B, D] -> [B]`, radians in `(0, pi/2]`.
    ///
    /// `min_radius` is K of the papers: closer to the root than about 2K the cone is a half space.
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1>;

    /// How far `child` is outside the scaled cone of `parent`, row by row: `[B, D], [B, D] -> [B]`, radians, `>= 0`:
    /// `max(0, exterior_angle - aperture_scale * half_aperture)`. On a product, the mean over factors of their hinges, each with
    /// its own aperture.
    fn cone_hinge(&self, parent: Tensor<2>, child: Tensor<2>, shape: &ConeShape, root: &RootT) -> Tensor<1> {
        let aperture = shape.cut(self.half_aperture(parent.clone(), shape.min_radius, root));
        (self.exterior_angle(parent, child, root) - aperture * shape.aperture_scale).clamp_min(0.0)
    }

    /// Point at the fraction `t` (0 to 1) of the geodesic, row by row: `[B, D], [B, D] -> [B, D]`.
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2>;

    /// One point for many, `[B, D] -> [1, D]`: the mean in the tangent space at the origin, lifted again.
    fn mean(&self, points: Tensor<2>) -> Tensor<2> {
        self.lift(self.unlift(points).mean_dim(0))
    }

    /// Distance to the root: `[B, D] -> [B]`.
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1>;
}

/// Size of cones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConeShape {
    /// K of the half aperture (HyCoCLIP Eq. 7: `asin(2K / (sqrt(c) |parent|))`): closer to the root than about 2K the cone is a half
    /// space.
    pub min_radius: f64,
    /// eta: factor on the half aperture (HyCoCLIP Eq. 10).
    pub aperture_scale: f64,
    /// Largest half aperture of a factor, before `aperture_scale`, radians; absent: pi/2. Only released code has another
    /// (DEVIATIONS.md).
    pub max_aperture: Option<f64>,
}

impl ConeShape {
    /// Half apertures, none above the largest.
    fn cut<const D: usize>(&self, aperture: Tensor<D>) -> Tensor<D> {
        match self.max_aperture {
            Some(largest) => aperture.clamp_max(largest),
            None => aperture,
        }
    }
}

/// One line of [`MANIFOLDS`].
pub struct ManifoldEntry {
    /// Name in [`ManifoldSpec::kind`].
    pub kind: &'static str,
    /// Builds it from a checked description and, where the space is curved, its curvatures `[K]`.
    pub build: fn(&ManifoldSpec, Option<Tensor<1>>) -> Box<dyn Manifold>,
}

/// Every space over tensors; the kinds are those of [`conifer_space::SPACES`].
///
/// A space from another crate is registered in both.
pub static MANIFOLDS: Registry<ManifoldEntry> = Registry::new(
    "manifold",
    |entry| entry.kind,
    &[sphere::ENTRY, euclidean::ENTRY, lorentz::ENTRY, product::ENTRY_L1, product::ENTRY_L2],
);

/// Builds the manifold that `spec` describes.
///
/// `curv` holds the curvatures c > 0, `[K]`, one per Lorentz factor, and may carry gradient; without it the values of
/// `spec` are used as constants. Sphere and Euclidean space ignore it.
///
/// # Errors
/// A description that [`ManifoldSpec::check`] refuses, an unknown kind, or a `curv` of another length.
pub fn manifold(spec: &ManifoldSpec, curv: Option<Tensor<1>>) -> Result<Box<dyn Manifold>> {
    spec.check()?;
    let entry = MANIFOLDS
        .find(&spec.kind)
        .ok_or_else(|| Error::UnknownKind { kind: spec.kind.clone(), expected: MANIFOLDS.names() })?;
    if let Some(c) = &curv {
        let (found, expected) = (c.dims()[0], spec.curv.len());
        if found != expected && expected != 0 {
            return Err(Error::CurvatureCount { kind: spec.kind.clone(), found, expected });
        }
    }
    Ok((entry.build)(spec, curv))
}

/// `scale * features`, each of the `K` numbers over the `D/K` coordinates of its factor: `[B, D], [K] -> [B, D]`.
fn scaled(features: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
    let ([_, dim], [count]) = (features.dims(), scale.dims());
    features * scale.reshape([count, 1]).expand([count, dim / count]).reshape([1, dim])
}

/// The root as one row, `[1, D]`, or one for each parent, `[B, D]`; none for the origin.
fn root_rows(root: &RootT) -> Option<Tensor<2>> {
    match root {
        RootT::Origin => None,
        RootT::Point(point) => Some(point.clone().unsqueeze_dim(0)),
        RootT::Rows(points) => Some(points.clone()),
    }
}
