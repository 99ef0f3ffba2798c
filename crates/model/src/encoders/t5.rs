//! The encoder of T5 (Raffel et al., JMLR 2020), and so of Flan-T5, Sentence-T5 (Ni et al., Findings of ACL 2022) and
//! GTR (Ni et al., EMNLP 2022).

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor, activation, module};
use conifer_kernels::tanh_gelu;
use serde::{Deserialize, Serialize};

use super::layers::{BiasFreeLinear, EmbeddingLayer, Linear, RmsNorm, SMALL_NORM_EPSILON};
use super::pooling::{SentenceOutput, TokenPooling};
use super::relative::{self, PUBLISHED_DISTANCE, RelativeBuckets, biased_attention};
use super::vit_block::linear;
use super::{Encoder, TextInputFormat, Tokens, check_epsilon, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`T5Encoder`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct T5Config {
    /// Number of rows of the word embedding matrix: at least the number of token ids.
    pub vocabulary: usize,
    /// Longest sequence, in tokens, end included. T5 has no learned position embeddings, so the weights set no limit.
    pub context: usize,
    /// Width of the tokens.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of one attention head. `heads * head_width` may differ from `width`.
    pub head_width: usize,
    /// Width of the feed-forward layers.
    pub hidden: usize,
    /// Activation of the feed-forward layers, with or without a gate.
    pub feed_forward: T5Activation,
    /// Number of buckets of relative positions.
    #[serde(default = "published_buckets")]
    pub buckets: usize,
    /// Tokens at this distance or farther share a bucket.
    #[serde(default = "published_distance")]
    pub max_distance: usize,
    /// Epsilon of the RMS norms, added to the mean square.
    #[serde(default = "small_epsilon")]
    pub epsilon: f64,
    /// Pooling of the tokens of a text to one row.
    pub pooling: TokenPooling,
    /// Output width of an affine map of the pooled row; 0: no map.
    #[serde(default)]
    pub projection: usize,
    /// Apply tanh after the affine map.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub projection_tanh: bool,
    /// Divide the result by its Euclidean norm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub normalize: bool,
}

/// Activation of the feed-forward layers of T5, with or without a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum T5Activation {
    /// `wo(relu(wi(x)))`: the first version of T5.
    Relu,
    /// `wo(tanh_gelu(wi(x)) * gate(x))`: T5 1.1 and Flan-T5 (Shazeer 2020, arXiv 2002.05202).
    GatedGelu,
}

/// Buckets of every published T5.
pub(crate) const PUBLISHED_BUCKETS: usize = 32;

/// Rows of the published word embedding matrices. The tokenizer has 28 ids fewer.
const VOCABULARY: usize = 32_128;

/// Sequence length in tokens with which T5 was trained.
pub const PUBLISHED_CONTEXT: usize = 512;

fn published_buckets() -> usize {
    PUBLISHED_BUCKETS
}

fn published_distance() -> usize {
    PUBLISHED_DISTANCE
}

fn small_epsilon() -> f64 {
    SMALL_NORM_EPSILON
}

impl T5Config {
    /// A config of these sizes, `[width, hidden, depth, heads]`, with mean pooling.
    const fn new(
        (vocabulary, context): (usize, usize),
        [width, hidden, depth, heads]: [usize; 4],
        feed_forward: T5Activation,
    ) -> Self {
        Self {
            vocabulary,
            context,
            width,
            depth,
            heads,
            head_width: 64,
            hidden,
            feed_forward,
            buckets: PUBLISHED_BUCKETS,
            max_distance: PUBLISHED_DISTANCE,
            epsilon: SMALL_NORM_EPSILON,
            pooling: TokenPooling::Mean,
            projection: 0,
            projection_tanh: false,
            normalize: false,
        }
    }

    /// A Sentence-T5 or GTR: the mean of all tokens, mapped to 768 numbers and normalised.
    const fn sentence(context: usize, sizes: [usize; 4]) -> Self {
        let mut it = Self::new((VOCABULARY, context), sizes, T5Activation::Relu);
        it.projection = 768;
        it.normalize = true;
        it
    }

    fn relative(&self) -> RelativeBuckets {
        RelativeBuckets { count: self.buckets, max_distance: self.max_distance, bidirectional: true }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let sizes = [("vocabulary", self.vocabulary), ("context", self.context), ("hidden", self.hidden)];
        check_positive("textual", &sizes)?;
        check_positive("textual", &[("width", self.width), ("depth", self.depth), ("heads", self.heads)])?;
        check_positive("textual", &[("head_width", self.head_width), ("projection", self.projection.max(1))])?;
        if self.projection_tanh && self.projection == 0 {
            let expected = "false, because `textual.projection` is 0";
            return Err(Error::invalid("textual.projection_tanh", true, expected));
        }
        check_epsilon("textual", self.epsilon)?;
        self.relative().check("buckets")
    }
}

