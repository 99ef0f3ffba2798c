//! The hyperboloid (Lorentz model) of curvature `-c`, the space of MERU and HyCoCLIP.
//!
//! Points are given by their space components `x`; the time component is `t(x) = sqrt(1/c + |x|^2)`. Formulas that
//! subtract two large, nearly equal numbers (`t(x) t(y) - <x, y>`, `t(x)^2 - t(y)^2`) are rearranged to use only
//! differences of coordinates; the comments give the rearranged formulas. Sources: MERU (Desai et al. 2023) Sections 3
//! and B, HyCoCLIP (Pal et al. 2025) Eqs. 1 to 10, Law et al. 2019 and Ganea et al. 2018 for the geometry itself.

use crate::centroid::{component_sums, divided};
use crate::real::Real;
use crate::root::{Root, RootView};
use crate::safe;
use crate::score_form::{FactorNorm, ScoreForm};
use crate::slices::{combined, norm, scaled, sums};
use crate::space::{Space, SpaceEntry};
use crate::spaces::euclidean::arithmetic_mean;
use crate::spaces::sample_curv;
use crate::spec::ManifoldSpec;

/// The hyperboloid of curvature `-curv`.
pub(crate) struct Lorentz<T> {
    spec: ManifoldSpec,
    curv: T,
    /// `sqrt(curv)`: lengths multiplied by it are lengths at curvature -1.
    scale: T,
}

/// Distance from the dot product `<x, y>` of the space components and the [`time_excess`] `a`, `b` of the two points.
/// Use it for many pairs: one matrix product gives every `<x, y>`.
///
/// It computes `acosh(-c <x, y>_L) / sqrt(c)` as `acosh_1p(u) / sqrt(c)` with `u = a + b + a b - c <x, y> >= 0`. The
/// error of `u` is about one unit in the last place of `c |x| |y|`. For close points with large norms this error is
/// large compared with `u`; see the budget table in `spaces/tests/accuracy.rs`. [`Space::dist`] is more accurate there.
pub fn dist_from_dot<T: Real>(dot: T, a: T, b: T, curv: T) -> T {
    safe::acosh_1p(a + b + a * b - curv * dot) / curv.sqrt()
}

/// `sqrt(c) t(x) - 1 = sqrt(1 + c |x|^2) - 1` from the squared norm of the space components, without cancellation near
/// the origin.
pub fn time_excess<T: Real>(norm_squared: T, curv: T) -> T {
    let square = curv * norm_squared;
    square / (T::ONE + (T::ONE + square).sqrt())
}

impl<T: Real> Space<T> for Lorentz<T> {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    /// `sinh(r) / r v` with `r = sqrt(c) |v|` (HyCoCLIP Eq. 4 at the origin). Beyond [`safe::MAX_RAPIDITY`] the length
    /// of the point stays `2^15 / sqrt(c)`.
    fn lift(&self, tangent: &[T], point: &mut [T]) {
        scaled(tangent, safe::sinhc(self.scale * norm(tangent)), point);
    }

    /// `asinh(s) / s x` with `s = sqrt(c) |x|`. HyCoCLIP Eq. 3 at the origin, with `asinh(s)` in place of
    /// `acosh(sqrt(1 + s^2))`, which loses the norm of points near the origin.
    fn unlift(&self, point: &[T], tangent: &mut [T]) {
        scaled(point, safe::asinhc(self.scale * norm(point)), tangent);
    }

    fn off_manifold(&self, _point: &[T]) -> T {
        T::ZERO
    }

    /// `<x, y>_L = <x, y> - t(x) t(y)`, at most `-1/c`.
    fn inner(&self, x: &[T], y: &[T]) -> T {
        let [xx, yy, xy] = sums(x, y, |a, b| [a * a, b * b, a * b]);
        xy - self.time(xx) * self.time(yy)
    }

