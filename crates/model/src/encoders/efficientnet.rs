//! EfficientNet (Tan and Le, ICML 2019): the image encoder of ALIGN (Jia et al., ICML 2021), as `transformers` computes
//! it, and EfficientNet-Lite, which has ReLU6 and no squeeze and excitation.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData, activation, module};
use conifer_kernels::{ConvPadding, InvertedResidual, InvertedResidualNet};
use serde::{Deserialize, Serialize};

use super::conv::{BatchNorm, Conv, pool};
use super::{Encoder, ImageInputFormat, check_pixels, check_positive};
use crate::params::{Bias, Fill, Init};
use crate::{Error, Result};

/// Number of stages of every EfficientNet.
pub const STAGES: usize = 7;

/// Architecture of an [`EfficientNet`]. Widths are absolute, not multiples of the smallest network's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficientNetConfig {
    /// Side of the square photographs, in pixels.
    pub image_size: usize,
    /// Number of channels after the first convolution.
    pub stem: usize,
    /// Number of channels after each stage.
    pub channels: [usize; STAGES],
    /// Number of blocks in each stage.
    pub repeats: [usize; STAGES],
    /// Side of the depthwise kernels of each stage, odd, 3 to 31.
    pub kernels: [usize; STAGES],
    /// Stride of the first block of each stage, 1 or 2.
    pub strides: [usize; STAGES],
    /// Factor by which the blocks of each stage widen their input; 1: no widening.
    pub expansions: [usize; STAGES],
    /// Width of the squeezed layer, as a fraction of the width of the block's input, 0 to 1; 0: no squeeze and
    /// excitation.
    pub squeeze: f64,
    /// Epsilon of batch norms, added to the variance.
    pub epsilon: f64,
    /// Indices, from 0, of the blocks with stride 2 that pad both sides equally: those whose input had an odd size in
    /// training.
    #[serde(default)]
    pub symmetric: Vec<usize>,
    /// Number of output channels of a 1x1 convolution after the last stage; 0: no convolution.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last: usize,
    /// Non-linearity after the convolutions.
    #[serde(default, skip_serializing_if = "ConvActivation::is_silu")]
    pub activation: ConvActivation,
    /// Pad for the size of the photographs as TensorFlow does ("same"), instead of by `symmetric`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_padding: bool,
}

/// Non-linearity of a convolutional network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvActivation {
    /// `x sigmoid(x)`.
    #[default]
    Silu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl ConvActivation {
    fn is_silu(&self) -> bool {
        *self == Self::Silu
    }

    fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Silu => activation::silu(x),
            Self::Relu6 => x.clamp(0.0, 6.0),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

impl EfficientNetConfig {
    const fn new(image_size: usize, stem: usize, channels: [usize; STAGES], repeats: [usize; STAGES]) -> Self {
        Self {
            image_size,
            stem,
            channels,
            repeats,
            kernels: [3, 3, 5, 3, 5, 5, 3],
            strides: [1, 2, 2, 2, 1, 2, 1],
            expansions: [1, 6, 6, 6, 6, 6, 6],
            squeeze: 0.25,
            epsilon: 1e-3,
            symmetric: Vec::new(),
            last: 0,
            activation: ConvActivation::Silu,
            same_padding: false,
        }
    }

    /// EfficientNet-Lite. The widths of the stem and of the final 1x1 convolution and the depths of the first and last
    /// stage are not scaled.
    const fn lite(image_size: usize, channels: [usize; STAGES], repeats: [usize; STAGES]) -> Self {
        let mut it = Self::new(image_size, 32, channels, repeats);
        it.squeeze = 0.0;
        it.last = 1280;
        it.activation = ConvActivation::Relu6;
        it.same_padding = true;
        it
    }

    const fn lite_nano() -> Self {
        let mut it = Self::lite(72, [8, 8, 8, 16, 16, 24, 32], [1, 2, 1, 1, 1, 1, 1]);
        it.stem = 8;
        it.last = 48;
        it
    }

    fn check(&self) -> Result<()> {
        check_positive("visual", &[("image_size", self.image_size), ("stem", self.stem)])?;
        for (name, values) in [
            ("channels", self.channels),
            ("repeats", self.repeats),
            ("kernels", self.kernels),
            ("strides", self.strides),
            ("expansions", self.expansions),
        ] {
            check_positive("visual", &values.map(|value| (name, value)))?;
        }
        if let Some(even) = self.kernels.iter().find(|kernel| !(3..=31).contains(*kernel) || kernel.is_multiple_of(2)) {
            return Err(Error::invalid("visual.kernels", even, "odd sides from 3 to 31"));
        }
        if let Some(stride) = self.strides.iter().find(|stride| **stride > 2) {
            return Err(Error::invalid("visual.strides", stride, "1 or 2"));
        }
        if !(0.0..=1.0).contains(&self.squeeze) {
            return Err(Error::invalid("visual.squeeze", self.squeeze, "0 (none) to 1"));
        }
        check_positive("visual", &[("last", self.last.max(1))])?;
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(Error::invalid("visual.epsilon", self.epsilon, "above 0, below 1"));
        }
        Ok(())
    }

    /// The blocks, in order.
    fn blocks(&self) -> Vec<MbConvShape> {
        let mut side = self.image_size.div_ceil(2);
        let mut width = self.stem;
        let mut blocks = Vec::new();
        for stage in 0..STAGES {
            for repeat in 0..self.repeats[stage] {
                let stride = if repeat == 0 { self.strides[stage] } else { 1 };
                let odd = !side.is_multiple_of(2);
                side = side.div_ceil(stride);
                blocks.push(MbConvShape {
                    width_in: width,
                    inner: width * self.expansions[stage],
                    width_out: self.channels[stage],
                    kernel: self.kernels[stage],
                    stride,
                    residual: repeat > 0,
                    symmetric: if self.same_padding { odd } else { self.symmetric.contains(&blocks.len()) },
                });
                width = self.channels[stage];
            }
        }
        blocks
    }
}

