//! Converts tensors between our names and another layout: [`gather`] converts to our names, [`scatter`] to the other
//! layout.
//!
//! A layout is one function from our names to a [`TensorMapping`]. Reading and writing use the same function, so they
//! cannot disagree.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_geometry::{ManifoldKind, ManifoldSpec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::state_dict::StateDict;
use super::weights::{self, transpose};
use super::{ImageFeed, Manifest, TextFeed};
use crate::apex::Apex;
use crate::encoders::{ClipVitConfig, TextTransformerConfig, TextualConfig, VisualConfig};
use crate::head::{Head, HeadConfig};
use crate::model::{Model, ModelConfig, PixelStatistics};
use crate::params::Init;
use crate::weight_array::{WeightArray, WeightValues, Weights};
use crate::{Error, Result};

/// Where another layout stores one of our tensors.
#[derive(Debug)]
pub(super) enum TensorMapping {
    /// Under this name, unchanged.
    Same(String),
    /// A matrix, stored as `[in, out]`. PyTorch's linear layers, and our published form, use `[out, in]`.
    Transposed(String),
    /// Split into parts with equal numbers of rows, stacked vertically.
    Parts(Vec<String>),
}

impl TensorMapping {
    /// Names and shapes of the tensors that are stored for one of our tensors of this shape.
    fn stored(&self, shape: &[usize]) -> Vec<(&str, Vec<usize>)> {
        match self {
            Self::Same(name) => vec![(name, shape.to_vec())],
            Self::Transposed(name) => vec![(name, shape.iter().rev().copied().collect())],
            Self::Parts(names) => {
                let mut part = shape.to_vec();
                if let Some(rows) = part.first_mut() {
                    *rows /= names.len();
                }
                names.iter().map(|name| (name.as_str(), part.clone())).collect()
            }
        }
    }
}

/// Converts `stored` to our names. `stored` must hold every tensor of `needed` (our names and shapes) and no other.
///
/// # Errors
/// [`Error::Weights`] listing every tensor that is missing, unexpected, of another shape or not finite, by its name in
/// `path`.
pub(super) fn gather(
    needed: Vec<(String, Vec<usize>)>,
    mut stored: Weights,
    mapping: impl Fn(&str) -> TensorMapping,
    path: &Path,
) -> Result<Weights> {
    let mut gathered = Weights::new();
    let mut problems = Vec::new();
    for (name, shape) in needed {
        let mapping = mapping(&name);
        let parts: Vec<_> = mapping
            .stored(&shape)
            .into_iter()
            .map(|(name, expected)| take(&mut stored, name, &expected).map_err(|problem| problems.push(problem)))
            .collect();
        // The problems of missing parts were recorded above, so that the error lists all of them.
        let Ok(mut parts) = parts.into_iter().collect::<Result<Vec<Vec<f32>>, ()>>() else { continue };
        let values = match (&mapping, shape.as_slice()) {
            (TensorMapping::Transposed(_), &[rows, columns]) => transpose(&parts.concat(), columns, rows),
            // A single part is moved, not copied.
            _ if parts.len() == 1 => parts.swap_remove(0),
            _ => parts.concat(),
        };
        gathered.insert(name, WeightArray::f32(shape, values));
    }
    problems.extend(stored.iter().map(|(name, array)| format!("unexpected `{name}` {:?}", array.shape)));
    match problems.is_empty() {
        true => Ok(gathered),
        false => Err(Error::Weights { path: path.to_owned(), problems }),
    }
}

fn take(stored: &mut Weights, name: &str, expected: &[usize]) -> Result<Vec<f32>, String> {
    let array = stored.remove(name).ok_or_else(|| format!("missing `{name}` {expected:?}"))?;
    // Some exporters store a scalar with one dimension.
    if array.shape != expected && !(expected.is_empty() && array.shape == [1]) {
        return Err(format!("`{name}` is {:?}, expected {expected:?}", array.shape));
    }
    let WeightValues::F32(values) = array.values else {
        return Err(format!("`{name}` is boolean, expected f32"));
    };
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(format!("`{name}` holds {value}, expected finite numbers")),
        None => Ok(values),
    }
}

/// Converts the tensors of `model` to the layout that `mapping` describes.
pub(super) fn scatter(model: &Model, mapping: fn(&str) -> TensorMapping) -> Weights {
    let mut own = weights::export(model);
    let mut scattered = Weights::new();
    for (name, shape) in weights::shapes(model) {
        let Some(WeightValues::F32(values)) = own.remove(&name).map(|array| array.values) else { continue };
        let mapping = mapping(&name);
        let parts = mapping.stored(&shape);
        match (&mapping, shape.as_slice()) {
            (TensorMapping::Transposed(name), &[rows, columns]) => {
                scattered.insert(name.clone(), WeightArray::f32([columns, rows], transpose(&values, rows, columns)));
            }
            _ => {
                let size = (values.len() / parts.len()).max(1);
                for ((name, shape), values) in parts.into_iter().zip(values.chunks(size)) {
                    scattered.insert(name.to_owned(), WeightArray::f32(shape, values.to_vec()));
                }
            }
        }
    }
    scattered
}

