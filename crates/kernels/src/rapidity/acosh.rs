//! `acosh(1 + u)` in `f32`, in a form that the compiler turns into vector instructions.

use conifer_space::vector::ln_1p;

/// `acosh(1 + u)` and its slope `1 / sqrt(u (u + 2))`. Below `floor`, the value at `floor` and no slope. NaN stays NaN.
#[inline(always)]
pub(super) fn acosh_1p(u: f32, floor: f32) -> (f32, f32) {
    let low = u < floor;
    let u = if low { floor } else { u };
    let sinh = (u * (u + 2.0)).sqrt();
    let slope = if low { 0.0 } else { 1.0 / sinh };
    (ln_1p(u + sinh), slope)
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
