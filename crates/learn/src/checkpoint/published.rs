//! Checkpoints of the MERU family as published: `.pth` files written by `torch.save`, and the same tensors as safetensors.
//!
//! **Safety.** A `.pth` file is a pickle, a program for Python. Nothing of it is ever run here: `pytorch-reader` interprets the few
//! instructions that rebuild tensors and containers, checks every declared length against the file, and keeps the *name* of anything
//! else. A file in which such a name is left, that is, one that would call into Python when loaded there, is refused.
//!
//! **What is inferred.** Sizes come from the shapes. The number of heads is in no tensor: 12 for widths 384 and 768 and 16 for 1024 in
//! the image tower, width / 64 in the text tower, as published; other widths need [`ImportOptions`]. Per-factor scalars make a PHyCLIP
//! model, a curvature a MERU or HyCoCLIP one (the two differ in training only), neither a CLIP.

use std::path::Path;

use burn::tensor::{DType, Device};
use conifer_space::ManifoldSpec;
use pytorch_reader::{DType as StoredType, PickleValue, PytorchReader};

use super::manifest::{Manifest, TextFeed};
use super::weights::{self, Array, Weights};
use crate::encoders::layers::Activation;
use crate::encoders::{TextTransformerConfig, TextualConfig, VisualConfig, VitConfig};
use crate::head::{Head, HeadConfig};
use crate::model::{Model, ModelConfig, PixelStatistics};
use crate::params::Init;
use crate::{Error, Result};

/// What the tensors of a published checkpoint do not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// The method; absent: `phyclip`, `meru` or `clip`, by the scalars.
    pub method: Option<String>,
    /// Kind of a product space, `product_l1` (absent) or `product_l2`.
    pub product: Option<String>,
    /// Heads of the image tower; absent: the published rule.
    pub visual_heads: Option<usize>,
    /// Heads of the text tower; absent: the published rule.
    pub textual_heads: Option<usize>,
    /// Non-linearity of the text tower.
    pub activation: Activation,
    /// Id of the end of text; absent: the last of the vocabulary.
    pub end_of_text: Option<u32>,
}

/// A published checkpoint as a model on `device`, and its manifest.
///
/// # Errors
/// [`Error::Format`] for a file that is no checkpoint, is cut, would run code, or is of another family; [`Error::Weights`] for tensors
/// that do not fit together; [`Error::Setting`] for a number of heads that is not given and has no rule.
pub fn import(path: &Path, options: &ImportOptions, device: &Device) -> Result<(Model, Manifest)> {
    let Published { weights, root } = read(path)?;
    let shapes = Shapes { weights: &weights, path };
    let config = ModelConfig {
        visual: VisualConfig::Vit(shapes.vit(options.visual_heads)?),
        textual: TextualConfig::TextTransformer(shapes.text_transformer(options)?),
        pixels: PixelStatistics { mean: shapes.channels("pixel_mean")?, std: shapes.channels("pixel_std")? },
    };
    let (space, method) = shapes.space(options)?;
    let head_config = HeadConfig { reference: true, ..HeadConfig::default() };
    let texts = TextFeed {
        tokenizer: None,
        end_of_text: options.end_of_text.unwrap_or(shapes.dims("textual.token_embed.weight", 2)?[0] as u32 - 1),
        padding: 0,
    };
    let head = Head::new(&space, &head_config, device)?;
    let model = Model::new(&config, head, &mut Init::blank(device))?;
    let model = weights::import(model, weights, path)?;
    let mut manifest = Manifest::new(&model, &head_config, options.method.as_deref().unwrap_or(method), texts);
    manifest.root = root;
    Ok((model, manifest))
}

/// Writes the state dict of `model` as safetensors: the published names and layout, with every buffer that strict loading in PyTorch
/// asks for.
///
/// # Errors
/// [`Error::Io`] with the path; [`Error::Setting`] for a space that no published model lives in, and that its reader could not tell.
pub fn export(model: &Model, path: &Path) -> Result<()> {
    let kind = model.head.spec().kind;
    if !PUBLISHED_SPACES.contains(&kind.as_str()) {
        let expected = format!(
            "one of {}, which the published format can say (keep the checkpoint folder)",
            PUBLISHED_SPACES.join(", ")
        );
        return Err(Error::setting("manifold.kind", kind, expected));
    }
    weights::save(&weights::export(model), path)
}

