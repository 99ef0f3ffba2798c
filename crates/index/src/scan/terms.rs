//! What a dot product says of the score of a row: one type for each formula.
//!
//! A term is an interval that contains what [`Space`](conifer_space::Space) computes, or a number that grows with it. Nothing
//! branches, so that a loop over many rows or many queries compiles to vector instructions. Terms of the factors of a product add up.

use std::f32::consts::PI;

use conifer_space::safe::TINY_F32;
use conifer_space::safe::bounds::{
    ANGLE_ERROR, CHORD_ERROR, DIST_ERROR, FAR_ANGLE_ERROR, FAR_DIST_ERROR, LOGARITHM_ERROR, TURN_ERROR, UNDERFLOW,
};
use conifer_space::vector::{half_turn, ln_1p};

use crate::select::Bounds;

/// What is known of a point (in one factor) besides its coordinates.
///
/// On a hyperboloid `a = sqrt(c) t(x) - 1`, `b = |x|`, `c = 1 / |x|` (0 at the origin); elsewhere `a = |x|^2`,
/// `b = <root, x>`, `c = |x - root|`.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) a: f32,
    pub(super) b: f32,
    pub(super) c: f32,
}

/// What is known of a factor.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    /// The curvature parameter, 1 where there is none.
    pub(super) curv: f32,
    /// `1 / sqrt(c)`.
    pub(super) unit: f32,
    /// Error of a dot product here and in the exact score, relative to the product of the lengths; of squared norms too.
    pub(super) rounding: f32,
    /// `|root|^2`.
    pub(super) root: f32,
    /// Error of a sum over all factors, here and in the exact score, relative to the sum of the sizes of its terms.
    pub(super) joining: f32,
}

/// Bounds of one query and one row in one factor.
pub(super) trait Term {
    /// Whether no low end is below zero, so that a sum over factors only grows.
    const GROWS: bool = true;

    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds;

    /// A low end that may be lower, where that is faster: to sort out rows with.
    #[inline(always)]
    fn low(factor: Factor, query: Place, row: Place, dot: f32) -> f32 {
        Self::bounds(factor, query, row, dot).low
    }

    /// The same where the norm of the row costs a root of its own: it may do without.
    #[inline(always)]
    fn low_without_norm(factor: Factor, query: Place, row: Place, dot: f32) -> f32 {
        Self::low(factor, query, row, dot)
    }
}

/// Relative error of an exact distance between points of `dim` coordinates whose `sqrt(c) t` add up to `far`.
pub(crate) fn distance_error(far: f64, dim: usize) -> f64 {
    (f64::from(DIST_ERROR) + f64::from(FAR_DIST_ERROR) * far) * sum_growth(dim)
}

/// Error of an exact angle between points of `dim` coordinates whose `sqrt(c) t` add up to `far`, radians.
pub(crate) fn angle_error(far: f64, dim: usize) -> f64 {
    (f64::from(ANGLE_ERROR) + f64::from(FAR_ANGLE_ERROR) * far) * sum_growth(dim)
}

/// By how much a sum in `f32` over `dim` coordinates rounds more than one over 512, up to which the budgets were measured: every term goes
/// through one addition for eight coordinates, and ten more.
fn sum_growth(dim: usize) -> f64 {
    ((dim / 8 + 10) as f64 / 74.0).max(1.0)
}

/// Error of a sum over the factors of a product in `f32`, one after the other, with respect to the sum of the sizes of its terms: half a
/// machine epsilon for each, with a factor of two in hand.
pub(crate) fn joining_error(factors: usize) -> f64 {
    if factors == 1 { 0.0 } else { f64::from(f32::EPSILON) * factors as f64 }
}

/// At most `acosh(1 + u)`, for `u >= 0`: by up to 5e-5 of it, and by more from 1e18 on, where its square would soon be no number of `f32`.
pub(crate) fn acosh_1p_below(u: f64) -> f64 {
    f64::from(rapidity_below(super::below(u.min(1e18))))
}

/// Relative error of an exact distance in flat space.
pub(crate) fn chord_distance_error(dim: usize) -> f64 {
    f64::from(CHORD_ERROR + crate::kernel::dot_error(dim))
}

/// `-<x, y>`.
pub(super) struct MinusDot;

impl Term for MinusDot {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        around(-dot, factor.rounding * query.a.sqrt() * row.a.sqrt() + UNDERFLOW)
    }
}

/// Minus the cosine: the arc grows with it.
pub(super) struct Arc;

impl Term for Arc {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        around(-2.0 * dot / (query.a + row.a), 4.0 * factor.rounding + CHORD_ERROR)
    }
}

/// `|x - y|^2`.
pub(super) struct Gap;

impl Term for Gap {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        let squares = query.a + row.a;
        let gap = squares - 2.0 * dot;
        around(gap, 4.0 * factor.rounding * squares + (CHORD_ERROR + factor.rounding) * gap.abs() + UNDERFLOW)
    }
}

