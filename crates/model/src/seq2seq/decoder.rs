//! The decoder of T5. It extends texts by any number of tokens and keeps keys and values of the earlier ones, so
//! training (all tokens at once) and sampling (one token at a time) are the same computation.

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor, TensorData};

use crate::encoders::T5Config;
use crate::encoders::layers::{EmbeddingLayer, RmsNorm};
use crate::encoders::relative::{RelativeBuckets, attend, masked, split_heads};
use crate::encoders::t5::{T5Attention, T5FeedForward, bias_table};
use crate::params::Init;

/// The blocks of the decoder with their table of biases.
#[derive(Module, Debug)]
pub(super) struct T5Decoder {
    relative_attention_bias: EmbeddingLayer,
    block: Vec<T5DecoderBlock>,
    final_layer_norm: RmsNorm,
}

#[derive(Module, Debug)]
struct T5DecoderBlock {
    attention_norm: RmsNorm,
    attention: T5Attention,
    cross_norm: RmsNorm,
    cross: T5Attention,
    mlp_norm: RmsNorm,
    mlp: T5FeedForward,
}

/// Keys and values, `[B, heads, L, head_width]` each.
type KeysAndValues = [Tensor<4>; 2];

/// State of a batch of texts that grow.
pub(super) struct DecoderCache {
    blocks: Vec<DecoderBlockCache>,
    /// Bias of the tokens of the input, `[B, 1, 1, L]`: negative infinity after the end of an input.
    input_bias: Tensor<4>,
    /// Number of tokens so far.
    length: usize,
}

struct DecoderBlockCache {
    /// Keys and values of the tokens so far; `None` before the first token.
    own: Option<KeysAndValues>,
    /// Keys and values of the tokens of the input.
    input: KeysAndValues,
}

impl T5Decoder {
    pub(super) fn new(init: &mut Init, config: &T5Config) -> Self {
        Self {
            relative_attention_bias: bias_table(init, config),
            block: (0..config.depth).map(|_| T5DecoderBlock::new(init, config)).collect(),
            final_layer_norm: RmsNorm::new(init, config.width),
        }
    }

    /// The state before the first token. `memory` `[B*L, width]` are the tokens of the encoder; `hidden` `[B, L]` is
    /// true after the end of an input.
    pub(super) fn start(&self, memory: &Tensor<2>, hidden: &Tensor<2, Bool>, config: &T5Config) -> DecoderCache {
        let [batch, inputs] = hidden.dims();
        let split = |rows: Tensor<2>| split_heads(rows, batch, config.heads);
        let input =
            |block: &T5DecoderBlock| [&block.cross.k, &block.cross.v].map(|map| split(map.forward(memory.clone())));
        DecoderCache {
            blocks: self.block.iter().map(|block| DecoderBlockCache { own: None, input: input(block) }).collect(),
            input_bias: masked(Tensor::zeros([1, 1, 1, inputs], &memory.device()), hidden),
            length: 0,
        }
    }

    /// Adds T tokens to each text: `[B*T, width] -> [B*T, width]`, after the last norm.
    pub(super) fn extend(&self, x: Tensor<2>, cache: &mut DecoderCache, config: &T5Config) -> Tensor<2> {
        let added = x.dims()[0] / cache.input_bias.dims()[0];
        let (earlier, keys) = (cache.length, cache.length + added);
        let buckets =
            RelativeBuckets { count: config.buckets, max_distance: config.max_distance, bidirectional: false };
        let bias = buckets.bias_of(self.relative_attention_bias.weight.val(), earlier..keys, keys);
        let bias = if added > 1 { causal(bias, earlier) } else { bias };
        let DecoderCache { blocks, input_bias, length } = cache;
        *length = keys;
        let blocks = self.block.iter().zip(blocks);
        let x = blocks.fold(x, |x, (block, cache)| block.extend(x, cache, [&bias, &*input_bias], config));
        self.final_layer_norm.forward(x, config.epsilon)
    }
}

impl T5DecoderBlock {
    fn new(init: &mut Init, config: &T5Config) -> Self {
        Self {
            attention_norm: RmsNorm::new(init, config.width),
            attention: T5Attention::new(init, config),
            cross_norm: RmsNorm::new(init, config.width),
            cross: T5Attention::new(init, config),
            mlp_norm: RmsNorm::new(init, config.width),
            mlp: T5FeedForward::new(init, config),
        }
    }

    fn extend(
        &self,
        x: Tensor<2>,
        cache: &mut DecoderBlockCache,
        [bias, input_bias]: [&Tensor<4>; 2],
        config: &T5Config,
    ) -> Tensor<2> {
        let [batch, ..] = input_bias.dims();
        let split = |rows: Tensor<2>| split_heads(rows, batch, config.heads);
        let normed = self.attention_norm.forward(x.clone(), config.epsilon);
        let T5Attention { q, k, v, o } = &self.attention;
        let [query, key, value] = [q, k, v].map(|map| split(map.forward(normed.clone())));
        let [key, value] = match cache.own.take() {
            None => [key, value],
            Some([keys, values]) => [Tensor::cat(vec![keys, key], 2), Tensor::cat(vec![values, value], 2)],
        };
        cache.own = Some([key.clone(), value.clone()]);
        let x = x + o.forward(attend(query, key, value, bias.clone()));
        let normed = self.cross_norm.forward(x.clone(), config.epsilon);
        let [key, value] = cache.input.clone();
        let query = split(self.cross.q.forward(normed));
        let x = x + self.cross.o.forward(attend(query, key, value, input_bias.clone()));
        let normed = self.mlp_norm.forward(x.clone(), config.epsilon);
        x + self.mlp.forward(normed)
    }
}

impl DecoderCache {
    /// Keeps these rows of the batch, in this order. A row may occur several times.
    pub(super) fn select(&mut self, rows: &[usize]) {
        let device = self.input_bias.device();
        let rows: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
        let count = rows.len();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &device);
        let chosen = |tensor: &mut Tensor<4>| *tensor = tensor.clone().select(0, rows.clone());
        for DecoderBlockCache { own, input } in &mut self.blocks {
            own.iter_mut().flatten().chain(input).for_each(chosen);
        }
        chosen(&mut self.input_bias);
    }
}

/// Masks the keys after each query: negative infinity. `bias` `[1, heads, T, earlier + T]`.
fn causal(bias: Tensor<4>, earlier: usize) -> Tensor<4> {
    let [_, heads, queries, keys] = bias.dims();
    let after = Tensor::<2, Bool>::tril_mask([queries, keys], earlier as i64, &bias.device());
    bias.mask_fill(after.reshape([1, 1, queries, keys]).expand([1, heads, queries, keys]), f32::NEG_INFINITY)
}
