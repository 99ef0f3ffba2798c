//! Vision transformers with timm's names: timm's own (AugReg, with registers, ...), MAE, DINO, and the files of
//! DINOv2's authors. Classifier, decoder and mask token are dropped.
//!
//! A model with the attention pooling of timm (`attn_pool`) is not supported; SigLIP is read from the files of
//! `transformers`.

use std::path::Path;

use burn::tensor::Device;

use super::super::layout::TensorMapping;
use super::super::state_dict::StateDict;
use super::ImageTower;
use super::assembly::{VitTensorNames, image_tower, registers, rename, vit_sizes};
use super::positions::{self, PositionFilter};
use super::preprocessing::TimmConfig;
use crate::encoders::{PretrainedVitConfig, VisualConfig, VitPooling};
use crate::{Error, Result};

pub(super) const MARKS: &[&str] = &["blocks.0.attn.qkv."];

const NAMES: VitTensorNames =
    VitTensorNames { patches: "patch_embed.proj.weight", up: "blocks.0.mlp.fc1.weight", blocks: "blocks." };

/// Prefixes of tensors that the features do not need.
const DROPPED: [&str; 5] = ["head.", "mask_token", "decoder_", "pre_logits.", "head_dist."];

pub(super) fn read(mut stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let (timm, photos) = TimmConfig::read(beside)?;
    stored.weights.retain(|name, _| !DROPPED.iter().any(|dropped| name.starts_with(dropped)));
    if stored.has(&["attn_pool."]) {
        let detail = "holds `attn_pool` tensors; expected a model pooled at the class token or by the mean. For SigLIP, pass the files \
                      of `transformers`";
        return Err(Error::format(stored.path, detail));
    }
    if stored.weights.keys().any(|name| name.ends_with(".mlp.w12.weight") || name.ends_with(".mlp.fc1_g.weight")) {
        let detail = "holds gated feed-forward layers (SwiGLU); expected two affine maps, `mlp.fc1` and `mlp.fc2`";
        return Err(Error::format(stored.path, detail));
    }
    // The files of DINOv2's authors use another name for the register tokens.
    rename(&mut stored, "register_tokens", "reg_token");
    let norm_after_mean = stored.has(&["fc_norm."]);
    rename(&mut stored, "fc_norm.", "norm.");

    let class_token = stored.weights.contains_key("cls_token");
    let registers = registers(&mut stored, "reg_token")?;
    let [width, ..] = stored.dims::<4>(NAMES.patches)?;
    let heads = match timm.model_arg("num_heads").or(usual_heads(width)) {
        Some(heads) => heads,
        None => {
            let detail = format!("has tokens of width {width}, with an unknown number of attention heads");
            let expected = "expected a width of a published model, or `model_args.num_heads` in config.json beside it";
            return Err(Error::format(stored.path, format!("{detail}; {expected}")));
        }
    };
    let sizes = vit_sizes(&stored, &NAMES, heads)?;
    let [_, rows, _] = stored.dims::<3>("pos_embed")?;
    // Without a position for the class token, the number of rows is a square. A square plus 1 is no square.
    let class_position = class_token && rows.isqrt().pow(2) != rows;
    let before = usize::from(class_position);
    let trained = positions::grid(&stored, "pos_embed", rows, before)?;
    let image_size = photos.image_size.unwrap_or(trained * sizes.patch);
    positions::resample(&mut stored, "pos_embed", before, image_size / sizes.patch, PositionFilter::Antialias)?;
    let config = PretrainedVitConfig {
        image_size,
        layer_scale: stored.weights.contains_key("blocks.0.ls1.gamma"),
        class_token,
        class_position: class_position || !class_token,
        registers,
        pool: match timm.global_pool.as_deref() {
            _ if norm_after_mean => VitPooling::Mean,
            Some("avg") => VitPooling::NormedMean,
            _ if !class_token => VitPooling::NormedMean,
            _ => VitPooling::Token,
        },
        ..sizes
    };
    let same = |name: &str| TensorMapping::Same(name.to_owned());
    image_tower(VisualConfig::PretrainedVit(config), stored, same, photos, device)
}

/// Number of attention heads of the published models of this width: ViT-Ti, S, B, L, so400m, H, g and G.
fn usual_heads(width: usize) -> Option<usize> {
    match width {
        192 => Some(3),
        384 => Some(6),
        768 => Some(12),
        1024 | 1152 | 1280 | 1408 | 1664 => Some(16),
        _ => None,
    }
}
