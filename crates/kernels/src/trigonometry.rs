//! Mathematical functions for SIMD loops over fixed-size arrays: branch-free and without calls, so that the compiler
//! vectorises them. All are inlined into the kernels, which use the instruction set of the machine. The kernels use
//! loops instead of `map` on arrays, because a closure is not inlined and is compiled for the baseline instruction set.

use macerator::{Simd, VFma};

use crate::functions::fma as fma32;

/// Number of `f64` values per SIMD step: one register of AVX-512, two of AVX2.
pub(crate) const WIDE: usize = 8;

pub(crate) type F64Lanes = [f64; WIDE];

/// `a b + c`, rounded once if the machine has an instruction for it.
#[inline(always)]
pub(crate) fn fma<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if <f64 as VFma>::is_accelerated::<S>() { a.mul_add(b, c) } else { a * b + c }
}

/// `N` sums over `i` of the products of the two numbers that `factors(x_i, y_i)` returns, in `f64`. The order of
/// additions depends only on the length.
#[inline(always)]
pub(crate) fn sums<S: Simd, const N: usize>(
    x: &[f32],
    y: &[f32],
    factors: impl Fn(f64, f64) -> [[f64; 2]; N],
) -> [f64; N] {
    let mut total = [[0.0_f64; WIDE]; N];
    let ((x_blocks, x_rest), (y_blocks, y_rest)) = (x.as_chunks::<WIDE>(), y.as_chunks::<WIDE>());
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for lane in 0..WIDE {
            let factors = factors(f64::from(x[lane]), f64::from(y[lane]));
            for (total, [a, b]) in total.iter_mut().zip(factors) {
                total[lane] = fma::<S>(a, b, total[lane]);
            }
        }
    }
    for (lane, (&x, &y)) in x_rest.iter().zip(y_rest).enumerate() {
        for (total, [a, b]) in total.iter_mut().zip(factors(f64::from(x), f64::from(y))) {
            total[lane] = fma::<S>(a, b, total[lane]);
        }
    }
    let mut sums = [0.0; N];
    for (sum, [a, b, c, d, e, f, g, h]) in sums.iter_mut().zip(total) {
        *sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
    }
    sums
}

/// The angle of the vector (`along`, `across`) with `across >= 0`: `atan2(across, along)` in [0, pi], and 0 for the
/// zero vector. The relative error is below 1e-13. NaN stays NaN.
///
/// The quotient of the shorter and the longer component is at most 1. Above `tan(pi/8)` the vector is rotated back by
/// `pi/4`. The series of the arc tangent is evaluated at the remaining quotient `u`.
#[inline(always)]
pub(crate) fn angle<S: Simd>(across: f64, along: f64) -> f64 {
    const TERMS: usize = 17; // u^2 <= 0.172, so the first omitted term is 0.172^17 / 35 = 3e-15 of the sum
    const TAN_EIGHTH: f64 = std::f64::consts::SQRT_2 - 1.0;
    let length = along.abs();
    let steep = across > length;
    let (short, long) = if steep { (length, across) } else { (across, length) };
    let turned = short > TAN_EIGHTH * long;
    let (top, bottom) = if turned { (short - long, short + long) } else { (short, long) };
    // If both components are 0, avoid 0 / 0; the result is then 0. (A NaN is not equal to 0.)
    let u = top / if bottom == 0.0 { 1.0 } else { bottom };
    let z = u * u;
    let mut series = 0.0;
    let mut term = TERMS;
    while term > 0 {
        term -= 1;
        let sign = if term.is_multiple_of(2) { 1.0 } else { -1.0 };
        series = fma::<S>(series, z, sign / (2 * term + 1) as f64);
    }
    let first = u * series + if turned { std::f64::consts::FRAC_PI_4 } else { 0.0 };
    let second = if steep { std::f64::consts::FRAC_PI_2 - first } else { first };
    if along < 0.0 { std::f64::consts::PI - second } else { second }
}

/// [`angle`] in `f32`, within 3 units in the last place.
#[inline(always)]
pub(crate) fn angle32<S: Simd>(across: f32, along: f32) -> f32 {
    /// `atan(u) / u = 1 + z P(z)` with `z = u^2` up to `tan(pi/8)^2`. P is the polynomial of degree 4 with the smallest
    /// maximum relative error, 6.7e-10, computed in f64 with the Remez algorithm.
    const P: [f32; 5] = [-0.333_333_15, 0.199_984_72, -0.142_435_33, 0.105_938_14, -0.060_782_216];
    const TAN_EIGHTH: f32 = 0.414_213_57;
    let length = along.abs();
    let steep = across > length;
    let (short, long) = if steep { (length, across) } else { (across, length) };
    let turned = short > TAN_EIGHTH * long;
    let (top, bottom) = if turned { (short - long, short + long) } else { (short, long) };
    let u = top / if bottom == 0.0 { 1.0 } else { bottom };
    let z = u * u;
    let p = fma32::<S>(fma32::<S>(fma32::<S>(fma32::<S>(P[4], z, P[3]), z, P[2]), z, P[1]), z, P[0]);
    let first = fma32::<S>(u * z, p, u) + if turned { std::f32::consts::FRAC_PI_4 } else { 0.0 };
    let second = if steep { std::f32::consts::FRAC_PI_2 - first } else { first };
    if along < 0.0 { std::f32::consts::PI - second } else { second }
}

