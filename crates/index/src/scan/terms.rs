//! Bounds on the score of a row from a dot product, one type per formula.
//!
//! A term is an interval that contains the value that [`Space`](conifer_geometry::Space) computes, or a monotone
//! function of it. The code is branch-free, so that loops over rows or queries compile to vector instructions. Terms
//! of the factors of a product are summed.

use std::f32::consts::PI;

use conifer_geometry::safe::TINY_F32;
use conifer_geometry::safe::bounds::{
    ANGLE_ERROR, CHORD_ERROR, DIST_ERROR, FAR_ANGLE_ERROR, FAR_DIST_ERROR, LOGARITHM_ERROR, TURN_ERROR, UNDERFLOW,
};
use conifer_geometry::vector::{half_turn, ln_1p};

use crate::select::Bounds;

/// Precomputed values of a point in one factor.
///
/// On a hyperboloid `a = sqrt(c) t(x) - 1`, `b = |x|`, `c = 1 / |x|` (0 at the origin); elsewhere `a = |x|^2`,
/// `b = <root, x>`, `c = |x - root|`.
#[derive(Clone, Copy)]
pub(super) struct PointValues {
    pub(super) a: f32,
    pub(super) b: f32,
    pub(super) c: f32,
}

/// Constants of a factor.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    /// Curvature parameter; 1 if the space has none.
    pub(super) curv: f32,
    /// `1 / sqrt(c)`.
    pub(super) unit: f32,
    /// Error of a dot product in the scan and in the exact score, relative to the product of the lengths. Also a bound
    /// on the relative error of a squared norm.
    pub(super) rounding: f32,
    /// `|root|^2`.
    pub(super) root: f32,
    /// Error of a sum over all factors, in the scan and in the exact score, relative to the sum of the absolute terms.
    pub(super) joining: f32,
}

/// Computes the bounds for one query and one row in one factor.
pub(super) trait Term {
    /// True if no lower bound is negative, so that a sum over factors only grows.
    const GROWS: bool = true;

    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds;

    /// A lower bound that may be looser than that of `bounds` but is faster to compute. Used to discard rows.
    #[inline(always)]
    fn low(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> f32 {
        Self::bounds(factor, query, row, dot).low
    }

    /// As `low`, for callers that would need an extra square root for the norm of the row. An implementation may ignore
    /// `row.b` and `row.c`.
    #[inline(always)]
    fn low_without_norm(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> f32 {
        Self::low(factor, query, row, dot)
    }
}

/// Relative error of an exact distance between two points of `dim` coordinates whose values `sqrt(c) t - 1` sum to at
/// most `far`.
pub(crate) fn distance_error(far: f64, dim: usize) -> f64 {
    (f64::from(DIST_ERROR) + f64::from(FAR_DIST_ERROR) * far) * sum_growth(dim)
}

/// Error, in radians, of an exact angle between two points of `dim` coordinates whose values `sqrt(c) t - 1` sum to at
/// most `far`.
pub(crate) fn angle_error(far: f64, dim: usize) -> f64 {
    (f64::from(ANGLE_ERROR) + f64::from(FAR_ANGLE_ERROR) * far) * sum_growth(dim)
}

/// Growth of the rounding error of an `f32` sum over `dim` coordinates, relative to 512 coordinates. Up to 512 the
/// error budgets apply without growth. Every term goes through one addition per eight coordinates and ten more.
fn sum_growth(dim: usize) -> f64 {
    ((dim / 8 + 10) as f64 / 74.0).max(1.0)
}

/// Error of an `f32` sum over the factors of a product, one after the other, relative to the sum of the absolute terms:
/// half a machine epsilon per factor, with a safety factor of two.
pub(crate) fn joining_error(factors: usize) -> f64 {
    if factors == 1 { 0.0 } else { f64::from(f32::EPSILON) * factors as f64 }
}

/// A lower bound on `acosh(1 + u)` for `u >= 0`, with a relative error of at most 5e-5. Above 1e18 it is looser,
/// because `u` is clamped before its square overflows `f32`.
pub(crate) fn acosh_1p_below(u: f64) -> f64 {
    f64::from(rapidity_below(super::below(u.min(1e18))))
}

/// Relative error of an exact distance in flat space or on the sphere.
pub(crate) fn chord_distance_error(dim: usize) -> f64 {
    f64::from(CHORD_ERROR + crate::kernel::dot_error(dim))
}

/// `-<x, y>`.
pub(super) struct MinusDot;

impl Term for MinusDot {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        around(-dot, factor.rounding * query.a.sqrt() * row.a.sqrt() + UNDERFLOW)
    }
}

/// Minus the cosine, which grows with the length of the arc.
pub(super) struct MinusCosine;

impl Term for MinusCosine {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        around(-2.0 * dot / (query.a + row.a), 4.0 * factor.rounding + CHORD_ERROR)
    }
}

