//! The classifier of text pairs in BART (Lewis et al., ACL 2020), for checkpoints that were fine-tuned on MNLI.

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation, module};
use conifer_kernels::gelu;

use super::shifted_right;
use crate::encoders::layers::{EmbeddingLayer, LAYER_NORM_EPSILON, LayerNorm, Linear};
use crate::encoders::relative::{attend, masked, split_heads};
use crate::encoders::{Tokens, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`BartClassifier`].
#[derive(Clone, Debug, PartialEq)]
pub struct BartConfig {
    /// Number of rows of the word table.
    pub vocabulary: usize,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// Width of the tokens.
    pub width: usize,
    /// Number of blocks of encoder and decoder.
    pub depth: [usize; 2],
    /// Number of attention heads of encoder and decoder.
    pub heads: [usize; 2],
    /// Width of the feed-forward layers of encoder and decoder.
    pub hidden: [usize; 2],
    /// Multiply the rows of the word table by sqrt(width).
    pub scaled_words: bool,
    /// Id before the first token that the decoder reads.
    pub start: u32,
    /// Number of classes.
    pub classes: usize,
}

/// Rows of the table of positions before the row of the first token.
const POSITION_OFFSET: usize = 2;

impl BartConfig {
    pub(crate) fn check(&self) -> Result<()> {
        let Self { vocabulary, context, width, depth, heads, hidden, start, classes, .. } = self;
        check_positive("bart", &[("vocabulary", *vocabulary), ("context", *context), ("width", *width)])?;
        check_positive("bart", &[("classes", *classes)])?;
        for stack in [0, 1] {
            let sizes = [("depth", depth[stack]), ("heads", heads[stack]), ("hidden", hidden[stack])];
            check_positive("bart", &sizes)?;
            if !width.is_multiple_of(heads[stack]) {
                let expected = format!("a divisor of {width}, the width of the tokens");
                return Err(Error::invalid("bart.heads", heads[stack], expected));
            }
        }
        if *start as usize >= *vocabulary {
            let expected = format!("less than {vocabulary}, the size of the vocabulary");
            return Err(Error::invalid("bart.start", start, expected));
        }
        Ok(())
    }
}

/// Classifies pairs of texts by the token of the decoder at their end.
///
/// Both stacks start with `x = layer_norm(words[ids] + positions)`. Blocks are post-norm: `x = layer_norm(x +
/// attention(x))`, in the decoder `x = layer_norm(x + attention(x, memory))`, `x = layer_norm(x + feed_forward(x))`.
/// The decoder reads the start id and the tokens of the pair except for the last. Logits are `tanh(x A + a) B + b` of
/// the token at the end of the pair.
#[derive(Module, Debug)]
pub struct BartClassifier {
    shared: EmbeddingLayer,
    encoder: BartStack,
    decoder: BartStack,
    dense: Linear,
    out_proj: Linear,
    #[module(skip)]
    config: BartConfig,
}

#[derive(Module, Debug)]
struct BartStack {
    embed_positions: EmbeddingLayer,
    layernorm_embedding: LayerNorm,
    layers: Vec<BartBlock>,
}

#[derive(Module, Debug)]
struct BartBlock {
    self_attn: BartAttention,
    self_attn_layer_norm: LayerNorm,
    encoder_attn: Option<BartAttention>,
    encoder_attn_layer_norm: Option<LayerNorm>,
    fc1: Linear,
    fc2: Linear,
    final_layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
struct BartAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    out_proj: Linear,
}

/// Standard deviation of new weights in the published code.
const STD: f64 = 0.02;

fn linear(init: &mut Init, width_in: usize, width_out: usize) -> Linear {
    Linear::new(init, width_in, width_out, Fill::Normal(STD), Fill::Constant(0.0))
}

impl BartClassifier {
    /// A new model with the initialisation of the published code.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible architecture.
    pub fn new(config: &BartConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &BartConfig { vocabulary, width, classes, .. } = config;
        Ok(Self {
            shared: EmbeddingLayer { weight: init.param([vocabulary, width], Fill::Normal(STD)) },
            encoder: BartStack::new(init, config, 0),
            decoder: BartStack::new(init, config, 1),
            dense: linear(init, width, width),
            out_proj: linear(init, width, classes),
            config: config.clone(),
        })
    }

