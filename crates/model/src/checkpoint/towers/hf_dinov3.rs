//! DINOv3 of Hugging Face's `transformers` (`DINOv3ViTModel`). The mask token is dropped.
//!
//! The key projections of the published attention have no bias. Here their bias is 0, and fine-tuning can change it.

use std::path::Path;

use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use serde::Deserialize;

use super::super::ImageFeed;
use super::super::layout::{TensorMapping, read_json};
use super::super::state_dict::StateDict;
use super::ImageTower;
use super::assembly::{VitTensorNames, image_tower, registers, vit_sizes, wrong};
use super::preprocessing::{self, PhotoPreprocessing};
use crate::Result;
use crate::encoders::layers::LAYER_NORM_EPSILON;
use crate::encoders::pretrained_vit::ROTARY_BASE;
use crate::encoders::{PretrainedVitConfig, VisualConfig, VitPositions};
use crate::model::PixelStatistics;
use crate::weight_array::WeightArray;

pub(super) const MARKS: &[&str] = &["layer.0.layer_scale1."];

const NAMES: VitTensorNames = VitTensorNames {
    patches: "embeddings.patch_embeddings.weight",
    up: "layer.0.mlp.up_proj.weight",
    blocks: "layer.",
};

/// Keys of `config.json` that affect the computation, with the defaults of `DINOv3ViTConfig`.
#[derive(Deserialize)]
#[serde(default)]
struct HfDinov3Config {
    model_type: String,
    num_attention_heads: usize,
    image_size: usize,
    hidden_act: String,
    layer_norm_eps: f64,
    rope_theta: f64,
    use_gated_mlp: bool,
}

impl Default for HfDinov3Config {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            num_attention_heads: 6,
            image_size: 224,
            hidden_act: "gelu".into(),
            layer_norm_eps: LAYER_NORM_EPSILON,
            rope_theta: ROTARY_BASE,
            use_gated_mlp: false,
        }
    }
}

pub(super) fn read(mut stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let path = beside.join("config.json");
    let hf: HfDinov3Config = read_json(&path)?;
    if hf.model_type != "dinov3_vit" {
        return Err(wrong(&path, "model_type", hf.model_type, "dinov3_vit"));
    }
    if hf.use_gated_mlp {
        let expected = "false: gated feed-forward layers (ViT-S+, ViT-H+, ViT-7B) are not supported";
        return Err(wrong(&path, "use_gated_mlp", true, expected));
    }
    if hf.hidden_act != "gelu" {
        return Err(wrong(&path, "hidden_act", hf.hidden_act, "gelu"));
    }
    if hf.rope_theta != ROTARY_BASE {
        return Err(wrong(&path, "rope_theta", hf.rope_theta, ROTARY_BASE));
    }
    let default = PhotoPreprocessing {
        pixels: PixelStatistics::default(),
        images: ImageFeed { crop: EvalCrop::Squeeze },
        image_size: Some(hf.image_size),
    };
    let photos = preprocessing::hf_processor(beside, default)?;

    stored.weights.remove("embeddings.mask_token");
    let sizes = vit_sizes(&stored, &NAMES, hf.num_attention_heads)?;
    let registers = registers(&mut stored, "embeddings.register_tokens")?;
    for index in 0..sizes.depth {
        let zeros = || WeightArray::f32([sizes.width], vec![0.0; sizes.width]);
        stored.weights.entry(format!("layer.{index}.attention.k_proj.bias")).or_insert_with(zeros);
    }
    let config = PretrainedVitConfig {
        image_size: photos.image_size.unwrap_or(hf.image_size),
        epsilon: hf.layer_norm_eps,
        layer_scale: true,
        registers,
        positions: VitPositions::Rotary,
        ..sizes
    };
    image_tower(VisualConfig::PretrainedVit(config), stored, mapping, photos, device)
}

fn mapping(name: &str) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    let same = TensorMapping::Same;
    match parts.as_slice() {
        ["cls_token"] => same("embeddings.cls_token".into()),
        ["reg_token"] => same("embeddings.register_tokens".into()),
        ["patch_embed", "proj", leaf] => same(format!("embeddings.patch_embeddings.{leaf}")),
        ["blocks", index, rest @ ..] => {
            let within = |name: String| format!("layer.{index}.{name}");
            match rest {
                ["attn", "qkv", leaf] => {
                    TensorMapping::Parts(["q", "k", "v"].map(|it| within(format!("attention.{it}_proj.{leaf}"))).into())
                }
                ["attn", "proj", leaf] => same(within(format!("attention.o_proj.{leaf}"))),
                ["ls1", "gamma"] => same(within("layer_scale1.lambda1".into())),
                ["ls2", "gamma"] => same(within("layer_scale2.lambda1".into())),
                ["mlp", "fc1", leaf] => same(within(format!("mlp.up_proj.{leaf}"))),
                ["mlp", "fc2", leaf] => same(within(format!("mlp.down_proj.{leaf}"))),
                _ => same(within(rest.join("."))),
            }
        }
        _ => same(name.to_owned()),
    }
}
