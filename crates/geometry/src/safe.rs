//! Epsilons and clamped inverse functions, each with its reason.
//!
//! The published systems use `1e-8` everywhere. In `f32` that has no effect when added to one (`1 + 1e-8 == 1`), so
//! their clamps on `acosh`, `asin` and `acos` do nothing. Every epsilon here is representable in its type; a test
//! checks the first four.

use crate::real::Real;

/// Relative difference from 1 that survives a few rounded operations in `f32` (machine epsilon 1.2e-7).
pub const EPS_F32: f32 = 1e-6;
/// Relative difference from 1 that survives a few rounded operations in `f64` (machine epsilon 2.2e-16).
pub const EPS_F64: f64 = 1e-14;
/// Smallest length used as a divisor in `f32`: its square, 1e-36, is still a normal number (the smallest is 1.2e-38).
pub const TINY_F32: f32 = 1e-18;
/// Smallest length used as a divisor in `f64`: its square, 1e-300, is still a normal number (the smallest is 2.2e-308).
pub const TINY_F64: f64 = 1e-150;
/// Largest `sqrt(c) |x|` that a lift produces, 2^15. Longer tangent vectors are shortened, because `sinh` overflows
/// `f32` at 89 and the square of its result at 45. The published hyperbolic models use the same value.
pub const MAX_SINH: f64 = 32768.0;
/// Largest `sqrt(c) |v|` that a lift does not shorten: `asinh(2^15)`.
pub const MAX_RAPIDITY: f64 = 11.090_354_889_191_955;
/// Largest `| |x| - 1 |` of a stored point on the sphere. It accepts embeddings that were normalised in half precision
/// (bfloat16 keeps 8 bits) and rejects features that were never normalised.
pub const UNIT_TOLERANCE: f64 = 1e-2;

/// Largest `sqrt(c) |x|` per factor (`|x|` in spaces without curvature) of a point that can be scored. The `cosh` of
/// the distance between two such points, 2e18, and its square are finite in `f32`. Lifts produce at most [`MAX_SINH`].
pub const FARTHEST: f32 = 1e9;
/// Largest `dim` of a space. Published models have at most 4,096; an `f32` projection from 1,024 features to this size
/// takes 0.3 GB.
pub const MAX_DIM: usize = 1 << 16;
/// Allowed curvature parameters c. In this range a point with `sqrt(c) |x|` up to [`FARTHEST`] has a finite `|x|^2` in
/// `f32`.
pub const CURVATURES: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// Largest difference between two computations of one embedding, relative to its length. A different batch size changes
/// the last digits (1e-6 and less); another model or program differs by far more.
pub const SAME_POINT: f32 = 1e-4;

