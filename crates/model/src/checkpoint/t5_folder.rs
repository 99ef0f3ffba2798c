//! T5 with its decoder and tokenizer, in the folders of Hugging Face's `transformers`
//! (`T5ForConditionalGeneration`): `config.json`, `model.safetensors` and `tokenizer.json`.
//!
//! | key of `config.json` | meaning here |
//! |---|---|
//! | `tie_word_embeddings` | false: the file must hold `lm_head.weight`, the output map |
//! | `scale_decoder_outputs` (transformers 5) | whether the last tokens are scaled; without it, `tie_word_embeddings` decides |
//!
//! transformers 5 writes `tie_word_embeddings = true` into every folder. For such a folder, an output map that differs
//! from the word table is read as a separate table.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::json;

use super::layout::{TensorMapping, read_json, write_json};
use super::state_dict::StateDict;
use super::towers::assembly::import_encoder;
use super::towers::hf_t5::{self, ENCODER_WORDS, WORDS};
use super::{TOKENIZER, hub, in_file, weights};
use crate::encoders::PUBLISHED_DISTANCE;
use crate::encoders::layers::SMALL_NORM_EPSILON;
use crate::encoders::t5::{PUBLISHED_BUCKETS, PUBLISHED_CONTEXT, T5Activation};
use crate::seq2seq::{T5Model, T5ModelConfig};
use crate::{Error, Result};

const CONFIG: &str = "config.json";
const MODEL: &str = "model.safetensors";
/// File names of the weights.
const WEIGHTS: [&str; 2] = [MODEL, "pytorch_model.bin"];
const LM_HEAD: &str = "lm_head.weight";
const DECODER_WORDS: &str = "decoder.embed_tokens.weight";
/// A table in the first published files (`t5-small` to `t5-11b`), which `transformers` ignores as well.
const UNUSED: &str = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

/// A T5 with its tokenizer.
#[derive(Debug)]
pub struct T5Folder {
    /// The model.
    pub model: T5Model,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
}

/// Keys of `config.json`, with the defaults of `transformers`.
#[derive(Deserialize)]
#[serde(default)]
struct T5ConfigFile {
    model_type: String,
    vocab_size: usize,
    d_model: usize,
    d_kv: usize,
    d_ff: usize,
    num_layers: usize,
    num_decoder_layers: Option<usize>,
    num_heads: usize,
    feed_forward_proj: String,
    relative_attention_num_buckets: usize,
    relative_attention_max_distance: usize,
    layer_norm_epsilon: f64,
    n_positions: usize,
    eos_token_id: u32,
    pad_token_id: u32,
    decoder_start_token_id: Option<u32>,
    tie_word_embeddings: Option<bool>,
    scale_decoder_outputs: Option<bool>,
}

impl Default for T5ConfigFile {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            vocab_size: 32_128,
            d_model: 512,
            d_kv: 64,
            d_ff: 2048,
            num_layers: 6,
            num_decoder_layers: None,
            num_heads: 8,
            feed_forward_proj: "relu".into(),
            relative_attention_num_buckets: PUBLISHED_BUCKETS,
            relative_attention_max_distance: PUBLISHED_DISTANCE,
            layer_norm_epsilon: SMALL_NORM_EPSILON,
            n_positions: PUBLISHED_CONTEXT,
            eos_token_id: 1,
            pad_token_id: 0,
            decoder_start_token_id: None,
            tie_word_embeddings: None,
            scale_decoder_outputs: None,
        }
    }
}

/// Opens the T5 in a folder, or with this name on the hub ([`hub::locate`]), with its tokenizer.
///
/// # Errors
/// The errors of [`open_model`]; [`Error::Format`] for a folder without tokenizer, and for the reasons of
/// [`check_tokenizer`].
pub fn open(reference: &Path, device: &Device) -> Result<T5Folder> {
    let folder = hub::locate(reference)?;
    let model = open_model(&folder, device)?;
    let path = folder.join(TOKENIZER);
    if !path.is_file() {
        return Err(Error::format(&folder, format!("holds no {TOKENIZER}; expected the tokenizer of its model")));
    }
    let tokenizer = Tokenizer::from_tokenizer_json(&path)?;
    check_tokenizer(&tokenizer, model.config(), &path)?;
    Ok(T5Folder { model, tokenizer })
}

