//! Every epsilon and every clamped inverse function of the house, each with its reason on the line.
//!
//! The published systems write `1e-8` everywhere. In `f32` that is no number at all beside one (`1 + 1e-8 == 1`), so
//! their clamps on `acosh`, `asin` and `acos` do nothing there. Here an epsilon must exist in the type it is used with,
//! and a test asserts it.

use crate::real::Real;

/// Step above one that survives in `f32` (machine epsilon 1.2e-7) after a few rounded operations.
pub const EPS_F32: f32 = 1e-6;
/// Step above one that survives in `f64` (machine epsilon 2.2e-16) after a few rounded operations.
pub const EPS_F64: f64 = 1e-14;
/// Shortest length we divide by in `f32`: its square, 1e-36, is still a normal number (the smallest is 1.2e-38).
pub const TINY_F32: f32 = 1e-18;
/// Shortest length we divide by in `f64`: its square, 1e-300, is still a normal number (the smallest is 2.2e-308).
pub const TINY_F64: f64 = 1e-150;
/// Largest `sqrt(c) |x|` a lift can produce, 2^15: a longer tangent vector is shortened to it, because `sinh` leaves
/// `f32` at 89 and squares of the result leave it at 45. The value is that of the published hyperbolic models.
pub const MAX_SINH: f64 = 32768.0;
/// Longest `sqrt(c) |v|` that lifts without being shortened: `asinh(2^15)`.
pub const MAX_RAPIDITY: f64 = 11.090_354_889_191_955;
/// How far `| |x| - 1 |` may be from zero for a stored point of the sphere: loose enough for embeddings that were
/// normalised in half precision (bfloat16 keeps 8 bits), tight enough to catch features that never were normalised.
pub const UNIT_TOLERANCE: f64 = 1e-2;

/// The farthest point that has scores, as `sqrt(c) |x|` in every factor (`|x|` where there is no curvature): `cosh` of the distance between
/// two such points, 2e18, and its square are still numbers of `f32`. Lifts end at [`MAX_SINH`].
pub const FARTHEST: f32 = 1e9;
/// Largest number of coordinates of a space: published models have at most 4,096, and a projection to this many takes 0.3 GB.
pub const MOST_DIM: usize = 1 << 16;
/// Curvature parameters for which lengths up to [`FARTHEST`] have squares in `f32`.
pub const CURVATURES: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// How far two computations of one embedding may be apart, relative to its length: a batch of another size rounds otherwise in
/// the last digits (1e-6 and less), and another model or program differs by far more.
pub const SAME_POINT: f32 = 1e-4;

/// What bounds of scores (crate `index`) leave as room for rounding, so that no row is lost: of the exact scores in `f32`, which are measured
/// budgets, and of the bounds themselves.
pub mod bounds {
    /// Rounding of the exact distance, relative: its budget up to norm 10, with a factor of four in hand.
    pub const DIST_ERROR: f32 = 2e-6;
    /// What it grows by for every unit of `sqrt(c) t`: the budgets of norms 1e2 to 1e4 (which are twice what was measured).
    pub const FAR_DIST_ERROR: f32 = 7e-7;
    /// Rounding of an exact angle, radians: its budget up to norm 10, with a factor of two in hand.
    pub const ANGLE_ERROR: f32 = 4e-5;
    /// What it grows by for every unit of `sqrt(c) t`, as above.
    pub const FAR_ANGLE_ERROR: f32 = 7e-6;
    /// Rounding of the exact score of flat space and the sphere (an arc or an angle, radians, or a relative distance), on the scale
    /// of a cosine.
    pub const CHORD_ERROR: f32 = 4e-6;
    /// What squares and products of numbers below 1e-19 lose, whatever their size: a thousand times the smallest number for each of ten
    /// thousand terms is less.
    pub const UNDERFLOW: f32 = f32::MIN_POSITIVE;
    /// The same where a product in `f32` goes on in `f64`, with room for the sizes of both sides.
    pub const UNDERFLOW_OF_F32: f64 = 1e-36;
    /// A result in `f64` after some thousand roundings of 1.1e-16, relative.
    pub const ROUNDED: f64 = 1e-12;
    /// The same after a chain of hyperbolic functions and their inverses, which multiply an error; also an angle in radians.
    pub const CHAINED: f64 = 1e-9;
    /// Radians: near 0 and pi an angle has half the digits of its cosine, the root of [`ROUNDED`].
    pub const HALF_THE_DIGITS: f64 = 1e-6;
    /// A leg of a triangle that is shorter than this (at curvature -1), in `f64`, has no direction.
    pub const SHORT_LEG: f64 = 1e-12;
    /// The same relative to its terms, where one of them comes from `f32`.
    pub const SHORT_SIDE: f64 = 1e-6;
    /// A key in `f64` that becomes one in `f32` (6e-8), with a factor of ten in hand.
    pub const KEY: f64 = 1e-6;
    /// A place on the scale of a turn (`index`), in `f32`.
    pub const TURN: f64 = 2e-6;
    /// An angle that is worked out in `f32` by the approximation of half a turn, with a factor of two in hand.
    pub const TURN_ERROR: f32 = 8e-7;
    /// A distance that is worked out in `f32` with a polynomial for the logarithm, relative: with a factor of two in hand.
    pub const LOGARITHM_ERROR: f32 = 2e-5;
}

/// `asin` for an argument that may leave [-1, 1] by rounding, or on purpose (an aperture that covers everything).
/// Radians in [-pi/2, pi/2].
pub fn asin<T: Real>(sine: T) -> T {
    sine.max(-T::ONE).min(T::ONE).asin()
}

/// `acosh(1 + u)` without forming `1 + u`: `ln_1p(u + sqrt(u (u + 2)))`. An argument below zero, which only rounding
/// can produce, counts as zero. Relative error is that of `u` itself plus a few units in the last place.
pub fn acosh_1p<T: Real>(u: T) -> T {
    let u = u.max(T::ZERO);
    (u + (u * (u + T::TWO)).sqrt()).ln_1p()
}

/// `sinh(r) / r` for `r >= 0`; 1 at zero, and `2^15 / r` past [`MAX_RAPIDITY`] so that the result times `r` stays
/// where squares can be formed.
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

/// `numerator / denominator`, and zero where the denominator is too short to divide by ([`Real::TINY`]): the direction
/// of a vector without length.
pub fn ratio<T: Real>(numerator: T, denominator: T) -> T {
    if denominator > T::TINY { numerator / denominator } else { T::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One plus or minus an epsilon is not one, and a squared `TINY` is a normal number.
    #[test]
    fn epsilons_exist_in_their_type() {
        const { assert!(1.0 + EPS_F32 != 1.0 && 1.0 - EPS_F32 != 1.0) };
        const { assert!(1.0 + EPS_F64 != 1.0 && 1.0 - EPS_F64 != 1.0) };
        assert!((TINY_F32 * TINY_F32).is_normal() && (TINY_F64 * TINY_F64).is_normal());
        assert!((1.0_f32 / TINY_F32).is_finite() && (1.0_f64 / TINY_F64).is_finite());
        assert_eq!(1.0_f32 + 1e-8, 1.0, "the published 1e-8 is no epsilon in f32");
    }

    #[test]
    fn the_two_ends_of_the_lift_agree() {
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
