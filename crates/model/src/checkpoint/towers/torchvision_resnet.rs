//! ResNet of torchvision and timm: ResNet-18 to ResNet-152 and the wide ones. The names of the two libraries are equal.
//! The classifier is dropped.

use std::path::Path;

use burn::tensor::Device;

use super::super::layout::TensorMapping;
use super::super::state_dict::StateDict;
use super::ImageTower;
use super::assembly::image_tower;
use super::preprocessing::TimmConfig;
use crate::Result;
use crate::encoders::{ResNetBlockKind, ResNetConfig, VisualConfig};

pub(super) const MARKS: &[&str] = &["layer1.0.conv1."];

/// Side of the photographs of torchvision's models, whose files do not name it.
const IMAGE_SIZE: usize = 224;

pub(super) fn read(mut stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let (_, photos) = TimmConfig::read(beside)?;
    stored.weights.retain(|name, _| !name.starts_with("fc."));
    let [width, ..] = stored.dims::<4>("conv1.weight")?;
    let [bottleneck, ..] = stored.dims::<4>("layer1.0.conv1.weight")?;
    let config = ResNetConfig {
        image_size: photos.image_size.unwrap_or(IMAGE_SIZE),
        width,
        bottleneck,
        blocks: [1, 2, 3, 4].map(|stage| stored.depth(&format!("layer{stage}."))),
        head: Vec::new(),
        block: match stored.weights.contains_key("layer1.0.conv3.weight") {
            true => ResNetBlockKind::Bottleneck,
            false => ResNetBlockKind::Basic,
        },
    };
    let same = |name: &str| TensorMapping::Same(name.to_owned());
    image_tower(VisualConfig::ResNet(config), stored, same, photos, device)
}