/// Pre-norm transformer over whole texts, without biases in the linear maps of its blocks, pooled by
/// [`T5Config::pooling`].
///
/// `x = words[ids]`, `depth` blocks `x = x + o(attention(rms_norm(x)))`, `x = x + feed_forward(rms_norm(x))`, a last
/// RMS norm, pooling, then `x P + b` if there is a projection. Scores are `q k + bias[bucket]` without the usual
/// factor 1 / sqrt(head_width); all blocks share one table of biases. No token attends to positions after the end of
/// its text.
#[derive(Module, Debug)]
pub struct T5Encoder {
    shared: EmbeddingLayer,
    encoder: T5Stack,
    projection: Option<Linear>,
    #[module(skip)]
    config: T5Config,
}

/// The blocks of the encoder with their table of biases.
#[derive(Module, Debug)]
pub(crate) struct T5Stack {
    relative_attention_bias: EmbeddingLayer,
    block: Vec<T5Block>,
    final_layer_norm: RmsNorm,
}

#[derive(Module, Debug)]
struct T5Block {
    attention_norm: RmsNorm,
    attention: T5Attention,
    mlp_norm: RmsNorm,
    mlp: T5FeedForward,
}

/// T5 attention: linear projections without bias terms, and scores that are not divided by sqrt(d).
#[derive(Module, Debug)]
pub(crate) struct T5Attention {
    pub(crate) q: BiasFreeLinear,
    pub(crate) k: BiasFreeLinear,
    pub(crate) v: BiasFreeLinear,
    pub(crate) o: BiasFreeLinear,
}

/// Feed-forward layers of T5, without biases.
#[derive(Module, Debug)]
pub(crate) struct T5FeedForward {
    wi: BiasFreeLinear,
    gate: Option<BiasFreeLinear>,
    wo: BiasFreeLinear,
}

impl T5Encoder {
    /// The architecture of this encoder.
    pub fn config(&self) -> &T5Config {
        &self.config
    }
}

impl Encoder for T5Encoder {
    type Config = T5Config;
    type Input = Tokens;
    type Reads = TextInputFormat;

    const BLOCKS: &'static [&'static str] = &["encoder.block.#"];

    const PRESETS: &'static [(&'static str, T5Config)] = &[
        ("t5_small", T5Config::new((VOCABULARY, PUBLISHED_CONTEXT), [512, 2048, 6, 8], T5Activation::Relu)),
        ("flan_t5_small", T5Config::new((VOCABULARY, PUBLISHED_CONTEXT), [512, 1024, 8, 6], T5Activation::GatedGelu)),
        ("flan_t5_base", T5Config::new((VOCABULARY, PUBLISHED_CONTEXT), [768, 2048, 12, 12], T5Activation::GatedGelu)),
        ("sentence_t5_base", T5Config::sentence(256, [768, 3072, 12, 12])),
        ("gtr_t5_base", T5Config::sentence(PUBLISHED_CONTEXT, [768, 3072, 12, 12])),
        ("t5_nano", T5Config::new((2_048, 40), [96, 192, 4, 2], T5Activation::GatedGelu)),
    ];

    /// The initialisation of the published code: words N(0, 1), queries N(0, 1 / (width head_width)), other maps of the
    /// blocks N(0, 1 / inputs), biases of positions N(0, 1 / width). The projection starts with weights N(0, 0.02^2)
    /// and bias 0.
    fn new(config: &T5Config, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &T5Config { vocabulary, width, projection, .. } = config;
        Ok(Self {
            shared: EmbeddingLayer { weight: init.param([vocabulary, width], Fill::Normal(1.0)) },
            encoder: T5Stack::new(init, config),
            projection: (projection > 0).then(|| linear(init, width, projection)),
            config: config.clone(),
        })
    }

    fn reads(config: &T5Config) -> TextInputFormat {
        TextInputFormat { context: config.context, vocabulary: config.vocabulary }
    }

    fn width(&self) -> usize {
        if self.projection.is_some() { self.config.projection } else { self.config.width }
    }

    /// The pooled tokens after the last norm, mapped by the projection if there is one, `[B, width]`.
    fn forward(&self, tokens: Tokens) -> Result<Tensor<2>> {
        tokens.check(self.config.context)?;
        let hidden = tokens.after_end();
        let x = self.encoder.forward(self.shared.weight.val(), tokens.ids, &hidden, &self.config);
        let output = SentenceOutput {
            pooling: self.config.pooling,
            projection: self.projection.as_ref(),
            tanh: self.config.projection_tanh,
            normalize: self.config.normalize,
        };
        Ok(output.forward(x, &hidden))
    }
}

impl T5Stack {
    pub(crate) fn new(init: &mut Init, config: &T5Config) -> Self {
        Self {
            relative_attention_bias: bias_table(init, config),
            block: (0..config.depth).map(|_| T5Block::new(init, config)).collect(),
            final_layer_norm: RmsNorm::new(init, config.width),
        }
    }