    /// `2 asinh(sqrt(c q) / 2) / sqrt(c)` with `q = <x - y, x - y>_L`, see `chord_squared`.
    fn dist(&self, x: &[T], y: &[T]) -> T {
        T::TWO * (self.scale * self.chord_squared(x, y).sqrt() / T::TWO).asinh() / self.scale
    }

    fn similarity(&self, x: &[T], y: &[T]) -> T {
        -self.dist(x, y)
    }

    /// For the root at the origin, MERU's exterior angle (HyCoCLIP Eq. 9 with `parent`, `child` in this order). For
    /// another root, the same angle of the triangle root, parent, child.
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T {
        self.exterior_angle_at(parent, child, root.view())
    }

    /// `asin(2K / sinh(sqrt(c) d))` with `d` the distance to the root. At the origin `sinh(sqrt(c) d) = sqrt(c) |x|`,
    /// which gives MERU's `asin(2K / (sqrt(c) |x|))` (HyCoCLIP Eq. 7).
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T {
        self.half_aperture_at(parent, min_radius, root.view())
    }

    /// `(sinh((1 - t) a) from + sinh(t a) to) / sinh(a)` with `a = sqrt(c) dist`: the space components of a point that
    /// moves at constant speed.
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        let span = self.scale * self.dist(from, to);
        let (a, b) = if span > T::TINY {
            let sinh = span.sinh();
            (((T::ONE - t) * span).sinh() / sinh, (t * span).sinh() / sinh)
        } else {
            (T::ONE - t, t)
        };
        combined(a, from, b, to, out);
    }

    /// `lift(mean(unlift(points)))`, as MERU averages the prompts of a class.
    fn mean(&self, points: &[&[T]], out: &mut [T]) {
        let mut tangents = vec![T::ZERO; points.len() * out.len()];
        for (point, tangent) in points.iter().zip(tangents.chunks_exact_mut(out.len())) {
            self.unlift(point, tangent);
        }
        let rows: Vec<&[T]> = tangents.chunks_exact(out.len()).collect();
        let mut mean = vec![T::ZERO; out.len()];
        arithmetic_mean(&rows, &mut mean);
        self.lift(&mean, out);
    }

    /// `asinh(sqrt(c) |x|) / sqrt(c)` for the root at the origin, else the distance to the root.
    fn depth(&self, x: &[T], root: &Root) -> T {
        self.depth_at(x, root.view())
    }

    /// `sum x / sqrt(-c <sum x, sum x>_L)` (Law et al. 2019, Eq. 9).
    fn centroid(&self, points: &[&[T]], out: &mut [T]) {
        let (sum, curv) = (component_sums(points, out.len()), self.spec.curv[0]);
        let time = |point: &&[T]| (1.0 / curv + point.iter().map(|v| v.to_f64().powi(2)).sum::<f64>()).sqrt();
        let times = points.iter().map(time).fold(0.0, |sum: f64, time| sum + time);
        let square: f64 = sum.iter().map(|v| v * v).sum();
        // In exact arithmetic the length is at least the number of points. Far from the origin, `times^2 - square` is
        // lost to rounding; this lower limit then keeps the centroid near the points.
        let length = (curv * (times.powi(2) - square)).sqrt().max(points.len() as f64);
        divided(&sum, length, out);
    }

    fn score_form(&self) -> Option<ScoreForm> {
        Some(ScoreForm::Hyperboloids(FactorNorm::L1))
    }
}

/// The entry in [`crate::SPACES`].
pub(crate) const ENTRY: SpaceEntry = SpaceEntry {
    kind: "lorentz",
    summary: "hyperboloid of curvature -c, as in MERU and HyCoCLIP",
    factored: false,
    curved: true,
    tangent_norm: Some(|_, v| v.iter().map(|a| a * a).sum::<f64>().sqrt()),
    build_f32: |spec| Box::new(Lorentz::<f32>::new(spec.clone(), spec.curv[0])),
    build_f64: |spec| Box::new(Lorentz::<f64>::new(spec.clone(), spec.curv[0])),
    sample: |seed| {
        let shapes = [(1, 1.0), (2, 0.1), (3, 1.0), (8, 10.0), (19, sample_curv(seed))];
        shapes.map(|(dim, c)| ManifoldSpec::lorentz(dim, c)).into()
    },
};