/// Sizes of one block.
#[derive(Clone, Debug)]
struct MbConvShape {
    width_in: usize,
    inner: usize,
    width_out: usize,
    kernel: usize,
    stride: usize,
    /// True if the input is added to the output: in every block of a stage except the first.
    residual: bool,
    symmetric: bool,
}

/// 3x3 convolution with stride 2, seven stages of inverted bottlenecks, a 1x1 convolution if `last` is not 0, mean over
/// all positions.
///
/// A block widens its input (1x1), convolves each channel (depthwise, stride 1 or 2), scales the channels by
/// `sigmoid(expand(silu(reduce(mean))))` if `squeeze` is not 0, narrows (1x1) and, except for the first block of a
/// stage, adds its input. Batch norm follows every convolution, the activation follows the first two. Parameters and
/// their names are those of ALIGN's vision model in `transformers`. Statistics of the batch norms are not updated
/// ([`BatchNorm`]), and there is no dropout.
#[derive(Module, Debug)]
pub struct EfficientNet {
    embeddings: StemLayers,
    encoder: MbConvBlocks,
    last: Option<LastConv>,
    #[module(skip)]
    config: EfficientNetConfig,
}

#[derive(Module, Debug)]
struct StemLayers {
    convolution: Conv,
    batchnorm: BatchNorm,
}

/// The 1x1 convolution after the last stage.
#[derive(Module, Debug)]
struct LastConv {
    convolution: Conv,
    batchnorm: BatchNorm,
}

#[derive(Module, Debug)]
struct MbConvBlocks {
    blocks: Vec<MbConvBlock>,
}

#[derive(Module, Debug)]
struct MbConvBlock {
    expansion: Option<MbConvExpansion>,
    depthwise_conv: MbConvDepthwise,
    squeeze_excite: Option<SqueezeExcite>,
    projection: MbConvProjection,
}

#[derive(Module, Debug)]
struct MbConvExpansion {
    expand_conv: Conv,
    expand_bn: BatchNorm,
}

#[derive(Module, Debug)]
struct MbConvDepthwise {
    depthwise_conv: Conv,
    depthwise_norm: BatchNorm,
}

#[derive(Module, Debug)]
struct SqueezeExcite {
    reduce: PointwiseConv,
    expand: PointwiseConv,
}

#[derive(Module, Debug)]
struct MbConvProjection {
    project_conv: Conv,
    project_bn: BatchNorm,
}

/// An affine map in the published layout of a 1x1 convolution, `[out, in, 1, 1]`.
#[derive(Module, Debug)]
struct PointwiseConv {
    weight: Param<Tensor<4>>,
    bias: Bias,
}

impl EfficientNet {
    /// The same encoder for square photos with sides of `image_size` pixels. No parameter depends on the size.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a size that the architecture cannot read.
    pub(crate) fn with_image_size(mut self, image_size: usize) -> Result<Self> {
        self.config.image_size = image_size;
        self.config.check()?;
        Ok(self)
    }

