//! Scalar functions for SIMD loops: branch-free, without calls, with fused multiply-add if the machine has it.
//!
//! Callers must be `inline(always)` from a `WithSimd` down; otherwise they are compiled for the baseline instruction
//! set.

use macerator::{Simd, VFma};

/// Numbers per SIMD step: one register of AVX-512, two of AVX2.
pub(crate) const LANES: usize = 16;

/// `a b + c`, rounded once if the machine has an instruction for it.
#[inline(always)]
pub(crate) fn fma<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if <f32 as VFma>::is_accelerated::<S>() { a.mul_add(b, c) } else { a * b + c }
}

/// `exp(x)` with a relative error of at most 2e-7. It is 0 below -87.3, where the result is subnormal, and infinity
/// above 88.7. NaN stays NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln(2) / 2`, and `exp(r)` is computed by its series, whose first omitted term is 5e-9.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    /// `1.5 * 2^23`: adding it to a number below 2^22 rounds that number to an integer, which is then in the lowest
    /// bits.
    const ROUNDER: f32 = 12_582_912.0;
    let (least, most) = (-87.33, 88.72);
    let (gone, over) = (x < least, x > most);
    let x = if gone { least } else { x };
    let x = if over { most } else { x };
    let shifted = fma::<S>(x, std::f32::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    // ln 2 is split in two parts. The first has few digits, so that its product with n is exact.
    let r = fma::<S>(n, 2.121_944_4e-4, fma::<S>(n, -0.693_359_4, x));
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = fma::<S>(series, r, coefficient);
    }
    // 2^n is split in two factors, because n is at most 128 and 2^128 overflows `f32`.
    let n = shifted.to_bits() as i32 - ROUNDER.to_bits() as i32;
    let half = n >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let value = series * power(half) * power(n - half);
    let value = if gone { 0.0 } else { value };
    if over { f32::INFINITY } else { value }
}

/// The normal distribution function `Phi(x)` with an error of at most 1.5e-7, and the density `phi(x)` with a relative
/// error of at most 4e-7 `(1 + x^2)`.
///
/// `Phi(-|x|) = exp(-x^2 / 2) (1/2 + v P(v))` with `v = s / (1 + s)` and `s = 0.34 |x|`. The polynomial P was fitted
/// for this crate to `erfcx(|x| / sqrt 2) / 2` over `|x| <= 14` by reweighted least squares, with an error of at most
/// 1.5e-8 of the value. The remaining error is rounding (8e-8 with an exact `exp`). `v` is small near `x = 0`, where
/// the derivative is largest, so rounding costs less precision than with the variable `1 / (1 + s)`.
#[inline(always)]
pub(crate) fn normal<S: Simd>(x: f32) -> (f32, f32) {
    const FIT: [f32; 9] = [
        0.028_124_465,
        -0.103_746_496,
        0.111_493_43,
        -0.011_063_395,
        0.053_980_976,
        -0.163_829_9,
        -0.230_825_78,
        0.989_227_35,
        -1.173_358_7,
    ];
    let size = x.abs();
    let bell = exp::<S>(-0.5 * x * x);
    // The bound does not change the result, because `exp(-20^2 / 2)` is 0 here. Without it, infinity would be divided
    // by infinity.
    let s = 0.34 * if size > 20.0 { 20.0 } else { size };
    let v = s / (1.0 + s);
    let mut fit = FIT[0];
    for coefficient in &FIT[1..] {
        fit = fma::<S>(fit, v, *coefficient);
    }
    let tail = bell * fma::<S>(fit, v, 0.5);
    let below = x < 0.0;
    (if below { tail } else { 1.0 - tail }, 0.398_942_3 * bell)
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<S>(-x))
}

/// The sum of sixteen numbers in a fixed order.
#[inline(always)]
pub(crate) fn sum(lanes: &[f32; LANES]) -> f32 {
    let mut eight = [0.0; 8];
    for i in 0..8 {
        eight[i] = lanes[i] + lanes[i + 8];
    }
    let mut four = [0.0; 4];
    for i in 0..4 {
        four[i] = eight[i] + eight[i + 4];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

#[cfg(test)]
mod tests {
    use macerator::{AutoArch, WithSimd};

    use super::*;

    struct FunctionProbe<'a>(&'a [f32]);

    impl WithSimd for FunctionProbe<'_> {
        type Output = Vec<[f32; 3]>;

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Self::Output {
            let mut out = Vec::with_capacity(self.0.len());
            for &x in self.0 {
                let (below, density) = normal::<S>(x);
                out.push([exp::<S>(x), below, density]);
            }
            out
        }
    }

    /// The oracle in f64: `erfc` by its series for small arguments and by its continued fraction for large ones.
    fn normal_exact(x: f64) -> f64 {
        let t = x.abs() * std::f64::consts::FRAC_1_SQRT_2;
        let tail = if t < 2.0 {
            let (mut term, mut series) = (t, t);
            for n in 1..60 {
                term *= -t * t / f64::from(n);
                series += term / f64::from(2 * n + 1);
            }
            0.5 - series / std::f64::consts::PI.sqrt()
        } else {
            let fraction = (1..200).rev().fold(0.0, |below, n| f64::from(n) / 2.0 / (t + below));
            (-t * t).exp() / (t + fraction) / std::f64::consts::PI.sqrt() / 2.0
        };
        if x < 0.0 { tail } else { 1.0 - tail }
    }

    #[test]
    fn accurate_over_the_whole_range() {
        let xs: Vec<f32> = (-8730..8870).map(|i| i as f32 * 0.01 + 0.003).filter(|x| *x < 88.7).collect();
        let mut worst = 0.0_f64;
        for (&x, [exp, below, density]) in xs.iter().zip(AutoArch::new().dispatch(FunctionProbe(&xs))) {
            let x = f64::from(x);
            assert!((f64::from(exp) / x.exp() - 1.0).abs() < 2e-7, "exp({x}) = {exp:e}");
            worst = worst.max((f64::from(below) - normal_exact(x)).abs());
            let exact = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((f64::from(density) - exact).abs() <= 4e-7 * (1.0 + x * x) * exact + 1e-37, "phi({x}) = {density}");
        }
        assert!(worst < 1.5e-7, "Phi is up to {worst:e} off");
    }

    #[test]
    fn limits_and_nan() {
        let found =
            AutoArch::new().dispatch(FunctionProbe(&[0.0, -200.0, f32::NEG_INFINITY, 200.0, f32::INFINITY, f32::NAN]));
        assert_eq!(found[0][0], 1.0);
        assert_eq!(found[1], [0.0, 0.0, 0.0]);
        assert_eq!(found[2], [0.0, 0.0, 0.0]);
        assert_eq!(found[3], [f32::INFINITY, 1.0, 0.0]);
        assert_eq!(found[4], [f32::INFINITY, 1.0, 0.0]);
        assert!(found[5].iter().all(|x| x.is_nan()));
    }
}
