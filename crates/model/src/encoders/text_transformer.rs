//! The text transformer of CLIP (Radford et al., ICML 2021, Sec. 2.4), as the MERU family trains it.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, module};
use serde::{Deserialize, Serialize};

use super::block::BlockSettings;
use super::clip_block::{self, BlockFills, ClipBlock, check_ratio, hidden_width};
use super::layers::{ActivationFn, EmbeddingLayer, LAYER_NORM_EPSILON, LayerNorm};
use super::{Encoder, TextInputFormat, Tokens, check_positive};
use crate::params::{Fill, Init};
use crate::weight_array::WeightArray;
use crate::{Error, Result};

/// Architecture of a [`TextTransformer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextTransformerConfig {
    /// Number of token ids of the tokenizer.
    pub vocabulary: usize,
    /// Longest sequence, in tokens, start and end included.
    pub context: usize,
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

impl TextTransformerConfig {
    const fn new(vocabulary: usize, context: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self { vocabulary, context, width, depth, heads, mlp_ratio: 4.0, activation: ActivationFn::Gelu }
    }

    /// Width of the hidden layer of every feed-forward part.
    pub fn hidden(&self) -> usize {
        hidden_width(self.width, self.mlp_ratio)
    }

    fn check(&self) -> Result<()> {
        check_positive(
            "textual",
            &[("vocabulary", self.vocabulary), ("context", self.context), ("width", self.width)],
        )?;
        check_positive("textual", &[("depth", self.depth), ("heads", self.heads)])?;
        check_ratio("textual", self.width, self.mlp_ratio)?;
        if !self.width.is_multiple_of(self.heads) {
            return Err(Error::invalid("textual.width", self.width, format!("a multiple of heads = {}", self.heads)));
        }
        Ok(())
    }
}

/// Causal pre-norm transformer, pooled at the end of the text.
///
/// `x = table[ids] + positions`, `depth` blocks, then `LayerNorm(x)[end]`. Parameters and their names are those of the
/// MERU family.
#[derive(Module, Debug)]
pub struct TextTransformer {
    token_embed: EmbeddingLayer,
    posit_embed: Param<Tensor<2>>,
    resblocks: Vec<ClipBlock>,
    ln_final: LayerNorm,
    #[module(skip)]
    config: TextTransformerConfig,
}

impl Encoder for TextTransformer {
    type Config = TextTransformerConfig;
    type Input = Tokens;
    type Reads = TextInputFormat;

    const PRESETS: &'static [(&'static str, TextTransformerConfig)] = &[
        // This is the text tower of the published models ("L12_W512"), with CLIP's vocabulary.
        ("text_l12_w512", TextTransformerConfig::new(49_408, 77, 512, 12, 8)),
        // Text towers of the same size classes as `vit_nano`, `vit_micro` and `vit_tiny`. The tokenizer of a run
        // replaces the vocabulary size.
        ("text_nano", TextTransformerConfig::new(2_048, 40, 128, 4, 4)),
        ("text_micro", TextTransformerConfig::new(4_096, 48, 192, 6, 6)),
        ("text_tiny", TextTransformerConfig::new(8_192, 64, 256, 8, 8)),
    ];
    const BLOCKS: &'static [&'static str] = &["resblocks.#"];

    fn new(config: &TextTransformerConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &TextTransformerConfig { vocabulary, context, width, depth, .. } = config;
        let (hidden, fills) = (config.hidden(), initial_values(config));
        Ok(Self {
            token_embed: EmbeddingLayer { weight: init.param([vocabulary, width], Fill::Normal(0.02)) },
            posit_embed: init.param([context, width], Fill::Normal(0.01)),
            resblocks: (0..depth).map(|_| ClipBlock::new(init, width, hidden, fills)).collect(),
            ln_final: LayerNorm::new(init, width),
            config: config.clone(),
        })
    }

    fn reads(config: &TextTransformerConfig) -> TextInputFormat {
        TextInputFormat { context: config.context, vocabulary: config.vocabulary }
    }

    fn width(&self) -> usize {
        self.config.width
    }

    /// The output at the end token of each text, after the final norm, `[B, width]`. Trim the batch to its longest
    /// sequence first: columns after the last end cost time and have no effect.
    fn forward(&self, tokens: Tokens) -> Result<Tensor<2>> {
        let [batch, length] = tokens.check(self.config.context)?;
        let width = self.config.width;
        let positions = self.posit_embed.val().narrow(0, 0, length).unsqueeze::<3>();
        let after_end = tokens.after_end();
        let x = module::embedding(self.token_embed.weight.val(), tokens.ids) + positions;
        let x = x.reshape([batch * length, width]);

        let settings = BlockSettings {
            heads: self.config.heads,
            causal: true,
            activation: self.config.activation,
            epsilon: LAYER_NORM_EPSILON,
        };
        let device = x.device();
        let end_rows = Tensor::<1, Int>::arange(0..batch as i64, &device) * length as i64 + tokens.end;
        let x = clip_block::run(&self.resblocks, x, &end_rows, Some(&after_end), settings);
        Ok(self.ln_final.forward(x))
    }

    /// The causal mask, `[context, context]`: true where the key (column) comes after the query (row).
    fn buffers(&self) -> Vec<(&'static str, WeightArray)> {
        let context = self.config.context;
        let mask = (0..context * context).map(|i| i % context > i / context).collect();
        vec![("attn_mask", WeightArray::bool([context, context], mask))]
    }
}

/// The initialisation of CLIP and MERU. Weights are normal with standard deviations width^-0.5 (query, key, value),
/// (2 width depth)^-0.5 (both maps back into the residual stream) and (2 width)^-0.5 (first feed-forward map).
/// Attention biases are 0, feed-forward biases uniform in +-1/sqrt(inputs).
fn initial_values(config: &TextTransformerConfig) -> BlockFills {
    let normal = |variance: usize| Fill::Normal((variance as f64).powf(-0.5));
    let uniform = |inputs: usize| Fill::Uniform((inputs as f64).powf(-0.5));
    let &TextTransformerConfig { width, depth, .. } = config;
    let residual = normal(2 * width * depth);
    BlockFills {
        in_proj: normal(width),
        out_proj: residual,
        c_fc: [normal(2 * width), uniform(width)],
        c_proj: [residual, uniform(config.hidden())],
    }
}
