//! The vision transformer of Hugging Face's `transformers` (`ViTModel`): Google's ViT, DINO and MAE. Classifier, pooler
//! and decoder are dropped: the features are the class token after the last norm.

use std::path::Path;

use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use serde::Deserialize;

use super::super::ImageFeed;
use super::super::layout::{TensorMapping, read_json};
use super::super::state_dict::StateDict;
use super::ImageTower;
use super::assembly::{VitTensorNames, below, image_tower, vit_sizes, wrong};
use super::positions::{self, PositionFilter};
use super::preprocessing::{self, PhotoPreprocessing};
use crate::Result;
use crate::encoders::{PretrainedVitConfig, VisualConfig};
use crate::model::PixelStatistics;

pub(super) const MARKS: &[&str] = &["encoder.layer.0.layernorm_before.", "vit.encoder.layer.0.layernorm_before."];

/// Prefix of the encoder in a model with a classifier or a decoder.
const CONTAINER: &str = "vit.";

const NAMES: VitTensorNames = VitTensorNames {
    patches: "embeddings.patch_embeddings.projection.weight",
    up: "encoder.layer.0.intermediate.dense.weight",
    blocks: "encoder.layer.",
};

/// Keys of `config.json` that affect the computation, with the defaults of `ViTConfig`.
#[derive(Deserialize)]
#[serde(default)]
struct HfVitConfig {
    model_type: String,
    num_attention_heads: usize,
    image_size: usize,
    hidden_act: String,
    layer_norm_eps: f64,
    qkv_bias: bool,
}

impl Default for HfVitConfig {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            num_attention_heads: 12,
            image_size: 224,
            hidden_act: "gelu".into(),
            layer_norm_eps: 1e-12,
            qkv_bias: true,
        }
    }
}

pub(super) fn read(mut stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let path = beside.join("config.json");
    let hf: HfVitConfig = read_json(&path)?;
    if !["vit", "vit_mae"].contains(&hf.model_type.as_str()) {
        return Err(wrong(&path, "model_type", hf.model_type, "vit or vit_mae"));
    }
    if hf.hidden_act != "gelu" {
        return Err(wrong(&path, "hidden_act", hf.hidden_act, "gelu"));
    }
    if !hf.qkv_bias {
        return Err(wrong(&path, "qkv_bias", false, "true"));
    }
    let half = PixelStatistics { mean: [0.5; 3], std: [0.5; 3] };
    let default = PhotoPreprocessing {
        pixels: half,
        images: ImageFeed { crop: EvalCrop::Squeeze },
        image_size: Some(hf.image_size),
    };
    let photos = preprocessing::hf_processor(beside, default)?;

    if stored.has(&[CONTAINER]) {
        stored = below(stored, CONTAINER);
    }
    stored.weights.retain(|name, _| !["pooler.", "classifier.", "decoder."].iter().any(|it| name.starts_with(it)));
    stored.weights.remove("embeddings.mask_token");
    let sizes = vit_sizes(&stored, &NAMES, hf.num_attention_heads)?;
    let image_size = photos.image_size.unwrap_or(hf.image_size);
    let table = "embeddings.position_embeddings";
    positions::resample(&mut stored, table, 1, image_size / sizes.patch, PositionFilter::Plain)?;
    let config = PretrainedVitConfig { image_size, epsilon: hf.layer_norm_eps, ..sizes };
    image_tower(VisualConfig::PretrainedVit(config), stored, mapping, photos, device)
}

fn mapping(name: &str) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    let same = TensorMapping::Same;
    match parts.as_slice() {
        ["cls_token"] => same("embeddings.cls_token".into()),
        ["pos_embed"] => same("embeddings.position_embeddings".into()),
        ["patch_embed", "proj", leaf] => same(format!("embeddings.patch_embeddings.projection.{leaf}")),
        ["norm", leaf] => same(format!("layernorm.{leaf}")),
        ["blocks", index, rest @ ..] => {
            let within = |name: String| format!("encoder.layer.{index}.{name}");
            match rest {
                ["attn", "qkv", leaf] => {
                    let part = |it| within(format!("attention.attention.{it}.{leaf}"));
                    TensorMapping::Parts(["query", "key", "value"].map(part).into())
                }
                ["attn", "proj", leaf] => same(within(format!("attention.output.dense.{leaf}"))),
                ["norm1", leaf] => same(within(format!("layernorm_before.{leaf}"))),
                ["norm2", leaf] => same(within(format!("layernorm_after.{leaf}"))),
                ["mlp", "fc1", leaf] => same(within(format!("intermediate.dense.{leaf}"))),
                ["mlp", "fc2", leaf] => same(within(format!("output.dense.{leaf}"))),
                _ => same(within(rest.join("."))),
            }
        }
        _ => same(name.to_owned()),
    }
}
