//! CLIP of OpenAI or LAION in the layout of Hugging Face's `transformers` (`CLIPModel`): a folder with `config.json` and
//! `model.safetensors` (or `pytorch_model.bin`). `hidden_act` is `quick_gelu` for OpenAI's weights and `gelu` for
//! LAION's.
//!
//! Pixel statistics and crop come from `preprocessor_config.json`. Without this file, CLIP's values are used. A text is
//! pooled at its first `eos_token_id`. Older configs hold the value 2, which `transformers` treats as the largest id;
//! here it is read as the last id of the vocabulary.

use std::path::Path;

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use serde::Deserialize;
use serde_json::json;

use super::layout::{
    CLIP_PIXELS, CONIFER_SECTION, ClipDescription, ConiferSection, TensorMapping, assemble, clip_towers, decimal,
    read_json, scatter, write_json,
};
use super::published::{CheckpointFormat, ImportOptions};
use super::state_dict::StateDict;
use super::{ImageFeed, Manifest, TOKENIZER, TextFeed, weights};
use crate::encoders::layers::{ActivationFn, LAYER_NORM_EPSILON};
use crate::encoders::{ClipVitConfig, TextTransformerConfig, TextualConfig, VisualConfig};
use crate::model::{Model, ModelConfig, PixelStatistics};
use crate::{Error, Result};

pub(super) const FORMAT: CheckpointFormat = CheckpointFormat {
    name: NAME,
    summary: "the folder of transformers' CLIPModel",
    files: &[WEIGHTS, "pytorch_model.bin"],
    marks: &["vision_model.encoder.layers.", "vision_model.embeddings.patch_embedding."],
    import,
    export: Some(export),
};

const NAME: &str = "hf-clip";
const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const PREPROCESSOR: &str = "preprocessor_config.json";

fn import(stored: StateDict, options: &ImportOptions, device: &Device) -> Result<(Model, Manifest)> {
    let folder = stored.path.parent().unwrap_or(Path::new("")).to_owned();
    let path = folder.join(CONFIG);
    let config: Config = read_json(&path)?;
    let wrong = |key: &str, found: &str, expected: &str| {
        Error::format(&path, format!("`{key}` is {found}; expected {expected}"))
    };
    if config.model_type != "clip" {
        return Err(wrong("model_type", &config.model_type, "clip"));
    }
    let Config { text_config: text, vision_config: vision, .. } = config;
    for (section, epsilon) in [("text_config", text.layer_norm_eps), ("vision_config", vision.layer_norm_eps)] {
        if epsilon != LAYER_NORM_EPSILON {
            let expected = LAYER_NORM_EPSILON.to_string();
            return Err(wrong(&format!("{section}.layer_norm_eps"), &epsilon.to_string(), &expected));
        }
    }
    if vision.num_channels != 3 {
        return Err(wrong("vision_config.num_channels", &vision.num_channels.to_string(), "3"));
    }
    let activation = |section: &str, name: &str| match name {
        "gelu" => Ok(ActivationFn::Gelu),
        "quick_gelu" => Ok(ActivationFn::QuickGelu),
        "gelu_pytorch_tanh" => Ok(ActivationFn::TanhGelu),
        _ => Err(wrong(&format!("{section}.hidden_act"), name, "gelu, quick_gelu or gelu_pytorch_tanh")),
    };
    let (pixels, images) = preprocessing(&folder.join(PREPROCESSOR))?;
    let end_of_text = match text.eos_token_id {
        LEGACY_END => text.vocab_size.saturating_sub(1) as u32,
        id => id,
    };
    let described = ClipDescription {
        model: ModelConfig {
            visual: VisualConfig::ClipVit(ClipVitConfig {
                image_size: vision.image_size,
                patch: vision.patch_size,
                width: vision.hidden_size,
                depth: vision.num_hidden_layers,
                heads: options.visual_heads.unwrap_or(vision.num_attention_heads),
                mlp_ratio: vision.intermediate_size as f64 / vision.hidden_size as f64,
                activation: activation("vision_config", &vision.hidden_act)?,
            }),
            textual: TextualConfig::TextTransformer(TextTransformerConfig {
                vocabulary: text.vocab_size,
                context: text.max_position_embeddings,
                width: text.hidden_size,
                depth: text.num_hidden_layers,
                heads: options.textual_heads.unwrap_or(text.num_attention_heads),
                mlp_ratio: text.intermediate_size as f64 / text.hidden_size as f64,
                activation: activation("text_config", &text.hidden_act)?,
            }),
            pixels,
            visual_adapter: None,
            textual_adapter: None,
            visual_lora: None,
            textual_lora: None,
        },
        dim: config.projection_dim,
        images,
        texts: TextFeed {
            tokenizer: None,
            end_of_text: options.end_of_text.unwrap_or(end_of_text),
            padding: text.pad_token_id,
        },
        conifer: config.conifer,
        path,
    };
    assemble(described, stored, mapping, options.method.as_deref(), device)
}

