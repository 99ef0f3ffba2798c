//! SigLIP and SigLIP 2 of Hugging Face's `transformers` (`SiglipModel`, `SiglipVisionModel`, `SiglipTextModel`).
//! [`read`] reads the image tower, [`read_texts`] the text tower. The NaFlex models of SigLIP 2 (`model_type` siglip2)
//! take photographs of any shape and are not supported.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use serde::Deserialize;
use serde_json::Value;

use super::super::layout::{TensorMapping, read_json};
use super::super::state_dict::StateDict;
use super::super::{ImageFeed, TOKENIZER};
use super::assembly::{VitTensorNames, below, image_tower, import_encoder, vit_sizes, wrong};
use super::positions::{self, PositionFilter};
use super::preprocessing::{self, PhotoPreprocessing};
use super::{ImageTower, TextEncoderFile};
use crate::encoders::layers::{ActivationFn, SMALL_NORM_EPSILON};
use crate::encoders::{PretrainedVitConfig, SiglipTextConfig, TextualConfig, VisualConfig, VitPooling};
use crate::model::PixelStatistics;
use crate::{Error, Result};

pub(super) const IMAGE_MARKS: &[&str] = &["vision_model.head.probe"];
pub(super) const TEXT_MARKS: &[&str] = &["text_model.head."];

const NAMES: VitTensorNames = VitTensorNames { patches: "embeddings.patch_embedding.weight", up: UP, blocks: BLOCKS };

/// Name of the first feed-forward map, the same in both towers.
const UP: &str = "encoder.layers.0.mlp.fc1.weight";
const BLOCKS: &str = "encoder.layers.";

/// Keys of a tower in `config.json` that affect the computation, with the defaults of `SiglipVisionConfig` and
/// `SiglipTextConfig`. Sizes that follow from tensor shapes are not read.
#[derive(Deserialize)]
#[serde(default)]
struct HfSiglipTower {
    num_attention_heads: usize,
    hidden_act: String,
    layer_norm_eps: f64,
    vision_use_head: bool,
    pad_token_id: u32,
}

impl Default for HfSiglipTower {
    fn default() -> Self {
        Self {
            num_attention_heads: 12,
            hidden_act: "gelu_pytorch_tanh".into(),
            layer_norm_eps: SMALL_NORM_EPSILON,
            vision_use_head: true,
            pad_token_id: 1,
        }
    }
}

impl HfSiglipTower {
    /// The config of a tower: `section` of `config.json`, or the whole file for a model with one tower.
    fn read(beside: &Path, section: &str, model_type: &str) -> Result<(PathBuf, Self)> {
        let path = beside.join("config.json");
        let mut config: Value = read_json(&path)?;
        let mut whole = config.get("model_type").and_then(Value::as_str).unwrap_or("absent").to_owned();
        if let Some(tower) = config.get_mut(section).filter(|tower| tower.is_object()) {
            if whole == "siglip" {
                model_type.clone_into(&mut whole);
            }
            config = tower.take();
        }
        if whole != model_type {
            return Err(wrong(&path, "model_type", whole, format!("siglip or {model_type}")));
        }
        let tower: Self = serde_json::from_value(config).map_err(|error| Error::format(&path, error.to_string()))?;
        Ok((path, tower))
    }

    fn activation(&self, path: &Path) -> Result<ActivationFn> {
        match self.hidden_act.as_str() {
            "gelu_pytorch_tanh" => Ok(ActivationFn::TanhGelu),
            "gelu" => Ok(ActivationFn::Gelu),
            "quick_gelu" => Ok(ActivationFn::QuickGelu),
            other => Err(wrong(path, "hidden_act", other, "gelu_pytorch_tanh, gelu or quick_gelu")),
        }
    }
}

/// Reads the image tower.
pub(super) fn read(stored: StateDict, beside: &Path, device: &Device) -> Result<ImageTower> {
    let (path, hf) = HfSiglipTower::read(beside, "vision_config", "siglip_vision_model")?;
    if !hf.vision_use_head {
        return Err(wrong(&path, "vision_config.vision_use_head", false, "true (a pooled model)"));
    }
    let mut stored = below(stored, "vision_model.");
    let sizes = vit_sizes(&stored, &NAMES, hf.num_attention_heads)?;
    let table = "embeddings.position_embedding.weight";
    let [rows, _] = stored.dims::<2>(table)?;
    let trained = positions::grid(&stored, table, rows, 0)?;
    let default = PhotoPreprocessing {
        pixels: PixelStatistics { mean: [0.5; 3], std: [0.5; 3] },
        images: ImageFeed { crop: EvalCrop::Squeeze },
        image_size: None,
    };
    let photos = preprocessing::hf_processor(beside, default)?;
    let image_size = photos.image_size.unwrap_or(trained * sizes.patch);
    positions::resample(&mut stored, table, 0, image_size / sizes.patch, PositionFilter::Plain)?;
    let config = PretrainedVitConfig {
        image_size,
        activation: hf.activation(&path)?,
        epsilon: hf.layer_norm_eps,
        class_token: false,
        pool: VitPooling::Attention,
        ..sizes
    };
    image_tower(VisualConfig::PretrainedVit(config), stored, image_mapping, photos, device)
}