impl<T: Real> Lorentz<T> {
    pub(crate) fn new(spec: ManifoldSpec, curv: f64) -> Self {
        Lorentz { spec, curv: T::from_f64(curv), scale: T::from_f64(curv.sqrt()) }
    }

    pub(crate) fn exterior_angle_at(&self, parent: &[T], child: &[T], root: RootView<'_>) -> T {
        match root {
            RootView::Origin => {
                let tangent = LorentzTangent::from(self, parent, child);
                if tangent.viewer_norm > T::TINY { tangent.across.atan2(tangent.along) } else { T::ZERO }
            }
            RootView::Point(root) => {
                let root: Vec<T> = root.iter().map(|v| T::from_f64(*v)).collect();
                self.continuation_angle(&root, parent, child)
            }
        }
    }

    pub(crate) fn half_aperture_at(&self, parent: &[T], min_radius: T, root: RootView<'_>) -> T {
        let reach = match root {
            RootView::Origin => self.scale * norm(parent),
            RootView::Point(_) => {
                // `sinh` may overflow, so `sinhc` limits it beyond MAX_RAPIDITY, where the aperture is below 1e-5 for K
                // = 0.1.
                let rapidity = self.scale * self.depth_at(parent, root);
                rapidity * safe::sinhc(rapidity)
            }
        };
        let sine = T::TWO * min_radius;
        if reach > sine { safe::asin(sine / reach) } else { T::PI / T::TWO }
    }

    pub(crate) fn depth_at(&self, x: &[T], root: RootView<'_>) -> T {
        match root {
            RootView::Origin => (self.scale * norm(x)).asinh() / self.scale,
            RootView::Point(root) => {
                let root: Vec<T> = root.iter().map(|v| T::from_f64(*v)).collect();
                self.dist(x, &root)
            }
        }
    }

    /// `t(x) = sqrt(1/c + |x|^2)`.
    fn time(&self, norm_squared: T) -> T {
        (T::ONE / self.curv + norm_squared).sqrt()
    }

    /// `q = <x - y, x - y>_L = |x - y|^2 - (t(x) - t(y))^2`, the squared chord, without cancellation.
    ///
    /// With `d = x - y`, `s = x + y` and `p` the part of `d` perpendicular to `s`,
    /// `q = (|p|^2 |s|^2 + 4 |d|^2 / c) / (2 (1/c + t(x) t(y) + <x, y>))`. When `<x, y> >= 0`, this only adds positive
    /// numbers. Otherwise `q = 2 (t(x) t(y) - 1/c - <x, y>)`, where `t(x) t(y) - 1/c` is written as
    /// `((|x|^2 + |y|^2) / c + |x|^2 |y|^2) / (t(x) t(y) + 1/c)`, so that again only positive numbers are added.
    fn chord_squared(&self, x: &[T], y: &[T]) -> T {
        let [xx, yy, xy, dd, ss, ds] = sums(x, y, |a, b| {
            let (d, s) = (a - b, a + b);
            [a * a, b * b, a * b, d * d, s * s, d * s]
        });
        let unit = T::ONE / self.curv;
        let times = self.time(xx) * self.time(yy);
        if xy >= T::ZERO {
            let coefficient = safe::ratio(ds, ss);
            let [pp] = sums(x, y, |a, b| {
                let p = (a - b) - coefficient * (a + b);
                [p * p]
            });
            (pp * ss + T::TWO * T::TWO * unit * dd) / (T::TWO * (unit + times + xy))
        } else {
            T::TWO * ((unit * (xx + yy) + xx * yy) / (times + unit) - xy)
        }
    }