/// Spaces of the MERU family: what a state dict tells by its tensors.
const PUBLISHED_SPACES: [&str; 4] = ["sphere", "lorentz", "product_l1", "product_l2"];

/// The tensors of one published file.
struct Published {
    weights: Weights,
    root: Option<Vec<f64>>,
}

/// Beside the state dict in CLIP checkpoints: the mean of all training embeddings, on which traversals end.
const ROOT: &str = "root";

fn read(path: &Path) -> Result<Published> {
    let mut weights = match path.extension().is_some_and(|extension| extension == "safetensors") {
        false => read_pickle(path)?,
        true => {
            let stored = weights::load(path)?;
            let nested = is_nested(stored.keys());
            let own = |(name, array): (String, Array)| Some((own_name(&name, nested)?.to_owned(), array));
            stored.into_iter().filter_map(own).collect()
        }
    };
    let root = weights.remove(ROOT).and_then(|root| Some(root.floats()?.iter().map(|&x| f64::from(x)).collect()));
    Ok(Published { weights, root })
}

fn read_pickle(path: &Path) -> Result<Weights> {
    let unreadable = |error| Error::format(path, format!("not readable as a PyTorch checkpoint: {error}"));
    let content = PytorchReader::read_pickle_data(path, None).map_err(unreadable)?;
    refuse_code(path, &content, "")?;
    let tensors = PytorchReader::new(path).map_err(unreadable)?.into_tensors();
    let nested = is_nested(tensors.keys());
    let mut weights = Weights::new();
    for (name, tensor) in tensors {
        let Some(key) = own_name(&name, nested) else { continue };
        let bytes = tensor.read().map_err(|error| Error::format(path, error.to_string()))?;
        let shape = tensor.shape().to_vec();
        let floats = |dtype| Array::f32(shape.clone(), weights::wider(&bytes, dtype));
        let array = match tensor.dtype() {
            StoredType::F32 => floats(DType::F32),
            StoredType::F16 => floats(DType::F16),
            StoredType::BF16 => floats(DType::BF16),
            StoredType::F64 => floats(DType::F64),
            StoredType::Bool => Array::bool(shape, bytes.iter().map(|&byte| byte != 0).collect()),
            other => {
                return Err(Error::format(
                    path,
                    format!("`{name}` holds {other:?}; expected a float or boolean tensor"),
                ));
            }
        };
        weights.insert(key.to_owned(), array);
    }
    Ok(weights)
}

/// Name of a tensor within the state dict, if it belongs there. A trainer's file has the state dict under `model`, beside optimiser and
/// scheduler (`nested`); `module.` is left by saving a model wrapped for several GPUs.
fn own_name(name: &str, nested: bool) -> Option<&str> {
    let key = match name.strip_prefix("model.") {
        None if nested => return (name == ROOT).then_some(name),
        key => key.unwrap_or(name),
    };
    Some(key.strip_prefix("module.").unwrap_or(key))
}

fn is_nested<'a>(mut names: impl Iterator<Item = &'a String>) -> bool {
    names.any(|name| name.starts_with("model."))
}

/// Refuses a pickle in which something other than tensors, containers and plain values is left.
fn refuse_code(path: &Path, value: &PickleValue, place: &str) -> Result<()> {
    const DATA: &[&str] = &["torch.Tensor", "torch.TypedStorage", "torch.UntypedStorage"];
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match value {
        PickleValue::Unsupported(name) if !DATA.contains(&name.as_str()) => Err(Error::format(
            path,
            format!(
                "refers to the Python object `{name}` at `{place}`; expected tensors and plain values only. Loading it in Python could run \
                 code, so it is refused; nothing was run"
            ),
        )),
        PickleValue::List(items) => {
            items.iter().enumerate().try_for_each(|(i, item)| refuse_code(path, item, &below(&i.to_string())))
        }
        PickleValue::Dict(entries) => entries.iter().try_for_each(|(key, entry)| refuse_code(path, entry, &below(key))),
        _ => Ok(()),
    }
}

