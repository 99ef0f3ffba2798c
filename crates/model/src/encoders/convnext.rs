//! ConvNeXt (Liu et al., CVPR 2022), as in timm.

use burn::module::{Module, Param};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, module};
use conifer_kernels::{self as kernels, Activation};
use serde::{Deserialize, Serialize};

use super::block::scaled;
use super::layers::{LayerNorm, SMALL_NORM_EPSILON};
use super::vit_block::VitMlp;
use super::{Encoder, ImageInputFormat, check_pixels, check_positive};
use crate::params::{Bias, Fill, Init, NormParam};
use crate::{Error, Result};

/// Architecture of a [`ConvNext`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvNextConfig {
    /// Side of the square photographs, in pixels; a multiple of 32.
    pub image_size: usize,
    /// Number of blocks in each of the four stages.
    pub blocks: [usize; 4],
    /// Number of channels in each of the four stages.
    pub channels: [usize; 4],
}

impl ConvNextConfig {
    const fn new(image_size: usize, blocks: [usize; 4], width: usize) -> Self {
        Self { image_size, blocks, channels: [width, 2 * width, 4 * width, 8 * width] }
    }

    fn check(&self) -> Result<()> {
        check_positive("visual", &[("image_size", self.image_size)])?;
        let lists = self.blocks.iter().map(|&blocks| ("blocks", blocks));
        let lists: Vec<_> = lists.chain(self.channels.iter().map(|&channels| ("channels", channels))).collect();
        check_positive("visual", &lists)?;
        if !self.image_size.is_multiple_of(TOTAL_STRIDE) {
            return Err(Error::invalid("visual.image_size", self.image_size, format!("a multiple of {TOTAL_STRIDE}")));
        }
        Ok(())
    }
}

/// Side of the input, as a multiple of the side of the last stage.
const TOTAL_STRIDE: usize = 32;

/// Side of a patch of the stem.
const STEM: usize = 4;

/// Side of the depthwise kernels.
const KERNEL: usize = 7;

/// Width of the hidden layer of a block, as a multiple of its channels.
const EXPANSION: usize = 4;

/// Initial value of `gamma`, the factor per channel of a block's residual branch (timm's `ls_init_value`).
const INITIAL_SCALE: f32 = 1e-6;

/// 4x4 patches, norm, four stages, mean over all positions, norm.
///
/// A block is `x + gamma fc2(gelu(fc1(norm(depthwise 7x7(x)))))`. Between two stages are a norm and a 2x2 convolution
/// with stride 2. All norms are over the channels. Parameters and their names are those of timm, except that timm calls
/// the last norm `head.norm`.
#[derive(Module, Debug)]
pub struct ConvNext {
    stem: (PatchConv, LayerNorm),
    stages: Vec<ConvNextStage>,
    norm: LayerNorm,
    #[module(skip)]
    config: ConvNextConfig,
}

#[derive(Module, Debug)]
struct ConvNextStage {
    downsample: Option<(LayerNorm, PatchConv)>,
    blocks: Vec<ConvNextBlock>,
}

#[derive(Module, Debug)]
struct ConvNextBlock {
    conv_dw: DepthwiseConv,
    norm: LayerNorm,
    mlp: VitMlp,
    gamma: NormParam,
}

/// Convolution whose stride is the side of its kernels, `[out, in, side, side]`; computed as one matrix product.
#[derive(Module, Debug)]
struct PatchConv {
    weight: Param<Tensor<4>>,
    bias: Bias,
}

/// One kernel per channel, `[C, 1, 7, 7]`.
#[derive(Module, Debug)]
struct DepthwiseConv {
    weight: Param<Tensor<4>>,
    bias: Bias,
}

/// Activations with one row per position, `[B * side * side, C]`. Positions are in row-major order.
struct PositionRows {
    rows: Tensor<2>,
    batch: usize,
    side: usize,
}