/// Reads the model in a folder, without its tokenizer.
///
/// # Errors
/// [`Error::Format`] for a folder without config or weights, and for another kind of model; [`Error::Weights`] listing
/// every tensor that is missing, unexpected or of another shape.
pub fn open_model(folder: &Path, device: &Device) -> Result<T5Model> {
    let path = folder.join(CONFIG);
    if !path.is_file() {
        let expected = "a folder with config.json, model.safetensors and tokenizer.json of a T5";
        return Err(Error::format(folder, format!("holds no {CONFIG}; expected {expected}")));
    }
    let file: T5ConfigFile = read_json(&path)?;
    let mut config = file.config(&path)?;
    let mut stored = StateDict::read(&weights_file(folder)?)?;
    stored.weights.remove(UNUSED);
    for words in [ENCODER_WORDS, DECODER_WORDS] {
        if let Some(array) = stored.weights.remove(words) {
            stored.weights.entry(WORDS.to_owned()).or_insert(array);
        }
    }
    let differs = stored.weights.get(LM_HEAD).is_some_and(|map| stored.weights.get(WORDS) != Some(map));
    if file.scale_decoder_outputs.is_some() && differs {
        config.tied = false;
    }
    if config.tied {
        stored.weights.remove(LM_HEAD);
    }
    let mapping = |name: &str| TensorMapping::Same(published_name(name, config.feed_forward));
    import_encoder(|init| T5Model::new(&config, init), stored, mapping, &path, device)
}

/// The architecture that a `config.json` of a T5 describes.
///
/// # Errors
/// [`Error::Io`]; [`Error::Format`] for invalid JSON, another kind of model, and an unknown activation.
pub fn read_config(path: &Path) -> Result<T5ModelConfig> {
    read_json::<T5ConfigFile>(path)?.config(path)
}

/// Checks that a tokenizer fits a model: it ends texts with the same id, and has at most as many ids as the model has
/// words. `place` names the tokenizer in errors.
///
/// # Errors
/// [`Error::Format`].
pub fn check_tokenizer(tokenizer: &Tokenizer, config: &T5ModelConfig, place: &Path) -> Result<()> {
    if tokenizer.end_of_text() != config.end {
        let detail =
            format!("ends texts with id {}; expected {}, the end id of {CONFIG}", tokenizer.end_of_text(), config.end);
        return Err(Error::format(place, detail));
    }
    let (ids, rows) = (tokenizer.vocab_size(), config.vocabulary);
    if ids > rows {
        let detail = format!("has {ids} ids; expected at most {rows}, the vocabulary of its model");
        return Err(Error::format(place, detail));
    }
    Ok(())
}

/// Writes a folder that [`open`] and `transformers` read. It appears as a whole or not at all, and replaces an earlier
/// folder of a T5.
///
/// # Errors
/// [`Error::Invalid`] if `dir` is something else; [`Error::Io`] with the file; the errors of [`check_tokenizer`].
pub fn save(dir: &Path, model: &T5Model, tokenizer: &Tokenizer) -> Result<()> {
    check_tokenizer(tokenizer, model.config(), &dir.join(TOKENIZER))?;
    conifer_files::replace_folder(dir, may_replace, |folder| write(folder, model, tokenizer))
}

fn may_replace(dir: &Path) -> Result<()> {
    let is_empty = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty || read_config(&dir.join(CONFIG)).is_ok() {
        return Ok(());
    }
    Err(Error::invalid("folder", dir.display(), "an unused name, an empty folder or a T5 to replace"))
}

