//! The text tower of SigLIP (Zhai et al., ICCV 2023) and SigLIP 2.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, module};
use serde::{Deserialize, Serialize};

use super::block::BlockSettings;
use super::clip_block::{self, check_ratio, hidden_width};
use super::layers::{ActivationFn, EmbeddingLayer, LayerNorm, Linear, SMALL_NORM_EPSILON};
use super::vit_block::{self, VitBlock, linear};
use super::{Encoder, TextInputFormat, Tokens, check_epsilon, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`SiglipText`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiglipTextConfig {
    /// Number of token ids of the tokenizer.
    pub vocabulary: usize,
    /// Length of every sequence, in tokens, after padding.
    pub context: usize,
    /// Id that fills a sequence after the end of its text. The encoder reads it.
    pub padding: u32,
    /// Width of the tokens; a multiple of `heads`.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward layers, as a multiple of `width`.
    #[serde(default = "clip_block::four")]
    pub mlp_ratio: f64,
    /// Non-linearity of the feed-forward layers.
    #[serde(default = "tanh_gelu")]
    pub activation: ActivationFn,
    /// Epsilon of the layer norms, added to the variance.
    #[serde(default = "small_epsilon")]
    pub epsilon: f64,
    /// Width of the features, the output of an affine map of the pooled token.
    pub projection: usize,
}

fn tanh_gelu() -> ActivationFn {
    ActivationFn::TanhGelu
}

fn small_epsilon() -> f64 {
    SMALL_NORM_EPSILON
}

impl SiglipTextConfig {
    const fn new(
        (vocabulary, padding): (usize, u32),
        context: usize,
        width: usize,
        depth: usize,
        heads: usize,
    ) -> Self {
        Self {
            vocabulary,
            context,
            padding,
            width,
            depth,
            heads,
            mlp_ratio: 4.0,
            activation: ActivationFn::TanhGelu,
            epsilon: SMALL_NORM_EPSILON,
            projection: width,
        }
    }

    fn check(&self) -> Result<()> {
        let sizes = [("vocabulary", self.vocabulary), ("context", self.context), ("projection", self.projection)];
        check_positive("textual", &sizes)?;
        check_positive("textual", &[("width", self.width), ("depth", self.depth), ("heads", self.heads)])?;
        check_ratio("textual", self.width, self.mlp_ratio)?;
        check_epsilon("textual", self.epsilon)?;
        if !self.width.is_multiple_of(self.heads) {
            return Err(Error::invalid("textual.width", self.width, format!("a multiple of heads = {}", self.heads)));
        }
        if self.padding as usize >= self.vocabulary {
            let expected = format!("an id below vocabulary = {}", self.vocabulary);
            return Err(Error::invalid("textual.padding", self.padding, expected));
        }
        Ok(())
    }
}

/// Pre-norm transformer over padded texts, pooled at the last position.
///
/// Every sequence is filled to `context` with the padding id, and every token attends to all positions, padding
/// included. Features are `LayerNorm(x)[context - 1] P + b`, from a padding token unless the text has full length. The
/// blocks have the names of timm's vision transformers.
#[derive(Module, Debug)]
pub struct SiglipText {
    token_embed: EmbeddingLayer,
    posit_embed: Param<Tensor<2>>,
    blocks: Vec<VitBlock>,
    norm: LayerNorm,
    projection: Linear,
    #[module(skip)]
    config: SiglipTextConfig,
}

/// Size of SigLIP's vocabulary, and its padding id, which also ends every text.
const SENTENCE_PIECE: (usize, u32) = (32_000, 1);

/// Size of Gemma's vocabulary, which SigLIP 2 uses, and its padding id. Id 1 ends every text.
const GEMMA: (usize, u32) = (256_000, 0);

impl Encoder for SiglipText {
    type Config = SiglipTextConfig;
    type Input = Tokens;
    type Reads = TextInputFormat;

    const PRESETS: &'static [(&'static str, SiglipTextConfig)] = &[
        ("siglip_text_b", SiglipTextConfig::new(SENTENCE_PIECE, 64, 768, 12, 12)),
        ("siglip_text_l", SiglipTextConfig::new(SENTENCE_PIECE, 64, 1024, 24, 16)),
        ("siglip2_text_b", SiglipTextConfig::new(GEMMA, 64, 768, 12, 12)),
        ("siglip_text_nano", SiglipTextConfig::new((2_048, 1), 40, 128, 4, 4)),
    ];

    /// Tables and linear weights N(0, 0.02^2), biases 0.
    fn new(config: &SiglipTextConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &SiglipTextConfig { vocabulary, context, width, depth, projection, .. } = config;
        let hidden = hidden_width(width, config.mlp_ratio);
        Ok(Self {
            token_embed: EmbeddingLayer { weight: init.param([vocabulary, width], Fill::Normal(0.02)) },
            posit_embed: init.param([context, width], Fill::Normal(0.02)),
            blocks: (0..depth).map(|_| VitBlock::new(init, width, hidden, false)).collect(),
            norm: LayerNorm::new(init, width),
            projection: linear(init, width, projection),
            config: config.clone(),
        })
    }

    fn reads(config: &SiglipTextConfig) -> TextInputFormat {
        TextInputFormat { context: config.context, vocabulary: config.vocabulary }
    }

    #[allow(clippy::misnamed_getters, reason = "the width of the features is that of the projection")]
    fn width(&self) -> usize {
        self.config.projection
    }

    /// The last position after the final norm, mapped by the projection, `[B, projection]`.
    fn forward(&self, tokens: Tokens) -> Result<Tensor<2>> {
        let [batch, _] = tokens.check(self.config.context)?;
        let &SiglipTextConfig { context, width, heads, activation, epsilon, .. } = &self.config;
        let x = module::embedding(self.token_embed.weight.val(), self.padded(tokens));
        let x = (x + self.posit_embed.val().unsqueeze::<3>()).reshape([batch * context, width]);
        let settings = BlockSettings { heads, causal: false, activation, epsilon };
        let starts = Tensor::<1, Int>::arange(0..batch as i64, &x.device()) * context as i64;
        let last = vit_block::run_rows(&self.blocks, x, starts + (context as i64 - 1), settings);
        Ok(self.projection.forward(self.norm.forward_with(last, epsilon)))
    }
}

impl SiglipText {
    /// The ids `[B, context]`, with the padding id after the end of every text.
    fn padded(&self, tokens: Tokens) -> Tensor<2, Int> {
        let padding = i64::from(self.config.padding);
        let ids = tokens.ids.clone().mask_fill(tokens.after_end(), padding);
        let [batch, length] = ids.dims();
        match self.config.context - length {
            0 => ids,
            missing => {
                let rest = ids.clone().narrow(1, 0, 1).expand([batch, missing]).zeros_like() + padding;
                Tensor::cat(vec![ids, rest], 1)
            }
        }
    }
}