/// Mean and standard deviation of the pixels in CLIP's training code.
pub(super) const CLIP_PIXELS: PixelStatistics =
    PixelStatistics { mean: [0.481_454_66, 0.457_827_5, 0.408_210_73], std: [0.268_629_54, 0.261_302_6, 0.275_777_1] };

/// Returns the configs of the two towers if `layout`, a layout of CLIP, can represent `model`.
///
/// # Errors
/// [`Error::Invalid`] naming the part that `layout` cannot represent.
pub(super) fn clip_towers<'a>(
    model: &'a Model,
    layout: &str,
) -> Result<(&'a ClipVitConfig, &'a TextTransformerConfig)> {
    let kind = model.head.spec().kind;
    if kind != ManifoldKind::Sphere {
        return Err(Error::invalid("manifold.kind", kind, format!("sphere, the only space that {layout} supports")));
    }
    let config = model.config();
    match (&config.visual, &config.textual) {
        (VisualConfig::ClipVit(visual), TextualConfig::TextTransformer(textual)) => Ok((visual, textual)),
        _ => {
            let kind = |table: Result<toml::Table, toml::ser::Error>| {
                let kind = table.ok().and_then(|table| table.get("kind")?.as_str().map(str::to_owned));
                kind.unwrap_or_default()
            };
            let found = [kind(toml::Table::try_from(&config.visual)), kind(toml::Table::try_from(&config.textual))];
            let expected = format!("clip_vit and text_transformer, the only encoders that {layout} supports");
            Err(Error::invalid("model.visual.kind, model.textual.kind", found.join(", "), expected))
        }
    }
}

/// Data for which the layouts of Hugging Face and open_clip have no keys. It is stored under the key
/// [`CONIFER_SECTION`] of their configs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ConiferSection {
    /// The training method.
    pub(super) method: Option<String>,
    /// Root of the cones, if it is a stored point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<Vec<f64>>,
    /// Root of the cones, if it is not a stored point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) apex: Option<Apex>,
}

/// Config key of [`ConiferSection`].
pub(super) const CONIFER_SECTION: &str = "conifer";

impl ConiferSection {
    pub(super) fn of(model: &Model, manifest: &Manifest) -> Self {
        Self {
            method: Some(manifest.method.clone()),
            root: model.head.root().or_else(|| manifest.root.clone()),
            apex: manifest.apex.clone(),
        }
    }
}

/// The shortest decimal numbers that parse to the same f32.
pub(super) fn decimal(values: [f32; 3]) -> [f64; 3] {
    values.map(|value| value.to_string().parse().unwrap_or(f64::from(value)))
}

/// A CLIP model, as parsed from the config of another system or inferred from its tensor shapes.
#[derive(Debug)]
pub(super) struct ClipDescription {
    pub(super) model: ModelConfig,
    /// Dimension of the embeddings.
    pub(super) dim: usize,
    pub(super) images: ImageFeed,
    pub(super) texts: TextFeed,
    pub(super) conifer: ConiferSection,
    /// Path of the config, or of the weights file if there is no config.
    pub(super) path: PathBuf,
}

/// Builds the model of `described` with the tensors of `stored`.
///
/// # Errors
/// The errors of [`gather`]; [`Error::Format`] if the config describes a model with more parameters than the weights
/// file holds, or an invalid architecture.
pub(super) fn assemble(
    described: ClipDescription,
    stored: StateDict,
    mapping: fn(&str) -> TensorMapping,
    method: Option<&str>,
    device: &Device,
) -> Result<(Model, Manifest)> {
    let StateDict { path, weights: tensors, .. } = stored;
    let beside = path.file_name().unwrap_or_default().to_string_lossy();
    super::check_size(&described.model, &tensors, &described.path, &beside)?;
    let head_config = HeadConfig::default();
    let in_config = || super::in_file(&described.path);
    let head = Head::new(&ManifoldSpec::sphere(described.dim), &head_config, device).map_err(in_config())?;
    let mut init = Init::blank_for(&tensors, device);
    let model = Model::new(&described.model, head, &mut init).map_err(in_config())?;
    let weights = gather(weights::shapes(&model), tensors, mapping, &path)?;
    let model = weights::import(model, weights, &path)?;
    let method = method.or(described.conifer.method.as_deref()).unwrap_or("clip");
    let mut manifest = Manifest::new(&model, &head_config, method, described.texts);
    manifest.images = described.images;
    manifest.root = described.conifer.root;
    manifest.apex = described.conifer.apex;
    Ok((model, manifest))
}

/// Reads a JSON config.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Format`] with the position of invalid JSON or of a wrong type.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    serde_json::from_str(&text).map_err(|error| Error::format(path, error.to_string()))
}

/// Writes a JSON config.
///
/// # Errors
/// [`Error::Io`] if the file cannot be written.
pub(super) fn write_json(value: &serde_json::Value, path: &Path) -> Result<()> {
    fs::write(path, format!("{value:#}\n")).map_err(Error::io(path))
}