fn write(folder: &Path, model: &T5Model, tokenizer: &Tokenizer) -> Result<()> {
    let config = model.config();
    let named = weights::module_weights(model).into_iter();
    let named = named.map(|(name, array)| (published_name(&name, config.feed_forward), array)).collect();
    weights::save_for_torch(&named, &folder.join(MODEL))?;
    let feed_forward = match config.feed_forward {
        T5Activation::Relu => "relu",
        T5Activation::GatedGelu => "gated-gelu",
    };
    let values = json!({
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": true,
        "vocab_size": config.vocabulary,
        "d_model": config.width,
        "d_kv": config.head_width,
        "d_ff": config.hidden,
        "num_layers": config.depth,
        "num_decoder_layers": config.decoder_depth,
        "num_heads": config.heads,
        "feed_forward_proj": feed_forward,
        "relative_attention_num_buckets": config.buckets,
        "relative_attention_max_distance": config.max_distance,
        "layer_norm_epsilon": config.epsilon,
        "n_positions": config.context,
        // conifer has no dropout; transformers applies its default of 0.1 in training.
        "dropout_rate": 0.0,
        "eos_token_id": config.end,
        "pad_token_id": config.start,
        "decoder_start_token_id": config.start,
        "tie_word_embeddings": config.tied,
        "scale_decoder_outputs": config.scaled,
    });
    write_json(&values, &folder.join(CONFIG))?;
    tokenizer.save(&folder.join(TOKENIZER))?;
    let token = |id: u32| tokenizer.token(id).unwrap_or_default();
    let values = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": token(config.end),
        "pad_token": token(config.start),
        "model_max_length": config.context,
    });
    write_json(&values, &folder.join("tokenizer_config.json"))
}

fn weights_file(folder: &Path) -> Result<PathBuf> {
    WEIGHTS
        .iter()
        .map(|name| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| Error::format(folder, format!("holds no weights; expected {}", WEIGHTS.join(" or "))))
}

impl T5ConfigFile {
    fn config(&self, path: &Path) -> Result<T5ModelConfig> {
        let wrong = |key: &str, found: &str, expected: &str| {
            Err(Error::format(path, format!("`{key}` is {found}; expected {expected}")))
        };
        if self.model_type != "t5" {
            return wrong("model_type", &self.model_type, "t5");
        }
        let feed_forward = match self.feed_forward_proj.as_str() {
            "relu" => T5Activation::Relu,
            "gated-gelu" => T5Activation::GatedGelu,
            other => return wrong("feed_forward_proj", other, "relu or gated-gelu"),
        };
        let tied = self.tie_word_embeddings.unwrap_or(true);
        let config = T5ModelConfig {
            vocabulary: self.vocab_size,
            context: self.n_positions,
            width: self.d_model,
            depth: self.num_layers,
            decoder_depth: self.num_decoder_layers.unwrap_or(self.num_layers),
            heads: self.num_heads,
            head_width: self.d_kv,
            hidden: self.d_ff,
            feed_forward,
            buckets: self.relative_attention_num_buckets,
            max_distance: self.relative_attention_max_distance,
            epsilon: self.layer_norm_epsilon,
            tied,
            scaled: self.scale_decoder_outputs.unwrap_or(tied),
            start: self.decoder_start_token_id.unwrap_or(self.pad_token_id),
            end: self.eos_token_id,
        };
        config.check().map_err(in_file(path))?;
        Ok(config)
    }
}

/// The name of one of our tensors in `T5ForConditionalGeneration`.
fn published_name(name: &str, feed_forward: T5Activation) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        ["decoder", "relative_attention_bias", "weight"] => {
            "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight".to_owned()
        }
        ["decoder", "block", index, rest @ ..] => {
            let within = |name: String| format!("decoder.block.{index}.layer.{name}.weight");
            match rest {
                ["attention_norm", _] => within("0.layer_norm".into()),
                ["attention", map, _] => within(format!("0.SelfAttention.{map}")),
                ["cross_norm", _] => within("1.layer_norm".into()),
                ["cross", map, _] => within(format!("1.EncDecAttention.{map}")),
                ["mlp_norm", _] => within("2.layer_norm".into()),
                ["mlp", "wi", _] if feed_forward == T5Activation::GatedGelu => within("2.DenseReluDense.wi_0".into()),
                ["mlp", "gate", _] => within("2.DenseReluDense.wi_1".into()),
                ["mlp", map, _] => within(format!("2.DenseReluDense.{map}")),
                _ => name.to_owned(),
            }
        }
        _ => match hf_t5::mapping(name, feed_forward) {
            TensorMapping::Same(name) => name,
            _ => name.to_owned(),
        },
    }
}
