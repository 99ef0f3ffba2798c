//! Vision transformers that are published with pretrained weights: timm's (AugReg, MAE, DINO), DINOv2, DINOv3 and the
//! image tower of SigLIP. They differ in the positions, in the tokens before the patches and in the pooling.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use conifer_kernels::{Mask, attention, linear as affine};
use serde::{Deserialize, Serialize};

use super::block::BlockSettings;
use super::clip_block::{self, check_ratio, hidden_width};
use super::layers::{ActivationFn, LAYER_NORM_EPSILON, LayerNorm, Linear, SMALL_NORM_EPSILON, feed_forward};
use super::vit_block::{self, PatchEmbed, VitBlock, VitMlp, linear};
use super::{Encoder, ImageInputFormat, check_epsilon, check_pixels, check_positive};
use crate::params::{Bias, Fill, Init, LinearWeight};
use crate::{Error, Result};

/// Architecture of a [`PretrainedVit`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainedVitConfig {
    /// Side of the square photographs, in pixels. Pixels after the last whole patch are ignored.
    pub image_size: usize,
    /// Side of a patch, in pixels.
    pub patch: usize,
    /// Width of the tokens; a multiple of `heads`, or of 4 times `heads` with rotary positions.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward layers, as a multiple of `width`.
    #[serde(default = "clip_block::four")]
    pub mlp_ratio: f64,
    /// Non-linearity of the feed-forward layers.
    #[serde(default)]
    pub activation: ActivationFn,
    /// Epsilon of the layer norms, added to the variance.
    #[serde(default = "small_epsilon")]
    pub epsilon: f64,
    /// Whether the output of each residual branch is multiplied by a learned factor per channel (LayerScale).
    #[serde(default)]
    pub layer_scale: bool,
    /// Whether the sequence starts with a class token.
    #[serde(default = "yes")]
    pub class_token: bool,
    /// Whether the class token has a position. The published models without such a position have registers.
    #[serde(default = "yes")]
    pub class_position: bool,
    /// Number of register tokens after the class token ("Vision Transformers Need Registers", Darcet et al., ICLR
    /// 2024). They have no position.
    #[serde(default)]
    pub registers: usize,
    /// Position encoding of the patches.
    #[serde(default)]
    pub positions: VitPositions,
    /// Pooling of the tokens to one vector.
    #[serde(default)]
    pub pool: VitPooling,
}

/// How a [`PretrainedVit`] encodes the positions of its patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VitPositions {
    /// A learned vector per position is added to the tokens.
    #[default]
    Learned,
    /// Queries and keys are rotated in every block (RoPE): DINOv3.
    Rotary,
}

/// How a [`PretrainedVit`] pools its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VitPooling {
    /// The class token after the last norm.
    #[default]
    Token,
    /// The norm of the mean of the patches: timm's models with `fc_norm`.
    Mean,
    /// The mean of the patches after the norm.
    NormedMean,
    /// Attention of a learned query to all tokens after the norm, then a feed-forward part: SigLIP.
    Attention,
}

fn small_epsilon() -> f64 {
    SMALL_NORM_EPSILON
}

fn yes() -> bool {
    true
}

impl PretrainedVitConfig {
    const fn timm(image_size: usize, patch: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self {
            image_size,
            patch,
            width,
            depth,
            heads,
            mlp_ratio: 4.0,
            activation: ActivationFn::Gelu,
            epsilon: SMALL_NORM_EPSILON,
            layer_scale: false,
            class_token: true,
            class_position: true,
            registers: 0,
            positions: VitPositions::Learned,
            pool: VitPooling::Token,
        }
    }

    const fn dinov3(image_size: usize, patch: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self {
            epsilon: LAYER_NORM_EPSILON,
            layer_scale: true,
            registers: 4,
            positions: VitPositions::Rotary,
            ..Self::timm(image_size, patch, width, depth, heads)
        }
    }

    const fn dinov2(width: usize, depth: usize, heads: usize) -> Self {
        Self { layer_scale: true, ..Self::timm(224, 14, width, depth, heads) }
    }

    const fn siglip(image_size: usize, patch: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self {
            activation: ActivationFn::TanhGelu,
            class_token: false,
            pool: VitPooling::Attention,
            ..Self::timm(image_size, patch, width, depth, heads)
        }
    }

    /// Number of patches along one side.
    pub fn grid(&self) -> usize {
        self.image_size / self.patch
    }

    /// Number of tokens before the patches.
    pub fn prefix(&self) -> usize {
        usize::from(self.class_token) + self.registers
    }

