//! Reads and writes checkpoints in the layouts of other systems.
//!
//! [`FORMATS`] lists the supported layouts; a file is recognised by its tensor names. To add a layout, add a file with
//! a [`CheckpointFormat`] to this folder and an entry to the table. A file of an image encoder alone
//! ([`TOWER_FORMATS`](super::towers::TOWER_FORMATS)) becomes a model that reads no texts.
//!
//! Values that the tensors do not determine (heads, activation, pixel statistics, end of text) come from the configs
//! beside the file, if the layout has any. [`ImportOptions`] overrides the heads and the end of text, and sets the
//! activation if there is no config.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;

use super::state_dict::StateDict;
use super::{Manifest, Precision, hf_align, hf_clip, meru_family, open_clip, replace_folder, towers};
use crate::encoders::layers::ActivationFn;
use crate::model::Model;
use crate::{Error, Result};

/// All supported layouts.
pub const FORMATS: &[CheckpointFormat] = &[meru_family::FORMAT, hf_clip::FORMAT, open_clip::FORMAT, hf_align::FORMAT];

/// A layout of published checkpoints that conifer reads, such as that of OpenCLIP.
#[derive(Debug)]
pub struct CheckpointFormat {
    /// Name of the layout on the command line.
    pub name: &'static str,
    /// One-line description for listings.
    pub summary: &'static str,
    /// File names of the weights in a folder of this layout, the preferred one first.
    pub(super) files: &'static [&'static str],
    /// Prefixes of tensor names that identify files of this layout.
    pub(super) marks: &'static [&'static str],
    pub(super) import: fn(StateDict, &ImportOptions, &Device) -> Result<(Model, Manifest)>,
    /// Writes a folder in this layout; `None` if that is not supported.
    pub(super) export: Option<ExportFn>,
}

pub(super) type ExportFn = fn(&Model, &Manifest, Option<&Tokenizer>, &Path) -> Result<()>;

/// Values that the tensors of a published checkpoint do not determine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// The method. Default: for the MERU family `phyclip`, `uncha`, `meru` or `clip`, inferred from the scalars; for
    /// the other layouts the method that conifer stored in the config, else `clip`.
    pub method: Option<String>,
    /// Kind of a product space: `product_l1` (default) or `product_l2`.
    pub product: Option<String>,
    /// Number of attention heads of the image tower. Default: from the config; without a config, the published number
    /// for the width.
    pub visual_heads: Option<usize>,
    /// Number of attention heads of the text tower. Default: from the config; without a config, the published number
    /// for the width.
    pub textual_heads: Option<usize>,
    /// Activation function of the text tower of the MERU family, and of both towers of an open_clip checkpoint without
    /// its config.
    pub activation: ActivationFn,
    /// Id of the end of text. Default for `hf-clip`: from the config; for `hf-align`: from the config, else 102
    /// (BERT's `[SEP]`); for the other layouts: the last id of the vocabulary.
    pub end_of_text: Option<u32>,
}

/// Side of the photographs of an image encoder whose file does not name it (MoCo's).
const IMAGE_SIZE: usize = 224;

/// Imports a published checkpoint (a file or its folder) onto `device`. Returns the model and its manifest. An image
/// encoder without a text encoder becomes a model on the unit sphere without a projection; this model rejects texts.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Format`] for a file that is not a checkpoint, is truncated, would
/// run code, or has an unknown layout; [`Error::Weights`] listing all tensors that are missing, unexpected, of another
/// shape or not finite; [`Error::Invalid`] if the number of attention heads is neither in `options` nor known for the
/// width of the tower.
pub fn import(path: &Path, options: &ImportOptions, device: &Device) -> Result<(Model, Manifest)> {
    let stored = StateDict::read(&weights_file(path)?)?;
    if let Some(format) = FORMATS.iter().find(|format| stored.has(format.marks)) {
        return (format.import)(stored, options, device);
    }
    if let Some(format) = towers::image_format(&stored) {
        let tower = format.read_image(stored, IMAGE_SIZE, device)?;
        return towers::image_model(tower, options.method.as_deref().unwrap_or("clip"), device);
    }
    let marks: Vec<_> = FORMATS.iter().map(|it| format!("`{}...` ({})", it.marks.join("...` or `"), it.name)).collect();
    let detail = format!(
        "has no known layout; expected tensors named {}, or an image encoder (`conifer encoders --long`)",
        marks.join(", ")
    );
    Err(Error::format(&stored.path, detail))
}

/// The `tokenizer.json` in the folder of a published checkpoint, if there is one.
///
/// # Errors
/// The errors of [`Tokenizer::open`].
pub fn tokenizer_beside(path: &Path) -> Result<Option<Tokenizer>> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let file = folder.join(super::TOKENIZER);
    Ok(file.is_file().then(|| Tokenizer::open(&file)).transpose()?)
}

/// Writes the state dict of `model` as safetensors in the given precision, under the names and in the layout of the
/// MERU family. Low-rank updates are merged into the weights.
///
/// # Errors
/// [`Error::Io`] with the path; [`Error::Invalid`] for a space that this layout cannot represent.
pub fn export(model: &Model, path: &Path, precision: Precision) -> Result<()> {
    meru_family::export(&model.clone().merged(), path, precision)
}

/// Writes a folder in the layout `name`: weights, config, and the tokenizer if there is one. The folder appears as a
/// whole or not at all. Low-rank updates are merged into the weights.
///
/// # Errors
/// [`Error::Unknown`] with the known names; [`Error::Invalid`] for a model that the layout cannot represent;
/// [`Error::Io`] with the file.
pub fn export_folder(
    name: &str,
    model: &Model,
    manifest: &Manifest,
    tokenizer: Option<&Tokenizer>,
    dir: &Path,
) -> Result<()> {
    let folders = || FORMATS.iter().filter_map(|format| Some((format.name, format.export?)));
    let Some((_, export)) = folders().find(|(known, _)| *known == name) else {
        let known: Vec<_> = folders().map(|(name, _)| name).collect();
        return Err(Error::Unknown { kind: "layout", name: name.to_owned(), known: known.join(", ") });
    };
    let (model, manifest) = super::merged(model.clone(), manifest.clone());
    replace_folder(dir, |folder| export(&model, &manifest, tokenizer, folder))
}

/// True if `path` is a file, or a folder that contains the weights of a published checkpoint.
pub fn is_published(path: &Path) -> bool {
    path.is_file() || weights_file(path).is_ok_and(|file| file.is_file())
}

/// The weights file: `path` itself, or the weights in the folder `path`.
fn weights_file(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let names: Vec<_> = FORMATS.iter().flat_map(|format| format.files).collect();
    names.iter().map(|name| path.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        Error::format(path, format!("holds no weights; expected one of {}", names.join(", ")))
    })
}

pub(super) fn no_rule(tower: &str, width: usize, known: &str) -> Error {
    Error::invalid(
        format!("{tower}_heads"),
        format!("not given for width {width}"),
        format!("a number of heads (known for width {known})"),
    )
}