    #[cfg(test)]
    pub(crate) fn stem_kernels(&self) -> Tensor<4> {
        self.embeddings.convolution.weight.val()
    }
}

impl Encoder for EfficientNet {
    type Config = EfficientNetConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, EfficientNetConfig)] = &[
        // B0 is the smallest network. B7 is the network of ALIGN, with its image size.
        ("efficientnet_b0", EfficientNetConfig::new(224, 32, [16, 24, 40, 80, 112, 192, 320], [1, 2, 2, 3, 3, 4, 1])),
        (
            "efficientnet_b7",
            EfficientNetConfig::new(289, 64, [32, 48, 80, 160, 224, 384, 640], [4, 7, 7, 10, 10, 13, 4]),
        ),
        // Lite 0 to 4 have the widths of B0 times 1, 1, 1.1, 1.2 and 1.4, and its depths times 1, 1.1, 1.2, 1.4 and
        // 1.8.
        ("efficientnet_lite0", EfficientNetConfig::lite(224, [16, 24, 40, 80, 112, 192, 320], [1, 2, 2, 3, 3, 4, 1])),
        ("efficientnet_lite1", EfficientNetConfig::lite(240, [16, 24, 40, 80, 112, 192, 320], [1, 3, 3, 4, 4, 5, 1])),
        ("efficientnet_lite2", EfficientNetConfig::lite(260, [16, 24, 48, 88, 120, 208, 352], [1, 3, 3, 4, 4, 5, 1])),
        ("efficientnet_lite3", EfficientNetConfig::lite(280, [24, 32, 48, 96, 136, 232, 384], [1, 3, 3, 5, 5, 6, 1])),
        ("efficientnet_lite4", EfficientNetConfig::lite(300, [24, 32, 56, 112, 160, 272, 448], [1, 4, 4, 6, 6, 8, 1])),
        ("efficientnet_lite_nano", EfficientNetConfig::lite_nano()),
        ("efficientnet_nano", EfficientNetConfig::new(64, 8, [8, 8, 8, 16, 16, 24, 32], [1, 2, 1, 1, 1, 1, 1])),
    ];
    const BLOCKS: &'static [&'static str] = &["encoder.blocks.#"];

    fn new(config: &EfficientNetConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        Ok(Self {
            embeddings: StemLayers {
                convolution: Conv::new(init, 3, config.stem, 3),
                batchnorm: BatchNorm::new(init, config.stem),
            },
            encoder: MbConvBlocks {
                blocks: config.blocks().iter().map(|shape| MbConvBlock::new(init, shape, config.squeeze)).collect(),
            },
            last: (config.last > 0).then(|| LastConv {
                convolution: Conv::new(init, config.channels[STAGES - 1], config.last, 1),
                batchnorm: BatchNorm::new(init, config.last),
            }),
            config: config.clone(),
        })
    }

    fn reads(config: &EfficientNetConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        if self.last.is_some() { self.config.last } else { self.config.channels[STAGES - 1] }
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the mean over all positions, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        let batch = check_pixels(&pixels, self.config.image_size)?;
        if let Some(net) = self.folded(&pixels) {
            let values = pixels.into_data().iter::<f32>().collect::<Vec<_>>();
            let features = net.forward(&values, batch, self.config.image_size);
            return Ok(Tensor::from_data(TensorData::new(features, [batch, self.width()]), &Device::flex()));
        }
        let EfficientNetConfig { epsilon, activation, image_size, same_padding, .. } = self.config;
        // TensorFlow pads one row before an odd side and none before an even side; `transformers` pads none.
        let before = usize::from(same_padding && !image_size.is_multiple_of(2));
        let x = self.embeddings.convolution.forward(pixels, 2, (before, 1));
        let mut x = activation.apply(self.embeddings.batchnorm.forward(x, epsilon));
        for (block, shape) in self.encoder.blocks.iter().zip(self.config.blocks()) {
            x = block.forward(x, &shape, activation, epsilon);
        }
        if let Some(LastConv { convolution, batchnorm }) = &self.last {
            x = activation.apply(batchnorm.forward(convolution.forward(x, 1, (0, 0)), epsilon));
        }
        Ok(pool(x))
    }
}