    /// Number of rows of the table of learned positions.
    fn position_rows(&self) -> usize {
        self.grid() * self.grid() + usize::from(self.class_token && self.class_position)
    }

    /// Width of the hidden layer of every feed-forward part.
    pub fn hidden(&self) -> usize {
        hidden_width(self.width, self.mlp_ratio)
    }

    fn check(&self) -> Result<()> {
        check_positive("visual", &[("image_size", self.image_size), ("patch", self.patch), ("width", self.width)])?;
        check_positive("visual", &[("depth", self.depth), ("heads", self.heads)])?;
        check_positive("visual", &[("registers", self.registers.max(1))])?;
        check_ratio("visual", self.width, self.mlp_ratio)?;
        check_epsilon("visual", self.epsilon)?;
        if self.image_size < self.patch {
            let expected = format!("at least patch = {}", self.patch);
            return Err(Error::invalid("visual.image_size", self.image_size, expected));
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(Error::invalid("visual.width", self.width, format!("a multiple of heads = {}", self.heads)));
        }
        if self.positions == VitPositions::Rotary && !self.width.is_multiple_of(4 * self.heads) {
            let expected = format!("a multiple of 4 times heads = {} with rotary positions", self.heads);
            return Err(Error::invalid("visual.width", self.width, expected));
        }
        if self.pool == VitPooling::Token && !self.class_token {
            return Err(Error::invalid("visual.pool", "token", "mean, normed_mean or attention without a class token"));
        }
        Ok(())
    }
}

/// Pre-norm transformer over square patches.
///
/// `x = [class token + position; registers; P(patches) + positions]`, where `P` is the affine patch projection. Then
/// `depth` blocks and [`VitPooling`] follow. The class token is optional, and rotary positions are not added to `x`.
/// Parameters and their names are those of timm's `VisionTransformer`, except that the norm after the mean (timm:
/// `fc_norm`) is also called `norm`, and that the attention pooling (`pool`) has the names of SigLIP in `transformers`.
#[derive(Module, Debug)]
pub struct PretrainedVit {
    cls_token: Option<Param<Tensor<3>>>,
    reg_token: Option<Param<Tensor<3>>>,
    pos_embed: Option<Param<Tensor<3>>>,
    patch_embed: PatchEmbed,
    blocks: Vec<VitBlock>,
    norm: LayerNorm,
    pool: Option<AttentionPool>,
    #[module(skip)]
    config: PretrainedVitConfig,
}

/// `h = out(attention(probe, tokens))`, then `h + fc2(activation(fc1(layernorm(h))))`.
#[derive(Module, Debug)]
struct AttentionPool {
    probe: Param<Tensor<3>>,
    attention: PoolAttention,
    layernorm: LayerNorm,
    mlp: VitMlp,
}

/// `in_proj_weight` holds query, key and value side by side.
#[derive(Module, Debug)]
struct PoolAttention {
    in_proj_weight: LinearWeight,
    in_proj_bias: Bias,
    out_proj: Linear,
}