    /// Angle at `parent` between the continuation of the geodesic from `root` and the geodesic to `child`, measured in
    /// the tangent space at the parent; zero if either geodesic has length zero.
    fn continuation_angle(&self, root: &[T], parent: &[T], child: &[T]) -> T {
        let (back, ahead) = (LorentzTangent::from(self, parent, root), LorentzTangent::from(self, parent, child));
        let (back_norm, ahead_norm) = (back.norm(), ahead.norm());
        if !(back_norm > T::TINY && ahead_norm > T::TINY) {
            return T::ZERO;
        }
        let (mut apart, mut along) = (T::ZERO, T::ZERO);
        for ((p, r), c) in parent.iter().zip(root).zip(child) {
            let a = -back.coordinate(*p, *r) / back_norm;
            let b = ahead.coordinate(*p, *c) / ahead_norm;
            apart += (a - b) * (a - b);
            along += (a + b) * (a + b);
        }
        T::TWO * apart.sqrt().atan2(along.sqrt()) // W. Kahan's form: accurate at 0 and pi, where acos is not
    }
}

/// The tangent vector at `viewer` towards `target`, of length `sinh(sqrt(c) dist) / sqrt(c)`, in an orthonormal frame
/// whose first axis points away from the origin.
struct LorentzTangent<T> {
    viewer_norm: T,
    /// Component away from the origin: `sqrt(c) (t(v) y - t(q) |v|)`, where `v` is the viewer, `q` the target, and `y`
    /// the component of `q` along `v`.
    along: T,
    /// Length of the part perpendicular to `v`. Parallel transport to the origin along `v` preserves this length, so it
    /// is computed from the space components of the target.
    across: T,
    /// Component along `v` of target - viewer (if `near`) or of target.
    shift: T,
    /// True if the perpendicular part is formed from target - viewer. The shorter vector of the two has the smaller
    /// rounding error.
    near: bool,
}

impl<T: Real> LorentzTangent<T> {
    fn from(space: &Lorentz<T>, viewer: &[T], target: &[T]) -> Self {
        let [vv, tt, dd, vt, vd] = sums(viewer, target, |v, t| {
            let d = t - v;
            [v * v, t * t, d * d, v * t, v * d]
        });
        let viewer_norm = vv.sqrt();
        let near = dd < tt;
        let shift = safe::ratio(if near { vd } else { vt }, viewer_norm);
        let (ahead, component) = if near { (shift, viewer_norm + shift) } else { (shift - viewer_norm, shift) };
        let mut tangent = LorentzTangent { viewer_norm, along: T::ZERO, across: T::ZERO, shift, near };
        let [perpendicular] = sums(viewer, target, |v, t| {
            let p = tangent.perpendicular(v, t);
            [p * p]
        });
        tangent.across = perpendicular.sqrt();
        let (viewer_time, target_time) = (space.time(vv), space.time(tt));
        tangent.along = if component > T::ZERO {
            // `t(v) y - t(q) |v|` is a difference of squares divided by the sum of the two terms. For points with large
            // norms the terms are large and nearly equal, while `y - |v|` and the perpendicular part are accurate.
            (ahead * (component + viewer_norm) / space.scale - space.scale * perpendicular * vv)
                / (viewer_time * component + target_time * viewer_norm)
        } else {
            space.scale * (viewer_time * component - target_time * viewer_norm)
        };
        tangent
    }

    fn norm(&self) -> T {
        (self.along * self.along + self.across * self.across).sqrt()
    }

    /// One coordinate of the tangent vector in the frame of the space components, from the same coordinate of both
    /// points.
    fn coordinate(&self, viewer: T, target: T) -> T {
        self.along * safe::ratio(viewer, self.viewer_norm) + self.perpendicular(viewer, target)
    }

    fn perpendicular(&self, viewer: T, target: T) -> T {
        let base = if self.near { target - viewer } else { target };
        base - self.shift * safe::ratio(viewer, self.viewer_norm)
    }
}
