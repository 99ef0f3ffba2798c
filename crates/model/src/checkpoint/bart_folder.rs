//! Classifiers of text pairs on BART, in the folders of Hugging Face's `transformers`
//! (`BartForSequenceClassification`, such as `facebook/bart-large-mnli`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use serde::Deserialize;

use super::layout::{TensorMapping, read_json};
use super::state_dict::StateDict;
use super::towers::assembly::import_encoder;
use super::{TOKENIZER, hub, in_file, weights};
use crate::seq2seq::{BartClassifier, BartConfig};
use crate::{Error, Result};

const CONFIG: &str = "config.json";
const MODEL: &str = "model.safetensors";

/// A classifier with its labels.
#[derive(Debug)]
pub struct BartFolder {
    /// The model.
    pub model: BartClassifier,
    /// Name of each class, in lower case.
    pub labels: Vec<String>,
    /// Folder of the files.
    pub folder: PathBuf,
}

/// Keys of `config.json`, with the defaults of `transformers`.
#[derive(Deserialize)]
#[serde(default)]
struct BartConfigFile {
    model_type: String,
    vocab_size: usize,
    d_model: usize,
    encoder_layers: usize,
    decoder_layers: usize,
    encoder_attention_heads: usize,
    decoder_attention_heads: usize,
    encoder_ffn_dim: usize,
    decoder_ffn_dim: usize,
    max_position_embeddings: usize,
    activation_function: String,
    scale_embedding: bool,
    decoder_start_token_id: u32,
    id2label: BTreeMap<String, String>,
}

impl Default for BartConfigFile {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            vocab_size: 50_265,
            d_model: 1024,
            encoder_layers: 12,
            decoder_layers: 12,
            encoder_attention_heads: 16,
            decoder_attention_heads: 16,
            encoder_ffn_dim: 4096,
            decoder_ffn_dim: 4096,
            max_position_embeddings: 1024,
            activation_function: "gelu".into(),
            scale_embedding: false,
            decoder_start_token_id: 2,
            id2label: BTreeMap::new(),
        }
    }
}

/// Opens the classifier in a folder, or with this name on the hub ([`hub::locate`]).
///
/// # Errors
/// [`Error::Format`] for a folder without config or weights, another kind of model, an activation besides GELU, or
/// labels that are not numbered from 0; [`Error::Weights`] listing every tensor that is missing, unexpected or of
/// another shape; the errors of [`hub::locate`].
pub fn open(reference: &Path, device: &Device) -> Result<BartFolder> {
    let folder = hub::locate(reference)?;
    let path = folder.join(CONFIG);
    if !path.is_file() {
        let expected = "a folder with config.json, model.safetensors and tokenizer.json of a BART";
        return Err(Error::format(&folder, format!("holds no {CONFIG}; expected {expected}")));
    }
    let file: BartConfigFile = read_json(&path)?;
    let (config, labels) = file.config(&path)?;
    let model_file = folder.join(MODEL);
    if !model_file.is_file() {
        return Err(Error::format(&folder, format!("holds no weights; expected {MODEL}")));
    }
    let mut stored = StateDict { weights: weights::load(&model_file)?, path: model_file, root: None };
    // The word table, by its names in both stacks, and a version number.
    for copy in ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"] {
        if let Some(words) = stored.weights.remove(copy) {
            stored.weights.entry("model.shared.weight".to_owned()).or_insert(words);
        }
    }
    stored.weights.retain(|name, _| !name.ends_with(".version"));
    let mapping = |name: &str| {
        let head = name.starts_with("dense.") || name.starts_with("out_proj.");
        TensorMapping::Same(format!("{}.{name}", if head { "classification_head" } else { "model" }))
    };
    let model = import_encoder(|init| BartClassifier::new(&config, init), stored, mapping, &path, device)?;
    Ok(BartFolder { model, labels, folder })
}

impl BartFolder {
    /// The tokenizer in the folder.
    ///
    /// # Errors
    /// [`Error::Format`] if there is none, or it has more ids than the model has words.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let path = self.folder.join(TOKENIZER);
        if !path.is_file() {
            let detail = format!("holds no {TOKENIZER}; expected the tokenizer of its model");
            return Err(Error::format(&self.folder, detail));
        }
        let tokenizer = Tokenizer::from_tokenizer_json(&path)?;
        let (ids, rows) = (tokenizer.vocab_size(), self.model.config().vocabulary);
        if ids > rows {
            let detail = format!("has {ids} ids; expected at most {rows}, the vocabulary of its model");
            return Err(Error::format(&path, detail));
        }
        Ok(tokenizer)
    }

    /// The number of the class with this name.
    ///
    /// # Errors
    /// [`Error::Format`] with the names that there are.
    pub fn class(&self, label: &str) -> Result<usize> {
        self.labels.iter().position(|it| it == label).ok_or_else(|| {
            let found = self.labels.join(", ");
            let detail = format!("has the classes {found} (id2label); expected one named {label}");
            Error::format(self.folder.join(CONFIG), detail)
        })
    }
}

impl BartConfigFile {
    fn config(&self, path: &Path) -> Result<(BartConfig, Vec<String>)> {
        let wrong = |key: &str, found: &str, expected: &str| {
            Err(Error::format(path, format!("`{key}` is {found}; expected {expected}")))
        };
        if self.model_type != "bart" {
            return wrong("model_type", &self.model_type, "bart");
        }
        if self.activation_function != "gelu" {
            return wrong("activation_function", &self.activation_function, "gelu");
        }
        let label = |id: usize| self.id2label.get(&id.to_string()).map(|it| it.to_lowercase());
        let labels: Option<Vec<String>> = (0..self.id2label.len()).map(label).collect();
        let Some(labels) = labels.filter(|it| !it.is_empty()) else {
            let found: Vec<&str> = self.id2label.keys().map(String::as_str).collect();
            return wrong("id2label", &format!("{{{}}}", found.join(", ")), "the names of the classes 0, 1, ...");
        };
        let config = BartConfig {
            vocabulary: self.vocab_size,
            context: self.max_position_embeddings,
            width: self.d_model,
            depth: [self.encoder_layers, self.decoder_layers],
            heads: [self.encoder_attention_heads, self.decoder_attention_heads],
            hidden: [self.encoder_ffn_dim, self.decoder_ffn_dim],
            scaled_words: self.scale_embedding,
            start: self.decoder_start_token_id,
            classes: labels.len(),
        };
        config.check().map_err(in_file(path))?;
        Ok((config, labels))
    }
}
