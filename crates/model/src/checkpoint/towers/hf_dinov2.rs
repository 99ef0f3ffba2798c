//! DINOv2 of Hugging Face's `transformers` (`Dinov2Model`, `Dinov2WithRegistersModel`). Mask token and classifier are
//! dropped.
//!
//! The models are trained on photographs of 518 pixels and used with the size in `preprocessor_config.json` (224). The
//! positions are resampled to that size, as the library does in every forward pass.

use std::path::Path;

use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use serde::Deserialize;

use super::super::ImageFeed;
use super::super::layout::{TensorMapping, read_json};
use super::super::state_dict::StateDict;
use super::ImageTower;
use super::assembly::{VitTensorNames, below, image_tower, registers, vit_sizes, wrong};
use super::positions::{self, PositionFilter};
use super::preprocessing::{self, PhotoPreprocessing};
use crate::Result;
use crate::encoders::layers::SMALL_NORM_EPSILON;
use crate::encoders::{PretrainedVitConfig, VisualConfig};
use crate::model::PixelStatistics;

pub(super) const MARKS: &[&str] =
    &["encoder.layer.0.layer_scale1.", "dinov2.encoder.layer.0.", "dinov2_with_registers.encoder.layer.0."];

/// Prefixes of the encoder in a model with a classifier.
const CONTAINERS: [&str; 2] = ["dinov2.", "dinov2_with_registers."];

const NAMES: VitTensorNames = VitTensorNames {
    patches: "embeddings.patch_embeddings.projection.weight",
    up: "encoder.layer.0.mlp.fc1.weight",
    blocks: "encoder.layer.",
};

/// Keys of `config.json` that affect the computation, with the defaults of `Dinov2Config`.
#[derive(Deserialize)]
#[serde(default)]
struct HfDinov2Config {
    model_type: String,
    num_attention_heads: usize,
    image_size: usize,
    hidden_act: String,
    layer_norm_eps: f64,
    use_swiglu_ffn: bool,
}

impl Default for HfDinov2Config {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            num_attention_heads: 12,
            image_size: 224,
            hidden_act: "gelu".into(),
            layer_norm_eps: SMALL_NORM_EPSILON,
            use_swiglu_ffn: false,
        }
    }
}

pub(super) fn read(mut stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let path = beside.join("config.json");
    let hf: HfDinov2Config = read_json(&path)?;
    let filter = match hf.model_type.as_str() {
        "dinov2" => PositionFilter::Plain,
        "dinov2_with_registers" => PositionFilter::Antialias,
        other => return Err(wrong(&path, "model_type", other, "dinov2 or dinov2_with_registers")),
    };
    if hf.use_swiglu_ffn {
        let expected = "false: gated feed-forward layers, which only the giant model has, are not supported";
        return Err(wrong(&path, "use_swiglu_ffn", true, expected));
    }
    if hf.hidden_act != "gelu" {
        return Err(wrong(&path, "hidden_act", hf.hidden_act, "gelu"));
    }
    let default = PhotoPreprocessing {
        pixels: PixelStatistics::default(),
        images: ImageFeed { crop: EvalCrop::Center },
        image_size: Some(hf.image_size),
    };
    let photos = preprocessing::hf_processor(beside, default)?;

    if let Some(container) = CONTAINERS.iter().find(|container| stored.has(&[container])) {
        stored = below(stored, container);
    }
    stored.weights.retain(|name, _| name != "embeddings.mask_token" && !name.starts_with("classifier."));
    let sizes = vit_sizes(&stored, &NAMES, hf.num_attention_heads)?;
    let registers = registers(&mut stored, "embeddings.register_tokens")?;
    let image_size = photos.image_size.unwrap_or(hf.image_size);
    positions::resample(&mut stored, "embeddings.position_embeddings", 1, image_size / sizes.patch, filter)?;
    let config = PretrainedVitConfig { image_size, epsilon: hf.layer_norm_eps, layer_scale: true, registers, ..sizes };
    image_tower(VisualConfig::PretrainedVit(config), stored, mapping, photos, device)
}

fn mapping(name: &str) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    let same = TensorMapping::Same;
    match parts.as_slice() {
        ["cls_token"] => same("embeddings.cls_token".into()),
        ["reg_token"] => same("embeddings.register_tokens".into()),
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
                ["ls1", "gamma"] => same(within("layer_scale1.lambda1".into())),
                ["ls2", "gamma"] => same(within("layer_scale2.lambda1".into())),
                _ => same(within(rest.join("."))),
            }
        }
        _ => same(name.to_owned()),
    }
}