impl Encoder for PretrainedVit {
    type Config = PretrainedVitConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, PretrainedVitConfig)] = &[
        ("timm_vit_t16", PretrainedVitConfig::timm(224, 16, 192, 12, 3)),
        ("timm_vit_s16", PretrainedVitConfig::timm(224, 16, 384, 12, 6)),
        ("timm_vit_b16", PretrainedVitConfig::timm(224, 16, 768, 12, 12)),
        ("timm_vit_l16", PretrainedVitConfig::timm(224, 16, 1024, 24, 16)),
        ("dinov2_s14", PretrainedVitConfig::dinov2(384, 12, 6)),
        ("dinov2_b14", PretrainedVitConfig::dinov2(768, 12, 12)),
        ("dinov2_l14", PretrainedVitConfig::dinov2(1024, 24, 16)),
        ("dinov3_s16", PretrainedVitConfig::dinov3(224, 16, 384, 12, 6)),
        ("dinov3_b16", PretrainedVitConfig::dinov3(224, 16, 768, 12, 12)),
        ("dinov3_l16", PretrainedVitConfig::dinov3(224, 16, 1024, 24, 16)),
        ("siglip_vit_b16", PretrainedVitConfig::siglip(224, 16, 768, 12, 12)),
        ("siglip_vit_l16_256", PretrainedVitConfig::siglip(256, 16, 1024, 24, 16)),
        (
            "siglip_vit_so400m_384",
            PretrainedVitConfig { mlp_ratio: 4304.0 / 1152.0, ..PretrainedVitConfig::siglip(384, 14, 1152, 27, 16) },
        ),
        // This model has the size of `vit_nano`.
        ("timm_vit_nano", PretrainedVitConfig::timm(64, 8, 128, 4, 4)),
        (
            "dinov2_nano",
            PretrainedVitConfig { layer_scale: true, registers: 4, ..PretrainedVitConfig::timm(64, 8, 128, 4, 4) },
        ),
        ("dinov3_nano", PretrainedVitConfig::dinov3(64, 8, 128, 4, 4)),
        ("siglip_vit_nano", PretrainedVitConfig::siglip(64, 8, 128, 4, 4)),
    ];

    /// Class token and registers N(0, 1e-6^2), positions and linear weights N(0, 0.02^2), biases 0, patches uniform in
    /// +-1/sqrt(inputs): timm's defaults, without truncation. Query of the pooling N(0, 1/width).
    fn new(config: &PretrainedVitConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &PretrainedVitConfig { patch, width, depth, registers, layer_scale, .. } = config;
        let hidden = config.hidden();
        let token = Fill::Normal(1e-6);
        Ok(Self {
            cls_token: config.class_token.then(|| init.param([1, 1, width], token)),
            reg_token: (registers > 0).then(|| init.param([1, registers, width], token)),
            pos_embed: (config.positions == VitPositions::Learned)
                .then(|| init.param([1, config.position_rows(), width], Fill::Normal(0.02))),
            patch_embed: PatchEmbed::new(init, patch, width),
            blocks: (0..depth).map(|_| VitBlock::new(init, width, hidden, layer_scale)).collect(),
            norm: LayerNorm::new(init, width),
            pool: (config.pool == VitPooling::Attention).then(|| AttentionPool::new(init, width, hidden)),
            config: config.clone(),
        })
    }

    fn reads(config: &PretrainedVitConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        self.config.width
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the pooled features, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        let batch = check_pixels(&pixels, self.config.image_size)?;
        let width = self.config.width;
        let x = self.embed(pixels, batch);
        let [_, tokens, _] = x.dims();
        let x = x.reshape([batch * tokens, width]);
        let settings = BlockSettings {
            heads: self.config.heads,
            causal: false,
            activation: self.config.activation,
            epsilon: self.config.epsilon,
        };
        let norm = |x| self.norm.forward_with(x, self.config.epsilon);
        let patch_mean = |x: Tensor<2>| {
            let prefix = self.config.prefix();
            let patches = x.reshape([batch, tokens, width]).narrow(1, prefix, tokens - prefix);
            patches.mean_dim(1).reshape([batch, width])
        };
        let class_rows = Tensor::<1, Int>::arange(0..batch as i64, &x.device()) * tokens as i64;
        let x = match self.config.positions {
            VitPositions::Rotary => {
                let rotation = PatchRotation::new(&self.config, &x.device());
                let rotate = |joint| rotation.rotate(joint, batch, settings.heads);
                self.blocks.iter().fold(x, |x, block| block.parts().forward_mapped(x, batch, settings, rotate))
            }
            VitPositions::Learned if self.config.pool == VitPooling::Token => {
                return Ok(norm(vit_block::run_rows(&self.blocks, x, class_rows, settings)));
            }
            VitPositions::Learned => vit_block::run(&self.blocks, x, batch, settings),
        };
        Ok(match (self.config.pool, &self.pool) {
            (VitPooling::Token, _) => norm(x.select(0, class_rows)),
            (VitPooling::Mean, _) => norm(patch_mean(x)),
            (_, Some(pool)) => pool.forward(norm(x), batch, settings),
            _ => patch_mean(norm(x)),
        })
    }
}

impl PretrainedVit {
    /// Class token, registers and patches with their positions, `[B, tokens, width]`.
    fn embed(&self, pixels: Tensor<4>, batch: usize) -> Tensor<3> {
        let width = self.config.width;
        let patches = self.patch_embed.forward(pixels);
        let class = self.cls_token.as_ref().map(Param::val);
        let (class, patches) = match self.pos_embed.as_ref().map(Param::val) {
            None => (class, patches),
            Some(positions) => {
                let [_, count, _] = patches.dims();
                let before = positions.dims()[1] - count;
                let class = class.map(|token| match before {
                    0 => token,
                    _ => token + positions.clone().narrow(1, 0, 1),
                });
                (class, patches + positions.narrow(1, before, count))
            }
        };
        let registers = self.reg_token.as_ref().map(Param::val);
        let prefix = [class, registers].into_iter().flatten().map(|token| {
            let [_, count, _] = token.dims();
            token.expand([batch, count, width])
        });
        Tensor::cat(prefix.chain([patches]).collect(), 1)
    }
}

