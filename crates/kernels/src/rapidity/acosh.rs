//! `acosh(1 + u)` in `f32`, in a form that the compiler turns into vector instructions.

/// `acosh(1 + u)` and its slope `1 / sqrt(u (u + 2))`. Below `floor`, the value at `floor` and no slope. NaN stays NaN.
#[inline(always)]
pub(super) fn acosh_1p(u: f32, floor: f32) -> (f32, f32) {
    let low = u < floor;
    let u = if low { floor } else { u };
    let sinh = (u * (u + 2.0)).sqrt();
    let slope = if low { 0.0 } else { 1.0 / sinh };
    (ln_1p(u + sinh), slope)
}

/// `ln(1 + t)` for `t >= 0`, within 2 units in the last place.
///
/// `1 + t = 2^e m` with `m` between the roots of 1/2 and 2, and `ln m = 2 artanh((m - 1) / (m + 1))` by its series.
/// Where `e = 0`, `m - 1` is `t` itself, free of the rounding of `1 + t`.
#[inline(always)]
fn ln_1p(t: f32) -> f32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Against f64, from the smallest slope bound to points 1e5 out at curvature 10; eight values per factor of two.
    #[test]
    fn accurate_over_the_whole_range() {
        let mut u = 1e-12_f64;
        while u < 1e12 {
            let exact = f64::from(u as f32);
            let (value, slope) = acosh_1p(u as f32, 0.0);
            let expected = (exact + (exact * (exact + 2.0)).sqrt()).ln_1p();
            assert!(
                (f64::from(value) / expected - 1.0).abs() < 3e-7,
                "acosh(1 + {u:e}) = {value}; expected {expected}"
            );
            let expected = (exact * (exact + 2.0)).sqrt().recip();
            assert!((f64::from(slope) / expected - 1.0).abs() < 3e-7, "slope at {u:e} = {slope}; expected {expected}");
            u *= 2_f64.powf(0.125);
        }
    }

    #[test]
    fn floor_and_numbers_that_are_none() {
        let at_floor = acosh_1p(1e-12, 1e-12);
        assert_eq!(acosh_1p(-3.0, 1e-12), (at_floor.0, 0.0));
        assert_eq!(acosh_1p(0.0, 1e-12), (at_floor.0, 0.0));
        assert!(at_floor.1 > 7e5 && at_floor.1 < 7.1e5, "1 / sqrt(2e-12)");
        assert!(acosh_1p(f32::NAN, 1e-12).0.is_nan());
        assert!(!acosh_1p(f32::INFINITY, 1e-12).0.is_finite());
    }
}
