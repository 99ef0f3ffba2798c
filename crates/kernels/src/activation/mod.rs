//! Activation functions of feed-forward layers with exact derivatives on every device: [`gelu`], [`quick_gelu`]
//! and [`tanh_gelu`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, activation};

use crate::arrays::is_fused;

mod autodiff;
mod slices;
#[cfg(test)]
mod tests;

pub(crate) use slices::{ActivationBackward, ActivationForward};

/// An activation function of feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Phi(x)` with the exact normal distribution function (Hendrycks and Gimpel, arXiv:1606.08415).
    Gelu,
    /// `x sigmoid(1.702 x)`, from OpenAI's CLIP.
    QuickGelu,
    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`, the approximation of Hendrycks and Gimpel that SigLIP uses.
    /// It differs from [`Activation::Gelu`] by up to 5e-4.
    TanhGelu,
}

impl Activation {
    /// Applies the function elementwise. Fused for `f32` on the CPU, otherwise [`Activation::apply_plain`].
    pub fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        if is_fused(&x) {
            Tensor::from_dispatch(<Dispatch as ActivationOps>::activation(x.into_dispatch(), self))
        } else {
            self.apply_plain(x)
        }
    }

    /// Reference implementation of [`Activation::apply`], composed of tensor operations.
    pub fn apply_plain<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Gelu => gelu_plain(x),
            Self::QuickGelu => quick_gelu_plain(x),
            Self::TanhGelu => tanh_gelu_plain(x),
        }
    }
}

/// [`Activation::Gelu`], elementwise, with an error of at most 2e-7 of `1 + |x|`. On some devices Burn's own GELU uses
/// the derivative of the tanh approximation.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::Gelu.apply(x)
}

/// [`Activation::QuickGelu`], elementwise.
pub fn quick_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::QuickGelu.apply(x)
}

/// [`Activation::TanhGelu`], elementwise.
pub fn tanh_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::TanhGelu.apply(x)
}

/// Reference implementation of [`gelu`]: `x (1 + erf(x / sqrt 2)) / 2`.
pub fn gelu_plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let phi = ((x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    x * phi
}

/// Reference implementation of [`quick_gelu`].
pub fn quick_gelu_plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone() * activation::sigmoid(x * 1.702)
}

/// `2 sqrt(2 / pi)`, the factor of `x` in the sigmoid form of [`Activation::TanhGelu`]: `(1 + tanh(t)) / 2 =
/// sigmoid(2 t)`.
pub(crate) const TANH_GELU_SLOPE: f64 = 1.595_769_121_605_731;

/// Coefficient of `x^3` in [`Activation::TanhGelu`].
pub(crate) const TANH_GELU_CUBIC: f64 = 0.044_715;

/// Reference implementation of [`tanh_gelu`].
pub fn tanh_gelu_plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // Beyond 20 the sigmoid is exactly 0 or 1. The bound keeps x^3 finite.
    let bounded = x.clone().clamp(-20.0, 20.0);
    let cube = bounded.clone() * bounded.clone() * bounded.clone();
    x * activation::sigmoid((bounded + cube * TANH_GELU_CUBIC) * TANH_GELU_SLOPE)
}

/// Burn backend extension that declares the fused operation.
#[backend_extension(Flex, Autodiff)]
trait ActivationOps: Backend {
    /// See [`Activation::apply`].
    fn activation(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self>;
}
