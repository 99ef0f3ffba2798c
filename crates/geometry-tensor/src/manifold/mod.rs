//! The trait [`Manifold`], and [`MANIFOLDS`], the registry of its implementations.

use burn::tensor::Tensor;
use conifer_geometry::{ManifoldSpec, Registry};

use crate::{Error, Result, RootT};

mod chord;
mod curvature;
mod euclidean;
mod fused;
mod lorentz;
mod product;
mod sphere;

pub use fused::FusedAngles;

/// An embedding space on tensors.
///
/// Points are `[B, D]`, stored by their space components. Functions whose name begins with `pairwise_` compare every
/// row of the first argument with every row of the second, `[M, D], [N, D] -> [M, N]`; the others work row-wise. Angles
/// are in radians. Where two points have different roles, `parent` (general, near the root) comes before `child`.
///
/// The caller must pass matching shapes: tensors of another width or with unequal row counts panic inside the tensor
/// engine.
pub trait Manifold: Send + Sync {
    /// The spec with the current curvature values. This reads the curvature back from its device.
    fn spec(&self) -> ManifoldSpec;

    /// Exponential map at the origin: tangent vectors `[B, D]` to points `[B, D]`. Sphere: normalisation.
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2>;

    /// [`Manifold::lift`] of `scale * features`. `features` is `[B, D]`; `scale` is `[1]`, or one number `>= 0` per
    /// factor, `[K]`.
    fn lift_scaled(&self, features: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
        self.lift(scaled(features, scale))
    }

    /// Logarithmic map at the origin: points `[B, D]` to tangent vectors `[B, D]`. Inverse of [`Manifold::lift`].
    fn unlift(&self, points: Tensor<2>) -> Tensor<2>;

    /// Geodesic distance, row-wise: `[B, D], [B, D] -> [B]`.
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1>;

    /// Geodesic distance of all pairs: `[M, D], [N, D] -> [M, N]`.
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2>;

    /// Inner product, row-wise: `[B, D], [B, D] -> [B]`.
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1>;

    /// Inner product of all pairs: `[M, D], [N, D] -> [M, N]`.
    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2>;

    /// Similarity for contrastive logits, row-wise, larger for closer points: the cosine on the sphere, `-dist`
    /// elsewhere.
    fn similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        -self.dist(x, y)
    }

    /// [`Manifold::similarity`] of all pairs: `[M, D], [N, D] -> [M, N]`.
    fn pairwise_similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        -self.pairwise_dist(x, y)
    }

    /// Angle at `parent` between the continuation of the line from the root and the line to `child`, row-wise: `[B, D],
    /// [B, D] -> [B]`, radians in `[0, pi]`. Lines are geodesics; on the sphere they are straight chords. The angle is
    /// 0 where `child` lies on the continuation, and where it is undefined (`parent` is the root or `child`). Product:
    /// mean over factors.
    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1>;

    /// [`Manifold::exterior_angle`] of all pairs: `[P, D], [C, D] -> [P, C]`.
    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2>;

    /// Parameters of the fused angle operations for points with the dtype and device of `like`. `None` if the space has
    /// no such operation or does not support this root.
    fn fused_angles(&self, like: &Tensor<2>, root: &RootT) -> Option<FusedAngles> {
        let _ = (like, root);
        None
    }

    /// Half aperture of the cone at each `parent`: `[B, D] -> [B]`, radians in `(0, pi/2]`.
    ///
    /// `min_radius` is K in the papers. Close to the root the cone is a half space: within distance K on the sphere and
    /// in Euclidean space, and where `sinh(sqrt(c) d) <= 2K` at distance `d` on a hyperboloid.
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1>;

    /// Excess of `child` over the scaled cone of `parent`, row-wise: `[B, D], [B, D] -> [B]`, radians, `>= 0`:
    /// `max(0, exterior_angle - aperture_scale * min(half_aperture, max_aperture))`. On a product, it is the mean of
    /// the hinges of the factors, each with its own aperture.
    fn cone_hinge(&self, parent: Tensor<2>, child: Tensor<2>, shape: &ConeShape, root: &RootT) -> Tensor<1> {
        let aperture = shape.cut(self.half_aperture(parent.clone(), shape.min_radius, root));
        (self.exterior_angle(parent, child, root) - aperture * shape.aperture_scale).clamp_min(0.0)
    }

    /// The point at the fraction `t` (0 to 1) of the geodesic from `from` to `to`, row-wise: `[B, D], [B, D] -> [B,
    /// D]`.
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2>;

    /// Mean of the points, `[B, D] -> [1, D]`: the lift of the mean in the tangent space at the origin.
    fn mean(&self, points: Tensor<2>) -> Tensor<2> {
        self.lift(self.unlift(points).mean_dim(0))
    }

    /// Distance to the root: `[B, D] -> [B]`. On the sphere it is the straight chord.
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1>;

    /// The points of the space that are nearest to the vectors, `[B, D] -> [B, D]`. The default returns the vectors
    /// unchanged, for spaces in which every vector is a point. Sphere: normalisation.
    fn project(&self, vectors: Tensor<2>) -> Tensor<2> {
        vectors
    }
}

