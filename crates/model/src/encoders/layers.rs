//! Layers of the transformer encoders. Activations are stored as rows `[B*L, width]`, so that every linear map is one
//! matrix product over all tokens of the batch.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, module};
use conifer_kernels as kernels;
use serde::{Deserialize, Serialize};

use crate::params::{Bias, Fill, Init, LinearWeight, NormParam};

/// Affine map of rows: `y = x W + b`, `[N, in] -> [N, out]`.
#[derive(Module, Debug)]
pub struct Linear {
    /// `W`, `[in, out]`.
    pub weight: LinearWeight,
    /// `b`, `[out]`.
    pub bias: Bias,
}

impl Linear {
    /// A new layer with the given initial distributions.
    pub fn new(init: &mut Init, width_in: usize, width_out: usize, weight: Fill, bias: Fill) -> Self {
        Self { weight: init.matrix(width_in, width_out, weight), bias: init.bias(width_out, bias) }
    }

    /// `[N, in] -> [N, out]`.
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        kernels::linear(rows, self.weight.value.val(), self.bias.value.val())
    }

    /// `base + x W + b`: [`Linear::forward`] on top of `base` `[N, out]`.
    pub fn forward_onto(&self, base: Tensor<2>, rows: Tensor<2>) -> Tensor<2> {
        kernels::linear_add(base, rows, self.weight.value.val(), self.bias.value.val())
    }
}

/// Linear map of rows without bias: `y = x W`, `[N, in] -> [N, out]`.
#[derive(Module, Debug)]
pub struct BiasFreeLinear {
    /// `W`, `[in, out]`.
    pub weight: LinearWeight,
}

impl BiasFreeLinear {
    /// A new layer with the given initial distribution.
    pub fn new(init: &mut Init, width_in: usize, width_out: usize, weight: Fill) -> Self {
        Self { weight: init.matrix(width_in, width_out, weight) }
    }

    /// `[N, in] -> [N, out]`.
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        rows.matmul(self.weight.value.val())
    }
}

/// `base + down(activation(up(x)))`, the feed-forward part of a block: `[N, width]`.
pub(super) fn feed_forward(
    base: Tensor<2>,
    rows: Tensor<2>,
    up: &Linear,
    down: &Linear,
    activation: ActivationFn,
) -> Tensor<2> {
    let [up, down] = [up, down].map(|it| (it.weight.value.val(), it.bias.value.val()));
    kernels::feed_forward(base, rows, up, down, activation.into())
}

/// Epsilon of every published model of the MERU family.
pub const LAYER_NORM_EPSILON: f64 = 1e-5;

/// Epsilon of timm's vision transformers, ConvNeXt, DINOv2 and SigLIP.
pub const SMALL_NORM_EPSILON: f64 = 1e-6;

/// `(x - mean) / sqrt(var + epsilon) * gain + bias` over the last axis, with the biased variance.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Gain, `[width]`.
    pub weight: NormParam,
    /// Bias, `[width]`.
    pub bias: NormParam,
}

impl LayerNorm {
    /// Gain 1 and bias 0.
    pub fn new(init: &mut Init, width: usize) -> Self {
        Self { weight: init.norm(width, 1.0), bias: init.norm(width, 0.0) }
    }

    /// `[N, width] -> [N, width]`, with [`LAYER_NORM_EPSILON`].
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.forward_with(rows, LAYER_NORM_EPSILON)
    }

    /// Like [`LayerNorm::forward`], with another epsilon.
    pub fn forward_with(&self, rows: Tensor<2>, epsilon: f64) -> Tensor<2> {
        kernels::layer_norm(rows, self.weight.value.val(), self.bias.value.val(), epsilon)
    }
}

/// `x / sqrt(mean(x^2) + epsilon) * gain` over the last axis (Zhang and Sennrich, NeurIPS 2019): a layer norm without
/// mean and bias.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// Gain, `[width]`.
    pub weight: NormParam,
}

impl RmsNorm {
    /// Gain 1.
    pub fn new(init: &mut Init, width: usize) -> Self {
        Self { weight: init.norm(width, 1.0) }
    }

    /// `[N, width] -> [N, width]`.
    pub fn forward(&self, rows: Tensor<2>, epsilon: f64) -> Tensor<2> {
        let scale = (rows.clone().powi_scalar(2).mean_dim(1) + epsilon).sqrt();
        rows / scale * self.weight.value.val().unsqueeze::<2>()
    }
}

/// A table of rows, looked up by index.
#[derive(Module, Debug)]
pub struct EmbeddingLayer {
    /// `[entries, width]`.
    pub weight: Param<Tensor<2>>,
}

/// `[B, 3, S, S] -> [B, patches, width]`: a convolution with stride = kernel, `weight` `[width, 3, patch, patch]`, as
/// one matrix product over all patches. Patches are listed row by row. Rows and columns after the last whole patch are
/// ignored, as in a convolution.
pub(super) fn embed_patches(pixels: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<3> {
    let [batch, _, size, _] = pixels.dims();
    let [width, _, patch, _] = weight.dims();
    let grid = size / patch;
    let pixels = match size % patch {
        0 => pixels,
        _ => pixels.narrow(2, 0, grid * patch).narrow(3, 0, grid * patch),
    };
    let pixels_per_patch = 3 * patch * patch;
    let patches = pixels
        .reshape([batch, 3, grid, patch, grid, patch])
        .permute([0, 2, 4, 1, 3, 5])
        .reshape([batch * grid * grid, pixels_per_patch]);
    let weight = weight.reshape([width, pixels_per_patch]).transpose();
    let rows = match bias {
        Some(bias) => kernels::linear(patches, weight, bias),
        None => module::linear(patches, weight, None),
    };
    rows.reshape([batch, grid * grid, width])
}

/// Non-linearity of the feed-forward layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivationFn {
    /// `x Phi(x)` with the exact normal distribution function: the MERU family, most of open_clip.
    #[default]
    Gelu,
    /// `x sigmoid(1.702 x)`: OpenAI's CLIP.
    QuickGelu,
    /// The tanh approximation of GELU: SigLIP.
    TanhGelu,
}

impl From<ActivationFn> for kernels::Activation {
    fn from(activation: ActivationFn) -> Self {
        match activation {
            ActivationFn::Gelu => Self::Gelu,
            ActivationFn::QuickGelu => Self::QuickGelu,
            ActivationFn::TanhGelu => Self::TanhGelu,
        }
    }
}
