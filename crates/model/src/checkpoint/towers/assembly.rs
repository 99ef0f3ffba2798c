//! Steps that the readers of towers share: sizes of a vision transformer, changes of tensor names, building the
//! encoder.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;

use super::super::in_file;
use super::super::layout::{TensorMapping, gather};
use super::super::state_dict::StateDict;
use super::super::weights;
use super::ImageTower;
use super::preprocessing::PhotoPreprocessing;
use crate::encoders::layers::{ActivationFn, SMALL_NORM_EPSILON};
use crate::encoders::{PretrainedVitConfig, VisualConfig, VitPooling, VitPositions};
use crate::params::Init;
use crate::weight_array::WeightArray;
use crate::{Error, Result};

/// The image tower of `config` with the tensors of `stored`, which holds every tensor of the encoder and no other.
///
/// # Errors
/// The errors of [`import_encoder`].
pub(super) fn image_tower(
    config: VisualConfig,
    stored: StateDict,
    mapping: impl Fn(&str) -> TensorMapping,
    photos: PhotoPreprocessing,
    device: &Device,
) -> Result<ImageTower> {
    let path = stored.path.clone();
    let encoder = import_encoder(|init| config.build(init), stored, mapping, &path, device)?;
    Ok(ImageTower { encoder, config, pixels: photos.pixels, images: photos.images })
}

/// The encoder of `build` with the tensors of `stored`, which holds every tensor of the encoder and no other. `config`
/// is the file that describes the architecture.
///
/// # Errors
/// The errors of [`gather`]; [`Error::Format`] naming `config` for an invalid architecture.
pub(in crate::checkpoint) fn import_encoder<M: Module>(
    build: impl FnOnce(&mut Init) -> Result<M>,
    stored: StateDict,
    mapping: impl Fn(&str) -> TensorMapping,
    config: &Path,
    device: &Device,
) -> Result<M> {
    let StateDict { path, weights: tensors, .. } = stored;
    let mut init = Init::blank_for(&tensors, device);
    let blank = build(&mut init).map_err(in_file(config))?;
    init.check().map_err(in_file(config))?;
    let weights = gather(weights::shapes_of(&blank), tensors, mapping, &path)?;
    weights::import_module(blank, weights, &path)
}

/// Names of the tensors of a vision transformer whose shapes determine its sizes.
pub(super) struct VitTensorNames {
    /// Kernel of the patches, `[width, 3, patch, patch]`.
    pub(super) patches: &'static str,
    /// First feed-forward map of the first block, `[hidden, width]`.
    pub(super) up: &'static str,
    /// Prefix of the index of a block.
    pub(super) blocks: &'static str,
}

/// Sizes of a vision transformer from its tensors. All other values are those of a ViT with learned positions that is
/// pooled at its class token. `image_size` is 0, for the caller to set.
///
/// # Errors
/// The errors of [`StateDict::dims`].
pub(super) fn vit_sizes(stored: &StateDict, names: &VitTensorNames, heads: usize) -> Result<PretrainedVitConfig> {
    let [width, _, patch, _] = stored.dims::<4>(names.patches)?;
    let [hidden, _] = stored.dims::<2>(names.up)?;
    Ok(PretrainedVitConfig {
        image_size: 0,
        patch,
        width,
        depth: stored.depth(names.blocks),
        heads,
        mlp_ratio: hidden as f64 / width as f64,
        activation: ActivationFn::Gelu,
        epsilon: SMALL_NORM_EPSILON,
        layer_scale: false,
        class_token: true,
        class_position: true,
        registers: 0,
        positions: VitPositions::Learned,
        pool: VitPooling::Token,
    })
}

/// The number of register tokens: rows of the table `name` `[1, registers, width]`. A table without rows, which
/// transformers writes for 0 registers, is dropped.
///
/// # Errors
/// [`Error::Format`] for another number of dimensions.
pub(super) fn registers(stored: &mut StateDict, name: &str) -> Result<usize> {
    match stored.weights.get(name).map(|array| array.shape.as_slice()) {
        None => Ok(0),
        Some([_, 0, _]) => {
            stored.weights.remove(name);
            Ok(0)
        }
        Some(_) => Ok(stored.dims::<3>(name)?[1]),
    }
}

/// Keeps the tensors whose names start with `prefix`, and drops the prefix.
pub(super) fn below(mut stored: StateDict, prefix: &str) -> StateDict {
    let own = |(name, array): (String, WeightArray)| Some((name.strip_prefix(prefix)?.to_owned(), array));
    stored.weights = stored.weights.into_iter().filter_map(own).collect();
    stored
}

/// Renames every tensor whose name starts with `from`.
pub(super) fn rename(stored: &mut StateDict, from: &str, to: &str) {
    let names: Vec<String> = stored.weights.keys().filter(|name| name.starts_with(from)).cloned().collect();
    for name in names {
        if let Some(array) = stored.weights.remove(&name) {
            stored.weights.insert(format!("{to}{}", &name[from.len()..]), array);
        }
    }
}

/// Gives the tensor `name` another shape with the same number of elements. Has no effect if the number differs or the
/// tensor is absent.
pub(super) fn reshape(stored: &mut StateDict, name: &str, shape: &[usize]) {
    if let Some(array) = stored.weights.get_mut(name)
        && array.shape.iter().product::<usize>() == shape.iter().product::<usize>()
    {
        array.shape = shape.to_vec();
    }
}

/// An error about a key of the config beside the weights.
pub(super) fn wrong(path: &Path, key: &str, found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Error {
    Error::format(path, format!("`{key}` is {found}; expected {expected}"))
}