/// Error allowances of the score bounds in crate `index`. They cover the rounding errors of the `f32` scores (on the
/// hyperboloid from the budgets measured in `spaces/tests/accuracy.rs`) and of the bounds themselves, so that search
/// never discards a row that belongs in the result.
pub mod bounds {
    /// Relative rounding error of the exact distance: four times the budget for norms up to 10.
    pub const DIST_ERROR: f32 = 2e-6;
    /// Growth of [`DIST_ERROR`] per unit of `sqrt(c) t`, with `t` the time component, summed over both points: from
    /// the budgets for norms 1e2 to 1e4, which are twice the measured errors.
    pub const FAR_DIST_ERROR: f32 = 7e-7;
    /// Rounding error of an exact angle, radians: twice the budget for norms up to 10.
    pub const ANGLE_ERROR: f32 = 4e-5;
    /// Growth of [`ANGLE_ERROR`] per unit of `sqrt(c) t`, derived like [`FAR_DIST_ERROR`].
    pub const FAR_ANGLE_ERROR: f32 = 7e-6;
    /// Rounding error of the exact score in Euclidean space and on the sphere: the relative error of a distance, and
    /// the absolute error of the cosine of an arc or angle.
    pub const CHORD_ERROR: f32 = 4e-6;
    /// Absolute error of sums of squares and products of numbers below 1e-19, which underflow. Each term loses at most
    /// the smallest subnormal number, 2^-149. This constant is 2^23 times that: a safety factor of about 1,000 for a sum
    /// of 8,000 terms.
    pub const UNDERFLOW: f32 = f32::MIN_POSITIVE;
    /// Like [`UNDERFLOW`], for an `f32` dot product that enters an `f64` computation, with a safety factor of 85.
    pub const UNDERFLOW_OF_F32: f64 = 1e-36;
    /// Relative error of an `f64` result after several thousand roundings of 1.1e-16.
    pub const ROUNDED: f64 = 1e-12;
    /// Relative error of an `f64` result after a chain of hyperbolic functions and their inverses, which amplify
    /// errors; also the absolute error of such an angle, radians.
    pub const CHAINED: f64 = 1e-9;
    /// Error of an angle near 0 and pi, radians. There an angle has half the digits of its cosine, so the error is the
    /// square root of [`ROUNDED`].
    pub const HALF_THE_DIGITS: f64 = 1e-6;
    /// Legs of a hyperbolic triangle shorter than this (at curvature -1, in `f64`) are treated as having no direction.
    pub const SHORT_LEG: f64 = 1e-12;
    /// Like [`SHORT_LEG`], for sides with a term computed in `f32`, and relative to the terms of the side.
    pub const SHORT_SIDE: f64 = 1e-6;
    /// Relative error of converting a ranking key from `f64` to `f32` (6e-8), with a safety factor above ten.
    pub const KEY: f64 = 1e-6;
    /// Error of an `f32` angle on the scale of `turn_of` in crate `index`, which maps angles from 0 to pi to [0, 2].
    pub const TURN: f64 = 2e-6;
    /// Error of an angle computed in `f32` by [`half_turn`](crate::vector::half_turn), radians, with a safety factor of
    /// two.
    pub const TURN_ERROR: f32 = 8e-7;
    /// Relative error of a distance computed in `f32` with a polynomial for the logarithm, with a safety factor of two.
    pub const LOGARITHM_ERROR: f32 = 2e-5;
}

/// Thresholds of the projections in crate `viz`. They compute in `f64` at curvature -1.
pub mod projection {
    /// Largest `sinh(d)` of two points that are treated as having no direction to each other. `d / sinh(d)` differs
    /// from 1 by less than 2e-25.
    pub const SHORT_SINH: f64 = 1e-12;
    /// Largest radius of a position in the Poincare disc. There `1 - r^2` is 2e-6 and still has ten digits.
    pub const RIM: f64 = 1.0 - 1e-6;
    /// Largest error of an entropy, in nats, that ends the search for a perplexity. The exact method stores similarities in `f32`,
    /// whose rounding changes an entropy by more.
    pub const ENTROPY_SETTLED: f64 = 1e-9;
    /// A vector depends on others if removing its parts along them leaves at most this share of its length. The
    /// remainder of a dependent vector is rounding error, about 1e-15.
    pub const DEPENDENT: f64 = 1e-9;
    /// Smallest discriminant of a horospherical projection, relative to the square of its linear term. The discriminant
    /// is zero for a point on the hull of the ideal points, where the gradient is infinite. This limit bounds the
    /// gradient by 1e6.
    pub const HULL: f64 = 1e-12;
    /// Length of a gradient, relative to the objective, at which an ascent ends. The objective is then within 1e-20 of
    /// its maximum in relative terms, below its rounding error.
    pub const GRADIENT_SETTLED: f64 = 1e-10;
    /// Length of a step at which the iteration for a Frechet mean ends. The points are given in `f32`, which has seven
    /// digits.
    pub const MEAN_SETTLED: f64 = 1e-11;
    /// Largest change of a coordinate of a unit vector at which a power iteration ends: a few units in the last place.
    pub const AXIS_SETTLED: f64 = 1e-15;
    /// Largest error of a sum of memberships that ends the search for the scale of a row (UMAP). The sum has a rounding
    /// error of about 1e-16 per neighbour.
    pub const SCALE_SETTLED: f64 = 1e-12;
    /// Smallest scale of a row, relative to its mean distance, as in umap-learn. Without this limit, ties at the
    /// smallest distance would make the scale zero.
    pub const SHORT_SCALE: f64 = 1e-3;
    /// Largest change of a coefficient that ends the fit of UMAP's similarity curve. Its coefficients are of the order
    /// of 1.
    pub const CURVE_SETTLED: f64 = 1e-12;
}

/// `asin` with its argument clamped to [-1, 1]. Rounding may move an argument out of that range. Radians in [-pi/2,
/// pi/2].
pub fn asin<T: Real>(sine: T) -> T {
    sine.max(-T::ONE).min(T::ONE).asin()
}

