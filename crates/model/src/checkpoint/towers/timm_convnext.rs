//! ConvNeXt of timm. The classifier is dropped. ConvNeXt V2 (with `grn`) is not supported.

use std::path::Path;

use burn::tensor::Device;

use super::super::layout::TensorMapping;
use super::super::state_dict::StateDict;
use super::ImageTower;
use super::assembly::{image_tower, reshape};
use super::preprocessing::TimmConfig;
use crate::encoders::{ConvNextConfig, VisualConfig};
use crate::{Error, Result};

pub(super) const MARKS: &[&str] = &["stages.0.blocks.0.conv_dw."];

/// Side of the photographs without a config.
const IMAGE_SIZE: usize = 224;

pub(super) fn read(mut stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let (_, photos) = TimmConfig::read(beside)?;
    if stored.weights.keys().any(|name| name.contains(".mlp.grn.")) {
        let detail = "holds `mlp.grn` tensors (ConvNeXt V2); expected ConvNeXt without them, such as convnext_tiny";
        return Err(Error::format(stored.path, detail));
    }
    stored.weights.retain(|name, _| !name.starts_with("head.fc."));
    let blocks = [0, 1, 2, 3].map(|stage| stored.depth(&format!("stages.{stage}.blocks.")));
    let mut channels = [0; 4];
    for (stage, channels) in channels.iter_mut().enumerate() {
        [*channels, ..] = stored.dims::<4>(&format!("stages.{stage}.blocks.0.conv_dw.weight"))?;
    }
    // The smallest models (`conv_mlp`) store the affine maps of a block as 1x1 convolutions.
    for name in stored.weights.keys().cloned().collect::<Vec<_>>() {
        if name.contains(".mlp.fc")
            && let [rows, columns, 1, 1] = stored.get(&name)?.shape[..]
        {
            reshape(&mut stored, &name, &[rows, columns]);
        }
    }
    let config = ConvNextConfig { image_size: photos.image_size.unwrap_or(IMAGE_SIZE), blocks, channels };
    image_tower(VisualConfig::ConvNext(config), stored, mapping, photos, device)
}

fn mapping(name: &str) -> TensorMapping {
    TensorMapping::Same(match name.strip_prefix("norm.") {
        Some(leaf) => format!("head.norm.{leaf}"),
        None => name.to_owned(),
    })
}
