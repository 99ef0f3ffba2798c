//! Encoder-decoders: T5 with its decoder (Raffel et al., JMLR 2020), which continues texts, and the classifier of text
//! pairs on BART (Lewis et al., ACL 2020).
//!
//! [`T5Model`] is the whole model of T5 and Flan-T5, for training by [`T5Model::loss`] and for sampling by
//! [`T5Model::generate`]. Its encoder is the one of [`T5Encoder`](crate::encoders::T5Encoder).
//! [`checkpoint::t5_folder`](crate::checkpoint::t5_folder) reads and writes it with its tokenizer;
//! [`checkpoint::bart_folder`](crate::checkpoint::bart_folder) reads a [`BartClassifier`].

mod bart;
mod decoder;
mod generate;
#[cfg(test)]
mod tests;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, activation, module};

use crate::encoders::layers::{BiasFreeLinear, EmbeddingLayer};
use crate::encoders::t5::{T5Activation, T5Stack};
use crate::encoders::{T5Config, TokenPooling, Tokens, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

pub use bart::{BartClassifier, BartConfig};
use decoder::T5Decoder;
pub use generate::{DrawRequest, GeneratedIds, SamplingSettings};

/// Architecture of a [`T5Model`]. Encoder and decoder have blocks of the same sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct T5ModelConfig {
    /// Number of rows of the word table: at least the number of token ids.
    pub vocabulary: usize,
    /// Longest sequence, in tokens, end included. T5 has no table of positions, so the weights set no limit.
    pub context: usize,
    /// Width of the tokens.
    pub width: usize,
    /// Number of blocks of the encoder.
    pub depth: usize,
    /// Number of blocks of the decoder.
    pub decoder_depth: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of one attention head. `heads * head_width` may differ from `width`.
    pub head_width: usize,
    /// Width of the feed-forward layers.
    pub hidden: usize,
    /// Activation of the feed-forward layers.
    pub feed_forward: T5Activation,
    /// Number of buckets of relative positions.
    pub buckets: usize,
    /// Tokens at this distance or farther share a bucket.
    pub max_distance: usize,
    /// Epsilon of the RMS norms, added to the mean square.
    pub epsilon: f64,
    /// True if the word table is also the output map (T5 1.0). False: the output map has its own table (T5 1.1).
    pub tied: bool,
    /// Multiply the last tokens of the decoder by width^(-1/2) before the output map (T5 1.0).
    pub scaled: bool,
    /// Id before the first token that the decoder reads.
    pub start: u32,
    /// Id after the last token of a text.
    pub end: u32,
}

impl T5ModelConfig {
    /// The sizes of the blocks of a stack of this depth, and of the word table.
    fn stack(&self, depth: usize) -> T5Config {
        T5Config {
            vocabulary: self.vocabulary,
            context: self.context,
            width: self.width,
            depth,
            heads: self.heads,
            head_width: self.head_width,
            hidden: self.hidden,
            feed_forward: self.feed_forward,
            buckets: self.buckets,
            max_distance: self.max_distance,
            epsilon: self.epsilon,
            // Not used: both stacks return all tokens.
            pooling: TokenPooling::Mean,
            projection: 0,
            projection_tanh: false,
            normalize: false,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_positive("textual", &[("decoder_depth", self.decoder_depth)])?;
        self.stack(self.depth).check()?;
        for (name, id) in [("start", self.start), ("end", self.end)] {
            if id as usize >= self.vocabulary {
                let expected = format!("less than {}, the size of the vocabulary", self.vocabulary);
                return Err(Error::invalid(format!("textual.{name}"), id, expected));
            }
        }
        Ok(())
    }
}

/// T5 with its decoder: reads a text and gives the next token of another one.
///
/// `memory = encoder(input)`. The decoder reads the start id and the tokens so far: `x = words[ids]`, blocks `x = x +
/// o(attention(rms_norm(x)))` over the tokens so far, `x = x + o(attention(rms_norm(x), memory))`, `x = x +
/// feed_forward(rms_norm(x))`, a last RMS norm, and the output map: logits `x words^T` (tied) or `x lm_head`. Only the
/// first attention has biases of relative positions. There is no dropout.
#[derive(Module, Debug)]
pub struct T5Model {
    shared: EmbeddingLayer,
    encoder: T5Stack,
    decoder: T5Decoder,
    lm_head: Option<BiasFreeLinear>,
    #[module(skip)]
    config: T5ModelConfig,
}

impl T5Model {
    /// A new model with the initialisation of the published code: words N(0, 1), output map N(0, 1), blocks as in
    /// [`T5Encoder`](crate::encoders::T5Encoder).
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible architecture.
    pub fn new(config: &T5ModelConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let &T5ModelConfig { vocabulary, width, depth, decoder_depth, .. } = config;
        Ok(Self {
            shared: EmbeddingLayer { weight: init.param([vocabulary, width], Fill::Normal(1.0)) },
            encoder: T5Stack::new(init, &config.stack(depth)),
            decoder: T5Decoder::new(init, &config.stack(decoder_depth)),
            lm_head: (!config.tied).then(|| BiasFreeLinear::new(init, width, vocabulary, Fill::Normal(1.0))),
            config: config.clone(),
        })
    }