/// `|x - y|^2`.
pub(super) struct SquaredChord;

impl Term for SquaredChord {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        let squares = query.a + row.a;
        let gap = squares - 2.0 * dot;
        around(gap, 4.0 * factor.rounding * squares + (CHORD_ERROR + factor.rounding) * gap.abs() + UNDERFLOW)
    }
}

/// Minus the cosine of the angle at the parent between `parent - root` and `child - parent`, with the query as the
/// parent.
pub(super) struct ChordDown;
/// As [`ChordDown`], with the row as the parent.
pub(super) struct ChordUp;

impl Term for ChordDown {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        chord_angle(factor, query, row, dot)
    }
}

impl Term for ChordUp {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        chord_angle(factor, row, query, dot)
    }
}

#[inline(always)]
fn chord_angle(factor: Factor, parent: PointValues, child: PointValues, dot: f32) -> Bounds {
    let squares = parent.a + child.a;
    let product = dot - parent.a - child.b + parent.b;
    let step = squares - 2.0 * dot;
    let depth = parent.c;
    // Every term is at most (|x| + |y| + |root|)^2 <= 3 (|x|^2 + |y|^2 + |root|^2).
    let error = 12.0 * factor.rounding * (squares + factor.root) + UNDERFLOW;
    let unmeasured = (depth <= 2.0 * TINY_F32) | (step <= 4.0 * TINY_F32 * TINY_F32);
    let unknown = (step <= 4.0 * error) | (depth * depth <= 4.0 * error) | unmeasured;
    let scale = 1.0 / (depth * step.sqrt());
    let slack = error * scale + error / step + error / (depth * depth) + CHORD_ERROR;
    let minus_cosine = -product * scale;
    Bounds {
        low: if unknown { -1.0 } else { minus_cosine - slack },
        high: if unknown { 1.0 } else { minus_cosine + slack },
    }
}

/// `u = cosh(sqrt(c) d) - 1`, with its own error and that of the exact distance. With `a = sqrt(c) d`, a relative error
/// `e` of `a` becomes an error `e a sinh(a) <= e (2 + a) u` of `u`, and `a <= 1 + ln(1 + u)`.
pub(super) struct Cosh;

impl Term for Cosh {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        let (u, slack) = cosh_excess(factor, query, row, dot);
        let at_most = above(u, 0.0) + slack;
        around(u, slack + dist_error(query, row) * (4.0 + ln_1p(at_most)) * at_most)
    }
}

/// The distance `acosh(1 + u) / sqrt(c)` at both ends of the interval of `u`.
pub(super) struct Dist;

