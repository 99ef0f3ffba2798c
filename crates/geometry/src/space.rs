//! The geometry of one space on plain slices, and the registry of all spaces.

use crate::error::{Error, Result};
use crate::real::Real;
use crate::registry::Registry;
use crate::root::Root;
use crate::score_form::ScoreForm;
use crate::slices::combined;
use crate::spaces;
use crate::spec::ManifoldSpec;

/// Geometry of one space. A point is a slice of `dim` numbers ([`ManifoldSpec::dim`]). Methods may panic on slices of
/// another length, or on a root that does not pass [`Root::check`].
///
/// Every method returns finite values for finite points with norms up to 1e4 and curvatures from 0.1 to 10. Where a
/// quantity is undefined, the method's documentation names the value returned. [`crate::laws`] tests this for every
/// implementation.
pub trait Space<T: Real>: Send + Sync {
    /// The spec from which this space was built.
    fn spec(&self) -> &ManifoldSpec;

    /// Maps a tangent vector at the origin to a point: the exponential map at the origin. Sphere: normalisation; the
    /// zero vector, which has no direction, stays zero.
    fn lift(&self, tangent: &[T], point: &mut [T]);

    /// Maps a point to a tangent vector at the origin: the inverse of [`Space::lift`]. Sphere: the point itself.
    fn unlift(&self, point: &[T], tangent: &mut [T]);

    /// Distance of a stored point from the space. Sphere: `| |x| - 1 |`; elsewhere 0, because every vector is a point.
    fn off_manifold(&self, point: &[T]) -> T;

    /// Inner product of the ambient space. Sphere, Euclidean: `<x, y>`; Lorentz: `<x, y> - t(x) t(y)`; product: sum
    /// over factors.
    fn inner(&self, x: &[T], y: &[T]) -> T;

    /// Geodesic distance, accurate for close points too. Sphere: the arc, radians; product: mean (l1) or root mean
    /// square (l2) over factors.
    fn dist(&self, x: &[T], y: &[T]) -> T;

    /// Similarity score, larger for closer points: the cosine on the sphere, minus the distance elsewhere.
    fn similarity(&self, x: &[T], y: &[T]) -> T;

    /// Angle at `parent` between the continuation of the line root -> parent and the line parent -> child, in radians
    /// in [0, pi]. It is 0 when the child lies straight behind the parent as seen from the root, and pi when the child
    /// lies on the way back to the root. It is 0 where it is undefined: the parent is the root, or the child is the
    /// parent. Lines are geodesics; on the sphere they are straight chords of the ambient space. Product: mean over
    /// factors.
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T;

    /// Half aperture of the cone at `parent`, radians in (0, pi/2]: wide near the root, narrow far away. Lorentz:
    /// `asin(2K / sinh(sqrt(c) d))`, sphere and Euclidean: `asin(K / d)`, with `K = min_radius`, `d` the
    /// [`Space::depth`], and pi/2 where the sine would exceed 1. Product: mean over factors.
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T;

    /// `exterior_angle - aperture_scale * half_aperture`, in radians: at most zero when the child lies inside the
    /// parent's cone. Product: let `e_i` be the excess in factor i. The result is the mean of `max(0, e_i)` if some
    /// `e_i > 0` (outside), else the largest `e_i` (inside every factor's cone).
    fn cone_excess(&self, parent: &[T], child: &[T], min_radius: T, aperture_scale: T, root: &Root) -> T {
        self.exterior_angle(parent, child, root) - aperture_scale * self.half_aperture(parent, min_radius, root)
    }

