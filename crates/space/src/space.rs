//! The geometry of one space on plain slices, and the registry of all spaces.

use crate::error::{Error, Result};
use crate::real::Real;
use crate::registry::Registry;
use crate::root::Root;
use crate::spaces;
use crate::spec::ManifoldSpec;

/// Geometry of one space. A point is a slice of `dim` numbers ([`ManifoldSpec::dim`]); slices of another length, or a
/// root that does not pass [`Root::check`], are errors of the caller and may panic.
///
/// Every method is finite on every finite point with norms up to 1e4 and curvatures from 0.1 to 10; where a quantity
/// is not defined the documentation says which value stands for it. [`crate::laws`] holds every implementation to that.
pub trait Space<T: Real>: Send + Sync {
    /// What was built.
    fn spec(&self) -> &ManifoldSpec;

    /// Tangent vector at the origin to point: the exponential map at the origin (sphere: normalisation; the zero
    /// vector, which has no direction, stays zero).
    fn lift(&self, tangent: &[T], point: &mut [T]);

    /// Point to tangent vector at the origin: inverse of [`Space::lift`] (sphere: the point itself).
    fn unlift(&self, point: &[T], tangent: &mut [T]);

    /// How far a stored point is from lying on the space, 0 for any finite point where every vector is a point
    /// (sphere: `| |x| - 1 |`).
    fn off_manifold(&self, point: &[T]) -> T;

    /// Inner product of the ambient space. Sphere, Euclidean: `<x, y>`; Lorentz: `<x, y> - t(x) t(y)`; product: sum
    /// over factors.
    fn inner(&self, x: &[T], y: &[T]) -> T;

    /// Geodesic distance, accurate for close points too. Sphere: the arc, radians; product: mean (l1) or root mean
    /// square (l2) over factors.
    fn dist(&self, x: &[T], y: &[T]) -> T;

    /// Larger = more alike: the cosine on the sphere, minus the distance elsewhere.
    fn similarity(&self, x: &[T], y: &[T]) -> T;

    /// Angle at `parent` between the continuation of the line root -> parent and the line parent -> child: 0 when the
    /// child lies straight behind the parent as seen from the root, pi when it lies on the way back. Radians in
    /// [0, pi]. Zero by definition where it is not defined: the parent is the root, or the child is the parent.
    /// Lines are geodesics; on the sphere they are straight chords of the ambient space. Product: mean over factors.
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T;

    /// Half of the opening of the cone at `parent`, radians in (0, pi/2]: wide near the root, narrow far away.
    /// Lorentz: `asin(2K / sinh(sqrt(c) d))`, sphere and Euclidean: `asin(K / d)`, with `K = min_radius`, `d` the
    /// [`Space::depth`], and pi/2 where the sine would pass 1. Product: mean over factors.
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T;

    /// `exterior_angle - aperture_scale * half_aperture`, radians: at most zero when the child lies inside the
    /// parent's cone. Product: with `e_i` the excess in factor i, the mean of `max(0, e_i)` when some `e_i > 0`
    /// (outside), else the largest `e_i` (inside every factor's cone).
    fn cone_excess(&self, parent: &[T], child: &[T], min_radius: T, aperture_scale: T, root: &Root) -> T {
        self.exterior_angle(parent, child, root) - aperture_scale * self.half_aperture(parent, min_radius, root)
    }

    /// The point at fraction `t` of the geodesic, `from` at 0 and `to` at 1, at constant speed; `t` outside [0, 1]
    /// continues it. Product: factor by factor.
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]);

    /// A point in the middle of `points`: the lift of the mean of their tangent vectors at the origin (sphere: the
    /// normalised mean; zero when the points cancel). Zero points have the origin as their mean.
    fn mean(&self, points: &[&[T]], out: &mut [T]);

    /// Distance to the root, the "generality" axis. The geodesic distance; on the sphere the chord `|x - root|`, the
    /// radius of Radial Embeddings (1 for [`Root::Origin`], which is the centre of the sphere).
    fn depth(&self, x: &[T], root: &Root) -> T;
}

/// One line of [`SPACES`].
pub struct SpaceEntry {
    /// Name in [`ManifoldSpec::kind`].
    pub kind: &'static str,
    /// One line for lists and help texts.
    pub summary: &'static str,
    /// Whether `factors` may differ from one.
    pub factored: bool,
    /// Whether `curv` holds one curvature per factor (else it is empty).
    pub curved: bool,
    /// Length of a tangent vector at the origin in the metric of the space: what `dist(origin, lift(v))` must be.
    /// `None` where [`Space::lift`] is not an exponential map, so that there is no origin to measure from.
    pub tangent_norm: Option<fn(&ManifoldSpec, &[f64]) -> f64>,
    /// Builds the `f32` geometry of a spec that passed [`ManifoldSpec::check`].
    pub build_f32: fn(&ManifoldSpec) -> Box<dyn Space<f32>>,
    /// Builds the `f64` geometry of a spec that passed [`ManifoldSpec::check`].
    pub build_f64: fn(&ManifoldSpec) -> Box<dyn Space<f64>>,
    /// Specs on which [`crate::laws`] runs, the same ones for the same seed.
    pub sample: fn(seed: u64) -> Vec<ManifoldSpec>,
}

/// Every space. To add one here: a file in `spaces/` and a line. To add one from another crate: [`Registry::register`].
pub static SPACES: Registry<SpaceEntry> = Registry::new(
    "space",
    |entry| entry.kind,
    &[
        spaces::sphere::ENTRY,
        spaces::euclidean::ENTRY,
        spaces::lorentz::ENTRY,
        spaces::product::ENTRY_L1,
        spaces::product::ENTRY_L2,
    ],
);

/// The registry line of a kind.
///
/// # Errors
/// No space has this name; the message lists those that exist.
pub fn entry(kind: &str) -> Result<&'static SpaceEntry> {
    SPACES.find(kind).ok_or_else(|| Error::UnknownKind { kind: kind.to_owned(), known: SPACES.names() })
}

/// Builds the geometry of a spec.
///
/// # Errors
/// Those of [`ManifoldSpec::check`].
pub fn space<T: Real>(spec: &ManifoldSpec) -> Result<Box<dyn Space<T>>> {
    spec.check()?;
    Ok(T::build(entry(&spec.kind)?, spec))
}
