//! The logarithm of the distance loops, in a form that the compiler vectorises.
//!
//! The loops run under `macerator`, which compiles them for each instruction set and chooses one at run time. Functions
//! called from them must be `inline(always)`; otherwise they are compiled for the baseline instruction set. No fused
//! multiply-add is used, so these functions give the same bits with every instruction set.

use conifer_geometry::safe::projection::SHORT_SINH;

/// `2 / (2 k + 1)`: coefficients of `ln((1 + s) / (1 - s)) = s sum_k 2 s^(2k) / (2k + 1)`. For `|s| <= 0.1716` the first
/// omitted term is 2.3e-17 of the result.
const SERIES: [f64; 10] =
    [2.0, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0, 2.0 / 19.0];

/// `ln(1 + v)` for finite `v >= 0`, with a relative error of a few units in the last place.
///
/// `1 + v = 2^n m` with `m` between `sqrt(1/2)` and `sqrt(2)`, and `ln m` from the series at `s = (m - 1) / (m + 1)`. For
/// `n = 0`, `m - 1` is `v` itself, without the rounding of `1 + v`.
#[inline(always)]
pub(super) fn ln_1p(v: f64) -> f64 {
    const ROOT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    /// `2^52`: the integer part of a number between `2^52` and `2^53` is in its lowest bits.
    const ROUNDER: f64 = 4_503_599_627_370_496.0;
    let bits = (1.0 + v).to_bits();
    let n = bits.wrapping_sub(ROOT_HALF) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(n << 52));
    let above = if n == 0 { v } else { m - 1.0 };
    let s = above / (2.0 + above);
    let square = s * s;
    let mut series = SERIES[9];
    let mut k = 9;
    while k > 0 {
        k -= 1;
        series = series * square + SERIES[k];
    }
    let exponent = f64::from_bits(n | ROUNDER.to_bits()) - ROUNDER;
    exponent * std::f64::consts::LN_2 + s * series
}

/// The distance `d` and `d / sinh(d)`, given `u = cosh(d) - 1 >= 0`.
#[inline(always)]
pub(super) fn dist_and_slope(u: f64) -> (f64, f64) {
    let sinh = (u * (u + 2.0)).sqrt();
    let dist = ln_1p(u + sinh);
    (dist, if sinh > SHORT_SINH { dist / sinh } else { 1.0 })
}

/// The larger of `x` and zero; one instruction, unlike `f64::max`, which treats NaN.
#[inline(always)]
pub(super) fn positive(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_equals_that_of_the_standard_library() {
        let mut v = 1e-300;
        while v < 1e300 {
            let (found, expected) = (ln_1p(v), v.ln_1p());
            assert!((found / expected - 1.0).abs() < 5e-16, "{v}: {found} {expected}");
            v *= 1.03;
        }
        // Around the powers of two and their square roots, where `n` changes.
        for power in 0..60 {
            for centre in [2_f64.powi(power), 2_f64.powi(power) * std::f64::consts::SQRT_2] {
                for shift in -3..=3 {
                    let v = (centre * (1.0 + f64::from(shift) * f64::EPSILON) - 1.0).max(0.0);
                    let (found, expected) = (ln_1p(v), v.ln_1p());
                    assert!((found - expected).abs() <= 5e-16 * expected, "{v}: {found} {expected}");
                }
            }
        }
        assert_eq!(ln_1p(0.0), 0.0);
    }

    #[test]
    fn distances_equal_the_inverse_hyperbolic_cosine() {
        for d in [0.0, 1e-13, 1e-9, 1e-5, 0.01, 0.3, 2.0, 30.0] {
            let u = 2.0 * (d / 2.0_f64).sinh().powi(2);
            let (dist, slope) = dist_and_slope(u);
            assert!((dist - d).abs() <= 2e-15 * d, "{d}: {dist}");
            let expected = if d > 0.0 { d / d.sinh() } else { 1.0 };
            assert!((slope / expected - 1.0).abs() < 2e-15, "{d}: {slope} {expected}");
        }
        assert_eq!((positive(-1.0), positive(2.0)), (0.0, 2.0));
    }
}