impl EfficientNet {
    /// The network with its batch norms folded into the convolutions, for inference on the CPU. `None` on other
    /// devices, in training, for pixels that are not f32, and for networks that are not EfficientNet-Lite (ReLU6,
    /// `same_padding`, a last convolution, no squeeze and excitation).
    fn folded(&self, pixels: &Tensor<4>) -> Option<InvertedResidualNet> {
        let EfficientNetConfig { activation, same_padding, epsilon, .. } = self.config;
        let stem = self.embeddings.convolution.weight.val();
        let plain = !stem.is_autodiff() && !pixels.is_autodiff() && pixels.dtype() == DType::F32;
        let lite = activation == ConvActivation::Relu6 && same_padding && self.config.squeeze == 0.0;
        let last = self.last.as_ref()?;
        if !(plain && lite && pixels.device() == Device::flex()) {
            return None;
        }
        let fold = |conv: &Conv, norm: &BatchNorm| norm.fold(conv, epsilon);
        let stem = fold(&self.embeddings.convolution, &self.embeddings.batchnorm);
        let block = |(block, shape): (&MbConvBlock, MbConvShape)| InvertedResidual {
            expand: block.expansion.as_ref().map(|it| fold(&it.expand_conv, &it.expand_bn)),
            depthwise: fold(&block.depthwise_conv.depthwise_conv, &block.depthwise_conv.depthwise_norm),
            project: fold(&block.projection.project_conv, &block.projection.project_bn),
            stride: shape.stride,
            residual: shape.residual,
        };
        let blocks: Vec<_> = self.encoder.blocks.iter().zip(self.config.blocks()).map(block).collect();
        let head = fold(&last.convolution, &last.batchnorm);
        Some(InvertedResidualNet::new(&stem, &blocks, &head, ConvPadding::Same))
    }
}

impl MbConvBlock {
    fn new(init: &mut Init, shape: &MbConvShape, squeeze: f64) -> Self {
        let &MbConvShape { width_in, inner, width_out, kernel, .. } = shape;
        let squeezed = ((width_in as f64 * squeeze) as usize).max(1);
        Self {
            expansion: (inner != width_in).then(|| MbConvExpansion {
                expand_conv: Conv::new(init, width_in, inner, 1),
                expand_bn: BatchNorm::new(init, inner),
            }),
            depthwise_conv: MbConvDepthwise {
                depthwise_conv: Conv::depthwise(init, inner, kernel),
                depthwise_norm: BatchNorm::new(init, inner),
            },
            squeeze_excite: (squeeze > 0.0).then(|| SqueezeExcite {
                reduce: PointwiseConv::new(init, inner, squeezed),
                expand: PointwiseConv::new(init, squeezed, inner),
            }),
            projection: MbConvProjection {
                project_conv: Conv::new(init, inner, width_out, 1),
                project_bn: BatchNorm::new(init, width_out),
            },
        }
    }

    fn forward(&self, input: Tensor<4>, shape: &MbConvShape, activation: ConvActivation, epsilon: f64) -> Tensor<4> {
        let mut x = input.clone();
        if let Some(MbConvExpansion { expand_conv, expand_bn }) = &self.expansion {
            x = activation.apply(expand_bn.forward(expand_conv.forward(x, 1, (0, 0)), epsilon));
        }
        let half = shape.kernel / 2;
        // If the side of the input is even, TensorFlow pads one row and column less at the beginning.
        let before = if shape.stride == 2 && !shape.symmetric { half - 1 } else { half };
        let MbConvDepthwise { depthwise_conv, depthwise_norm } = &self.depthwise_conv;
        let x = depthwise_norm.forward(depthwise_conv.forward(x, shape.stride, (before, half)), epsilon);
        let mut x = activation.apply(x);
        if let Some(squeeze_excite) = &self.squeeze_excite {
            x = squeeze_excite.forward(x);
        }
        let MbConvProjection { project_conv, project_bn } = &self.projection;
        let x = project_bn.forward(project_conv.forward(x, 1, (0, 0)), epsilon);
        if shape.residual { x + input } else { x }
    }
}

impl SqueezeExcite {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, width, ..] = x.dims();
        let scale = self.expand.forward(activation::silu(self.reduce.forward(pool(x.clone()))));
        x * activation::sigmoid(scale).reshape([batch, width, 1, 1])
    }
}

impl PointwiseConv {
    fn new(init: &mut Init, width_in: usize, width_out: usize) -> Self {
        let fill = Fill::Normal((2.0 / width_out as f64).sqrt());
        Self { weight: init.param([width_out, width_in, 1, 1], fill), bias: init.bias(width_out, Fill::Constant(0.0)) }
    }

    /// `[B, in] -> [B, out]`.
    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let [width_out, width_in, ..] = self.weight.dims();
        let weight = self.weight.val().reshape([width_out, width_in]).transpose();
        module::linear(rows, weight, Some(self.bias.value.val()))
    }
}
