//! The vision transformer of CLIP (Radford et al., ICML 2021, Sec. 2.4).

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use super::block::BlockSettings;
use super::clip_block::{self, BlockFills, ClipBlock, check_ratio, hidden_width};
use super::layers::{ActivationFn, LAYER_NORM_EPSILON, LayerNorm, embed_patches};
use super::{Encoder, ImageInputFormat, check_pixels, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`ClipVit`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipVitConfig {
    /// Side of the square photographs, in pixels; a multiple of `patch`.
    pub image_size: usize,
    /// Side of a patch, in pixels.
    pub patch: usize,
    /// Width of the tokens; a multiple of `heads`.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads (published models: width / 64).
    pub heads: usize,
    /// Width of the feed-forward layers, as a multiple of `width`.
    #[serde(default = "clip_block::four")]
    pub mlp_ratio: f64,
    /// Non-linearity of the feed-forward layers.
    #[serde(default)]
    pub activation: ActivationFn,
}

impl ClipVitConfig {
    const fn openai(image_size: usize, patch: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self { image_size, patch, width, depth, heads, mlp_ratio: 4.0, activation: ActivationFn::QuickGelu }
    }

    /// Number of patches along one side.
    pub fn grid(&self) -> usize {
        self.image_size / self.patch
    }

    /// Number of patches, plus one for the class token.
    pub fn tokens(&self) -> usize {
        self.grid() * self.grid() + 1
    }

    /// Width of the hidden layer of every feed-forward part.
    pub fn hidden(&self) -> usize {
        hidden_width(self.width, self.mlp_ratio)
    }

    fn check(&self) -> Result<()> {
        check_positive("visual", &[("image_size", self.image_size), ("patch", self.patch), ("width", self.width)])?;
        check_positive("visual", &[("depth", self.depth), ("heads", self.heads)])?;
        check_ratio("visual", self.width, self.mlp_ratio)?;
        if self.image_size < self.patch || !self.image_size.is_multiple_of(self.patch) {
            let expected = format!("a multiple of patch = {}", self.patch);
            return Err(Error::invalid("visual.image_size", self.image_size, expected));
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(Error::invalid("visual.width", self.width, format!("a multiple of heads = {}", self.heads)));
        }
        Ok(())
    }
}

/// Pre-norm transformer over square patches, with learned positions, a class token and a norm before the first block.
///
/// `x = LayerNorm([class; patches P] + positions)`, `depth` blocks, then `LayerNorm(x)[class]`. The projection of the
/// patches has no bias. Parameters and their names are those of OpenAI's and open_clip's `VisionTransformer`, except
/// for its `proj`, which is the model's projection here.
#[derive(Module, Debug)]
pub struct ClipVit {
    class_embedding: Param<Tensor<1>>,
    positional_embedding: Param<Tensor<2>>,
    conv1: ClipPatchEmbed,
    ln_pre: LayerNorm,
    transformer: ClipVitBlocks,
    ln_post: LayerNorm,
    #[module(skip)]
    config: ClipVitConfig,
}

/// Stored in the published layout of a convolution, `[width, 3, patch, patch]`; computed as one matrix product.
#[derive(Module, Debug)]
struct ClipPatchEmbed {
    weight: Param<Tensor<4>>,
}

#[derive(Module, Debug)]
struct ClipVitBlocks {
    resblocks: Vec<ClipBlock>,
}

impl Encoder for ClipVit {
    type Config = ClipVitConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, ClipVitConfig)] = &[
        // These are OpenAI's four models. LAION's models use `activation = "gelu"`.
        ("clip_vit_b32", ClipVitConfig::openai(224, 32, 768, 12, 12)),
        ("clip_vit_b16", ClipVitConfig::openai(224, 16, 768, 12, 12)),
        ("clip_vit_l14", ClipVitConfig::openai(224, 14, 1024, 24, 16)),
        ("clip_vit_l14_336", ClipVitConfig::openai(336, 14, 1024, 24, 16)),
        // This model has the size of `vit_nano`.
        ("clip_vit_nano", ClipVitConfig::openai(64, 8, 128, 4, 4)),
    ];
    const BLOCKS: &'static [&'static str] = &["transformer.resblocks.#"];

    /// Class token and positions N(0, 1/width). The rest follows PyTorch's defaults: patches uniform in
    /// +-1/sqrt(inputs), query, key and value Xavier-uniform over the joint matrix, other maps uniform in
    /// +-1/sqrt(inputs), attention biases 0.
    fn new(config: &ClipVitConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &ClipVitConfig { patch, width, depth, .. } = config;
        let hidden = config.hidden();
        let scale = Fill::Normal((width as f64).powf(-0.5));
        let uniform = |inputs: usize| Fill::Uniform((inputs as f64).powf(-0.5));
        let fills = BlockFills {
            in_proj: Fill::Uniform((6.0 / (4 * width) as f64).sqrt()),
            out_proj: uniform(width),
            c_fc: [uniform(width); 2],
            c_proj: [uniform(hidden); 2],
        };
        Ok(Self {
            class_embedding: init.param([width], scale),
            positional_embedding: init.param([config.tokens(), width], scale),
            conv1: ClipPatchEmbed { weight: init.param([width, 3, patch, patch], uniform(3 * patch * patch)) },
            ln_pre: LayerNorm::new(init, width),
            transformer: ClipVitBlocks {
                resblocks: (0..depth).map(|_| ClipBlock::new(init, width, hidden, fills)).collect(),
            },
            ln_post: LayerNorm::new(init, width),
            config: config.clone(),
        })
    }

    fn reads(config: &ClipVitConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        self.config.width
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the class token after the last norm, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        let batch = check_pixels(&pixels, self.config.image_size)?;
        let (width, tokens) = (self.config.width, self.config.tokens());
        let class = self.class_embedding.val().reshape([1, 1, width]).expand([batch, 1, width]);
        let patches = embed_patches(pixels, self.conv1.weight.val(), None);
        let x = Tensor::cat(vec![class, patches], 1) + self.positional_embedding.val().unsqueeze::<3>();
        let x = self.ln_pre.forward(x.reshape([batch * tokens, width]));

        let settings = BlockSettings {
            heads: self.config.heads,
            causal: false,
            activation: self.config.activation,
            epsilon: LAYER_NORM_EPSILON,
        };
        let class_rows = Tensor::<1, Int>::arange(0..batch as i64, &x.device()) * tokens as i64;
        Ok(self.ln_post.forward(clip_block::run(&self.transformer.resblocks, x, &class_rows, None, settings)))
    }
}