impl AttentionPool {
    fn new(init: &mut Init, width: usize, hidden: usize) -> Self {
        Self {
            probe: init.param([1, 1, width], Fill::Normal((width as f64).powf(-0.5))),
            attention: PoolAttention {
                in_proj_weight: init.matrix(width, 3 * width, Fill::Normal(0.02)),
                in_proj_bias: init.bias(3 * width, Fill::Constant(0.0)),
                out_proj: linear(init, width, width),
            },
            layernorm: LayerNorm::new(init, width),
            mlp: VitMlp::new(init, width, hidden),
        }
    }

    /// `[B*L, width] -> [B, width]`.
    fn forward(&self, x: Tensor<2>, batch: usize, settings: BlockSettings) -> Tensor<2> {
        let [_, width] = x.dims();
        let (weight, bias) = (self.attention.in_proj_weight.value.val(), self.attention.in_proj_bias.value.val());
        let project = |rows: Tensor<2>, first: usize, parts: usize| {
            let bias = bias.clone().narrow(0, first * width, parts * width);
            affine(rows, weight.clone().narrow(1, first * width, parts * width), bias)
        };
        // The query does not depend on the photo.
        let query = project(self.probe.val().reshape([1, width]), 0, 1).repeat_dim(0, batch);
        let context = attention(query, project(x, 1, 2), batch, settings.heads, Mask::None);
        let pooled = self.attention.out_proj.forward(context);
        let normed = self.layernorm.forward_with(pooled.clone(), settings.epsilon);
        feed_forward(pooled, normed, &self.mlp.fc1, &self.mlp.fc2, settings.activation)
    }
}

/// Rotary positions of DINOv3 (RoPE: Su et al., 2021; two axes: Heo et al., ECCV 2024).
///
/// A head of width d consists of d/2 pairs `(x_i, x_(i + d/2))`. Pair i of the patch with centre (y, x), both in
/// (-1, 1), is rotated by `2 pi y 100^(-4i/d)` for i < d/4, and by the same angle with x and i - d/4 for the others.
/// Class token and registers are not rotated.
struct PatchRotation {
    /// `[1, tokens, 1, d/2]`.
    cos: Tensor<4>,
    sin: Tensor<4>,
}

/// Base of the frequencies of the rotary positions in every published DINOv3.
pub const ROTARY_BASE: f64 = 100.0;

impl PatchRotation {
    fn new(config: &PretrainedVitConfig, device: &Device) -> Self {
        let (grid, head) = (config.grid(), config.width / config.heads);
        let quarter = head / 4;
        let centre = |i: usize| (2 * i + 1) as f64 / grid as f64 - 1.0;
        let mut angles = vec![0.0_f64; config.prefix() * 2 * quarter];
        for row in 0..grid {
            for column in 0..grid {
                for position in [row, column] {
                    let frequency = |i: usize| ROTARY_BASE.powf(-4.0 * i as f64 / head as f64);
                    angles.extend((0..quarter).map(|i| std::f64::consts::TAU * centre(position) * frequency(i)));
                }
            }
        }
        let shape = [1, config.prefix() + grid * grid, 1, 2 * quarter];
        let table = |f: fn(f64) -> f64| {
            let values: Vec<f32> = angles.iter().map(|&angle| f(angle) as f32).collect();
            Tensor::from_data(TensorData::new(values, shape), device)
        };
        Self { cos: table(f64::cos), sin: table(f64::sin) }
    }

    /// Rotates the queries and keys of `joint`, `[B*L, 3 width]`.
    fn rotate(&self, joint: Tensor<2>, batch: usize, heads: usize) -> Tensor<2> {
        let [rows, triple] = joint.dims();
        let width = triple / 3;
        let half = width / heads / 2;
        let pairs = joint.clone().narrow(1, 0, 2 * width).reshape([batch, rows / batch, 2 * heads, 2 * half]);
        let (a, b) = (pairs.clone().narrow(3, 0, half), pairs.narrow(3, half, half));
        let (cos, sin) = (self.cos.clone(), self.sin.clone());
        let rotated = vec![a.clone() * cos.clone() - b.clone() * sin.clone(), b * cos + a * sin];
        let rotated = Tensor::cat(rotated, 3).reshape([rows, 2 * width]);
        Tensor::cat(vec![rotated, joint.narrow(1, 2 * width, width)], 1)
    }
}
