//! Saves and loads models.
//!
//! A checkpoint is a folder:
//!
//! | file | what |
//! |---|---|
//! | `weights.safetensors` | parameters, scalars and constant buffers |
//! | `visual.onnx`, `textual.onnx` | copies of the encoders that are ONNX files |
//! | `manifest.toml` | space, architecture, pixel statistics, crop and tokenizer of the model ([`Manifest`]) |
//! | `tokenizer.json` | the tokenizer, if the model has one |
//! | `config.toml`, `optimizer.safetensors`, `state.json` | training state, for a resumed run ([`run_folder`]) |
//! | `trained.safetensors` | training state of runs with `train.ema`, whose weights are an average: the parameters in training |
//! | `momentum.safetensors` | training state of methods with a momentum encoder: the encoder and its queue |
//!
//! The weights have the published names of the MERU family and PyTorch's layout. The published model class can load a
//! model of its architecture strictly.
//!
//! [`replace_folder`] makes a folder appear completely or not at all; [`write()`] writes weights, ONNX files, manifest
//! and tokenizer; [`load`] reads all of these except the tokenizer ([`load_tokenizer`]). [`published`] reads and
//! writes the layouts of other systems. [`open()`] opens a checkpoint of any kind.

mod archive;
pub mod bart_folder;
mod folder;
mod hf_align;
mod hf_clip;
pub mod hub;
mod layout;
mod manifest;
mod meru_family;
pub mod moco;
mod onnx_files;
mod open_clip;
#[cfg(test)]
mod precision_tests;
pub mod published;
mod reference;
pub mod run_folder;
mod safetensors_file;
mod state_dict;
pub mod t5_folder;
pub mod towers;
mod weights;

use std::path::Path;

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;

pub use folder::replace_folder;
pub use manifest::{FrozenTowers, ImageFeed, Manifest, TextFeed};
pub use reference::{OpenedModel, open};
pub(crate) use weights::module_weights;
pub use weights::{Precision, export, load as load_weights, save as save_weights};

use crate::Result;
use crate::model::{Model, ModelConfig};
use crate::params::Init;
pub use crate::weight_array::{WeightArray, WeightValues, Weights};

/// The weights in a checkpoint folder.
pub const WEIGHTS: &str = "weights.safetensors";
/// The manifest in a checkpoint folder.
pub const MANIFEST: &str = "manifest.toml";
/// The tokenizer in a checkpoint folder.
pub const TOKENIZER: &str = "tokenizer.json";

/// Saves a model for inference: [`replace_folder`] with [`write()`], after low-rank updates are merged into the weights
/// ([`Model::merged`]).
///
/// # Errors
/// The errors of [`replace_folder`] and [`write()`].
pub fn save(dir: &Path, model: &Model, manifest: &Manifest, tokenizer: Option<&Tokenizer>) -> Result<()> {
    save_as(dir, model, manifest, tokenizer, Precision::F32)
}

/// Like [`save`], with weights in the given precision. [`load`] always returns `f32`.
///
/// # Errors
/// The errors of [`save`].
pub fn save_as(
    dir: &Path,
    model: &Model,
    manifest: &Manifest,
    tokenizer: Option<&Tokenizer>,
    precision: Precision,
) -> Result<()> {
    let (model, manifest) = merged(model.clone(), manifest.clone());
    replace_folder(dir, |folder| write_as(folder, &model, &manifest, tokenizer, precision))
}

/// A model whose low-rank updates are merged into its weights, and its manifest.
pub(crate) fn merged(model: Model, manifest: Manifest) -> (Model, Manifest) {
    let model = model.merged();
    let config = ModelConfig { visual_lora: None, textual_lora: None, ..manifest.model };
    (model, Manifest { model: config, ..manifest })
}

/// Writes weights, ONNX files, manifest and tokenizer into the existing `folder`. The written manifest has the model's
/// current curvatures and root, and names the written tokenizer. Low-rank updates are written beside the weights that
/// they change (`NAME.lora.a` and `NAME.lora.b`, in the layout of memory), so that a run can be resumed.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) with the file; a tokenizer that [`Manifest::check_tokenizer`] rejects.
pub fn write(folder: &Path, model: &Model, manifest: &Manifest, tokenizer: Option<&Tokenizer>) -> Result<()> {
    write_as(folder, model, manifest, tokenizer, Precision::F32)
}