/// Reads the text tower.
pub(super) fn read_texts(stored: StateDict, beside: &Path, device: &Device) -> Result<TextEncoderFile> {
    let (path, hf) = HfSiglipTower::read(beside, "text_config", "siglip_text_model")?;
    let stored = below(stored, "text_model.");
    let [vocabulary, width] = stored.dims::<2>("embeddings.token_embedding.weight")?;
    let [context, _] = stored.dims::<2>("embeddings.position_embedding.weight")?;
    let [projection, _] = stored.dims::<2>("head.weight")?;
    let [hidden, _] = stored.dims::<2>(UP)?;
    let tokenizer = TokenizerIds::read(beside)?;
    let config = SiglipTextConfig {
        vocabulary,
        context,
        // The tokenizer of SigLIP 2 pads with another id than `pad_token_id` of its config (1, the default).
        padding: tokenizer.padding.unwrap_or(hf.pad_token_id),
        width,
        depth: stored.depth(BLOCKS),
        heads: hf.num_attention_heads,
        mlp_ratio: hidden as f64 / width as f64,
        activation: hf.activation(&path)?,
        epsilon: hf.layer_norm_eps,
        projection,
    };
    let config = TextualConfig::SiglipText(config);
    let file = stored.path.clone();
    Ok(TextEncoderFile {
        encoder: import_encoder(|init| config.build(init), stored, text_mapping, &file, device)?,
        config,
        end_of_text: Some(tokenizer.end.unwrap_or(END_OF_TEXT)),
    })
}

/// `</s>` of SigLIP's vocabulary and `<eos>` of SigLIP 2's. `eos_token_id` of the published configs is another id,
/// which the tokenizer does not write.
const END_OF_TEXT: u32 = 1;

/// The ids of two special tokens, if the tokenizer's config names them.
#[derive(Debug, Default)]
struct TokenizerIds {
    padding: Option<u32>,
    end: Option<u32>,
}

impl TokenizerIds {
    /// Reads the names of the tokens from `tokenizer_config.json` and their ids from there or, in folders of
    /// transformers 5 and later, from `tokenizer.json`.
    fn read(beside: &Path) -> Result<Self> {
        let path = beside.join("tokenizer_config.json");
        if !path.is_file() {
            return Ok(Self::default());
        }
        let config: Value = read_json(&path)?;
        let tokenizer = beside.join(TOKENIZER);
        let tokenizer: Value = if tokenizer.is_file() { read_json(&tokenizer)? } else { Value::Null };
        let content = |token: &Value| token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned);
        let id = |key: &str| -> Option<u32> {
            let wanted = content(config.get(key)?)?;
            let is_wanted = |token: &Value| content(token).as_deref() == Some(&wanted);
            let in_config = || {
                let added = config.get("added_tokens_decoder")?.as_object()?;
                added.iter().find(|(_, token)| is_wanted(token))?.0.parse().ok()
            };
            let in_tokenizer = || {
                let added = tokenizer.get("added_tokens")?.as_array()?;
                added.iter().find(|token| is_wanted(token))?.get("id")?.as_u64()?.try_into().ok()
            };
            in_config().or_else(in_tokenizer)
        };
        Ok(Self { padding: id("pad_token"), end: id("eos_token") })
    }
}

fn image_mapping(name: &str) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    let same = TensorMapping::Same;
    match parts.as_slice() {
        ["pos_embed"] => same("embeddings.position_embedding.weight".into()),
        ["patch_embed", "proj", leaf] => same(format!("embeddings.patch_embedding.{leaf}")),
        ["norm", leaf] => same(format!("post_layernorm.{leaf}")),
        ["pool", rest @ ..] => same(format!("head.{}", rest.join("."))),
        ["blocks", index, rest @ ..] => block(index, rest),
        _ => same(name.to_owned()),
    }
}

fn text_mapping(name: &str) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    let same = TensorMapping::Same;
    match parts.as_slice() {
        ["token_embed", "weight"] => same("embeddings.token_embedding.weight".into()),
        ["posit_embed"] => same("embeddings.position_embedding.weight".into()),
        ["norm", leaf] => same(format!("final_layer_norm.{leaf}")),
        ["projection", leaf] => same(format!("head.{leaf}")),
        ["blocks", index, rest @ ..] => block(index, rest),
        _ => same(name.to_owned()),
    }
}

fn block(index: &str, rest: &[&str]) -> TensorMapping {
    let within = |name: String| format!("encoder.layers.{index}.{name}");
    let same = TensorMapping::Same;
    match rest {
        ["attn", "qkv", leaf] => {
            TensorMapping::Parts(["q", "k", "v"].map(|it| within(format!("self_attn.{it}_proj.{leaf}"))).into())
        }
        ["attn", "proj", leaf] => same(within(format!("self_attn.out_proj.{leaf}"))),
        ["norm1", leaf] => same(within(format!("layer_norm1.{leaf}"))),
        ["norm2", leaf] => same(within(format!("layer_norm2.{leaf}"))),
        _ => same(within(rest.join("."))),
    }
}
