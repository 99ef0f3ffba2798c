//! `acosh(1 + u)` on vector registers.

use macerator::Simd;

use crate::lanes::{Register, ln_1p, splat};

/// `acosh(1 + u)` and its derivative `1 / sqrt(u (u + 2))`. For `u < floor` the value is that at `floor` and the
/// derivative is 0. NaN stays NaN.
#[inline(always)]
pub(super) fn acosh_1p<S: Simd>(u: Register<S>, floor: f32) -> (Register<S>, Register<S>) {
    let floor = splat::<S>(floor);
    let low = u.lt(floor);
    let u = u.lt(floor).select(floor, u);
    let sinh = (u * (u + splat::<S>(2.0))).sqrt();
    (ln_1p::<S>(u + sinh), low.select(splat::<S>(0.0), sinh.recip()))
}

#[cfg(test)]
mod tests {
    use macerator::{AutoArch, WithSimd};

    use super::*;
    use crate::lanes::{LINE, lanes, load, store};

    struct AcoshProbe([f32; LINE], f32);

    impl WithSimd for AcoshProbe {
        type Output = [[f32; LINE]; 2];

        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Self::Output {
            let mut out = [[0.0; LINE]; 2];
            for start in (0..LINE).step_by(lanes::<S>()) {
                let (value, derivative) = acosh_1p::<S>(load::<S>(&self.0[start..]), self.1);
                store::<S>(value, &mut out[0][start..]);
                store::<S>(derivative, &mut out[1][start..]);
            }
            out
        }
    }

    fn probe(u: f32, floor: f32) -> (f32, f32) {
        let [values, derivatives] = AutoArch::new().dispatch(AcoshProbe([u; LINE], floor));
        for lane in 1..LINE {
            assert_eq!(values[lane].to_bits(), values[0].to_bits());
            assert_eq!(derivatives[lane].to_bits(), derivatives[0].to_bits());
        }
        (values[0], derivatives[0])
    }

    /// Compares with `f64` at eight values of `u` per factor of two, from 1e-12 to 1e12.
    #[test]
    fn accurate_over_the_whole_range() {
        let mut u = 1e-12_f64;
        while u < 1e12 {
            let exact = f64::from(u as f32);
            let (value, derivative) = probe(u as f32, 0.0);
            let expected = (exact + (exact * (exact + 2.0)).sqrt()).ln_1p();
            assert!(
                (f64::from(value) / expected - 1.0).abs() < 3e-7,
                "acosh(1 + {u:e}) = {value}; expected {expected}"
            );
            let expected = (exact * (exact + 2.0)).sqrt().recip();
            assert!(
                (f64::from(derivative) / expected - 1.0).abs() < 3e-7,
                "derivative at {u:e} = {derivative}; expected {expected}"
            );
            u *= 2_f64.powf(0.125);
        }
    }

    #[test]
    fn values_below_the_floor_and_nan() {
        let at_floor = probe(1e-12, 1e-12);
        assert_eq!(probe(-3.0, 1e-12), (at_floor.0, 0.0));
        assert_eq!(probe(0.0, 1e-12), (at_floor.0, 0.0));
        assert!(at_floor.1 > 7e5 && at_floor.1 < 7.1e5, "1 / sqrt(2e-12)");
        assert!(probe(f32::NAN, 1e-12).0.is_nan() && probe(f32::NAN, 1e-12).1.is_nan());
        assert!(!probe(f32::INFINITY, 1e-12).0.is_finite());
    }
}
