//! The functions of [`conifer_geometry::safe`] on tensors, with finite values *and* finite gradients everywhere.
//!
//! All epsilons come from `conifer_geometry::safe`. If only the result of an operation is masked, its gradient can
//! still be NaN (zero times infinity). Each function here therefore replaces the arguments at which the derivative is
//! unbounded, applies the operation, and then inserts the correct value; the gradient at those arguments is zero.

use burn::tensor::{DType, Tensor};
use conifer_geometry::safe;

/// Relative difference from 1 that survives a few rounded operations in this dtype.
pub(crate) fn eps(dtype: DType) -> f64 {
    if dtype == DType::F64 { safe::EPS_F64 } else { f64::from(safe::EPS_F32) }
}

/// The smallest length used as a divisor.
pub(crate) fn tiny(dtype: DType) -> f64 {
    if dtype == DType::F64 { safe::TINY_F64 } else { f64::from(safe::TINY_F32) }
}

/// `sqrt(max(v, 0))`. Below the square of [`tiny`], where the derivative is unbounded, value and gradient are 0.
pub(crate) fn sqrt<const D: usize>(v: Tensor<D>) -> Tensor<D> {
    let nothing = v.clone().lower_elem(tiny(v.dtype()).powi(2));
    v.mask_fill(nothing.clone(), 1.0).sqrt().mask_fill(nothing, 0.0)
}

/// Sum of products over the last dimension, which is kept with size 1: `[.., d], [.., d] -> [.., 1]`.
pub(crate) fn dot<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    (x * y).sum_dim(D - 1)
}

/// Squared L2 norm over the last dimension: `[.., d] -> [.., 1]`.
pub(crate) fn square<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    dot(x.clone(), x)
}

/// Length over the last dimension: `[.., d] -> [.., 1]`. The gradient at the zero vector is zero.
pub(crate) fn norm<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    sqrt(square(x))
}

/// `numerator / denominator` for a non-negative denominator, and 0 where the denominator is at most [`tiny`]. Used for
/// the direction of a vector that may have length zero. The numerator may have more columns, `[.., d] / [.., 1]`.
pub(crate) fn ratio<const D: usize>(numerator: Tensor<D>, denominator: Tensor<D>) -> Tensor<D> {
    let nothing = denominator.clone().lower_equal_elem(tiny(denominator.dtype()));
    let zero = nothing.clone().expand(numerator.dims());
    (numerator / denominator.mask_fill(nothing, 1.0)).mask_fill(zero, 0.0)
}

/// Angle of the vector (`along`, `across`) with `across >= 0`, radians in `[0, pi]`: `atan2(across, along)`, and 0 for
/// the zero vector. The angles of trained embeddings lie near 0 and pi. The derivative of `atan2` is bounded there;
/// that of `acos` is not.
pub(crate) fn angle<const D: usize>(across: Tensor<D>, along: Tensor<D>) -> Tensor<D> {
    let length = across.clone().square() + along.clone().square();
    let nothing = length.lower_elem(tiny(across.dtype()).powi(2));
    across.mask_fill(nothing.clone(), 0.0).atan2(along.mask_fill(nothing, 1.0))
}

/// Lower limit of `u` in `acosh(1 + u)`, [`eps`] squared. The derivative `1 / sqrt(u (u + 2))` then stays below `1 /
/// eps`, and the value at `u = 0` is `sqrt(2) eps`.
pub(crate) fn acosh_floor(dtype: DType) -> f64 {
    eps(dtype).powi(2)
}

/// `sinh(r) / r` for `r >= 0`, and `2^15 / r` beyond [`safe::MAX_RAPIDITY`].
pub(crate) fn sinhc<const D: usize>(r: Tensor<D>) -> Tensor<D> {
    let short = r.clone().lower_equal_elem(tiny(r.dtype()));
    let r = r.mask_fill(short.clone(), 1.0);
    (r.clone().clamp_max(safe::MAX_RAPIDITY).sinh() / r).mask_fill(short, 1.0)
}

/// `asinh(s) / s` for `s >= 0`; 1 at zero.
pub(crate) fn asinhc<const D: usize>(s: Tensor<D>) -> Tensor<D> {
    let short = s.clone().lower_equal_elem(tiny(s.dtype()));
    let s = s.mask_fill(short.clone(), 1.0);
    (s.clone().asinh() / s).mask_fill(short, 1.0)
}

/// `asin(arm / reach)` from the square of `reach`, and pi/2 where `reach < arm`. Radians.
///
/// Computed as `atan2(arm, sqrt(reach^2 - arm^2))`, whose derivative at `reach = arm` is bounded by the spacing of
/// floating-point numbers there.
pub(crate) fn aperture<const D: usize>(arm: f64, reach_squared: Tensor<D>) -> Tensor<D> {
    let arms = reach_squared.full_like(arm);
    angle(arms, sqrt(reach_squared - arm * arm))
}