    /// The architecture.
    pub fn config(&self) -> &BartConfig {
        &self.config
    }

    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.shared.weight.val().device()
    }

    /// Logits `[B, classes]` of sequences that hold both texts.
    ///
    /// # Errors
    /// [`Error::Shape`] if a sequence exceeds the context.
    pub fn logits(&self, pairs: Tokens) -> Result<Tensor<2>> {
        let [batch, length] = pairs.check(self.config.context)?;
        let device = self.device();
        let hidden = pairs.after_end();
        let hidden = masked(Tensor::<4>::zeros([1, 1, 1, length], &device), &hidden);
        let x = self.encoder.forward(self.words(pairs.ids.clone()), [&hidden, &hidden], None, self.config.heads[0]);
        let before = shifted_right(pairs.ids, self.config.start);
        let causal = Tensor::<2, Bool>::tril_mask([length, length], 0, &device.clone().without_autodiff());
        let causal = Tensor::<4>::zeros([1, 1, length, length], &device)
            .mask_fill(causal.reshape([1, 1, length, length]), f32::NEG_INFINITY)
            .expand([batch, 1, length, length]);
        let x = self.decoder.forward(self.words(before), [&causal, &hidden], Some(x), self.config.heads[1]);
        let rows: Vec<i64> =
            pairs.end.into_data().iter::<i64>().enumerate().map(|(i, end)| (i * length) as i64 + end).collect();
        let last = x.select(0, Tensor::<1, Int>::from_data(TensorData::new(rows, [batch]), &device.without_autodiff()));
        Ok(self.out_proj.forward(activation::tanh(self.dense.forward(last))))
    }

    /// `[B, L]` to `[B, L, width]`.
    fn words(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let x = module::embedding(self.shared.weight.val(), ids);
        if self.config.scaled_words { x * (self.config.width as f64).sqrt() } else { x }
    }
}

impl BartStack {
    fn new(init: &mut Init, config: &BartConfig, stack: usize) -> Self {
        let rows = config.context + POSITION_OFFSET;
        Self {
            embed_positions: EmbeddingLayer { weight: init.param([rows, config.width], Fill::Normal(STD)) },
            layernorm_embedding: LayerNorm::new(init, config.width),
            layers: (0..config.depth[stack]).map(|_| BartBlock::new(init, config, stack)).collect(),
        }
    }

    /// Words `[B, L, width]` to tokens `[B*L, width]`. `biases` are added to the scores of self-attention and of the
    /// attention to `memory`.
    fn forward(&self, words: Tensor<3>, biases: [&Tensor<4>; 2], memory: Option<Tensor<2>>, heads: usize) -> Tensor<2> {
        let [batch, length, width] = words.dims();
        let positions = self.embed_positions.weight.val().narrow(0, POSITION_OFFSET, length).unsqueeze::<3>();
        let x = (words + positions).reshape([batch * length, width]);
        let x = self.layernorm_embedding.forward_with(x, LAYER_NORM_EPSILON);
        self.layers.iter().fold(x, |x, block| block.forward(x, biases, memory.as_ref(), heads))
    }
}

impl BartBlock {
    fn new(init: &mut Init, config: &BartConfig, stack: usize) -> Self {
        let &BartConfig { width, hidden, .. } = config;
        let decodes = stack == 1;
        Self {
            self_attn: BartAttention::new(init, width),
            self_attn_layer_norm: LayerNorm::new(init, width),
            encoder_attn: decodes.then(|| BartAttention::new(init, width)),
            encoder_attn_layer_norm: decodes.then(|| LayerNorm::new(init, width)),
            fc1: linear(init, width, hidden[stack]),
            fc2: linear(init, hidden[stack], width),
            final_layer_norm: LayerNorm::new(init, width),
        }
    }

    fn forward(
        &self,
        x: Tensor<2>,
        [own, input]: [&Tensor<4>; 2],
        memory: Option<&Tensor<2>>,
        heads: usize,
    ) -> Tensor<2> {
        let x = self.self_attn_layer_norm.forward(x.clone() + self.self_attn.forward(x.clone(), x, own, heads));
        let x = match (&self.encoder_attn, &self.encoder_attn_layer_norm, memory) {
            (Some(attention), Some(norm), Some(memory)) => {
                norm.forward(x.clone() + attention.forward(x, memory.clone(), input, heads))
            }
            _ => x,
        };
        let up = gelu(self.fc1.forward(x.clone()));
        self.final_layer_norm.forward(x + self.fc2.forward(up))
    }
}

impl BartAttention {
    fn new(init: &mut Init, width: usize) -> Self {
        let mut map = || linear(init, width, width);
        Self { q_proj: map(), k_proj: map(), v_proj: map(), out_proj: map() }
    }

    /// Queries from `rows`, keys and values from `memory`; `bias` `[B, 1, Lq or 1, Lk]`.
    fn forward(&self, rows: Tensor<2>, memory: Tensor<2>, bias: &Tensor<4>, heads: usize) -> Tensor<2> {
        let ([batch, ..], [_, width]) = (bias.dims(), rows.dims());
        let query = self.q_proj.forward(rows) * ((width / heads) as f64).powf(-0.5);
        let [key, value] = [&self.k_proj, &self.v_proj].map(|map| map.forward(memory.clone()));
        let [query, key, value] = [query, key, value].map(|rows| split_heads(rows, batch, heads));
        self.out_proj.forward(attend(query, key, value, bias.clone()))
    }
}
