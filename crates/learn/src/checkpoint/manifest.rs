//! `manifest.toml`: how the weights beside it must be fed.

use std::fs;
use std::path::Path;

use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use conifer_space::ManifoldSpec;
use serde::{Deserialize, Serialize};

use crate::head::{Head, HeadConfig};
use crate::model::{Model, ModelConfig};
use crate::params::Init;
use crate::root::Apex;
use crate::{Error, Result};

/// Everything beside the weights that a model's numbers depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this file, [`Manifest::FORMAT`].
    pub format: u32,
    /// Version of conifer that wrote it.
    pub conifer: String,
    /// The method the model was trained with (a line of [`METHODS`](crate::methods::METHODS)), for people and reports.
    pub method: String,
    /// Apex of the cones where it is a point of its own: a learned or fixed root, the mean embedding that published CLIP checkpoints carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Vec<f64>>,
    /// Apex of the cones where it is none: the one that the model was trained with. Where both are absent, on a sphere the embedding of the
    /// empty text, and in any other space the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apex: Option<Apex>,
    /// The space, with the curvatures at the time of saving.
    pub manifold: ManifoldSpec,
    /// First values and ranges of the scalars.
    pub head: HeadConfig,
    /// Architecture of the towers and pixel statistics.
    pub model: ModelConfig,
    /// How photographs become pixels.
    pub images: ImageFeed,
    /// How texts become tokens.
    pub texts: TextFeed,
}

/// Photographs to pixels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageFeed {
    /// Crop at evaluation, with Pillow's bicubic.
    pub crop: EvalCrop,
}

/// Texts to tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFeed {
    /// The tokenizer, a file in the same folder; absent where the checkpoint came without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// Id that ends every text, and at which the encoder is read.
    pub end_of_text: u32,
    /// Id after the end, up to the longest text of the batch. It is never seen.
    pub padding: u32,
}

impl Manifest {
    /// The version this build reads and writes.
    pub const FORMAT: u32 = 1;

    /// The manifest of `model`.
    pub fn new(model: &Model, head: &HeadConfig, method: &str, texts: TextFeed) -> Self {
        Self {
            format: Self::FORMAT,
            conifer: env!("CARGO_PKG_VERSION").to_owned(),
            method: method.to_owned(),
            root: model.head.root(),
            apex: None,
            manifold: model.head.spec(),
            head: head.clone(),
            model: model.config().clone(),
            images: ImageFeed::default(),
            texts,
        }
    }

    /// Whether the tokenizer is the model's.
    ///
    /// # Errors
    /// [`Error::Setting`] if it has ids for which the embedding table has no rows, or ends texts with another id.
    pub fn check_tokenizer(&self, tokenizer: &Tokenizer) -> Result<()> {
        let (ids, rows) = (tokenizer.vocab_size(), self.model.textual.reads().vocabulary);
        if ids > rows {
            let expected = format!("at most {rows}, the rows of the text encoder's table");
            return Err(Error::setting("tokenizer", format!("a vocabulary of {ids} ids"), expected));
        }
        let (found, expected) = (tokenizer.end_of_text(), self.texts.end_of_text);
        match found == expected {
            true => Ok(()),
            false => Err(Error::setting(
                "tokenizer",
                format!("ending texts with id {found}"),
                format!("{expected} (manifest)"),
            )),
        }
    }

    /// A model of this description with the values of `init`, which are about to be loaded over.
    ///
    /// # Errors
    /// If the architecture or the space is impossible, or larger than `init` allows.
    pub fn blank_model(&self, init: &mut Init) -> Result<Model> {
        let device = init.device().clone();
        let space = ManifoldSpec {
            // Learned curvatures come with the weights; here they would be checked as initial values.
            curv: Vec::new(),
            ..self.manifold.clone()
        };
        let head = Head::new(&space, &self.head, &device)?.with_root(self.root.as_deref(), true, &device)?;
        Model::new(&self.model, head, init)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Format`] for another version, an unknown key or a missing one.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io(path))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| Error::format(path, error.to_string()))?;
        // Looked at first: in another version, other keys are to be expected.
        let format = table.get("format").and_then(toml::Value::as_integer);
        if format != Some(i64::from(Self::FORMAT)) {
            let found = format.map_or("absent".to_owned(), |format| format.to_string());
            return Err(Error::format(path, format!("`format` is {found}; expected {}", Self::FORMAT)));
        }
        table.try_into().map_err(|error: toml::de::Error| Error::format(path, error.to_string()))
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// [`Error::Io`] with the path.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|error| Error::format(path, error.to_string()))?;
        fs::write(path, text).map_err(Error::io(path))
    }
}