    /// The architecture.
    pub fn config(&self) -> &T5ModelConfig {
        &self.config
    }

    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.shared.weight.val().device()
    }

    /// Logits of each token of `labels`, `[B*T, vocabulary]`. For each token the decoder reads the start id and the
    /// labels before it (teacher forcing). Rows after the end of a text have no meaning.
    ///
    /// # Errors
    /// [`Error::Shape`] if a sequence exceeds the context, or the numbers of texts differ.
    pub fn logits(&self, inputs: Tokens, labels: &Tokens) -> Result<Tensor<2>> {
        let [batch, length] = labels.check(self.config.context)?;
        let [rows, _] = inputs.check(self.config.context)?;
        if rows != batch {
            let expected = format!("{batch} rows, one per text of the labels");
            return Err(Error::Shape { name: "inputs".into(), found: inputs.ids.dims().to_vec(), expected });
        }
        let hidden = inputs.after_end();
        let memory = self.encode(inputs);
        let before = shifted_right(labels.ids.clone(), self.config.start);
        let x = module::embedding(self.shared.weight.val(), before).reshape([batch * length, self.config.width]);
        let config = self.config.stack(self.config.decoder_depth);
        let mut cache = self.decoder.start(&memory, &hidden, &config);
        Ok(self.output(self.decoder.extend(x, &mut cache, &config)))
    }

    /// Mean cross entropy of the tokens of the labels, in nats, `[1]`: the mean of `-ln softmax(logits)[label]` over all
    /// tokens of the batch up to the end of each text. Tokens after the end are ignored.
    ///
    /// # Errors
    /// The errors of [`T5Model::logits`].
    pub fn loss(&self, inputs: Tokens, labels: Tokens) -> Result<Tensor<1>> {
        let logits = self.logits(inputs, &labels)?;
        let [rows, _] = logits.dims();
        let padding = labels.after_end().reshape([rows]);
        let count = padding.clone().bool_not().int().sum().into_scalar::<i64>();
        let chosen = activation::log_softmax(logits, 1).gather(1, labels.ids.reshape([rows, 1])).reshape([rows]);
        Ok(chosen.mask_fill(padding, 0.0).sum() * (-1.0 / count as f64))
    }

    /// The tokens of the encoder after the last norm, `[B*L, width]`.
    fn encode(&self, inputs: Tokens) -> Tensor<2> {
        let hidden = inputs.after_end();
        self.encoder.forward(self.shared.weight.val(), inputs.ids, &hidden, &self.config.stack(self.config.depth))
    }

    /// The output map: `[N, width] -> [N, vocabulary]`.
    fn output(&self, rows: Tensor<2>) -> Tensor<2> {
        let rows = if self.config.scaled { rows * (self.config.width as f64).powf(-0.5) } else { rows };
        match &self.lm_head {
            Some(map) => map.forward(rows),
            None => rows.matmul(self.shared.weight.val().transpose()),
        }
    }
}

/// The ids that a decoder reads to write `ids` `[B, L]`: the start id, then all but the last.
fn shifted_right(ids: Tensor<2, Int>, start: u32) -> Tensor<2, Int> {
    let [_, length] = ids.dims();
    // Made from the ids, so that both have the same integer type.
    let start = ids.clone().narrow(1, 0, 1).full_like(i64::from(start));
    match length {
        1 => start,
        _ => Tensor::cat(vec![start, ids.narrow(1, 0, length - 1)], 1),
    }
}
