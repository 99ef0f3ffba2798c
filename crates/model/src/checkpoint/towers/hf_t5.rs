//! The encoder of T5 in the layout of Hugging Face's `transformers` (`T5EncoderModel`, `T5Model`,
//! `T5ForConditionalGeneration`), plain or with [modules](SentenceModules) of sentence-transformers. Decoder and output
//! map are dropped. In a plain folder, texts are pooled by the mean and not normalised.

use serde::Deserialize;

use super::super::layout::{TensorMapping, read_json};
use super::super::state_dict::StateDict;
use super::assembly::{import_encoder, wrong};
use super::sentence_modules::SentenceModules;
use super::{TextEncoderFile, TowerFormat, TowerReader, TowerRequest};
use crate::encoders::layers::SMALL_NORM_EPSILON;
use crate::encoders::t5::{PUBLISHED_CONTEXT, T5Activation};
use crate::encoders::{PUBLISHED_DISTANCE, T5Config, TextualConfig};
use crate::{Error, Result};

pub(super) const FORMAT: TowerFormat = TowerFormat {
    name: "t5",
    summary: "the encoder of T5, Flan-T5, Sentence-T5 and GTR, as transformers or sentence-transformers saves it",
    weights: "hub: google-t5/t5-small (encoder: 35 M parameters), google/flan-t5-small (35 M), google/flan-t5-base (110 M), \
              sentence-transformers/sentence-t5-base (110 M), sentence-transformers/gtr-t5-base (110 M); all Apache-2.0",
    marks: &["encoder.block.0.layer.0.SelfAttention."],
    read: TowerReader::Text(read),
};

/// Keys of `config.json` that affect the computation, with the defaults of `transformers`. Sizes that follow from
/// tensor shapes are not read.
#[derive(Deserialize)]
#[serde(default)]
struct HfT5Config {
    model_type: String,
    feed_forward_proj: String,
    relative_attention_max_distance: usize,
    layer_norm_epsilon: f64,
    n_positions: usize,
    eos_token_id: u32,
}

impl Default for HfT5Config {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            feed_forward_proj: "relu".into(),
            relative_attention_max_distance: PUBLISHED_DISTANCE,
            layer_norm_epsilon: SMALL_NORM_EPSILON,
            n_positions: PUBLISHED_CONTEXT,
            eos_token_id: 1,
        }
    }
}

/// Name of the word embedding matrix that encoder and decoder share.
pub(in crate::checkpoint) const WORDS: &str = "shared.weight";
/// Name of the same matrix in the encoder.
pub(in crate::checkpoint) const ENCODER_WORDS: &str = "encoder.embed_tokens.weight";
const BIAS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

fn read(mut stored: StateDict, request: &TowerRequest<'_>) -> Result<TextEncoderFile> {
    let path = request.folder.join("config.json");
    let hf: HfT5Config = read_json(&path)?;
    if hf.model_type != "t5" {
        return Err(wrong(&path, "model_type", hf.model_type, "t5"));
    }
    let feed_forward = match hf.feed_forward_proj.as_str() {
        "relu" => T5Activation::Relu,
        "gated-gelu" => T5Activation::GatedGelu,
        other => return Err(wrong(&path, "feed_forward_proj", other, "relu or gated-gelu")),
    };
    stored.weights.retain(|name, _| !name.starts_with("decoder.") && !name.starts_with("lm_head."));
    if let Some(words) = stored.weights.remove(ENCODER_WORDS) {
        stored.weights.entry(WORDS.to_owned()).or_insert(words);
    }
    let [vocabulary, width] = stored.dims::<2>(WORDS)?;
    let [buckets, heads] = stored.dims::<2>(BIAS)?;
    let [inner, _] = stored.dims::<2>("encoder.block.0.layer.0.SelfAttention.q.weight")?;
    let [_, hidden] = stored.dims::<2>("encoder.block.0.layer.1.DenseReluDense.wo.weight")?;
    if !inner.is_multiple_of(heads) {
        let found = format!("has queries of width {inner} and {heads} heads (columns of `{BIAS}`)");
        return Err(Error::format(&stored.path, format!("{found}; expected a multiple of the number of heads")));
    }
    let modules = SentenceModules::read(request.folder, width)?;
    let config = TextualConfig::T5(T5Config {
        vocabulary,
        context: modules.context(hf.n_positions),
        width,
        depth: stored.depth("encoder.block."),
        heads,
        head_width: inner / heads,
        hidden,
        feed_forward,
        buckets,
        max_distance: hf.relative_attention_max_distance,
        epsilon: hf.layer_norm_epsilon,
        pooling: modules.pooling,
        projection: modules.projection,
        projection_tanh: modules.projection_tanh,
        normalize: modules.normalize,
    });
    stored.weights.extend(modules.dense);
    let mapping = |name: &str| mapping(name, feed_forward);
    let encoder = import_encoder(|init| config.build(init), stored, mapping, &path, request.device)?;
    Ok(TextEncoderFile { encoder, config, end_of_text: Some(hf.eos_token_id) })
}

/// Maps our tensor names to those of `T5EncoderModel`.
pub(in crate::checkpoint) fn mapping(name: &str, feed_forward: T5Activation) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    TensorMapping::Same(match parts.as_slice() {
        ["encoder", "relative_attention_bias", "weight"] => BIAS.to_owned(),
        ["encoder", "block", index, rest @ ..] => {
            let within = |name: String| format!("encoder.block.{index}.layer.{name}.weight");
            match rest {
                ["attention_norm", _] => within("0.layer_norm".into()),
                ["attention", map, _] => within(format!("0.SelfAttention.{map}")),
                ["mlp_norm", _] => within("1.layer_norm".into()),
                ["mlp", "wi", _] if feed_forward == T5Activation::GatedGelu => within("1.DenseReluDense.wi_0".into()),
                ["mlp", "gate", _] => within("1.DenseReluDense.wi_1".into()),
                ["mlp", map, _] => within(format!("1.DenseReluDense.{map}")),
                _ => name.to_owned(),
            }
        }
        _ => name.to_owned(),
    })
}
