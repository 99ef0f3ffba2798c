//! The modules of a sentence-transformers folder that follow the transformer (Reimers and Gurevych, EMNLP 2019):
//! `modules.json` lists a pooling module and perhaps `Dense` and `Normalize` modules, each with its own folder.

use std::path::Path;

use serde::Deserialize;

use super::super::layout::read_json;
use super::super::state_dict::StateDict;
use super::weights_file;
use crate::encoders::TokenPooling;
use crate::weight_array::WeightArray;
use crate::{Error, Result};

#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// Longest text: `max_seq_length` of `sentence_bert_config.json`. In folders of sentence-transformers 5 and later:
/// `model_max_length` of `tokenizer_config.json`, which is 1e30 without a limit.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    max_seq_length: Option<f64>,
    model_max_length: Option<f64>,
}

/// Keys of `1_Pooling/config.json`.
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

/// Keys of `2_Dense/config.json`.
#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default)]
    activation_function: String,
}

/// The modules after the transformer, and the longest text.
#[derive(Debug)]
pub(super) struct SentenceModules {
    pub(super) pooling: TokenPooling,
    /// Output width of the `Dense` module; 0 without this module.
    pub(super) projection: usize,
    pub(super) projection_tanh: bool,
    pub(super) normalize: bool,
    /// Weight `[out, in]` and bias of the `Dense` module, by the names that our text encoders give them.
    pub(super) dense: Vec<(String, WeightArray)>,
    /// Longest text in tokens; infinite if no file sets it.
    limit: f64,
}

impl SentenceModules {
    /// Reads the modules beside a transformer of this `width`. Without `modules.json`, texts are pooled by the mean.
    ///
    /// # Errors
    /// [`Error::Format`] for modules in another order, an unknown pooling or activation, or a `Dense` module of another
    /// width or without weights.
    pub(super) fn read(folder: &Path, width: usize) -> Result<Self> {
        let limits = |file: &str| -> Result<Limits> {
            let path = folder.join(file);
            if path.is_file() { read_json(&path) } else { Ok(Limits::default()) }
        };
        let limit = limits("sentence_bert_config.json")?.max_seq_length;
        let limit = limit.or(limits("tokenizer_config.json")?.model_max_length).unwrap_or(f64::INFINITY);
        let mut it = Self {
            pooling: TokenPooling::Mean,
            projection: 0,
            projection_tanh: false,
            normalize: false,
            dense: Vec::new(),
            limit,
        };
        it.read_modules(folder, width)?;
        Ok(it)
    }

    /// Maximum length of a text in tokens: the limit of the folder, but at most `longest`, the limit of the
    /// transformer.
    pub(super) fn context(&self, longest: usize) -> usize {
        self.limit.min(longest as f64).max(1.0) as usize
    }

    fn read_modules(&mut self, folder: &Path, width: usize) -> Result<()> {
        let path = folder.join("modules.json");
        if !path.is_file() {
            return Ok(());
        }
        for (index, ModuleEntry { path: name, kind }) in read_json::<Vec<ModuleEntry>>(&path)?.into_iter().enumerate() {
            let wrong = |detail: String| Err(Error::format(&path, format!("module {index}: {detail}")));
            if Path::new(&name).is_absolute() || name.contains("..") {
                return wrong(format!("`path` is {name:?}; expected a folder beside modules.json"));
            }
            let folder = folder.join(&name);
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" if index == 0 => {}
                "Pooling" => self.pooling = pooling(&folder.join("config.json"))?,
                "Dense" if self.dense.is_empty() && !self.normalize => self.read_dense(&folder, width)?,
                "Normalize" => self.normalize = true,
                other => {
                    let expected = "Transformer, Pooling, at most one Dense, and Normalize, in this order";
                    return wrong(format!("`type` is {other}; expected {expected}"));
                }
            }
        }
        Ok(())
    }

    /// Reads a `Dense` module. A module without bias gets a bias of 0, which fine-tuning can change.
    fn read_dense(&mut self, folder: &Path, width: usize) -> Result<()> {
        let path = folder.join("config.json");
        let config: DenseConfig = read_json(&path)?;
        if config.in_features != width || config.out_features == 0 {
            let found = format!("`in_features` is {}, `out_features` {}", config.in_features, config.out_features);
            let detail = format!("{found}; expected {width} inputs and at least one output");
            return Err(Error::format(path, detail));
        }
        self.projection = config.out_features;
        self.projection_tanh = match config.activation_function.rsplit('.').next().unwrap_or_default() {
            "Tanh" => true,
            "Identity" | "" => false,
            other => {
                return Err(Error::format(
                    path,
                    format!("`activation_function` is {other}; expected Tanh or Identity"),
                ));
            }
        };
        let mut stored = StateDict::read(&weights_file(folder)?)?;
        let mut take = |name: &str| stored.weights.remove(name);
        let weight = take("linear.weight").ok_or_else(|| Error::format(folder, "holds no tensor `linear.weight`"))?;
        // Check the shape before allocating the bias, because the config may contain any number.
        if weight.shape != [config.out_features, width] {
            let expected = format!("expected [{}, {width}], as its config.json", config.out_features);
            return Err(Error::format(folder, format!("`linear.weight` is {:?}; {expected}", weight.shape)));
        }
        let bias = take("linear.bias")
            .unwrap_or_else(|| WeightArray::f32([config.out_features], vec![0.0; config.out_features]));
        self.dense = vec![("projection.weight".to_owned(), weight), ("projection.bias".to_owned(), bias)];
        Ok(())
    }
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
