//! BERT (Devlin et al., NAACL 2019), the text encoder of ALIGN (Jia et al., ICML 2021).

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor, module};
use conifer_kernels::{Mask, self_attention};
use serde::{Deserialize, Serialize};

use super::clip_block::{self, check_ratio, hidden_width};
use super::layers::{ActivationFn, EmbeddingLayer, LayerNorm, Linear, feed_forward};
use super::{Encoder, TextInputFormat, Tokens, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`Bert`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BertConfig {
    /// Number of token ids: that of the tokenizer.
    pub vocabulary: usize,
    /// Longest sequence, in tokens, start and end included.
    pub context: usize,
    /// Width of the tokens; a multiple of `heads`.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward layers, as a multiple of `width`.
    #[serde(default = "clip_block::four")]
    pub mlp_ratio: f64,
    /// Number of segment types in the published table. A text here always has the first type.
    #[serde(default = "two")]
    pub segments: usize,
    /// Output width of an affine map of the pooled token, as in ALIGN; 0: no map.
    #[serde(default)]
    pub projection: usize,
}

impl BertConfig {
    const fn new(vocabulary: usize, context: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self { vocabulary, context, width, depth, heads, mlp_ratio: 4.0, segments: 2, projection: 0 }
    }

    fn check(&self) -> Result<()> {
        let sizes = [("vocabulary", self.vocabulary), ("context", self.context), ("segments", self.segments)];
        check_positive("textual", &sizes)?;
        check_positive("textual", &[("width", self.width), ("depth", self.depth), ("heads", self.heads)])?;
        check_positive("textual", &[("projection", self.projection.max(1))])?;
        check_ratio("textual", self.width, self.mlp_ratio)?;
        if !self.width.is_multiple_of(self.heads) {
            return Err(Error::setting("textual.width", self.width, format!("a multiple of heads = {}", self.heads)));
        }
        Ok(())
    }
}

fn two() -> usize {
    2
}

/// Layer norm epsilon of every published BERT.
pub const BERT_NORM_EPSILON: f64 = 1e-12;

/// Post-norm transformer over whole texts, pooled at the first token.
///
/// `x = LayerNorm(words[ids] + positions + segments[0])`, `depth` blocks `x = LayerNorm(x + out(attention(x)))`, `x =
/// LayerNorm(x + down(gelu(up(x))))`, then `x[0] P + b` if there is a projection. No token attends to positions after
/// the end of its text. The pooler of the published model is dropped, because ALIGN does not use it.
#[derive(Module, Debug)]
pub struct Bert {
    embeddings: BertEmbeddings,
    encoder: BertLayers,
    projection: Option<Linear>,
    #[module(skip)]
    config: BertConfig,
}

#[derive(Module, Debug)]
struct BertEmbeddings {
    word_embeddings: EmbeddingLayer,
    position_embeddings: EmbeddingLayer,
    token_type_embeddings: EmbeddingLayer,
    layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
struct BertLayers {
    layer: Vec<BertLayer>,
}

#[derive(Module, Debug)]
struct BertLayer {
    attention: BertAttention,
    intermediate: BertIntermediate,
    output: BertOutput,
}

#[derive(Module, Debug)]
struct BertAttention {
    qkv: Linear,
    output: BertOutput,
}

#[derive(Module, Debug)]
struct BertIntermediate {
    dense: Linear,
}

/// Output map into the residual stream: `LayerNorm(x + dense(hidden))`.
#[derive(Module, Debug)]
struct BertOutput {
    dense: Linear,
    layer_norm: LayerNorm,
}

impl Encoder for Bert {
    type Config = BertConfig;
    type Input = Tokens;
    type Reads = TextInputFormat;

    const PRESETS: &'static [(&'static str, BertConfig)] = &[
        ("bert_base", BertConfig::new(30_522, 512, 768, 12, 12)),
        ("bert_nano", BertConfig::new(2_048, 40, 128, 4, 4)),
    ];

    /// Weights N(0, 0.02^2), biases 0: BERT's initialisation, without its truncation.
    fn new(config: &BertConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &BertConfig { vocabulary, context, width, depth, segments, projection, .. } = config;
        let table = |init: &mut Init, rows| EmbeddingLayer { weight: init.param([rows, width], Fill::Normal(0.02)) };
        Ok(Self {
            embeddings: BertEmbeddings {
                word_embeddings: table(init, vocabulary),
                position_embeddings: table(init, context),
                token_type_embeddings: table(init, segments),
                layer_norm: LayerNorm::new(init, width),
            },
            encoder: BertLayers {
                layer: (0..depth).map(|_| BertLayer::new(init, width, hidden_width(width, config.mlp_ratio))).collect(),
            },
            projection: (projection > 0).then(|| linear(init, width, projection)),
            config: config.clone(),
        })
    }

    fn reads(config: &BertConfig) -> TextInputFormat {
        TextInputFormat { context: config.context, vocabulary: config.vocabulary }
    }

    fn width(&self) -> usize {
        if self.projection.is_some() { self.config.projection } else { self.config.width }
    }

    /// The first token after the last block, mapped by the projection if there is one, `[B, width]`.
    fn forward(&self, tokens: Tokens) -> Result<Tensor<2>> {
        let [batch, length] = tokens.check(self.config.context)?;
        let width = self.config.width;
        let hidden = tokens.after_end();
        let embeddings = &self.embeddings;
        let positions = embeddings.position_embeddings.weight.val().narrow(0, 0, length).unsqueeze::<3>();
        let segment = embeddings.token_type_embeddings.weight.val().narrow(0, 0, 1).unsqueeze::<3>();
        let x = module::embedding(embeddings.word_embeddings.weight.val(), tokens.ids) + segment + positions;
        let mut x = embeddings.layer_norm.forward_with(x.reshape([batch * length, width]), BERT_NORM_EPSILON);
        for layer in &self.encoder.layer {
            x = layer.forward(x, batch, self.config.heads, &hidden);
        }
        let first = Tensor::<1, Int>::arange(0..batch as i64, &x.device()) * length as i64;
        let first = x.select(0, first);
        Ok(match &self.projection {
            Some(projection) => projection.forward(first),
            None => first,
        })
    }
}

impl BertLayer {
    fn new(init: &mut Init, width: usize, hidden: usize) -> Self {
        let output = |init: &mut Init, from| BertOutput {
            dense: linear(init, from, width),
            layer_norm: LayerNorm::new(init, width),
        };
        Self {
            attention: BertAttention { qkv: linear(init, width, 3 * width), output: output(init, width) },
            intermediate: BertIntermediate { dense: linear(init, width, hidden) },
            output: output(init, hidden),
        }
    }

    /// `[B*L, width] -> [B*L, width]`; `hidden` `[B, L]` is true for masked keys.
    fn forward(&self, x: Tensor<2>, batch: usize, heads: usize, hidden: &Tensor<2, Bool>) -> Tensor<2> {
        let context = self_attention(self.attention.qkv.forward(x.clone()), batch, heads, Mask::Hidden(hidden.clone()));
        let BertOutput { dense, layer_norm } = &self.attention.output;
        let x = layer_norm.forward_with(dense.forward_onto(x, context), BERT_NORM_EPSILON);
        let BertOutput { dense, layer_norm } = &self.output;
        let sum = feed_forward(x.clone(), x, &self.intermediate.dense, dense, ActivationFn::Gelu);
        layer_norm.forward_with(sum, BERT_NORM_EPSILON)
    }
}

fn linear(init: &mut Init, width_in: usize, width_out: usize) -> Linear {
    Linear::new(init, width_in, width_out, Fill::Normal(0.02), Fill::Constant(0.0))
}
