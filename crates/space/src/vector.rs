//! Functions of one number in a form that the compiler turns into vector instructions: no calls, no branches.

/// `ln(1 + t)` in `f32` for `t >= 0`, within 2 units in the last place; NaN stays NaN.
///
/// `1 + t = 2^e m` with `m` between the roots of 1/2 and 2, and `ln m = 2 artanh((m - 1) / (m + 1))` by its series.
/// Where `e = 0`, `m - 1` is `t` itself, free of the rounding of `1 + t`.
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
    // The last term is zero for numbers, and NaN for what is none: its bits must not pass for a number.
    exponent as f32 * std::f32::consts::LN_2 + series + 0.0 * t
}
