//! Scalar functions without calls or branches, so that the compiler can vectorise them.

/// `ln(1 + t)` in `f32` for `t >= 0`, within 2 units in the last place; NaN stays NaN.
///
/// `1 + t = 2^e m` with `m` between `sqrt(1/2)` and `sqrt(2)`, and `ln m = 2 artanh((m - 1) / (m + 1))` by its series.
/// Where `e = 0`, `m - 1` is `t` itself, without the rounding of `1 + t`.
#[inline(always)]
pub fn ln_1p(t: f32) -> f32 {
    const ROOT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    const ONE: u32 = 1.0_f32.to_bits();
    let shifted = (1.0 + t).to_bits().wrapping_add(ONE - ROOT_HALF);
    let exponent = (shifted >> 23) as i32 - 127;
    let mantissa = f32::from_bits((shifted & 0x007f_ffff) + ROOT_HALF);
    let f = if exponent == 0 { t } else { mantissa - 1.0 };
    let s = f / (2.0 + f);
    let z = s * s; // at most 0.0295: the next term of the series is 2e-9 of the sum
    let series = 2.0 * s * (1.0 + z * (1.0 / 3.0 + z * (0.2 + z * (1.0 / 7.0 + z * (1.0 / 9.0)))));
    // `0.0 * t` is zero for finite `t` and propagates NaN: the bit manipulation above would turn NaN into a number.
    exponent as f32 * std::f32::consts::LN_2 + series + 0.0 * t
}

/// The angle of the vector (`along`, `across`) in `f32` for `across >= 0`, radians in [0, pi], with an error of at most
/// 4e-7. The zero vector has angle pi/2; NaN stays NaN.
///
/// With `t` the shorter component over the longer one, `atan(t)` is `t` times a polynomial of degree 8 in `t^2`,
/// fitted at Chebyshev nodes of [0, 1] (error 1.1e-7).
#[inline(always)]
pub fn half_turn(across: f32, along: f32) -> f32 {
    let length = along.abs();
    let (short, long) = if across < length { (across, length) } else { (length, across) };
    let t = if long > 0.0 { short / long } else { long };
    let z = t * t;
    let upper = 0.106_367_54 + z * (-0.074_954_46 + z * (0.042_587_61 + z * (-0.016_005_03 + z * 0.002_834_064_2)));
    let artan = t * (1.0 + z * (-0.333_330_66 + z * (0.199_924_84 + z * (-0.142_025_71 + z * upper))));
    let acute = if across < length { artan } else { std::f32::consts::FRAC_PI_2 - artan };
    if along < 0.0 { std::f32::consts::PI - acute } else { acute }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with `f64` in directions all around the half circle and lengths from 1e-15 to 1e15.
    #[test]
    fn half_turn_keeps_its_error() {
        for step in 0..=100_000 {
            let angle = f64::from(step) * std::f64::consts::PI / 1e5;
            let length = 10_f64.powi(step % 31 - 15);
            let (across, along) = ((length * angle.sin()).max(0.0) as f32, (length * angle.cos()) as f32);
            let expected = f64::from(across).atan2(f64::from(along));
            let error = (f64::from(half_turn(across, along)) - expected).abs();
            assert!(error <= 4e-7, "the angle of ({along}, {across}) is off by {error:e}");
        }
        assert_eq!(half_turn(0.0, 0.0), std::f32::consts::FRAC_PI_2);
        assert!(half_turn(f32::NAN, 1.0).is_nan() && half_turn(1.0, f32::NAN).is_nan());
    }
}
