//! The vision transformer of the MERU family (Dosovitskiy et al., ICLR 2021; positions of Chen et al., "MoCo v3", ICCV
//! 2021).

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use super::block::{BlockSettings, MLP_RATIO};
use super::layers::{ActivationFn, LAYER_NORM_EPSILON, LayerNorm};
use super::vit_block::{self, PatchEmbed, VitBlock};
use super::{Encoder, ImageInputFormat, check_pixels, check_positive};
use crate::params::{Fill, FixedTable, Init};
use crate::{Error, Result};

/// Architecture of a [`Vit`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VitConfig {
    /// Side of the square photographs, in pixels; a multiple of `patch`.
    pub image_size: usize,
    /// Side of a patch, in pixels.
    pub patch: usize,
    /// Width of the tokens; a multiple of 4 (positions) and of `heads`.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads.
    pub heads: usize,
}

impl VitConfig {
    const fn new(image_size: usize, patch: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self { image_size, patch, width, depth, heads }
    }

    /// Number of patches along one side.
    pub fn grid(&self) -> usize {
        self.image_size / self.patch
    }

    /// Number of patches, plus one for the class token.
    pub fn tokens(&self) -> usize {
        self.grid() * self.grid() + 1
    }

    fn check(&self) -> Result<()> {
        check_positive("visual", &[("image_size", self.image_size), ("patch", self.patch), ("width", self.width)])?;
        check_positive("visual", &[("depth", self.depth), ("heads", self.heads)])?;
        if !self.image_size.is_multiple_of(self.patch) {
            return Err(Error::invalid(
                "visual.image_size",
                self.image_size,
                format!("a multiple of patch = {}", self.patch),
            ));
        }
        if !self.width.is_multiple_of(4) || !self.width.is_multiple_of(self.heads) {
            let expected = format!("a multiple of 4 and of heads = {}", self.heads);
            return Err(Error::invalid("visual.width", self.width, expected));
        }
        Ok(())
    }
}

/// Pre-norm transformer over square patches, with fixed 2-D sin-cos positions and a class token.
///
/// `x = [class; patches P + b] + positions`, `depth` blocks (exact GELU, hidden width 4 times the token width, biases
/// everywhere), then `LayerNorm(x)[class]`. Parameters and their names are those of timm's `VisionTransformer`.
#[derive(Module, Debug)]
pub struct Vit {
    cls_token: Param<Tensor<3>>,
    pos_embed: FixedTable,
    patch_embed: PatchEmbed,
    blocks: Vec<VitBlock>,
    norm: LayerNorm,
    #[module(skip)]
    config: VitConfig,
}

impl Encoder for Vit {
    type Config = VitConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, VitConfig)] = &[
        // ViT-S has 12 heads, as in MoCo v3 (timm's plain ViT-S has 6).
        ("vit_s16", VitConfig::new(224, 16, 384, 12, 12)),
        ("vit_b16", VitConfig::new(224, 16, 768, 12, 12)),
        ("vit_l16", VitConfig::new(224, 16, 1024, 24, 16)),
        // These models are for experiments on a CPU. They have 0.8, 2.8 and 6.4 million parameters, and 65, 65 and 145
        // tokens.
        ("vit_nano", VitConfig::new(64, 8, 128, 4, 4)),
        ("vit_micro", VitConfig::new(96, 12, 192, 6, 6)),
        ("vit_tiny", VitConfig::new(96, 8, 256, 8, 8)),
    ];

    fn new(config: &VitConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &VitConfig { patch, width, depth, .. } = config;
        Ok(Self {
            cls_token: init.param([1, 1, width], Fill::Normal(1e-6)),
            pos_embed: init.fixed([1, config.tokens(), width], || sin_cos_positions(config.grid(), width)),
            patch_embed: PatchEmbed::new(init, patch, width),
            blocks: (0..depth).map(|_| VitBlock::new(init, width, MLP_RATIO * width, false)).collect(),
            norm: LayerNorm::new(init, width),
            config: config.clone(),
        })
    }

    fn reads(config: &VitConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        self.config.width
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the class token after the last norm, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        let batch = check_pixels(&pixels, self.config.image_size)?;
        let (width, tokens) = (self.config.width, self.config.tokens());
        let class = self.cls_token.val().expand([batch, 1, width]);
        let patches = self.patch_embed.forward(pixels);
        let x = Tensor::cat(vec![class, patches], 1) + self.pos_embed.value.val();
        let x = x.reshape([batch * tokens, width]);

        let settings = BlockSettings {
            heads: self.config.heads,
            causal: false,
            activation: ActivationFn::Gelu,
            epsilon: LAYER_NORM_EPSILON,
        };
        let class_rows = Tensor::<1, Int>::arange(0..batch as i64, &x.device()) * tokens as i64;
        Ok(self.norm.forward(vit_block::run_rows(&self.blocks, x, class_rows, settings)))
    }
}

/// Fixed positions `[1 + grid^2, width]`, row major: zeros for the class token, then per patch
/// `[sin(a w), cos(a w), sin(b w), cos(b w)]` with frequencies `w_i = 10000^(-i / (width/4))`.
///
/// For the patch in row r and column c, `a = r` and `b = c`. The published code lists the grid with its column index
/// running slowest and the patches with their row index running slowest, so its "horizontal" position is the row.
fn sin_cos_positions(grid: usize, width: usize) -> Vec<f32> {
    let quarter = width / 4;
    let frequencies: Vec<f64> = (0..quarter).map(|i| 10_000_f64.powf(-(i as f64) / quarter as f64)).collect();
    let mut table = vec![0.0; width];
    for row in 0..grid {
        for column in 0..grid {
            for position in [row, column] {
                let angles = frequencies.iter().map(|frequency| frequency * position as f64);
                table.extend(angles.clone().map(|angle| angle.sin() as f32));
                table.extend(angles.map(|angle| angle.cos() as f32));
            }
        }
    }
    table
}
