//! EfficientNet (Tan and Le, ICML 2019), the image encoder of ALIGN (Jia et al., ICML 2021), as `transformers` computes
//! it.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation, module};
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
    /// Channels after the first convolution.
    pub stem: usize,
    /// Channels after each stage.
    pub channels: [usize; STAGES],
    /// Blocks of each stage.
    pub repeats: [usize; STAGES],
    /// Side of the depthwise kernels of each stage, odd.
    pub kernels: [usize; STAGES],
    /// Stride of the first block of each stage, 1 or 2.
    pub strides: [usize; STAGES],
    /// Factor by which the blocks of each stage widen their input; 1: no widening.
    pub expansions: [usize; STAGES],
    /// Width of the squeezed layer, as a multiple of the width of the block's input.
    pub squeeze: f64,
    /// Added to variances.
    pub epsilon: f64,
    /// Indices, from 0, of the blocks with stride 2 that pad both sides equally: those whose input had an odd size in
    /// training.
    #[serde(default)]
    pub symmetric: Vec<usize>,
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
        }
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
            return Err(Error::setting("visual.kernels", even, "odd sides from 3 to 31"));
        }
        if let Some(stride) = self.strides.iter().find(|stride| **stride > 2) {
            return Err(Error::setting("visual.strides", stride, "1 or 2"));
        }
        if !(self.squeeze > 0.0 && self.squeeze <= 1.0) {
            return Err(Error::setting("visual.squeeze", self.squeeze, "above 0, at most 1"));
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(Error::setting("visual.epsilon", self.epsilon, "above 0, below 1"));
        }
        Ok(())
    }

    /// The blocks, in order.
    fn blocks(&self) -> Vec<MbConvShape> {
        let mut width = self.stem;
        let mut blocks = Vec::new();
        for stage in 0..STAGES {
            for repeat in 0..self.repeats[stage] {
                blocks.push(MbConvShape {
                    width_in: width,
                    inner: width * self.expansions[stage],
                    width_out: self.channels[stage],
                    kernel: self.kernels[stage],
                    stride: if repeat == 0 { self.strides[stage] } else { 1 },
                    residual: repeat > 0,
                    symmetric: self.symmetric.contains(&blocks.len()),
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

/// 3x3 convolution with stride 2, seven stages of inverted bottlenecks with squeeze and excitation, mean over all
/// positions.
///
/// A block widens its input (1x1), convolves each channel (depthwise, stride 1 or 2), scales the channels by
/// `sigmoid(expand(silu(reduce(mean))))`, narrows (1x1) and, except for the first block of a stage, adds its input.
/// Batch norm follows every convolution, SiLU the first two. Parameters and their names are those of ALIGN's vision
/// model in `transformers`. Statistics of the batch norms are not updated ([`BatchNorm`]), and there is no dropout.
#[derive(Module, Debug)]
pub struct EfficientNet {
    embeddings: Stem,
    encoder: MbConvBlocks,
    #[module(skip)]
    config: EfficientNetConfig,
}

#[derive(Module, Debug)]
struct Stem {
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
    squeeze_excite: SqueezeExcite,
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
    reduce: Pointwise,
    expand: Pointwise,
}

#[derive(Module, Debug)]
struct MbConvProjection {
    project_conv: Conv,
    project_bn: BatchNorm,
}

/// An affine map in the published layout of a 1x1 convolution, `[out, in, 1, 1]`.
#[derive(Module, Debug)]
struct Pointwise {
    weight: Param<Tensor<4>>,
    bias: Bias,
}

impl Encoder for EfficientNet {
    type Config = EfficientNetConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, EfficientNetConfig)] = &[
        // The smallest network, and that of ALIGN at its image size.
        ("efficientnet_b0", EfficientNetConfig::new(224, 32, [16, 24, 40, 80, 112, 192, 320], [1, 2, 2, 3, 3, 4, 1])),
        (
            "efficientnet_b7",
            EfficientNetConfig::new(289, 64, [32, 48, 80, 160, 224, 384, 640], [4, 7, 7, 10, 10, 13, 4]),
        ),
        ("efficientnet_nano", EfficientNetConfig::new(64, 8, [8, 8, 8, 16, 16, 24, 32], [1, 2, 1, 1, 1, 1, 1])),
    ];

    fn new(config: &EfficientNetConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        Ok(Self {
            embeddings: Stem {
                convolution: Conv::new(init, 3, config.stem, 3),
                batchnorm: BatchNorm::new(init, config.stem),
            },
            encoder: MbConvBlocks {
                blocks: config.blocks().iter().map(|shape| MbConvBlock::new(init, shape, config.squeeze)).collect(),
            },
            config: config.clone(),
        })
    }

    fn reads(config: &EfficientNetConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        self.config.channels[STAGES - 1]
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the mean over all positions, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        check_pixels(&pixels, self.config.image_size)?;
        let epsilon = self.config.epsilon;
        let x = self.embeddings.convolution.forward(pixels, 2, (0, 1));
        let mut x = activation::silu(self.embeddings.batchnorm.forward(x, epsilon));
        for (block, shape) in self.encoder.blocks.iter().zip(self.config.blocks()) {
            x = block.forward(x, &shape, epsilon);
        }
        Ok(pool(x))
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
            squeeze_excite: SqueezeExcite {
                reduce: Pointwise::new(init, inner, squeezed),
                expand: Pointwise::new(init, squeezed, inner),
            },
            projection: MbConvProjection {
                project_conv: Conv::new(init, inner, width_out, 1),
                project_bn: BatchNorm::new(init, width_out),
            },
        }
    }

    fn forward(&self, input: Tensor<4>, shape: &MbConvShape, epsilon: f64) -> Tensor<4> {
        let mut x = input.clone();
        if let Some(MbConvExpansion { expand_conv, expand_bn }) = &self.expansion {
            x = activation::silu(expand_bn.forward(expand_conv.forward(x, 1, (0, 0)), epsilon));
        }
        let half = shape.kernel / 2;
        // If the side of the input is even, TensorFlow pads one row and column less at the beginning.
        let before = if shape.stride == 2 && !shape.symmetric { half - 1 } else { half };
        let MbConvDepthwise { depthwise_conv, depthwise_norm } = &self.depthwise_conv;
        let x = depthwise_norm.forward(depthwise_conv.forward(x, shape.stride, (before, half)), epsilon);
        let x = self.squeeze_excite.forward(activation::silu(x));
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

impl Pointwise {
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
