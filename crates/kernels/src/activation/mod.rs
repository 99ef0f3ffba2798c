//! Activation functions of feed-forward layers with exact derivatives on every device: [`gelu`] and [`quick_gelu`].

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

/// Reference implementation of [`gelu`]: `x (1 + erf(x / sqrt 2)) / 2`.
pub fn gelu_plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let phi = ((x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    x * phi
}

/// Reference implementation of [`quick_gelu`].
pub fn quick_gelu_plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone() * activation::sigmoid(x * 1.702)
}

/// The operation as an extension of Burn's backends.
#[backend_extension(Flex, Autodiff)]
trait ActivationOps: Backend {
    /// See [`Activation::apply`].
    fn activation(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self>;
}