fn write_as(
    folder: &Path,
    model: &Model,
    manifest: &Manifest,
    tokenizer: Option<&Tokenizer>,
    precision: Precision,
) -> Result<()> {
    let mut manifest = manifest.clone();
    manifest.manifold = model.head.spec();
    manifest.root = model.head.root().or(manifest.root);
    if let Some(tokenizer) = tokenizer {
        manifest.check_tokenizer(tokenizer)?;
    }
    // Vectors of texts belong to the data, not to the model.
    let tokenizer = tokenizer.filter(|tokenizer| tokenizer.text_vectors().is_none());
    manifest.texts.tokenizer = tokenizer.map(|_| TOKENIZER.to_owned());
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(&folder.join(TOKENIZER))?;
    }
    weights::save_as(&export(model), precision, &folder.join(WEIGHTS))?;
    manifest.model = onnx_files::copy(folder, manifest.model)?;
    manifest.save(&folder.join(MANIFEST))
}

/// Loads a model onto `device`: a device with autodiff for training, one without autodiff for inference. Low-rank
/// updates stay separate ([`open()`] merges them).
///
/// # Errors
/// [`Error::Io`](crate::Error::Io), [`Error::Format`](crate::Error::Format) or
/// [`Error::Weights`](crate::Error::Weights), with the file.
pub fn load(dir: &Path, device: &Device) -> Result<(Model, Manifest)> {
    let dir = &conifer_files::resolve(dir);
    let mut manifest = Manifest::load(&dir.join(MANIFEST))?;
    manifest.model = onnx_files::resolve(dir, &dir.join(MANIFEST), manifest.model)?;
    let path = dir.join(WEIGHTS);
    let weights = weights::load(&path)?;
    check_size(&manifest.model, &weights, &dir.join(MANIFEST), WEIGHTS)?;
    let blank = manifest.blank_model(&mut Init::blank_for(&weights, device)).map_err(in_file(&dir.join(MANIFEST)))?;
    let model = weights::import(blank, weights, &path)?;
    Ok((model, manifest))
}

/// Checks that a config does not describe transformers with more values than the weights file holds, so that a typo in
/// a width does not exhaust the memory. `path` is the config, `beside` the file name of the weights.
fn check_size(model: &ModelConfig, weights: &Weights, path: &Path, beside: &str) -> Result<()> {
    let number = |table: &toml::Table, key: &str| table.get(key).and_then(toml::Value::as_integer).unwrap_or(0) as f64;
    let towers = [toml::Table::try_from(&model.visual), toml::Table::try_from(&model.textual)];
    // A lower bound for transformers: queries, keys, values and output projection of a block have 4 width^2 values, or
    // 4 width times the width of all heads. Other encoders have no `depth`.
    let min_values = |tower: &toml::Table| {
        let width = number(tower, "width");
        // T5: heads times head_width may differ from width, and there is no table of positions.
        let heads = tower.contains_key("head_width").then(|| number(tower, "heads") * number(tower, "head_width"));
        let tokens = (number(tower, "image_size") / number(tower, "patch").max(1.0)).powi(2);
        let positions = match heads {
            Some(_) => 0.0,
            None if tower.contains_key("patch") => tokens,
            None => number(tower, "context"),
        };
        4.0 * number(tower, "depth") * width * heads.unwrap_or(width)
            + (positions + number(tower, "vocabulary")) * width
    };
    check_numbers(towers.iter().flatten().map(min_values).sum(), weights, path, beside)
}

/// Adds the file name to the error of an invalid setting.
fn in_file(path: &Path) -> impl FnOnce(crate::Error) -> crate::Error {
    let path = path.to_owned();
    move |error| match error {
        crate::Error::Invalid { name, found, expected } => {
            crate::Error::format(path, format!("`{name}` is {found}; expected {expected}"))
        }
        crate::Error::Space(error) => crate::Error::format(path, error.to_string()),
        other => other,
    }
}

fn check_numbers(min_values: f64, weights: &Weights, path: &Path, beside: &str) -> Result<()> {
    let stored = weights::count(weights);
    if min_values <= stored as f64 {
        return Ok(());
    }
    let detail = format!(
        "describes towers of at least {min_values:e} numbers; expected at most {stored}, the count in {beside}"
    );
    Err(crate::Error::format(path, detail))
}

/// Loads the tokenizer of a checkpoint.
///
/// # Errors
/// If the manifest names none, or the file cannot be read.
pub fn load_tokenizer(dir: &Path, manifest: &Manifest) -> Result<Tokenizer> {
    let name = manifest.texts.tokenizer.as_deref().ok_or_else(|| {
        crate::Error::format(
            dir.join(MANIFEST),
            "`texts.tokenizer` is absent; expected a tokenizer file (pass --tokenizer FILE when converting)",
        )
    })?;
    Ok(Tokenizer::open(&conifer_files::resolve(dir).join(name))?)
}

#[cfg(test)]
mod clip_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod pickle_tests;
#[cfg(test)]
mod tests;
