//! Euclidean space.

use crate::centroid::{component_sums, divided};
use crate::chord::{chord_angle, chord_depth, chord_half_aperture};
use crate::real::Real;
use crate::root::Root;
use crate::score_form::ScoreForm;
use crate::slices::{combined, dot, sums};
use crate::space::{Space, SpaceEntry};
use crate::spec::ManifoldSpec;

/// Euclidean space with the exterior angle of Wang et al. (Eq. 10) and the flat cones of Ganea et al. 2018.
pub(crate) struct Euclidean {
    spec: ManifoldSpec,
}

impl<T: Real> Space<T> for Euclidean {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    fn lift(&self, tangent: &[T], point: &mut [T]) {
        point.copy_from_slice(tangent);
    }

    fn unlift(&self, point: &[T], tangent: &mut [T]) {
        tangent.copy_from_slice(point);
    }

    fn off_manifold(&self, _point: &[T]) -> T {
        T::ZERO
    }

    fn inner(&self, x: &[T], y: &[T]) -> T {
        dot(x, y)
    }

    /// `|x - y|`.
    fn dist(&self, x: &[T], y: &[T]) -> T {
        sums(x, y, |a, b| [(a - b) * (a - b)])[0].sqrt()
    }

    fn similarity(&self, x: &[T], y: &[T]) -> T {
        -self.dist(x, y)
    }

    /// Angle between `parent - root` and `child - parent`.
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T {
        chord_angle(parent, child, root.view())
    }

    /// `asin(min(1, min_radius / |parent - root|))`.
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T {
        chord_half_aperture(self.depth(parent, root), min_radius)
    }

    /// `(1 - t) from + t to`.
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        combined(T::ONE - t, from, t, to, out);
    }

    fn mean(&self, points: &[&[T]], out: &mut [T]) {
        arithmetic_mean(points, out);
    }

    /// `|x - root|`.
    fn depth(&self, x: &[T], root: &Root) -> T {
        chord_depth(x, root.view())
    }

    /// The arithmetic mean, summed in `f64`.
    fn centroid(&self, points: &[&[T]], out: &mut [T]) {
        divided(&component_sums(points, out.len()), points.len() as f64, out);
    }

    fn score_form(&self) -> Option<ScoreForm> {
        Some(ScoreForm::Flat)
    }
}

/// The entry in [`crate::SPACES`].
pub(crate) const ENTRY: SpaceEntry = SpaceEntry {
    kind: "euclidean",
    summary: "flat space, distance |x - y|",
    factored: false,
    curved: false,
    tangent_norm: Some(|_, v| v.iter().map(|a| a * a).sum::<f64>().sqrt()),
    build_f32: |spec| Box::new(Euclidean { spec: spec.clone() }),
    build_f64: |spec| Box::new(Euclidean { spec: spec.clone() }),
    sample: |_| [1, 2, 19].map(ManifoldSpec::euclidean).into(),
};

/// Component-wise mean of points; zero when there are none.
pub(crate) fn arithmetic_mean<T: Real>(points: &[&[T]], out: &mut [T]) {
    let count = T::from_f64(points.len().max(1) as f64);
    out.fill(T::ZERO);
    for point in points {
        for (sum, v) in out.iter_mut().zip(*point) {
            *sum += *v;
        }
    }
    for sum in out {
        *sum = *sum / count;
    }
}
