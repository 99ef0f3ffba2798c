//! One tower from a file: an image encoder or a text encoder with what its input needs.

mod hf_dinov2;
mod hf_dinov3;
mod hf_siglip;
mod hf_vit;
mod positions;
mod preprocessing;
mod timm_convnext;
mod timm_vit;
mod torchvision_resnet;

use std::path::Path;

use super::ImageFeed;
use super::layout::{TensorMapping, gather};
use super::state_dict::StateDict;
use super::weights::{self, WeightArray};
use crate::encoders::{Encoder, TextualConfig, TextualEncoder, VisualConfig, VisualEncoder};
use crate::model::PixelStatistics;
use crate::params::Init;
use crate::{Error, Result};
use burn::tensor::Device;

/// An image encoder and what its photographs need.
#[derive(Debug)]
pub(super) struct ImageTower {
    /// The encoder with its weights.
    pub encoder: VisualEncoder,
    /// Its architecture.
    pub config: VisualConfig,
    /// Pixel normalisation of its training.
    pub pixels: PixelStatistics,
    /// Crop of its photographs.
    pub images: ImageFeed,
}

/// A text encoder and what its texts need.
#[derive(Debug)]
pub(super) struct TextTower {
    /// The encoder with its weights.
    pub encoder: TextualEncoder,
    /// Its architecture.
    pub config: TextualConfig,
    /// Id that ends every text, if the files name it.
    pub end_of_text: Option<u32>,
}

/// Builds the encoder of `config` with the tensors of `stored`, which holds every tensor of the encoder and no other.
///
/// # Errors
/// As [`gather`]; [`Error::Format`] for an invalid architecture.
fn assemble<E: Encoder>(
    config: &E::Config,
    stored: StateDict,
    mapping: fn(&str) -> TensorMapping,
    device: &Device,
) -> Result<E> {
    let StateDict { path, weights: tensors, .. } = stored;
    let mut init = Init::blank_for(&tensors, device);
    let blank = E::new(config, &mut init).map_err(super::in_file(&path))?;
    init.check().map_err(super::in_file(&path))?;
    let weights = gather(weights::shapes_of(&blank), tensors, mapping, &path)?;
    weights::import_module(blank, weights, &path)
}

/// Keeps the tensors whose names start with `prefix`, and drops the prefix.
fn below(mut stored: StateDict, prefix: &str) -> StateDict {
    let own = |(name, array): (String, WeightArray)| Some((name.strip_prefix(prefix)?.to_owned(), array));
    stored.weights = stored.weights.into_iter().filter_map(own).collect();
    stored
}

/// Renames every tensor whose name starts with `from`.
fn rename(stored: &mut StateDict, from: &str, to: &str) {
    let names: Vec<String> = stored.weights.keys().filter(|name| name.starts_with(from)).cloned().collect();
    for name in names {
        if let Some(array) = stored.weights.remove(&name) {
            stored.weights.insert(format!("{to}{}", &name[from.len()..]), array);
        }
    }
}

/// Gives the tensor `name` another shape with the same number of elements.
fn reshape(stored: &mut StateDict, name: &str, shape: &[usize]) {
    if let Some(array) = stored.weights.get_mut(name)
        && array.shape.iter().product::<usize>() == shape.iter().product::<usize>()
    {
        array.shape = shape.to_vec();
    }
}

/// An error about a key of the config beside the weights.
fn wrong(path: &Path, key: &str, found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Error {
    Error::format(path, format!("`{key}` is {found}; expected {expected}"))
}

#[cfg(test)]
mod tests;
