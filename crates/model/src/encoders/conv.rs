//! Layers of the convolutional encoders.

use burn::module::{Module, Param};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, module};
use conifer_kernels::FoldedConv;

use crate::params::{Fill, Init, NormParam, Statistic};

/// Convolution without bias, stored in the published layout `[out, in / groups, kernel, kernel]`.
#[derive(Module, Debug)]
pub struct Conv {
    /// The kernels.
    pub weight: Param<Tensor<4>>,
}

impl Conv {
    /// Kernels N(0, 2 / (out kernel^2)) (He et al., ICCV 2015, for the backward pass).
    pub fn new(init: &mut Init, width_in: usize, width_out: usize, kernel: usize) -> Self {
        let fan_out = (width_out * kernel * kernel) as f64;
        Self { weight: init.param([width_out, width_in, kernel, kernel], Fill::Normal((2.0 / fan_out).sqrt())) }
    }

    /// Depthwise convolution: one kernel per channel.
    pub fn depthwise(init: &mut Init, width: usize, kernel: usize) -> Self {
        let fan_out = (kernel * kernel) as f64;
        Self { weight: init.param([width, 1, kernel, kernel], Fill::Normal((2.0 / fan_out).sqrt())) }
    }

    /// `[B, in, H, W] -> [B, out, H', W']`, zero-padded by `padding` (before, after) in both directions. Depthwise if
    /// the kernels have one input channel and the input has more.
    pub fn forward(&self, x: Tensor<4>, stride: usize, padding: (usize, usize)) -> Tensor<4> {
        let weight = self.weight.val();
        let groups = x.dims()[1] / weight.dims()[1];
        let options = ConvOptions::new_with_padding([stride; 2], [padding; 2], [1; 2], groups);
        module::conv2d(x, weight, None, options)
    }
}

/// Batch normalisation in inference mode: `(x - mean) / sqrt(var + epsilon) * gain + bias` per channel, with the
/// statistics of the training data, which the checkpoint holds. Fine-tuning does not update them: its batches are
/// small, and a photo's embedding must not depend on the rest of its batch. A network with initial statistics (mean 0,
/// variance 1) is therefore not normalised at all.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Gain, `[C]`.
    pub weight: NormParam,
    /// Bias, `[C]`.
    pub bias: NormParam,
    /// Mean of each channel, `[C]`.
    pub running_mean: Statistic,
    /// Variance of each channel, `[C]`.
    pub running_var: Statistic,
}

impl BatchNorm {
    /// Gain and variance 1, bias and mean 0.
    pub fn new(init: &mut Init, width: usize) -> Self {
        Self {
            weight: init.norm(width, 1.0),
            bias: init.norm(width, 0.0),
            running_mean: init.statistic(width, 0.0),
            running_var: init.statistic(width, 1.0),
        }
    }

    /// `conv` followed by this norm, as one convolution with a bias.
    pub(super) fn fold(&self, conv: &Conv, epsilon: f64) -> FoldedConv {
        let floats = |tensor: Tensor<1>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
        let [gain, bias] = [&self.weight, &self.bias].map(|it| floats(it.value.val()));
        let [mean, variance] = [&self.running_mean, &self.running_var].map(|it| floats(it.value.val()));
        let scale: Vec<f64> = gain
            .iter()
            .zip(&variance)
            .map(|(&gain, &var)| f64::from(gain) / (f64::from(var) + epsilon).sqrt())
            .collect();
        let shift = |((&bias, &mean), &scale): ((&f32, &f32), &f64)| (f64::from(bias) - f64::from(mean) * scale) as f32;
        let bias = bias.iter().zip(&mean).zip(&scale).map(shift).collect();
        let [outputs, per_output, kernel, _] = conv.weight.dims();
        let mut weight: Vec<f32> = conv.weight.val().into_data().iter::<f32>().collect();
        for (values, scale) in weight.chunks_exact_mut(per_output * kernel * kernel).zip(&scale) {
            values.iter_mut().for_each(|value| *value = (f64::from(*value) * scale) as f32);
        }
        // A depthwise convolution has one input channel per kernel.
        let inputs = if per_output == 1 { outputs } else { per_output };
        FoldedConv { weight, bias, inputs, outputs, kernel }
    }

    /// `[B, C, H, W] -> [B, C, H, W]`.
    pub fn forward(&self, x: Tensor<4>, epsilon: f64) -> Tensor<4> {
        let gain = self.weight.value.val() / (self.running_var.value.val() + epsilon).sqrt();
        let shift = self.bias.value.val() - self.running_mean.value.val() * gain.clone();
        let [width] = gain.dims();
        x * gain.reshape([1, width, 1, 1]) + shift.reshape([1, width, 1, 1])
    }
}

/// Mean over all positions, `[B, C, H, W] -> [B, C]`.
pub(super) fn pool(x: Tensor<4>) -> Tensor<2> {
    let [batch, width, rows, columns] = x.dims();
    x.reshape([batch, width, rows * columns]).mean_dim(2).reshape([batch, width])
}