impl Term for Dist {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        let (u, slack) = cosh_excess(factor, query, row, dot);
        let error = dist_error(query, row);
        Bounds {
            low: above(1.0 - error, 0.0) * factor.unit * rapidity(u - slack),
            high: (1.0 + error) * factor.unit * rapidity(u + slack),
        }
    }

    #[inline(always)]
    fn low(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> f32 {
        let (u, slack) = cosh_excess(factor, query, row, dot);
        above(1.0 - dist_error(query, row), 0.0) * factor.unit * rapidity_below(u - slack)
    }

    #[inline(always)]
    fn low_without_norm(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> f32 {
        let terms = query.a + row.a + query.a * row.a;
        // c |x| |y| is at most the mean of both squares, and at most (1 + a)(1 + b).
        let squares = 0.5 * (query.a * (query.a + 2.0) + row.a * (row.a + 2.0));
        let size = terms + if squares < 1.0 + terms { squares } else { 1.0 + terms };
        let u = terms - factor.curv * dot - (factor.rounding * size + UNDERFLOW);
        above(1.0 - dist_error(query, row), 0.0) * factor.unit * rapidity_below(u)
    }
}

/// The square of [`Dist`].
pub(super) struct DistSquared;

impl Term for DistSquared {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        let Bounds { low, high } = Dist::bounds(factor, query, row, dot);
        Bounds { low: low * low, high: high * high }
    }

    #[inline(always)]
    fn low(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> f32 {
        let low = Dist::low(factor, query, row, dot);
        low * low
    }

    #[inline(always)]
    fn low_without_norm(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> f32 {
        let low = Dist::low_without_norm(factor, query, row, dot);
        low * low
    }
}

/// `-<x, y>_L = t(x) t(y) - <x, y>`.
pub(super) struct MinusInner;

impl Term for MinusInner {
    /// Far from the origin the error exceeds the term, so a lower bound can be negative. Rounding can make the exact
    /// score of a factor negative, too.
    const GROWS: bool = false;

    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        let times = (1.0 + query.a) * (1.0 + row.a) / factor.curv;
        around(times - dot, (4.0 * factor.rounding + factor.joining) * times)
    }
}

/// `1 - along / (|along| + across)`, a number in [0, 2] that grows with the exterior angle, with the query as the
/// parent; see [`RayOffset`] for `along` and `across`.
pub(super) struct TurnDown;
/// As [`TurnDown`], with the row as the parent.
pub(super) struct TurnUp;
/// The exterior angle with the query as the parent.
pub(super) struct ExteriorAngleDown;
/// The exterior angle with the row as the parent.
pub(super) struct ExteriorAngleUp;

impl Term for TurnDown {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        turn(factor, query, row, dot)
    }
}

impl Term for TurnUp {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        turn(factor, row, query, dot)
    }
}

impl Term for ExteriorAngleDown {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        exterior_angle(factor, query, row, dot)
    }
}

impl Term for ExteriorAngleUp {
    #[inline(always)]
    fn bounds(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> Bounds {
        exterior_angle(factor, row, query, dot)
    }
}

/// The value of [`turn`] for an angle in radians. With its sine `s` and cosine `c` it is `s / (|c| + s)` up to a right
/// angle, and 2 minus that above. The derivative is `1 / (|c| + s)^2`, between 1/2 and 1. Angles below 0 map to -1,
/// angles above pi to 3.
pub(crate) fn turn_of(angle: f64) -> f64 {
    if !(0.0..=std::f64::consts::PI).contains(&angle) {
        return if angle < 0.0 { -1.0 } else { 3.0 };
    }
    let (sine, cosine) = angle.sin_cos();
    let acute = sine / (cosine.abs() + sine);
    if cosine < 0.0 { 2.0 - acute } else { acute }
}

#[inline(always)]
fn turn(factor: Factor, parent: PointValues, child: PointValues, dot: f32) -> Bounds {
    let ray = RayOffset::of(factor, parent, child, dot);
    let sum = ray.along.abs() + ray.across;
    let acute = ray.across / sum;
    let turn = if ray.along < 0.0 { 2.0 - acute } else { acute };
    ray.within(turn, 2.0)
}

#[inline(always)]
fn exterior_angle(factor: Factor, parent: PointValues, child: PointValues, dot: f32) -> Bounds {
    let ray = RayOffset::of(factor, parent, child, dot);
    ray.within(half_turn(ray.across, ray.along), PI)
}

/// The child relative to the parent, see `Space::exterior_angle`. The angle is `atan2(across, along)`, where `y` is the
/// component of the child along the parent, `across^2 = |child|^2 - y^2` and `along = sqrt(c) t(parent) y - sqrt(c)
/// t(child) |parent|`.
struct RayOffset {
    across: f32,
    along: f32,
    /// Error of the angle in radians. Also valid on the scale of [`turn_of`], whose derivative is at most 1.
    error: f32,
    unknown: bool,
}

impl RayOffset {
    #[inline(always)]
    fn of(factor: Factor, parent: PointValues, child: PointValues, dot: f32) -> Self {
        let rounding = factor.rounding;
        let y = dot * parent.c;
        let y_error = rounding * child.b;
        let (ahead, behind) = ((1.0 + parent.a) * y, (1.0 + child.a) * parent.b);
        let along = ahead - behind;
        let along_error = (1.0 + parent.a) * y_error + rounding * (ahead.abs() + behind);
        let square = child.b * child.b - y * y;
        let square_error = 2.0 * (y.abs() + y_error) * y_error + rounding * child.b * child.b + f32::MIN_POSITIVE;
        // Let s be the square and e its error. For s >= e the square root differs from the true one by at most e /
        // sqrt(s). Otherwise both are within sqrt(e) of sqrt(e).
        let across = above(square, square_error).sqrt();
        let error = along_error + square_error / across;
        let sum = along.abs() + across;
        // Moving a vector of length l by e turns its direction by at most asin(e / l) <= 1.6 e / l, and l >= sum /
        // sqrt(2).
        let far = FAR_ANGLE_ERROR * (parent.a + child.a);
        RayOffset {
            across,
            along,
            error: 2.3 * error / sum + ANGLE_ERROR + TURN_ERROR + far,
            unknown: (parent.b <= 2.0 * TINY_F32) | (sum <= 3.0 * error),
        }
    }

