//! The two floating-point types that every space supports.

use std::fmt::{Debug, Display};
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use crate::space::{Space, SpaceEntry};
use crate::spec::ManifoldSpec;

/// `f32` (used by search) or `f64` (the reference). The trait is sealed, so no other type implements it.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + PartialOrd
    + Debug
    + Display
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    /// The number 2.
    const TWO: Self;
    /// The number pi.
    const PI: Self;
    /// `"f32"` or `"f64"`, for messages.
    const NAME: &'static str;
    /// Relative difference from 1 that survives a few rounded operations; see [`crate::safe`].
    const EPS: Self;
    /// Smallest length used as a divisor; see [`crate::safe`].
    const TINY: Self;

    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// The same value as `f64`.
    fn to_f64(self) -> f64;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// The larger of the two values. If one value is NaN, the result is the other value.
    fn max(self, other: Self) -> Self;
    /// The smaller of the two values. If one value is NaN, the result is the other value.
    fn min(self, other: Self) -> Self;
    /// Sine of an angle in radians.
    fn sin(self) -> Self;
    /// Cosine of an angle in radians.
    fn cos(self) -> Self;
    /// Inverse sine, radians; NaN outside [-1, 1]: use [`crate::safe::asin`].
    fn asin(self) -> Self;
    /// Angle of the vector (`x`, `self`), radians in (-pi, pi].
    fn atan2(self, x: Self) -> Self;
    /// Hyperbolic sine.
    fn sinh(self) -> Self;
    /// Inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// `ln(1 + self)`, accurate near zero.
    fn ln_1p(self) -> Self;
    /// True if the value is neither infinite nor NaN.
    fn is_finite(self) -> bool;

    #[doc(hidden)]
    fn build(entry: &SpaceEntry, spec: &ManifoldSpec) -> Box<dyn Space<Self>>;
}

macro_rules! real {
    ($real:ident, $build:ident, $eps:expr, $tiny:expr) => {
        impl sealed::Sealed for $real {}

        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const TWO: Self = 2.0;
            const PI: Self = std::f64::consts::PI as $real;
            const NAME: &'static str = stringify!($real);
            const EPS: Self = $eps;
            const TINY: Self = $tiny;

            fn from_f64(value: f64) -> Self {
                value as $real
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn max(self, other: Self) -> Self {
                self.max(other)
            }
            fn min(self, other: Self) -> Self {
                self.min(other)
            }
            fn sin(self) -> Self {
                self.sin()
            }
            fn cos(self) -> Self {
                self.cos()
            }
            fn asin(self) -> Self {
                self.asin()
            }
            fn atan2(self, x: Self) -> Self {
                self.atan2(x)
            }
            fn sinh(self) -> Self {
                self.sinh()
            }
            fn asinh(self) -> Self {
                self.asinh()
            }
            fn ln_1p(self) -> Self {
                self.ln_1p()
            }
            fn is_finite(self) -> bool {
                self.is_finite()
            }

            fn build(entry: &SpaceEntry, spec: &ManifoldSpec) -> Box<dyn Space<Self>> {
                (entry.$build)(spec)
            }
        }
    };
}

real!(f32, build_f32, crate::safe::EPS_F32, crate::safe::TINY_F32);
real!(f64, build_f64, crate::safe::EPS_F64, crate::safe::TINY_F64);

mod sealed {
    pub trait Sealed {}
}
