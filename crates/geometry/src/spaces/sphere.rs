//! The unit sphere, the space of CLIP. With a [`Root::Point`] it has the radial geometry of HierarCaps (RE) and RCME.

use crate::centroid::{component_sums, divided};
use crate::chord::{chord_angle, chord_depth, chord_half_aperture};
use crate::real::Real;
use crate::root::Root;
use crate::safe;
use crate::score_form::ScoreForm;
use crate::slices::{combined, dot, norm, scaled, sums};
use crate::space::{Space, SpaceEntry};
use crate::spaces::euclidean::arithmetic_mean;
use crate::spec::ManifoldSpec;

/// The unit sphere. Distances and geodesics follow the sphere. Depths, angles and apertures use straight chords of the
/// ambient space, as in HierarCaps.
pub(crate) struct Sphere {
    spec: ManifoldSpec,
}

impl<T: Real> Space<T> for Sphere {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    /// `v / |v|`; zero stays zero.
    fn lift(&self, tangent: &[T], point: &mut [T]) {
        let length = norm(tangent);
        for (p, v) in point.iter_mut().zip(tangent) {
            *p = safe::ratio(*v, length);
        }
    }

    /// The point itself: a tangent vector of length one whose lift is the point.
    fn unlift(&self, point: &[T], tangent: &mut [T]) {
        tangent.copy_from_slice(point);
    }

    /// `| |x| - 1 |`.
    fn off_manifold(&self, point: &[T]) -> T {
        (norm(point) - T::ONE).abs()
    }

    fn inner(&self, x: &[T], y: &[T]) -> T {
        dot(x, y)
    }

    /// The arc, radians in [0, pi]: `2 atan2(|x - y|, |x + y|)`, which is accurate at both ends, unlike `acos(<x, y>)`.
    fn dist(&self, x: &[T], y: &[T]) -> T {
        let [apart, along] = sums(x, y, |a, b| [(a - b) * (a - b), (a + b) * (a + b)]);
        T::TWO * apart.sqrt().atan2(along.sqrt())
    }

    /// The cosine, `<x, y>`.
    fn similarity(&self, x: &[T], y: &[T]) -> T {
        dot(x, y)
    }

    /// Angle between `parent - root` and `child - parent` (HierarCaps Eq. 1, RCME Eq. 1).
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T {
        chord_angle(parent, child, root.view())
    }

    /// `asin(min(1, min_radius / |parent - root|))` (HierarCaps, ablation: `min_radius = 0.05`).
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T {
        chord_half_aperture(self.depth(parent, root), min_radius)
    }

    /// `(sin((1 - t) a) from + sin(t a) to) / sin(a)` with `a` the arc between the points. Between opposite points the
    /// arc is not unique; the arc used here starts towards the axis on which `from` has its smallest absolute
    /// component.
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        let arc: T = self.dist(from, to);
        let sine = arc.sin();
        if arc < T::EPS {
            combined(T::ONE - t, from, t, to, out);
        } else if T::PI - arc < T::EPS {
            let side = perpendicular(from);
            combined((t * arc).cos(), from, (t * arc).sin(), &side, out);
        } else {
            let (a, b) = (((T::ONE - t) * arc).sin() / sine, (t * arc).sin() / sine);
            combined(a, from, b, to, out);
        }
    }

    /// The normalised arithmetic mean, as CLIP averages its prompts.
    fn mean(&self, points: &[&[T]], out: &mut [T]) {
        arithmetic_mean(points, out);
        let length = norm(out);
        for v in out {
            *v = safe::ratio(*v, length);
        }
    }

    /// The chord `|x - root|`, HierarCaps' `d_r`.
    fn depth(&self, x: &[T], root: &Root) -> T {
        chord_depth(x, root.view())
    }

    /// The normalised sum of the points.
    fn centroid(&self, points: &[&[T]], out: &mut [T]) {
        let sum = component_sums(points, out.len());
        divided(&sum, sum.iter().map(|v| v * v).sum::<f64>().sqrt(), out);
    }

    /// `x / |x|`; zero stays zero. The squared norm is summed in order, because stored roots depend on its rounding.
    fn project(&self, vector: &[T], point: &mut [T]) {
        let norm = vector.iter().fold(T::ZERO, |sum, v| sum + *v * *v).sqrt();
        for (p, v) in point.iter_mut().zip(vector) {
            *p = safe::ratio(*v, norm);
        }
    }

    fn score_form(&self) -> Option<ScoreForm> {
        Some(ScoreForm::UnitVectors)
    }
}

/// The entry in [`crate::SPACES`].
pub(crate) const ENTRY: SpaceEntry = SpaceEntry {
    kind: "sphere",
    summary: "unit sphere, cosine similarity; with a root point the radial geometry of RE and RCME",
    factored: false,
    curved: false,
    tangent_norm: None,
    build_f32: |spec| Box::new(Sphere { spec: spec.clone() }),
    build_f64: |spec| Box::new(Sphere { spec: spec.clone() }),
    sample: |_| [2, 3, 19].map(ManifoldSpec::sphere).into(),
};

/// A unit vector perpendicular to the unit vector `x`: the axis on which `x` has its smallest absolute component,
/// orthogonalised against `x`.
fn perpendicular<T: Real>(x: &[T]) -> Vec<T> {
    let mut axis = 0;
    for (i, v) in x.iter().enumerate() {
        if v.abs() < x[axis].abs() {
            axis = i;
        }
    }
    let mut side = vec![T::ZERO; x.len()];
    scaled(x, -x[axis], &mut side);
    side[axis] += T::ONE;
    let length = norm(&side);
    for v in &mut side {
        *v = safe::ratio(*v, length);
    }
    side
}