/// The shape of the cones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConeShape {
    /// K of the half aperture (HyCoCLIP Eq. 7: `asin(2K / (sqrt(c) |parent|))`), see [`Manifold::half_aperture`].
    pub min_radius: f64,
    /// eta: factor on the half aperture (HyCoCLIP Eq. 10).
    pub aperture_scale: f64,
    /// Upper limit of a factor's half aperture, before `aperture_scale`, radians; `None` means pi/2. Only released code
    /// uses another limit (DEVIATIONS.md L14).
    pub max_aperture: Option<f64>,
}

impl ConeShape {
    /// Applies `max_aperture` to half apertures.
    fn cut<const D: usize>(&self, aperture: Tensor<D>) -> Tensor<D> {
        match self.max_aperture {
            Some(largest) => aperture.clamp_max(largest),
            None => aperture,
        }
    }
}

/// One entry of [`MANIFOLDS`].
pub struct ManifoldEntry {
    /// Name of the [`ManifoldSpec::kind`].
    pub kind: &'static str,
    /// Builds the manifold from a checked spec. The tensor holds the curvatures `[K]`; `None`: those of the spec.
    pub build: fn(&ManifoldSpec, Option<Tensor<1>>) -> Box<dyn Manifold>,
}

/// The registry of all tensor implementations; the kinds are those of [`conifer_geometry::SPACES`]. A crate outside
/// this workspace registers its space in both registries.
pub static MANIFOLDS: Registry<ManifoldEntry> = Registry::new(
    "manifold",
    |entry| entry.kind,
    &[sphere::ENTRY, euclidean::ENTRY, lorentz::ENTRY, product::ENTRY_L1, product::ENTRY_L2],
);

/// Builds the manifold that `spec` describes.
///
/// `curv` holds the curvatures c > 0, `[K]`, one per Lorentz factor, and may require a gradient. If `curv` is
/// `None`, the curvatures of `spec` are used as constants. The sphere and Euclidean space ignore `curv`.
///
/// # Errors
/// [`ManifoldSpec::check`] fails; the kind is unknown; `curv` has the wrong length.
pub fn manifold(spec: &ManifoldSpec, curv: Option<Tensor<1>>) -> Result<Box<dyn Manifold>> {
    spec.check()?;
    let entry = MANIFOLDS
        .find(spec.kind.name())
        .ok_or_else(|| Error::UnknownKind { kind: spec.kind.to_string(), expected: MANIFOLDS.names() })?;
    if let Some(c) = &curv {
        let (found, expected) = (c.dims()[0], spec.curv.len());
        if found != expected && expected != 0 {
            return Err(Error::CurvatureCount { kind: spec.kind.to_string(), found, expected });
        }
    }
    Ok((entry.build)(spec, curv))
}

/// `scale * features`, where each of the `K` scales applies to the `D/K` coordinates of its factor:
/// `[B, D], [K] -> [B, D]`.
fn scaled(features: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
    let ([_, dim], [count]) = (features.dims(), scale.dims());
    features * scale.reshape([count, 1]).expand([count, dim / count]).reshape([1, dim])
}

/// The root as one row, `[1, D]`, or as one row per parent, `[B, D]`; `None` for the origin.
fn root_rows(root: &RootT) -> Option<Tensor<2>> {
    match root {
        RootT::Origin => None,
        RootT::Point(point) => Some(point.clone().unsqueeze_dim(0)),
        RootT::Rows(points) => Some(points.clone()),
    }
}