/// Value of `eos_token_id` in configs from before `transformers` used this key.
const LEGACY_END: u32 = 2;

/// Keys of `config.json` that affect the computation, with the defaults of `CLIPConfig`.
#[derive(Deserialize)]
#[serde(default)]
struct Config {
    model_type: String,
    projection_dim: usize,
    text_config: ClipTextConfig,
    vision_config: ClipVisionConfig,
    conifer: ConiferSection,
}

#[derive(Deserialize)]
#[serde(default)]
struct ClipTextConfig {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    hidden_act: String,
    layer_norm_eps: f64,
    pad_token_id: u32,
    eos_token_id: u32,
}

#[derive(Deserialize)]
#[serde(default)]
struct ClipVisionConfig {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_channels: usize,
    image_size: usize,
    patch_size: usize,
    hidden_act: String,
    layer_norm_eps: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            projection_dim: 512,
            text_config: ClipTextConfig::default(),
            vision_config: ClipVisionConfig::default(),
            conifer: ConiferSection::default(),
        }
    }
}

impl Default for ClipTextConfig {
    fn default() -> Self {
        Self {
            vocab_size: 49_408,
            hidden_size: 512,
            intermediate_size: 2048,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
            hidden_act: "quick_gelu".into(),
            layer_norm_eps: 1e-5,
            pad_token_id: 1,
            eos_token_id: 49_407,
        }
    }
}

impl Default for ClipVisionConfig {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_channels: 3,
            image_size: 224,
            patch_size: 32,
            hidden_act: "quick_gelu".into(),
            layer_norm_eps: 1e-5,
        }
    }
}

/// Keys of `preprocessor_config.json`, with the defaults of `CLIPImageProcessor`.
#[derive(Deserialize)]
#[serde(default)]
struct ClipProcessorConfig {
    image_mean: [f32; 3],
    image_std: [f32; 3],
    do_center_crop: bool,
    /// Pillow's code of a resampling filter.
    resample: u32,
}

impl Default for ClipProcessorConfig {
    fn default() -> Self {
        let PixelStatistics { mean, std } = CLIP_PIXELS;
        Self { image_mean: mean, image_std: std, do_center_crop: true, resample: BICUBIC }
    }
}

const BICUBIC: u32 = 3;

fn preprocessing(path: &Path) -> Result<(PixelStatistics, ImageFeed)> {
    let read: ClipProcessorConfig = if path.is_file() { read_json(path)? } else { ClipProcessorConfig::default() };
    if read.resample != BICUBIC {
        let detail = format!("`resample` is {}; expected {BICUBIC} (bicubic)", read.resample);
        return Err(Error::format(path, detail));
    }
    let crop = if read.do_center_crop { EvalCrop::Center } else { EvalCrop::Squeeze };
    Ok((PixelStatistics { mean: read.image_mean, std: read.image_std }, ImageFeed { crop }))
}

/// Maps our tensor names to those of `CLIPModel`. (The spelling `pre_layrnorm` is that of `transformers`.)
fn mapping(name: &str) -> TensorMapping {
    let parts: Vec<&str> = name.split('.').collect();
    let same = |name: String| TensorMapping::Same(name);
    match parts.as_slice() {
        ["visual", "class_embedding"] => same("vision_model.embeddings.class_embedding".into()),
        ["visual", "conv1", "weight"] => same("vision_model.embeddings.patch_embedding.weight".into()),
        ["visual", "positional_embedding"] => same("vision_model.embeddings.position_embedding.weight".into()),
        ["visual", "ln_pre", leaf] => same(format!("vision_model.pre_layrnorm.{leaf}")),
        ["visual", "ln_post", leaf] => same(format!("vision_model.post_layernorm.{leaf}")),
        ["visual", "transformer", "resblocks", index, rest @ ..] => block("vision_model", index, rest),
        ["textual", "token_embed", "weight"] => same("text_model.embeddings.token_embedding.weight".into()),
        ["textual", "posit_embed"] => same("text_model.embeddings.position_embedding.weight".into()),
        ["textual", "ln_final", leaf] => same(format!("text_model.final_layer_norm.{leaf}")),
        ["textual", "resblocks", index, rest @ ..] => block("text_model", index, rest),
        ["visual_proj", "weight"] => same("visual_projection.weight".into()),
        ["textual_proj", "weight"] => same("text_projection.weight".into()),
        _ => same(name.to_owned()),
    }
}