    #[inline(always)]
    fn within(&self, value: f32, most: f32) -> Bounds {
        Bounds {
            low: if self.unknown { 0.0 } else { above(value - self.error, 0.0) },
            high: if self.unknown { most } else { value + self.error },
        }
    }
}

#[inline(always)]
fn cosh_excess(factor: Factor, query: PointValues, row: PointValues, dot: f32) -> (f32, f32) {
    let terms = query.a + row.a + query.a * row.a;
    let size = terms + factor.curv * query.b * row.b;
    (terms - factor.curv * dot, factor.rounding * size + UNDERFLOW)
}

/// Relative error of the exact distance.
#[inline(always)]
fn dist_error(query: PointValues, row: PointValues) -> f32 {
    DIST_ERROR + FAR_DIST_ERROR * (query.a + row.a)
}

/// `acosh(1 + u)`; 0 for negative `u`.
#[inline(always)]
fn rapidity(u: f32) -> f32 {
    let u = above(u, 0.0);
    ln_1p(u + (u * (u + 2.0)).sqrt())
}

/// A lower bound on [`rapidity`] with a relative error of at most 4e-5, without a division. With `1 + w = 2^e (1 + x)`
/// and `x` in [0, 1), `ln(1 + x) / x` is a polynomial fitted at Chebyshev nodes (relative error 8.8e-6). A factor below
/// 1 allows for the error.
#[inline(always)]
fn rapidity_below(u: f32) -> f32 {
    let u = above(u, 0.0);
    let w = u + (u * (u + 2.0)).sqrt();
    let bits = (1.0 + w).to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let mantissa = f32::from_bits(bits & 0x007f_ffff | 1.0_f32.to_bits());
    let x = if exponent == 0 { w } else { mantissa - 1.0 };
    let upper = -0.210_293_7 + x * (0.101_500_05 - x * 0.023_979_573);
    let series = x * (0.999_991_83 + x * (-0.499_372_6 + x * (0.325_295_15 + x * upper)));
    // The last term is zero for finite `w` and NaN otherwise. Without it, the bits of a NaN would give a finite result.
    (1.0 - LOGARITHM_ERROR) * (exponent as f32 * std::f32::consts::LN_2 + series) + 0.0 * w
}

/// The larger value. Unlike `max`, it keeps NaN.
#[inline(always)]
fn above(value: f32, least: f32) -> f32 {
    if value < least { least } else { value }
}

#[inline(always)]
fn around(value: f32, slack: f32) -> Bounds {
    Bounds { low: value - slack, high: value + slack }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_geometry::{ManifoldSpec, Root, space};

    use super::*;

    /// Compares distances and angles in `f32` with `f64`, in 8 to 4,096 coordinates, near the root and far out, for
    /// points in equal, similar and independent directions, from coordinates of one size (whose sums round most) and of
    /// all sizes. The error must be within half of the budget of the bounds.
    #[test]
    fn exact_scores_keep_their_error_in_many_dimensions() {
        let mut random = conifer_geometry::random::SplitMix::new(9);
        for dim in [8, 64, 512, 1024, 4096] {
            let spec = ManifoldSpec::lorentz(dim, 1.0);
            let (narrow, wide) = (space::<f32>(&spec).unwrap(), space::<f64>(&spec).unwrap());
            for norm in [0.01, 1.0, 75.0, 1e3] {
                let mut worst = (0.0_f64, 0.0_f64);
                for case in 0..40 {
                    let mut points = [0, 1].map(|_| -> Vec<f64> {
                        let sign = |random: &mut conifer_geometry::random::SplitMix| {
                            if random.uniform() < 0.5 { -1.0 } else { 1.0 }
                        };
                        let one_size = case % 2 == 0;
                        (0..dim).map(|_| sign(&mut random) * if one_size { 1.0 } else { random.uniform() }).collect()
                    });
                    // Directions range from equal to independent.
                    let share = [0.0, 1e-3, 0.03, 0.3, 1.0][case % 5];
                    let first = points[0].clone();
                    points[1].iter_mut().zip(&first).for_each(|(b, a)| *b = a * (1.0 - share) + *b * share);
                    let sizes = [norm, norm * [1.0, 1.01, 1.5, 3.0][case % 4]];
                    let points: Vec<Vec<f32>> = points
                        .iter()
                        .zip(sizes)
                        .map(|(point, size)| {
                            let length = point.iter().map(|v| v * v).sum::<f64>().sqrt();
                            point.iter().map(|v| (v / length * size) as f32).collect()
                        })
                        .collect();
                    let exact: Vec<Vec<f64>> =
                        points.iter().map(|p| p.iter().map(|v| f64::from(*v)).collect()).collect();
                    let far: f64 =
                        exact.iter().map(|p| (1.0 + p.iter().map(|v| v * v).sum::<f64>()).sqrt() - 1.0).sum();
                    let (d, true_d) = (f64::from(narrow.dist(&points[0], &points[1])), wide.dist(&exact[0], &exact[1]));
                    if true_d > 0.0 {
                        worst.0 = worst.0.max((d - true_d).abs() / true_d / distance_error(far, dim));
                    }
                    let angle = f64::from(narrow.exterior_angle(&points[0], &points[1], &Root::Origin));
                    let true_angle = wide.exterior_angle(&exact[0], &exact[1], &Root::Origin);
                    worst.1 = worst.1.max((angle - true_angle).abs() / angle_error(far, dim));
                }
                assert!(worst.0 <= 0.5 && worst.1 <= 0.5, "dim {dim}, norm {norm}: {worst:?} of the budgets");
            }
        }
    }

    /// Covers u from 1e-30 to 1e9.
    #[test]
    fn rapidity_below_is_below_and_near() {
        for step in 0..400_000 {
            let u = 10_f64.powf(f64::from(step) / 400_000.0 * 39.0 - 30.0) as f32;
            let wide = f64::from(u);
            let exact = (wide + (wide * (wide + 2.0)).sqrt()).ln_1p();
            let found = f64::from(rapidity_below(u));
            assert!(found <= exact * (1.0 - 1e-6) && found >= exact * (1.0 - 4e-5), "{u:e}: {found} for {exact}");
        }
        assert_eq!(rapidity_below(-1.0), 0.0);
        assert!(rapidity_below(f32::NAN).is_nan());
    }
}