/// Minus the cosine of the angle at the parent between `parent - root` and `child - parent`: the query is the parent.
pub(super) struct ChordDown;
/// The same: the row is the parent.
pub(super) struct ChordUp;

impl Term for ChordDown {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        chord_angle(factor, query, row, dot)
    }
}

impl Term for ChordUp {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        chord_angle(factor, row, query, dot)
    }
}

#[inline(always)]
fn chord_angle(factor: Factor, parent: Place, child: Place, dot: f32) -> Bounds {
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

/// `u = cosh(sqrt(c) d) - 1`, up to its own error and that of the exact distance: with `a = sqrt(c) d`, a relative
/// error in `a` becomes `a sinh(a) <= (2 + a) u` times as much in `u`, and `a <= 1 + ln(1 + u)`.
pub(super) struct Cosh;

impl Term for Cosh {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        let (u, slack) = cosh_excess(factor, query, row, dot);
        let at_most = above(u, 0.0) + slack;
        around(u, slack + dist_error(query, row) * (4.0 + ln_1p(at_most)) * at_most)
    }
}

/// The distance, `acosh(1 + u) / sqrt(c)`, at both ends of `u`.
pub(super) struct Dist;

impl Term for Dist {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        let (u, slack) = cosh_excess(factor, query, row, dot);
        let error = dist_error(query, row);
        Bounds {
            low: above(1.0 - error, 0.0) * factor.unit * rapidity(u - slack),
            high: (1.0 + error) * factor.unit * rapidity(u + slack),
        }
    }

    #[inline(always)]
    fn low(factor: Factor, query: Place, row: Place, dot: f32) -> f32 {
        let (u, slack) = cosh_excess(factor, query, row, dot);
        above(1.0 - dist_error(query, row), 0.0) * factor.unit * rapidity_below(u - slack)
    }

    #[inline(always)]
    fn low_without_norm(factor: Factor, query: Place, row: Place, dot: f32) -> f32 {
        let terms = query.a + row.a + query.a * row.a;
        // c |x| |y| is at most the mean of both squares, and (1 + a)(1 + b).
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
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        let Bounds { low, high } = Dist::bounds(factor, query, row, dot);
        Bounds { low: low * low, high: high * high }
    }

    #[inline(always)]
    fn low(factor: Factor, query: Place, row: Place, dot: f32) -> f32 {
        let low = Dist::low(factor, query, row, dot);
        low * low
    }

    #[inline(always)]
    fn low_without_norm(factor: Factor, query: Place, row: Place, dot: f32) -> f32 {
        let low = Dist::low_without_norm(factor, query, row, dot);
        low * low
    }
}

/// `-<x, y>_L = t(x) t(y) - <x, y>`.
pub(super) struct MinusInner;

impl Term for MinusInner {
    /// Far out its error is larger than the term, and the exact score of a factor may have the wrong sign, too.
    const GROWS: bool = false;

    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        let times = (1.0 + query.a) * (1.0 + row.a) / factor.curv;
        around(times - dot, (4.0 * factor.rounding + factor.joining) * times)
    }
}

/// A number in [0, 2] that grows with the exterior angle, `1 - along / (|along| + across)` below a right angle's side: the query is
/// the parent.
pub(super) struct TurnDown;
/// The same: the row is the parent.
pub(super) struct TurnUp;
/// The exterior angle: the query is the parent.
pub(super) struct ConeDown;
/// The same: the row is the parent.
pub(super) struct ConeUp;

impl Term for TurnDown {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        turn(factor, query, row, dot)
    }
}

impl Term for TurnUp {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        turn(factor, row, query, dot)
    }
}

impl Term for ConeDown {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        cone(factor, query, row, dot)
    }
}

impl Term for ConeUp {
    #[inline(always)]
    fn bounds(factor: Factor, query: Place, row: Place, dot: f32) -> Bounds {
        cone(factor, row, query, dot)
    }
}

/// Where [`turn`] puts an angle: with `s`, `c` its sine and cosine, `s / (|c| + s)` up to a right angle, and 2 minus that beyond. The
/// slope is `1 / (|c| + s)^2`, between 1/2 and 1.
pub(crate) fn turn_of(angle: f64) -> f64 {
    if !(0.0..=std::f64::consts::PI).contains(&angle) {
        return if angle < 0.0 { -1.0 } else { 3.0 };
    }
    let (sine, cosine) = angle.sin_cos();
    let acute = sine / (cosine.abs() + sine);
    if cosine < 0.0 { 2.0 - acute } else { acute }
}