    /// The point at fraction `t` of the geodesic, with `from` at 0 and `to` at 1, at constant speed. Values of `t`
    /// outside [0, 1] extrapolate. Product: factor by factor.
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]);

    /// The point at fraction `t` of the straight line between the tangent vectors of both points at the origin, with
    /// `from` at 0 and `to` at 1: `lift((1 - t) unlift(from) + t unlift(to))` (HyCoCLIP Eqs. 15 and 16). It is the
    /// [`Space::geodesic`] if the geodesic passes through the origin. Between other points of a hyperboloid it stays
    /// farther from the origin. Sphere: the arc, at varying speed; halfway between opposite points the result is zero.
    fn tangent_line(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        let (mut start, mut end) = (vec![T::ZERO; from.len()], vec![T::ZERO; to.len()]);
        self.unlift(from, &mut start);
        self.unlift(to, &mut end);
        let mut tangent = vec![T::ZERO; out.len()];
        combined(T::ONE - t, &start, t, &end, &mut tangent);
        self.lift(&tangent, out);
    }

    /// Mean of `points`: the lift of the mean of their tangent vectors at the origin. Sphere: the normalised mean, or
    /// zero when the points cancel. The mean of no points is the origin.
    fn mean(&self, points: &[&[T]], out: &mut [T]);

    /// [`Space::dist`] to the root, a measure of how specific a point is. On the sphere it is the chord
    /// `|x - root|`, the radius of Radial Embeddings; it is 1 for [`Root::Origin`], the centre of the sphere.
    fn depth(&self, x: &[T], root: &Root) -> T;

    /// Writes the point at which k-means places the centre of `points`. `out` keeps its value if the centroid is
    /// undefined. The default is [`Space::mean`]. Hyperboloid: the sum in the ambient space, projected back (the
    /// centroid of Law et al. 2019, Eq. 9); sphere: the normalised sum; Euclidean: the arithmetic mean; product:
    /// factor by factor. The built-in spaces sum in `f64`.
    fn centroid(&self, points: &[&[T]], out: &mut [T]) {
        self.mean(points, out);
    }

    /// Writes the point of the space that is nearest to a vector. The default is for spaces in which every vector is a
    /// point: it copies the vector. Sphere: `x / |x|`; zero stays zero.
    fn project(&self, vector: &[T], point: &mut [T]) {
        point.copy_from_slice(vector);
    }

    /// How the scores follow from dot products; `None`, the default, if that is unknown. Search then computes every
    /// score with the methods of this trait, which is slow.
    fn score_form(&self) -> Option<ScoreForm> {
        None
    }
}

/// A space in the registry [`SPACES`].
pub struct SpaceEntry {
    /// Name of the kind in [`ManifoldSpec::kind`].
    pub kind: &'static str,
    /// One-line summary for lists and help texts.
    pub summary: &'static str,
    /// True if `factors` may differ from one.
    pub factored: bool,
    /// True if `curv` holds one curvature per factor; otherwise `curv` is empty.
    pub curved: bool,
    /// Norm of a tangent vector at the origin in the metric of the space; it must equal `dist(origin, lift(v))`. `None`
    /// if [`Space::lift`] is not an exponential map (sphere).
    pub tangent_norm: Option<fn(&ManifoldSpec, &[f64]) -> f64>,
    /// Builds the `f32` geometry of a spec that passed [`ManifoldSpec::check`].
    pub build_f32: fn(&ManifoldSpec) -> Box<dyn Space<f32>>,
    /// Builds the `f64` geometry of a spec that passed [`ManifoldSpec::check`].
    pub build_f64: fn(&ManifoldSpec) -> Box<dyn Space<f64>>,
    /// Specs for [`crate::laws`]; the same seed gives the same specs.
    pub sample: fn(seed: u64) -> Vec<ManifoldSpec>,
}

/// The registry of all spaces. To add a space, add a file in `spaces/` and an entry here; a crate outside this
/// workspace calls [`Registry::register`].
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

impl SpaceEntry {
    /// True if the zero vector is the origin of the space: [`Space::lift`] is the exponential map there.
    pub fn has_origin(&self) -> bool {
        self.tangent_norm.is_some()
    }
}

/// Returns the registry entry of the kind with this name.
///
/// # Errors
/// The kind is unknown; the message lists the known kinds.
pub fn entry(kind: &str) -> Result<&'static SpaceEntry> {
    SPACES.find(kind).ok_or_else(|| Error::UnknownKind { kind: kind.to_owned(), known: SPACES.names() })
}

/// Builds the geometry of a spec.
///
/// # Errors
/// The errors of [`ManifoldSpec::check`].
pub fn space<T: Real>(spec: &ManifoldSpec) -> Result<Box<dyn Space<T>>> {
    spec.check()?;
    Ok(T::build(entry(spec.kind.name())?, spec))
}