impl Encoder for ConvNext {
    type Config = ConvNextConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, ConvNextConfig)] = &[
        ("convnext_tiny", ConvNextConfig::new(224, [3, 3, 9, 3], 96)),
        ("convnext_small", ConvNextConfig::new(224, [3, 3, 27, 3], 96)),
        ("convnext_base", ConvNextConfig::new(224, [3, 3, 27, 3], 128)),
        ("convnext_large", ConvNextConfig::new(224, [3, 3, 27, 3], 192)),
        ("convnext_nano", ConvNextConfig::new(64, [1, 1, 2, 1], 24)),
    ];
    const BLOCKS: &'static [&'static str] = &["stages.#.blocks.#"];

    /// Weights N(0, 0.02^2), biases 0: the published initialisation, without truncation.
    fn new(config: &ConvNextConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let [first, ..] = config.channels;
        let stem = (PatchConv::new(init, 3, first, STEM), LayerNorm::new(init, first));
        let stages = (0..4).map(|s| ConvNextStage {
            downsample: (s > 0).then(|| {
                let [from, to] = [config.channels[s - 1], config.channels[s]];
                (LayerNorm::new(init, from), PatchConv::new(init, from, to, 2))
            }),
            blocks: (0..config.blocks[s]).map(|_| ConvNextBlock::new(init, config.channels[s])).collect(),
        });
        let stages = stages.collect();
        let [.., last] = config.channels;
        Ok(Self { stem, stages, norm: LayerNorm::new(init, last), config: config.clone() })
    }

    fn reads(config: &ConvNextConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        let [.., last] = self.config.channels;
        last
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the pooled features after the last norm, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        let batch = check_pixels(&pixels, self.config.image_size)?;
        let side = self.config.image_size;
        let rows = pixels.permute([0, 2, 3, 1]).reshape([batch * side * side, 3]);
        let (patches, norm) = &self.stem;
        let mut x = patches.forward(PositionRows { rows, batch, side }).map(|rows| normed(norm, rows));
        for stage in &self.stages {
            if let Some((norm, conv)) = &stage.downsample {
                x = conv.forward(x.map(|rows| normed(norm, rows)));
            }
            x = stage.blocks.iter().fold(x, |x, block| block.forward(x));
        }
        let width = self.width();
        let pooled = x.rows.reshape([batch, x.side * x.side, width]).mean_dim(1).reshape([batch, width]);
        Ok(normed(&self.norm, pooled))
    }
}

impl ConvNext {
    /// The same encoder for square photos with sides of `image_size` pixels. No parameter depends on the size.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a size that the architecture cannot read.
    pub(crate) fn with_image_size(mut self, image_size: usize) -> Result<Self> {
        self.config.image_size = image_size;
        self.config.check()?;
        Ok(self)
    }
}

fn normed(norm: &LayerNorm, rows: Tensor<2>) -> Tensor<2> {
    norm.forward_with(rows, SMALL_NORM_EPSILON)
}

impl PositionRows {
    fn map(self, change: impl FnOnce(Tensor<2>) -> Tensor<2>) -> Self {
        Self { rows: change(self.rows), ..self }
    }
}

impl ConvNextBlock {
    fn new(init: &mut Init, width: usize) -> Self {
        Self {
            conv_dw: DepthwiseConv {
                weight: init.param([width, 1, KERNEL, KERNEL], Fill::Normal(0.02)),
                bias: init.bias(width, Fill::Constant(0.0)),
            },
            norm: LayerNorm::new(init, width),
            mlp: VitMlp::new(init, width, EXPANSION * width),
            gamma: init.norm(width, INITIAL_SCALE),
        }
    }

    fn forward(&self, x: PositionRows) -> PositionRows {
        let spread = normed(&self.norm, self.conv_dw.forward(&x));
        let down = scaled(&self.mlp.fc2, Some(&self.gamma));
        x.map(|rows| kernels::feed_forward(rows, spread, scaled(&self.mlp.fc1, None), down, Activation::Gelu))
    }
}

impl DepthwiseConv {
    fn forward(&self, x: &PositionRows) -> Tensor<2> {
        let [count, width] = x.rows.dims();
        let image = x.rows.clone().reshape([x.batch, x.side, x.side, width]).permute([0, 3, 1, 2]);
        let padding = KERNEL / 2;
        let options = ConvOptions::new_with_padding([1; 2], [(padding, padding); 2], [1; 2], width);
        let image = module::conv2d(image, self.weight.val(), Some(self.bias.value.val()), options);
        image.permute([0, 2, 3, 1]).reshape([count, width])
    }
}

impl PatchConv {
    fn new(init: &mut Init, from: usize, to: usize, side: usize) -> Self {
        let weight = init.param([to, from, side, side], Fill::Normal(0.02));
        Self { weight, bias: init.bias(to, Fill::Constant(0.0)) }
    }

    fn forward(&self, x: PositionRows) -> PositionRows {
        let weight = self.weight.val();
        let [to, from, patch, _] = weight.dims();
        let side = x.side / patch;
        let patches = x
            .rows
            .reshape([x.batch, side, patch, side, patch, from])
            .permute([0, 1, 3, 5, 2, 4])
            .reshape([x.batch * side * side, from * patch * patch]);
        let weight = weight.reshape([to, from * patch * patch]).transpose();
        let rows = kernels::linear(patches, weight, self.bias.value.val());
        PositionRows { rows, batch: x.batch, side }
    }
}