#[inline(always)]
fn turn(factor: Factor, parent: Place, child: Place, dot: f32) -> Bounds {
    let side = Side::of(factor, parent, child, dot);
    let sum = side.along.abs() + side.across;
    let acute = side.across / sum;
    let turn = if side.along < 0.0 { 2.0 - acute } else { acute };
    side.within(turn, 2.0)
}

#[inline(always)]
fn cone(factor: Factor, parent: Place, child: Place, dot: f32) -> Bounds {
    let side = Side::of(factor, parent, child, dot);
    side.within(half_turn(side.across, side.along), PI)
}

/// The child as the parent sees it, see `Space::exterior_angle`: the angle is `atan2(across, along)` with `y` the child's component
/// along the parent, `across^2 = |child|^2 - y^2` and `along = sqrt(c) t(parent) y - sqrt(c) t(child) |parent|`.
struct Side {
    across: f32,
    along: f32,
    /// Of an angle, radians; of its place on the scale of [`turn_of`], too, which has a slope of at most 1.
    error: f32,
    unknown: bool,
}

impl Side {
    #[inline(always)]
    fn of(factor: Factor, parent: Place, child: Place, dot: f32) -> Self {
        let rounding = factor.rounding;
        let y = dot * parent.c;
        let y_error = rounding * child.b;
        let (ahead, behind) = ((1.0 + parent.a) * y, (1.0 + child.a) * parent.b);
        let along = ahead - behind;
        let along_error = (1.0 + parent.a) * y_error + rounding * (ahead.abs() + behind);
        let square = child.b * child.b - y * y;
        let square_error = 2.0 * (y.abs() + y_error) * y_error + rounding * child.b * child.b + f32::MIN_POSITIVE;
        // With s the square and e its error, the root of s lies within e / root(s) of the true one where s >= e; where it is not, both
        // it and the true one lie within root(e) of root(e).
        let across = above(square, square_error).sqrt();
        let error = along_error + square_error / across;
        let sum = along.abs() + across;
        // The direction of a vector of length l turns by at most asin(e / l) <= 1.6 e / l when it moves by e, and
        // l >= sum / root(2).
        let far = FAR_ANGLE_ERROR * (parent.a + child.a);
        Side {
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
fn cosh_excess(factor: Factor, query: Place, row: Place, dot: f32) -> (f32, f32) {
    let terms = query.a + row.a + query.a * row.a;
    let size = terms + factor.curv * query.b * row.b;
    (terms - factor.curv * dot, factor.rounding * size + UNDERFLOW)
}

/// Relative error of the exact distance.
#[inline(always)]
fn dist_error(query: Place, row: Place) -> f32 {
    DIST_ERROR + FAR_DIST_ERROR * (query.a + row.a)
}

/// `acosh(1 + u)`, 0 below 0.
#[inline(always)]
fn rapidity(u: f32) -> f32 {
    let u = above(u, 0.0);
    ln_1p(u + (u * (u + 2.0)).sqrt())
}

/// At most [`rapidity`], by up to 4e-5 of it, without a division: `1 + w = 2^e (1 + x)` with `x` in [0, 1), and `ln(1 + x) / x` by a polynomial
/// fitted at Chebyshev nodes (off by 8.8e-6 of the value), times a factor that makes room for its error.
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
    // The last term is zero for numbers, and NaN for what is none: its bits must not pass for a number.
    (1.0 - LOGARITHM_ERROR) * (exponent as f32 * std::f32::consts::LN_2 + series) + 0.0 * w
}

/// The larger one; what is no number stays none, which `max` would hide.
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
    use conifer_space::{ManifoldSpec, Root, space};

    use super::*;

    /// Distances and angles in `f32` against `f64`, in 8 to 4,096 coordinates, near the root and far out, of points that are close, opposite or at
    /// right angles, with coordinates of one size (whose sums round most) and of all sizes: within half of what bounds allow for.
    #[test]
    fn exact_scores_keep_their_error_in_many_dimensions() {
        let mut random = conifer_space::laws::SplitMix::new(9);
        for dim in [8, 64, 512, 1024, 4096] {
            let spec = ManifoldSpec::lorentz(dim, 1.0);
            let (narrow, wide) = (space::<f32>(&spec).unwrap(), space::<f64>(&spec).unwrap());
            for norm in [0.01, 1.0, 75.0, 1e3] {
                let mut worst = (0.0_f64, 0.0_f64);
                for case in 0..40 {
                    let mut points = [0, 1].map(|_| -> Vec<f64> {
                        let sign = |random: &mut conifer_space::laws::SplitMix| {
                            if random.uniform() < 0.5 { -1.0 } else { 1.0 }
                        };
                        let one_size = case % 2 == 0;
                        (0..dim).map(|_| sign(&mut random) * if one_size { 1.0 } else { random.uniform() }).collect()
                    });
                    // From the same direction to an independent one.
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

    /// Over u from 1e-30 to 1e9, finely around the powers of two of `1 + w`.
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
