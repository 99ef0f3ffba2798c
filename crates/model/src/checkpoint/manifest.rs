//! `manifest.toml`: describes the model whose weights are in the same folder, and how its inputs are prepared.

use std::fs;
use std::path::Path;

use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use crate::apex::Apex;
use crate::head::{Head, HeadConfig};
use crate::model::{Model, ModelConfig};
use crate::params::Init;
use crate::{Error, Result};

/// Everything besides the weights that affects a model's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this file, [`Manifest::FORMAT`].
    pub format: u32,
    /// Version of conifer that wrote the file.
    pub conifer: String,
    /// The training method (a name in `METHODS` of `conifer-train`), for users and reports.
    pub method: String,
    /// Root of the cones, if it is a stored point: learned, fixed, or the mean embedding of a published CLIP
    /// checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Vec<f64>>,
    /// Root of the cones in training, if it is not a stored point. If `root` and `apex` are both absent, the root is
    /// the embedding of the empty text on a sphere, and the origin in any other space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apex: Option<Apex>,
    /// The space, with the curvatures at the time of saving.
    pub manifold: ManifoldSpec,
    /// Settings of the head: initial values and ranges of curvature, feature scales and temperature.
    pub head: HeadConfig,
    /// Architecture of the towers and pixel statistics.
    pub model: ModelConfig,
    /// Preprocessing of photographs.
    pub images: ImageFeed,
    /// Preprocessing of texts.
    pub texts: TextFeed,
    /// Fingerprints of the towers that training left unchanged and whose features can be shared between models.
    #[serde(default, skip_serializing_if = "FrozenTowers::is_empty")]
    pub frozen: FrozenTowers,
}

/// Fingerprints of frozen towers ([`image_identity`](crate::features::image_identity),
/// [`text_identity`](crate::features::text_identity)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenTowers {
    /// The image encoder with its pixel statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual: Option<String>,
    /// The text encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub textual: Option<String>,
}

impl FrozenTowers {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Preprocessing of photographs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageFeed {
    /// Crop at evaluation, with Pillow's bicubic filter.
    pub crop: EvalCrop,
}

/// Preprocessing of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFeed {
    /// File name of the tokenizer in the same folder; absent if the checkpoint has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// Id at the end of every text. CLIP's text encoder is pooled at the position of this id.
    pub end_of_text: u32,
    /// Id that fills a row after the end of its text. It does not affect the features: encoders mask these positions,
    /// ignore them, or replace the id by the one in their own config (SigLIP).
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
            frozen: FrozenTowers::default(),
        }
    }

    /// Checks that the tokenizer matches the model.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the tokenizer has more ids than the embedding table has rows, or another end-of-text id
    /// than the manifest; if it is a table of vectors, but the model has a text encoder; if the model reads vectors of
    /// texts, but the tokenizer has no vectors, or vectors of another width.
    pub fn check_tokenizer(&self, tokenizer: &Tokenizer) -> Result<()> {
        match (self.model.textual.vector_width(), tokenizer.text_vectors()) {
            (Some(width), Some(texts)) if !texts.is_empty() && texts.width() != width => {
                let expected = format!("{width}, the width that this model reads");
                return Err(Error::invalid(
                    "the vectors of the texts",
                    format!("of width {}", texts.width()),
                    expected,
                ));
            }
            (Some(width), None) => {
                let expected = format!("vectors of width {width}: this model reads vectors and has no text encoder");
                return Err(Error::invalid("tokenizer", "one of subwords", expected));
            }
            (None, Some(_)) => {
                let expected = "one of subwords, because this model has a text encoder";
                return Err(Error::invalid("tokenizer", "a table of vectors", expected));
            }
            _ => {}
        }
        let (ids, rows) = (tokenizer.vocab_size(), self.model.textual.reads().vocabulary);
        if ids > rows {
            let expected = format!("at most {rows}, the vocabulary of the text encoder");
            return Err(Error::invalid("tokenizer", format!("one with {ids} ids"), expected));
        }
        let (found, expected) = (tokenizer.end_of_text(), self.texts.end_of_text);
        match found == expected {
            true => Ok(()),
            false => Err(Error::invalid(
                "tokenizer",
                format!("one that ends texts with id {found}"),
                format!("{expected} (manifest)"),
            )),
        }
    }

    /// Builds the model that the manifest describes, with the values of `init`. The caller replaces them by the stored
    /// weights.
    ///
    /// # Errors
    /// If the architecture or the space is invalid, or larger than `init` allows.
    pub fn blank_model(&self, init: &mut Init) -> Result<Model> {
        let device = init.device().clone();
        let space = ManifoldSpec {
            // The weights hold the learned curvatures. As initial values they could fail the range check.
            curv: Vec::new(),
            ..self.manifold.clone()
        };
        let head = Head::new(&space, &self.head, &device)?.with_root(self.root.as_deref(), true, &device)?;
        Model::new(&self.model, head, init)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read; [`Error::Format`] for another version, an unknown key, a missing key
    /// or an invalid value.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io(path))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| Error::format(path, error.to_string()))?;
        // Check the version first: another version may have other keys.
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