/// `sinh(r) / r` and its derivative divided by `r`, `(cosh(r) - sinh(r) / r) / r^2`, for `r` in [0, 700]. The relative
/// error is below 1e-13. For `r < 1` two series are used, because the closed forms cancel there. NaN stays NaN.
#[inline(always)]
pub(crate) fn sinhc<S: Simd>(r: f64) -> (f64, f64) {
    let z = r * r;
    // sum_n z^n / (2n + 1)! and sum_n z^n 2 (n + 1) / (2n + 3)!; at z = 1 the first omitted terms are 8e-18 and 4e-19.
    let (mut near, mut near_derivative) = (0.0, 0.0);
    let mut n = 9;
    while n > 0 {
        n -= 1;
        let factorial = FACTORIALS[2 * n + 1];
        near = fma::<S>(near, z, 1.0 / factorial);
        near_derivative = fma::<S>(near_derivative, z, 2.0 * (n + 1) as f64 / FACTORIALS[2 * n + 3]);
    }
    let close = r < 1.0;
    let safe = if close { 1.0 } else { r };
    let grown = exp::<S>(safe);
    let (sinh, cosh) = (0.5 * (grown - 1.0 / grown), 0.5 * (grown + 1.0 / grown));
    let far = sinh / safe;
    let far_derivative = (cosh - far) / (safe * safe);
    if close { (near, near_derivative) } else { (far, far_derivative) }
}

const FACTORIALS: [f64; 20] = {
    let mut table = [1.0; 20];
    let mut n = 1;
    while n < 20 {
        table[n] = table[n - 1] * n as f64;
        n += 1;
    }
    table
};

/// `e^x` for `|x| <= 700`, with a relative error below 1e-14. NaN stays NaN.
#[inline(always)]
fn exp<S: Simd>(x: f64) -> f64 {
    /// Adding this constant rounds a number to the nearest integer, which is then in the lowest bits.
    const ROUNDER: f64 = 1.5 * (1_u64 << 52) as f64;
    let shifted = fma::<S>(x, std::f64::consts::LOG2_E, ROUNDER);
    let power = shifted - ROUNDER;
    // ln 2 is split in two parts. The first has few bits, so that its product with `power` is exact.
    let rest = fma::<S>(power, -1.908_214_929_270_587_7e-10, fma::<S>(power, -0.693_147_180_369_123_8, x));
    let mut series = 0.0;
    let mut n = 13; // |rest| <= 0.347: the first omitted term is 2e-16
    while n > 0 {
        n -= 1;
        series = fma::<S>(series, rest, 1.0 / FACTORIALS[n]);
    }
    series * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

#[cfg(test)]
mod tests {
    use macerator::{AutoArch, WithSimd};

    use super::*;

    struct TrigonometryProbe(f64, f64);

    impl WithSimd for TrigonometryProbe {
        type Output = [f64; 4];

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Self::Output {
            let (sinhc, derivative) = sinhc::<S>(self.0);
            [angle::<S>(self.0, self.1), f64::from(angle32::<S>(self.0 as f32, self.1 as f32)), sinhc, derivative]
        }
    }

    fn at(x: f64, y: f64) -> [f64; 4] {
        AutoArch::new().dispatch(TrigonometryProbe(x, y))
    }

    /// Covers values of `across` from 1e-30 to 1e30, sixteen per factor of two, in both half planes.
    #[test]
    fn angles_over_the_whole_range() {
        let mut across = 1e-30_f64;
        while across < 1e30 {
            let x = f64::from(across as f32);
            for along in [1.0, -1.0, 1e-5, -3e4] {
                let [found, found32, ..] = at(x, along);
                let exact = x.atan2(along);
                assert!((found / exact - 1.0).abs() < 1e-13, "({x:e}, {along}): {found}; expected {exact}");
                let exact = x.atan2(f64::from(along as f32));
                let unit = f64::from(f32::EPSILON) * exact.max(f64::from(f32::MIN_POSITIVE));
                assert!((found32 - exact).abs() < 3.0 * unit, "({x:e}, {along}): {found32}; expected {exact}");
            }
            across *= 2_f64.powf(1.0 / 16.0);
        }
    }

    #[test]
    fn angles_at_the_ends() {
        let pi = std::f64::consts::PI;
        for (across, along, exact) in
            [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, -2.0, pi), (3.0, 0.0, pi / 2.0), (1.0, 1.0, pi / 4.0)]
        {
            let [found, found32, ..] = at(across, along);
            assert!(
                (found - exact).abs() < 1e-15 && (found32 - exact).abs() < 2e-7,
                "{across} {along}: {found} {found32}"
            );
        }
        for (across, along) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::NAN, -1.0), (f64::NAN, f64::NAN)] {
            let [found, found32, ..] = at(across, along);
            assert!(found.is_nan() && found32.is_nan());
        }
    }

    /// Compares with the standard library where it does not cancel, and below 1e-2 with three terms of the series.
    #[test]
    fn sinhc_and_its_derivative() {
        let mut r = 1e-9_f64;
        while r < 600.0 {
            let [_, _, found, derivative] = at(r, 1.0);
            let exact = r.sinh() / r;
            assert!((found / exact - 1.0).abs() < 1e-13, "sinhc({r:e}) = {found}; expected {exact}");
            // For small r the terms of (cosh - sinh/r) / r^2 cancel: the relative error is about 1e-16 / r^2.
            let (exact, allowed) = if r < 1e-2 {
                (1.0 / 3.0 + r * r / 30.0 + r.powi(4) / 840.0, 1e-13)
            } else {
                ((r.cosh() - r.sinh() / r) / (r * r), 1e-13 + 1e-15 / (r * r))
            };
            assert!((derivative / exact - 1.0).abs() < allowed, "derivative at {r:e}: {derivative}; expected {exact}");
            r *= 2_f64.powf(0.125);
        }
        assert_eq!(at(0.0, 1.0)[2..], [1.0, 2.0 / 6.0]);
        assert!(at(f64::NAN, 1.0)[2].is_nan());
    }
}