fn block(tower: &str, index: &str, rest: &[&str]) -> TensorMapping {
    let within = |name: &str| format!("{tower}.encoder.layers.{index}.{name}");
    let joint = |leaf: &str| {
        TensorMapping::Parts(["q", "k", "v"].map(|it| within(&format!("self_attn.{it}_proj.{leaf}"))).into())
    };
    match rest {
        ["attn", "in_proj_weight"] => joint("weight"),
        ["attn", "in_proj_bias"] => joint("bias"),
        ["attn", "out_proj", leaf] => TensorMapping::Same(within(&format!("self_attn.out_proj.{leaf}"))),
        ["ln_1", leaf] => TensorMapping::Same(within(&format!("layer_norm1.{leaf}"))),
        ["ln_2", leaf] => TensorMapping::Same(within(&format!("layer_norm2.{leaf}"))),
        ["mlp", "c_fc", leaf] => TensorMapping::Same(within(&format!("mlp.fc1.{leaf}"))),
        ["mlp", "c_proj", leaf] => TensorMapping::Same(within(&format!("mlp.fc2.{leaf}"))),
        _ => TensorMapping::Same(within(&rest.join("."))),
    }
}

fn export(model: &Model, manifest: &Manifest, tokenizer: Option<&Tokenizer>, folder: &Path) -> Result<()> {
    let (visual, textual) = clip_towers(model, NAME)?;
    let end = manifest.texts.end_of_text;
    if end == LEGACY_END {
        return Err(Error::invalid(
            "texts.end_of_text",
            end,
            "any other id, because transformers treats 2 as the largest id",
        ));
    }
    // Only the tokenizer knows the start id. Without a tokenizer, the id before the end of text is written, as in
    // CLIP's vocabulary.
    let start = tokenizer.and_then(Tokenizer::start_of_text).unwrap_or(end.saturating_sub(1));
    let activation = |activation| match activation {
        ActivationFn::Gelu => "gelu",
        ActivationFn::QuickGelu => "quick_gelu",
        ActivationFn::TanhGelu => "gelu_pytorch_tanh",
    };
    let dim = model.head.spec().dim;
    let config = json!({
        "architectures": ["CLIPModel"],
        "model_type": "clip",
        "dtype": "float32",
        "projection_dim": dim,
        "text_config": {
            "model_type": "clip_text_model",
            "vocab_size": textual.vocabulary,
            "hidden_size": textual.width,
            "intermediate_size": textual.hidden(),
            "num_hidden_layers": textual.depth,
            "num_attention_heads": textual.heads,
            "max_position_embeddings": textual.context,
            "hidden_act": activation(textual.activation),
            "layer_norm_eps": LAYER_NORM_EPSILON,
            "projection_dim": dim,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": manifest.texts.padding,
        },
        "vision_config": {
            "model_type": "clip_vision_model",
            "image_size": visual.image_size,
            "patch_size": visual.patch,
            "num_channels": 3,
            "hidden_size": visual.width,
            "intermediate_size": visual.hidden(),
            "num_hidden_layers": visual.depth,
            "num_attention_heads": visual.heads,
            "hidden_act": activation(visual.activation),
            "layer_norm_eps": LAYER_NORM_EPSILON,
            "projection_dim": dim,
        },
        CONIFER_SECTION: ConiferSection::of(model, manifest),
    });
    let PixelStatistics { mean, std } = model.config().pixels;
    let center = manifest.images.crop == EvalCrop::Center;
    let side = visual.image_size;
    let square = json!({ "height": side, "width": side });
    let preprocessor = json!({
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": true,
        "do_resize": true,
        "size": if center { json!({ "shortest_edge": side }) } else { square.clone() },
        "resample": BICUBIC,
        "do_center_crop": center,
        "crop_size": square,
        "do_rescale": true,
        "do_normalize": true,
        "image_mean": decimal(mean),
        "image_std": decimal(std),
    });
    write_json(&config, &folder.join(CONFIG))?;
    write_json(&preprocessor, &folder.join(PREPROCESSOR))?;
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(&folder.join(TOKENIZER))?;
    }
    weights::save_for_torch(&scatter(model, mapping), &folder.join(WEIGHTS))
}
