//! BERT (Devlin et al., NAACL 2019): the text encoder of ALIGN (Jia et al., ICML 2021) and of most sentence encoders
//! (Reimers and Gurevych, EMNLP 2019), such as all-MiniLM-L6-v2.

mod packed;

use burn::module::Module;
use burn::tensor::{Bool, Tensor, module};
use conifer_kernels::{Mask, PackedCache, PostNormEncoder, self_attention};
use serde::{Deserialize, Serialize};

use super::clip_block::{self, check_ratio, hidden_width};
use super::layers::{ActivationFn, EmbeddingLayer, LAYER_NORM_EPSILON, LayerNorm, Linear, feed_forward};
use super::pooling::{SentenceOutput, TokenPooling};
use super::relative::{self, PUBLISHED_DISTANCE, RelativeBuckets, biased_attention};
use super::{Encoder, TextInputFormat, Tokens, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`Bert`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BertConfig {
    /// Number of token ids of the tokenizer.
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
    /// Number of segment types in the published table; 0: no table (MPNet). A text here always has the first type.
    #[serde(default = "two")]
    pub segments: usize,
    /// Pooling of the tokens of a text to one row.
    #[serde(default, skip_serializing_if = "TokenPooling::is_first")]
    pub pooling: TokenPooling,
    /// Output width of an affine map of the pooled row, as in ALIGN; 0: no map.
    #[serde(default)]
    pub projection: usize,
    /// Apply tanh after the affine map, as in a `Dense` module of sentence-transformers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub projection_tanh: bool,
    /// Divide the result by its Euclidean norm, as in a `Normalize` module of sentence-transformers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub normalize: bool,
    /// Epsilon of layer norms, added to the variance.
    #[serde(default = "bert_epsilon", skip_serializing_if = "is_bert_epsilon")]
    pub epsilon: f64,
    /// Row of the position table for the first token: 0 for BERT, 2 for RoBERTa and MPNet. The table has
    /// `first_position + context` rows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_position: usize,
    /// Buckets of relative positions, whose biases all blocks share and add to the scores (32 for MPNet); 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub relative_buckets: usize,
}

fn bert_epsilon() -> f64 {
    BERT_NORM_EPSILON
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_bert_epsilon(epsilon: &f64) -> bool {
    *epsilon == BERT_NORM_EPSILON
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

impl BertConfig {
    const fn new(vocabulary: usize, context: usize, width: usize, depth: usize, heads: usize) -> Self {
        Self {
            vocabulary,
            context,
            width,
            depth,
            heads,
            mlp_ratio: 4.0,
            segments: 2,
            pooling: TokenPooling::First,
            projection: 0,
            projection_tanh: false,
            normalize: false,
            epsilon: BERT_NORM_EPSILON,
            first_position: 0,
            relative_buckets: 0,
        }
    }

    /// MPNet (Song et al., NeurIPS 2020) as the sentence encoder all-mpnet-base-v2.
    const fn mpnet() -> Self {
        let mut it = Self::sentence(30_527, 512, 768, 12, 12);
        it.segments = 0;
        it.epsilon = LAYER_NORM_EPSILON;
        it.first_position = 2;
        it.relative_buckets = MPNET_BUCKETS;
        it
    }

    /// A sentence encoder: the mean of all tokens, normalised.
    const fn sentence(vocabulary: usize, context: usize, width: usize, depth: usize, heads: usize) -> Self {
        let mut it = Self::new(vocabulary, context, width, depth, heads);
        it.pooling = TokenPooling::Mean;
        it.normalize = true;
        it
    }

    fn check(&self) -> Result<()> {
        let sizes = [("vocabulary", self.vocabulary), ("context", self.context)];
        check_positive("textual", &sizes)?;
        check_positive("textual", &[("segments", self.segments.max(1))])?;
        check_positive("textual", &[("width", self.width), ("depth", self.depth), ("heads", self.heads)])?;
        check_positive("textual", &[("projection", self.projection.max(1))])?;
        check_ratio("textual", self.width, self.mlp_ratio)?;
        check_positive("textual", &[("first_position", self.first_position.max(1))])?;
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(Error::invalid("textual.epsilon", self.epsilon, "above 0, below 1"));
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(Error::invalid("textual.width", self.width, format!("a multiple of heads = {}", self.heads)));
        }
        self.relative().map_or(Ok(()), |buckets| buckets.check("relative_buckets"))
    }

    fn relative(&self) -> Option<RelativeBuckets> {
        let buckets = |count| RelativeBuckets { count, max_distance: PUBLISHED_DISTANCE, bidirectional: true };
        (self.relative_buckets > 0).then(|| buckets(self.relative_buckets))
    }
}

fn two() -> usize {
    2
}

/// Buckets of relative positions in MPNet. Its code ignores any other number in its config.
pub const MPNET_BUCKETS: usize = 32;

/// Layer norm epsilon of every published BERT (RoBERTa and MPNet: 1e-5).
pub const BERT_NORM_EPSILON: f64 = 1e-12;

/// Post-norm transformer over whole texts, pooled by [`BertConfig::pooling`].
///
/// `x = LayerNorm(words[ids] + positions + segments[0])`, `depth` blocks `x = LayerNorm(x + out(attention(x)))`, `x =
/// LayerNorm(x + down(gelu(up(x))))`, pooling, then `x P + b` if there is a projection. No token attends to positions
/// after the end of its text. Except for MPNet, inference on the CPU computes no padding ([`PostNormEncoder`]). The
/// pooler of the published model is dropped, because neither ALIGN nor sentence-transformers uses it.
#[derive(Module, Debug)]
pub struct Bert {
    embeddings: BertEmbeddings,
    encoder: BertLayers,
    projection: Option<Linear>,
    #[module(skip)]
    config: BertConfig,
    /// Packed weights for inference on the CPU, built at the first use.
    #[module(skip)]
    packed: PackedCache<PostNormEncoder>,
}

#[derive(Module, Debug)]
struct BertEmbeddings {
    word_embeddings: EmbeddingLayer,
    position_embeddings: EmbeddingLayer,
    token_type_embeddings: Option<EmbeddingLayer>,
    layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
struct BertLayers {
    relative_attention_bias: Option<EmbeddingLayer>,
    layer: Vec<BertLayer>,
}

#[derive(Module, Debug)]
struct BertLayer {
    attention: BertAttention,
    intermediate: BertIntermediate,
    output: BertOutput,
}

/// Term that is added to the attention scores (queries times keys).
enum BertScores {
    /// Negative infinity for the keys where the mask `[B, L]` is true.
    Masked(Tensor<2, Bool>),
    /// Biases of relative positions with negative infinity for masked keys, `[B, heads, L, L]`.
    Biased(Tensor<4>),
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

impl Bert {
    /// The architecture of this encoder.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The same encoder for texts of at most `context` tokens. Position rows after this limit are dropped.
    #[must_use]
    pub(crate) fn with_context(mut self, context: usize) -> Self {
        let table = &mut self.embeddings.position_embeddings.weight;
        let rows = context + self.config.first_position;
        *table = table.clone().map(|table| table.narrow(0, 0, rows));
        self.config.context = context;
        self
    }
}

impl Encoder for Bert {
    type Config = BertConfig;
    type Input = Tokens;
    type Reads = TextInputFormat;

    const PRESETS: &'static [(&'static str, BertConfig)] = &[
        ("bert_base", BertConfig::new(30_522, 512, 768, 12, 12)),
        ("minilm_l6", BertConfig::sentence(30_522, 512, 384, 6, 12)),
        ("mpnet_base", BertConfig::mpnet()),
        ("bert_nano", BertConfig::new(2_048, 40, 128, 4, 4)),
    ];
    const BLOCKS: &'static [&'static str] = &["encoder.layer.#"];

    /// Weights N(0, 0.02^2), biases 0: BERT's initialisation, without its truncation.
    fn new(config: &BertConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &BertConfig { vocabulary, context, width, depth, segments, projection, .. } = config;
        let sized =
            |init: &mut Init, shape: [usize; 2]| EmbeddingLayer { weight: init.param(shape, Fill::Normal(0.02)) };
        let table = |init: &mut Init, rows| sized(init, [rows, width]);
        Ok(Self {
            embeddings: BertEmbeddings {
                word_embeddings: table(init, vocabulary),
                position_embeddings: table(init, context + config.first_position),
                token_type_embeddings: (segments > 0).then(|| table(init, segments)),
                layer_norm: LayerNorm::new(init, width),
            },
            encoder: BertLayers {
                relative_attention_bias: (config.relative_buckets > 0)
                    .then(|| sized(init, [config.relative_buckets, config.heads])),
                layer: (0..depth).map(|_| BertLayer::new(init, width, hidden_width(width, config.mlp_ratio))).collect(),
            },
            projection: (projection > 0).then(|| linear(init, width, projection)),
            config: config.clone(),
            packed: PackedCache::default(),
        })
    }

    fn reads(config: &BertConfig) -> TextInputFormat {
        TextInputFormat { context: config.context, vocabulary: config.vocabulary }
    }

    fn width(&self) -> usize {
        if self.projection.is_some() { self.config.projection } else { self.config.width }
    }

    /// The pooled tokens of the last block, mapped by the projection if there is one, `[B, width]`.
    fn forward(&self, tokens: Tokens) -> Result<Tensor<2>> {
        let shape = tokens.check(self.config.context)?;
        let pooled = match self.pooled_without_padding(&tokens) {
            Some(pooled) => pooled,
            None => self.pooled(tokens, shape),
        };
        Ok(self.output().map(pooled))
    }
}

impl Bert {
    fn output(&self) -> SentenceOutput<'_> {
        SentenceOutput {
            pooling: self.config.pooling,
            projection: self.projection.as_ref(),
            tanh: self.config.projection_tanh,
            normalize: self.config.normalize,
        }
    }

    /// The pooled tokens of the last block, `[B, width]`, computed by the tensor engine with the padding of the batch.
    fn pooled(&self, tokens: Tokens, [batch, length]: [usize; 2]) -> Tensor<2> {
        let width = self.config.width;
        let hidden = tokens.after_end();
        let embeddings = &self.embeddings;
        let positions = embeddings.position_embeddings.weight.val();
        let positions = positions.narrow(0, self.config.first_position, length).unsqueeze::<3>();
        let mut x = module::embedding(embeddings.word_embeddings.weight.val(), tokens.ids);
        if let Some(segments) = &embeddings.token_type_embeddings {
            x = x + segments.weight.val().narrow(0, 0, 1).unsqueeze::<3>();
        }
        let x = x + positions;
        let mut x = embeddings.layer_norm.forward_with(x.reshape([batch * length, width]), self.config.epsilon);
        let keys = match (self.config.relative(), &self.encoder.relative_attention_bias) {
            (Some(buckets), Some(table)) => {
                let bias = buckets.bias(table.weight.val(), length);
                BertScores::Biased(relative::masked(bias, &hidden))
            }
            _ => BertScores::Masked(hidden.clone()),
        };
        for layer in &self.encoder.layer {
            x = layer.forward(x, batch, self.config.heads, self.config.epsilon, &keys);
        }
        self.output().pool(x, &hidden)
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

    /// `[B*L, width] -> [B*L, width]`.
    fn forward(&self, x: Tensor<2>, batch: usize, heads: usize, epsilon: f64, scores: &BertScores) -> Tensor<2> {
        let joint = self.attention.qkv.forward(x.clone());
        let context = match scores {
            BertScores::Masked(hidden) => self_attention(joint, batch, heads, Mask::Hidden(hidden.clone())),
            BertScores::Biased(bias) => {
                let width = x.dims()[1];
                let [query, key, value] = [0, 1, 2].map(|part| joint.clone().narrow(1, part * width, width));
                biased_attention(query, key, value, bias.clone(), ((width / heads) as f64).powf(-0.5))
            }
        };
        let BertOutput { dense, layer_norm } = &self.attention.output;
        let x = layer_norm.forward_with(dense.forward_onto(x, context), epsilon);
        let BertOutput { dense, layer_norm } = &self.output;
        let sum = feed_forward(x.clone(), x, &self.intermediate.dense, dense, ActivationFn::Gelu);
        layer_norm.forward_with(sum, epsilon)
    }
}

fn linear(init: &mut Init, width_in: usize, width_out: usize) -> Linear {
    Linear::new(init, width_in, width_out, Fill::Normal(0.02), Fill::Constant(0.0))
}