    /// The tokens after the last norm, `[B*L, width]`, from the table of words, the ids `[B, L]` and the positions that
    /// no token attends to, `[B, L]`.
    pub(crate) fn forward(
        &self,
        words: Tensor<2>,
        ids: Tensor<2, Int>,
        hidden: &Tensor<2, Bool>,
        config: &T5Config,
    ) -> Tensor<2> {
        let [batch, length] = ids.dims();
        let bias = config.relative().bias(self.relative_attention_bias.weight.val(), length);
        let bias = relative::masked(bias, hidden);
        let x = module::embedding(words, ids).reshape([batch * length, config.width]);
        let x = self.block.iter().fold(x, |x, block| block.forward(x, &bias, config.epsilon));
        self.final_layer_norm.forward(x, config.epsilon)
    }
}

/// A table of biases of relative positions, N(0, 1 / width).
pub(crate) fn bias_table(init: &mut Init, config: &T5Config) -> EmbeddingLayer {
    let std = (config.width as f64).powf(-0.5);
    EmbeddingLayer { weight: init.param([config.buckets, config.heads], Fill::Normal(std)) }
}

impl T5Block {
    fn new(init: &mut Init, config: &T5Config) -> Self {
        Self {
            attention_norm: RmsNorm::new(init, config.width),
            attention: T5Attention::new(init, config),
            mlp_norm: RmsNorm::new(init, config.width),
            mlp: T5FeedForward::new(init, config),
        }
    }

    /// `[B*L, width] -> [B*L, width]`; `bias` `[B, heads, L, L]`.
    fn forward(&self, x: Tensor<2>, bias: &Tensor<4>, epsilon: f64) -> Tensor<2> {
        let normed = self.attention_norm.forward(x.clone(), epsilon);
        let x = x + self.attention.forward(normed.clone(), normed, bias);
        let normed = self.mlp_norm.forward(x.clone(), epsilon);
        x + self.mlp.forward(normed)
    }
}

impl T5Attention {
    pub(crate) fn new(init: &mut Init, config: &T5Config) -> Self {
        let (width, inner) = (config.width, config.heads * config.head_width);
        let std = (width as f64).powf(-0.5);
        Self {
            q: BiasFreeLinear::new(init, width, inner, Fill::Normal(std * (config.head_width as f64).powf(-0.5))),
            k: BiasFreeLinear::new(init, width, inner, Fill::Normal(std)),
            v: BiasFreeLinear::new(init, width, inner, Fill::Normal(std)),
            o: BiasFreeLinear::new(init, inner, width, Fill::Normal((inner as f64).powf(-0.5))),
        }
    }

    /// Queries from `rows` `[B*Lq, width]`, keys and values from `memory` `[B*Lk, width]`; `bias` `[B, heads, Lq, Lk]`.
    pub(crate) fn forward(&self, rows: Tensor<2>, memory: Tensor<2>, bias: &Tensor<4>) -> Tensor<2> {
        let (key, value) = (self.k.forward(memory.clone()), self.v.forward(memory));
        self.o.forward(biased_attention(self.q.forward(rows), key, value, bias.clone(), 1.0))
    }
}

impl T5FeedForward {
    pub(crate) fn new(init: &mut Init, config: &T5Config) -> Self {
        let &T5Config { width, hidden, feed_forward, .. } = config;
        let up = Fill::Normal((width as f64).powf(-0.5));
        Self {
            wi: BiasFreeLinear::new(init, width, hidden, up),
            gate: (feed_forward == T5Activation::GatedGelu).then(|| BiasFreeLinear::new(init, width, hidden, up)),
            wo: BiasFreeLinear::new(init, hidden, width, Fill::Normal((hidden as f64).powf(-0.5))),
        }
    }

    /// `[N, width] -> [N, width]`.
    pub(crate) fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let up = self.wi.forward(x.clone());
        self.wo.forward(match &self.gate {
            Some(gate) => tanh_gelu(up) * gate.forward(x),
            None => activation::relu(up),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn impossible_architectures_are_refused_by_name() {
        let message = |change: fn(&mut T5Config)| {
            let (_, mut config) = T5Encoder::PRESETS.last().unwrap().clone();
            change(&mut config);
            T5Encoder::new(&config, &mut Init::blank(&Device::flex())).unwrap_err().to_string()
        };
        for (message, expected) in [
            (message(|it| it.head_width = 0), "`textual.head_width` is 0; expected 1 to"),
            (message(|it| it.hidden = 0), "`textual.hidden` is 0; expected 1 to"),
            (message(|it| it.buckets = 5), "`textual.buckets` is 5; expected an even number"),
            (message(|it| it.epsilon = 0.0), "`textual.epsilon` is 0; expected 1e-12 to 0.01"),
            (message(|it| it.projection_tanh = true), "`textual.projection_tanh` is true; expected false"),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }

    /// The numbers of parameters of `google-t5/t5-small` and `google/flan-t5-small`, without their decoders.
    #[test]
    fn presets_have_the_published_number_of_parameters() {
        for (name, expected) in [("t5_small", 35_330_816), ("flan_t5_small", 35_332_800)] {
            let (_, config) = T5Encoder::PRESETS.iter().find(|(preset, _)| *preset == name).unwrap();
            let encoder = T5Encoder::new(config, &mut Init::blank(&Device::flex())).unwrap();
            assert_eq!(encoder.num_params(), expected, "{name}");
        }
    }
}
