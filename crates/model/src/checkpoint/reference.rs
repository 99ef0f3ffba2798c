//! Opens a model by its path or name: [`open`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;

use super::published::{self, ImportOptions};
use super::run_folder::latest_checkpoint;
use super::{Manifest, hub, load, load_tokenizer};
use crate::model::Model;
use crate::{Error, Result};

/// A model and its location.
#[derive(Debug)]
pub struct OpenedModel {
    /// The file or folder from which the model was read.
    pub path: PathBuf,
    /// The model, on the requested device.
    pub model: Model,
    /// The manifest of the model.
    pub manifest: Manifest,
    /// True for a published model, false for a conifer checkpoint.
    pub published: bool,
}

/// Opens a checkpoint folder, the newest checkpoint of a run, or a published model: its file, its folder, or its name
/// on the hub ([`hub::locate`]). If the replacement of a checkpoint was interrupted, the previous checkpoint is read
/// from the folder to which it was moved, and [`OpenedModel::path`] is that folder. `options` supplies values that the
/// files of a published model lack. The low-rank updates of an unfinished or finished run are merged into the weights
/// ([`Model::merged`]).
///
/// # Errors
/// The errors of [`hub::locate`], [`latest_checkpoint`], [`load`] and [`published::import`].
pub fn open(reference: &Path, options: &ImportOptions, device: &Device) -> Result<OpenedModel> {
    let path = hub::locate(&conifer_files::resolve(reference))?;
    if published::is_published(&path) {
        let (model, manifest) = published::import(&path, options, device)?;
        return Ok(OpenedModel { path, model, manifest, published: true });
    }
    let path = latest_checkpoint(&path)?;
    let (model, manifest) = load(&path, device)?;
    let (model, manifest) = super::merged(model, manifest);
    Ok(OpenedModel { path, model, manifest, published: false })
}

impl OpenedModel {
    /// Loads the tokenizer of the model. `None` for a published model without a `tokenizer.json` in its folder, and for
    /// a checkpoint whose manifest names no tokenizer.
    ///
    /// # Errors
    /// If the file is not a valid tokenizer.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        if self.published {
            return published::tokenizer_beside(&self.path);
        }
        let named = self.manifest.texts.tokenizer.is_some();
        named.then(|| load_tokenizer(&self.path, &self.manifest)).transpose()
    }

    /// Loads the tokenizer, for callers that require one. A model that reads vectors of texts gets an empty tokenizer;
    /// [`Embedder::with_text_vectors`](crate::embed::Embedder::with_text_vectors) adds the texts.
    ///
    /// # Errors
    /// The errors of [`OpenedModel::tokenizer`]; [`Error::Invalid`] if there is none.
    pub fn need_tokenizer(&self) -> Result<Tokenizer> {
        if self.manifest.model.textual.vector_width().is_some() {
            return Ok(Tokenizer::of_vectors(Arc::default()));
        }
        self.tokenizer()?.ok_or_else(|| {
            let expected = format!(
                "a {} beside it (`conifer convert {} FOLDER --tokenizer FILE` makes a checkpoint that has one)",
                super::TOKENIZER,
                self.path.display()
            );
            Error::invalid("tokenizer", "no file", expected)
        })
    }
}