/// `acosh(1 + u)` without forming `1 + u`: `ln_1p(u + sqrt(u (u + 2)))`. Negative arguments, which only rounding can
/// produce, count as zero. The relative error is that of `u` plus a few units in the last place.
pub fn acosh_1p<T: Real>(u: T) -> T {
    let u = u.max(T::ZERO);
    (u + (u * (u + T::TWO)).sqrt()).ln_1p()
}

/// `sinh(r) / r` for `r >= 0`; 1 at zero, and `2^15 / r` beyond [`MAX_RAPIDITY`], so that `(r sinhc(r))^2` stays
/// finite.
pub fn sinhc<T: Real>(r: T) -> T {
    if r > T::from_f64(MAX_RAPIDITY) {
        T::from_f64(MAX_SINH) / r
    } else if r > T::TINY {
        r.sinh() / r
    } else {
        T::ONE
    }
}

/// `asinh(s) / s` for `s >= 0`; 1 at zero. Inverse of [`sinhc`] in the sense that `asinhc(r sinhc(r)) = 1 / sinhc(r)`.
pub fn asinhc<T: Real>(s: T) -> T {
    if s > T::TINY { s.asinh() / s } else { T::ONE }
}

/// `numerator / denominator`, or zero where the denominator is at most [`Real::TINY`]. Used for the direction of a
/// vector that may have length zero.
pub fn ratio<T: Real>(numerator: T, denominator: T) -> T {
    if denominator > T::TINY { numerator / denominator } else { T::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One plus or minus an epsilon differs from one, and a squared `TINY` is a normal number.
    #[test]
    fn epsilons_exist_in_their_type() {
        const { assert!(1.0 + EPS_F32 != 1.0 && 1.0 - EPS_F32 != 1.0) };
        const { assert!(1.0 + EPS_F64 != 1.0 && 1.0 - EPS_F64 != 1.0) };
        assert!((TINY_F32 * TINY_F32).is_normal() && (TINY_F64 * TINY_F64).is_normal());
        assert!((1.0_f32 / TINY_F32).is_finite() && (1.0_f64 / TINY_F64).is_finite());
        assert_eq!(1.0_f32 + 1e-8, 1.0, "the published epsilon 1e-8 has no effect in f32");
    }

    #[test]
    fn sinhc_is_continuous_at_max_rapidity() {
        assert_eq!(MAX_SINH.asinh(), MAX_RAPIDITY);
        let at = MAX_RAPIDITY as f32;
        let above = at * 1.0001;
        assert!((sinhc(at) * at - MAX_SINH as f32).abs() < 0.1);
        assert!((sinhc(above) * above - MAX_SINH as f32).abs() < 0.01);
    }

    /// Closed forms: acosh(5/4) = ln 2, acosh(1 + 2 sinh^2(h/2)) = h; small u: acosh(1 + u) = sqrt(2u) (1 - u/12 + ..).
    #[test]
    fn acosh_1p_at_known_points() {
        assert_eq!(acosh_1p(0.0_f32), 0.0);
        assert_eq!(acosh_1p(-1e-3_f64), 0.0);
        assert!((acosh_1p(0.25_f64) - std::f64::consts::LN_2).abs() < 1e-15);
        for h in [1e-12_f64, 1e-6, 0.1, 1.0, 20.0] {
            let u = 2.0 * (h / 2.0).sinh().powi(2);
            assert!((acosh_1p(u) / h - 1.0).abs() < 1e-14, "h = {h}");
        }
        assert_eq!(acosh_1p(2e-20_f32), 2e-10);
    }

    #[test]
    fn clamped_functions_stay_in_range() {
        assert_eq!(asin(1.5_f32), std::f32::consts::FRAC_PI_2);
        assert_eq!(asin(-7.0_f64), -std::f64::consts::FRAC_PI_2);
        assert_eq!(ratio(3.0_f32, 0.0), 0.0);
        assert_eq!(ratio(3.0_f32, 2.0), 1.5);
        assert_eq!((sinhc(0.0_f32), asinhc(0.0_f32)), (1.0, 1.0));
        for r in [1e-9_f64, 0.3, 5.0] {
            let there = sinhc(r);
            assert!((asinhc(r * there) * there - 1.0).abs() < 1e-15, "r = {r}");
        }
    }
}