/// The architecture, read off the shapes.
struct Shapes<'a> {
    weights: &'a Weights,
    path: &'a Path,
}

impl Shapes<'_> {
    fn get(&self, name: &str) -> Result<&Array> {
        self.weights.get(name).ok_or_else(|| {
            Error::format(self.path, format!("holds no tensor `{name}`; expected a checkpoint of the MERU family"))
        })
    }

    fn dims(&self, name: &str, rank: usize) -> Result<&[usize]> {
        let shape = self.get(name)?.shape.as_slice();
        match shape.len() == rank && shape.iter().all(|&dim| dim > 0) {
            true => Ok(shape),
            false => Err(Error::format(self.path, format!("`{name}` is {shape:?}; expected {rank} dimensions"))),
        }
    }

    fn depth(&self, prefix: &str) -> usize {
        let index = |name: &String| name.strip_prefix(prefix)?.split('.').next()?.parse::<usize>().ok();
        self.weights.keys().filter_map(index).max().map_or(0, |last| last + 1)
    }

    fn vit(&self, heads: Option<usize>) -> Result<VitConfig> {
        let positions = self.dims("visual.pos_embed", 3)?;
        let (tokens, width) = (positions[1], positions[2]);
        let patch = self.dims("visual.patch_embed.proj.weight", 4)?[3];
        let grid = (tokens - 1).isqrt();
        if grid * grid + 1 != tokens {
            return Err(Error::format(
                self.path,
                format!("`visual.pos_embed` has {tokens} tokens; expected a square number and the class token"),
            ));
        }
        let rule = match width {
            384 | 768 => Some(12),
            1024 => Some(16),
            _ => None,
        };
        Ok(VitConfig {
            image_size: grid * patch,
            patch,
            width,
            depth: self.depth("visual.blocks."),
            heads: heads.or(rule).ok_or_else(|| no_rule("visual", width, "384, 768 or 1024"))?,
        })
    }

    fn text_transformer(&self, options: &ImportOptions) -> Result<TextTransformerConfig> {
        let (vocabulary, width) = match *self.dims("textual.token_embed.weight", 2)? {
            [vocabulary, width] => (vocabulary, width),
            _ => (0, 0),
        };
        let rule = width.is_multiple_of(64).then_some(width / 64);
        Ok(TextTransformerConfig {
            vocabulary,
            context: self.dims("textual.posit_embed", 2)?[0],
            width,
            depth: self.depth("textual.resblocks."),
            heads: options.textual_heads.or(rule).ok_or_else(|| no_rule("textual", width, "a multiple of 64"))?,
            activation: options.activation,
        })
    }

    fn channels(&self, name: &str) -> Result<[f32; 3]> {
        match self.get(name)?.floats() {
            Some(&[r, g, b]) => Ok([r, g, b]),
            _ => Err(Error::format(self.path, format!("`{name}` is {:?}; expected [3, 1, 1]", self.get(name)?.shape))),
        }
    }

    /// The space and the method, by the scalars there are.
    fn space(&self, options: &ImportOptions) -> Result<(ManifoldSpec, &'static str)> {
        let dim = self.dims("visual_proj.weight", 2)?[0];
        let factors = self.depth("curvs.");
        if factors > 0 {
            let kind = options.product.as_deref().unwrap_or("product_l1");
            let space = ManifoldSpec { kind: kind.to_owned(), dim, factors, curv: Vec::new() };
            return Ok((space, "phyclip"));
        }
        let (kind, method) = match self.weights.contains_key("curv") {
            true => ("lorentz", "meru"),
            false => ("sphere", "clip"),
        };
        let space = ManifoldSpec { kind: kind.to_owned(), dim, factors: 1, curv: Vec::new() };
        Ok((space, method))
    }
}

fn no_rule(tower: &str, width: usize, known: &str) -> Error {
    Error::setting(
        format!("{tower}_heads"),
        format!("not given for width {width}"),
        format!("a number of heads (known for width {known})"),
    )
}
