//! CLIP in the layout of open_clip: a folder with `open_clip_config.json` and `open_clip_model.safetensors` (or
//! `open_clip_pytorch_model.bin`), or an `epoch_N.pt` of its trainer, whose `state_dict` has keys that begin with
//! `module.`.
//!
//! Tensors have the names of OpenAI's code.
//!
//! The config is read from the folder of the weights. A trainer's checkpoint has no config. Sizes then come from the
//! tensor shapes, the number of heads is width / 64 (open_clip's default), and the activation comes from
//! [`ImportOptions`]. A text is pooled at its largest id.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use serde_json::{Map, Value, json};

use super::layout::{
    CLIP_PIXELS, CONIFER_SECTION, ClipDescription, ConiferSection, TensorMapping, assemble, clip_towers, decimal,
    read_json, scatter, write_json,
};
use super::published::{CheckpointFormat, ImportOptions, no_rule};
use super::state_dict::StateDict;
use super::{ImageFeed, Manifest, TOKENIZER, TextFeed, weights};
use crate::encoders::layers::ActivationFn;
use crate::encoders::{ClipVitConfig, TextTransformerConfig, TextualConfig, VisualConfig};
use crate::model::{Model, ModelConfig, PixelStatistics};
use crate::{Error, Result};

pub(super) const FORMAT: CheckpointFormat = CheckpointFormat {
    name: NAME,
    summary: "the folder of open_clip, and its trainer's checkpoints",
    files: &[WEIGHTS, "open_clip_pytorch_model.bin"],
    marks: &["visual.class_embedding", "visual.conv1.", "visual.transformer."],
    import,
    export: Some(export),
};

const NAME: &str = "open-clip";
const WEIGHTS: &str = "open_clip_model.safetensors";
const CONFIG: &str = "open_clip_config.json";

fn import(stored: StateDict, options: &ImportOptions, device: &Device) -> Result<(Model, Manifest)> {
    let config = stored.path.parent().unwrap_or(Path::new("")).join(CONFIG);
    let described = match config.is_file() {
        true => from_config(config, options)?,
        false => from_shapes(&stored, options)?,
    };
    assemble(described, stored, mapping, options.method.as_deref(), device)
}

fn from_config(path: PathBuf, options: &ImportOptions) -> Result<ClipDescription> {
    let mut root = OpenClipSection { path: &path, name: String::new(), keys: read_json(&path)? };
    let mut model = root.section("model_cfg")?;
    let (mut vision, mut text) = (model.section("vision_cfg")?, model.section("text_cfg")?);
    let activation = match model.flag("quick_gelu")? {
        true => ActivationFn::QuickGelu,
        false => ActivationFn::Gelu,
    };
    let dim = model.size("embed_dim", None)?;

    let width = vision.size("width", Some(768))?;
    let head_width = vision.size("head_width", Some(64))?;
    let visual = ClipVitConfig {
        image_size: vision.size("image_size", Some(224))?,
        patch: vision.size("patch_size", Some(16))?,
        width,
        depth: vision.size("layers", Some(12))?,
        heads: options.visual_heads.unwrap_or(width / head_width.max(1)),
        mlp_ratio: vision.mlp_ratio(width)?,
        activation,
    };
    let vocabulary = text.size("vocab_size", Some(49_408))?;
    let width = text.size("width", Some(512))?;
    let textual = TextTransformerConfig {
        vocabulary,
        context: text.size("context_length", Some(77))?,
        width,
        depth: text.size("layers", Some(12))?,
        heads: options.textual_heads.unwrap_or(text.size("heads", Some(8))?),
        mlp_ratio: text.mlp_ratio(width)?,
        activation,
    };
    let padding = text.size("pad_id", Some(0))? as u32;
    // Keys used only in training are ignored. Keys such as `pool_type` are accepted only with the values below.
    let idle = ["patch_dropout", "attn_pooler_queries", "attn_pooler_heads"];
    vision.finish(&idle, &["timm_"], &[("pool_type", "tok"), ("pos_embed_type", "learnable")])?;
    let idle = ["eos_id", "tokenizer_kwargs"];
    text.finish(&idle, &["hf_"], &[("pool_type", "argmax"), ("proj_type", "linear")])?;
    model.finish(&["init_logit_scale", "cast_dtype", "output_dict"], &[], &[])?;

    let (pixels, images) = preprocessing(root.section("preprocess_cfg")?)?;
    let conifer = match root.keys.remove(CONIFER_SECTION) {
        Some(section) => serde_json::from_value(section)
            .map_err(|error| Error::format(&path, format!("`{CONIFER_SECTION}`: {error}")))?,
        None => ConiferSection::default(),
    };
    Ok(ClipDescription {
        model: ModelConfig {
            visual: VisualConfig::ClipVit(visual),
            textual: TextualConfig::TextTransformer(textual),
            pixels,
            visual_adapter: None,
            textual_adapter: None,
            visual_lora: None,
            textual_lora: None,
        },
        dim,
        images,
        texts: feed(vocabulary, padding, options),
        conifer,
        path,
    })
}

fn preprocessing(mut section: OpenClipSection<'_>) -> Result<(PixelStatistics, ImageFeed)> {
    let PixelStatistics { mean, std } = CLIP_PIXELS;
    let pixels = PixelStatistics { mean: section.channels("mean", mean)?, std: section.channels("std", std)? };
    let crop = match section.word("resize_mode", "shortest")?.as_str() {
        "shortest" => EvalCrop::Center,
        "squash" => EvalCrop::Squeeze,
        other => return Err(section.wrong("resize_mode", other, "shortest or squash")),
    };
    match section.word("interpolation", "bicubic")?.as_str() {
        "bicubic" => Ok((pixels, ImageFeed { crop })),
        other => Err(section.wrong("interpolation", other, "bicubic")),
    }
}

/// Infers the architecture of a trainer's checkpoint from its tensor shapes.
fn from_shapes(stored: &StateDict, options: &ImportOptions) -> Result<ClipDescription> {
    let rule = |width: usize| width.is_multiple_of(64).then_some(width / 64);
    let [tokens, width] = stored.dims("visual.positional_embedding")?;
    let [_, _, _, patch] = stored.dims("visual.conv1.weight")?;
    let [hidden, _] = stored.dims("visual.transformer.resblocks.0.mlp.c_fc.weight")?;
    let visual = ClipVitConfig {
        image_size: stored.grid("visual.positional_embedding", tokens)?.saturating_mul(patch),
        patch,
        width,
        depth: stored.depth("visual.transformer.resblocks."),
        heads: options.visual_heads.or(rule(width)).ok_or_else(|| no_rule("visual", width, "a multiple of 64"))?,
        mlp_ratio: hidden as f64 / width as f64,
        activation: options.activation,
    };
    let [vocabulary, width] = stored.dims("token_embedding.weight")?;
    let [context, _] = stored.dims("positional_embedding")?;
    let [hidden, _] = stored.dims("transformer.resblocks.0.mlp.c_fc.weight")?;
    let textual = TextTransformerConfig {
        vocabulary,
        context,
        width,
        depth: stored.depth("transformer.resblocks."),
        heads: options.textual_heads.or(rule(width)).ok_or_else(|| no_rule("textual", width, "a multiple of 64"))?,
        mlp_ratio: hidden as f64 / width as f64,
        activation: options.activation,
    };
    let [_, dim] = stored.dims("text_projection")?;
    Ok(ClipDescription {
        model: ModelConfig {
            visual: VisualConfig::ClipVit(visual),
            textual: TextualConfig::TextTransformer(textual),
            pixels: CLIP_PIXELS,
            visual_adapter: None,
            textual_adapter: None,
            visual_lora: None,
            textual_lora: None,
        },
        dim,
        images: ImageFeed::default(),
        texts: feed(vocabulary, 0, options),
        conifer: ConiferSection::default(),
        path: stored.path.clone(),
    })
}

fn feed(vocabulary: usize, padding: u32, options: &ImportOptions) -> TextFeed {
    let end_of_text = options.end_of_text.unwrap_or(vocabulary.saturating_sub(1) as u32);
    TextFeed { tokenizer: None, end_of_text, padding }
}

/// A table of the config. Reading a key removes it, so that only unknown keys remain.
struct OpenClipSection<'a> {
    path: &'a Path,
    name: String,
    keys: Map<String, Value>,
}

impl<'a> OpenClipSection<'a> {
    fn section(&mut self, key: &str) -> Result<OpenClipSection<'a>> {
        let name = self.full(key);
        match self.keys.remove(key) {
            None => Ok(OpenClipSection { path: self.path, name, keys: Map::new() }),
            Some(Value::Object(keys)) => Ok(OpenClipSection { path: self.path, name, keys }),
            Some(other) => Err(self.wrong(key, other, "a table")),
        }
    }

    fn size(&mut self, key: &str, default: Option<usize>) -> Result<usize> {
        let size = |value: &Value| value.as_u64().and_then(|value| usize::try_from(value).ok());
        match (self.keys.remove(key), default) {
            (None, Some(default)) => Ok(default),
            (None, None) => Err(self.wrong(key, "absent", "a number")),
            (Some(value), _) => size(&value).ok_or_else(|| self.wrong(key, value, "a whole number")),
        }
    }

    /// The ratio for which our rounding gives open_clip's hidden width, `floor(width * mlp_ratio)`.
    fn mlp_ratio(&mut self, width: usize) -> Result<f64> {
        match self.keys.remove("mlp_ratio") {
            None => Ok(4.0),
            Some(value) => match value.as_f64() {
                Some(ratio) if width > 0 => Ok((width as f64 * ratio).floor() / width as f64),
                _ => Err(self.wrong("mlp_ratio", value, "a number, with a width above 0")),
            },
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool> {
        match self.keys.remove(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.wrong(key, other, "true or false")),
        }
    }

    fn word(&mut self, key: &str, default: &str) -> Result<String> {
        match self.keys.remove(key) {
            None => Ok(default.to_owned()),
            Some(Value::String(word)) => Ok(word),
            Some(other) => Err(self.wrong(key, other, "a string")),
        }
    }

    fn channels(&mut self, key: &str, default: [f32; 3]) -> Result<[f32; 3]> {
        match self.keys.remove(key) {
            None => Ok(default),
            Some(value) => serde_json::from_value(value.clone()).map_err(|_| self.wrong(key, value, "three numbers")),
        }
    }

    /// Rejects every remaining key that may change the computation. Accepts `idle` keys, keys that are null or
    /// false, keys with their `neutral` value, and keys that begin with one of `prefixes`. `<prefix>...model_name` is
    /// rejected, because it selects another encoder.
    fn finish(self, idle: &[&str], prefixes: &[&str], neutral: &[(&str, &str)]) -> Result<()> {
        let off = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
        let no_effect = |key: &str, value: &Value| {
            off(value)
                || idle.contains(&key)
                || prefixes.iter().any(|prefix| key.starts_with(prefix) && !key.ends_with("model_name"))
                || neutral.iter().any(|(name, neutral)| key == *name && value == neutral)
        };
        let Some((key, value)) = self.keys.iter().find(|(key, value)| !no_effect(key, value)) else {
            return Ok(());
        };
        let expected = neutral.iter().find(|(name, _)| name == key).map_or("no such key", |(_, neutral)| neutral);
        let expected = format!("{expected}, because only CLIP's two transformers are supported");
        Err(self.wrong(key, value, &expected))
    }

    fn full(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn wrong(&self, key: &str, found: impl std::fmt::Display, expected: &str) -> Error {
        Error::format(self.path, format!("`{}` is {found}; expected {expected}", self.full(key)))
    }
}

/// Maps our tensor names to those of open_clip's `CLIP`. Names below `visual` and within a block are the same.
fn mapping(name: &str) -> TensorMapping {
    match name {
        "visual_proj.weight" => TensorMapping::Transposed("visual.proj".into()),
        "textual_proj.weight" => TensorMapping::Transposed("text_projection".into()),
        "textual.posit_embed" => TensorMapping::Same("positional_embedding".into()),
        _ => TensorMapping::Same(match name.strip_prefix("textual.") {
            Some(rest) if rest.starts_with("resblocks.") => format!("transformer.{rest}"),
            Some(rest) => rest.replacen("token_embed.", "token_embedding.", 1),
            None => name.to_owned(),
        }),
    }
}

fn export(model: &Model, manifest: &Manifest, tokenizer: Option<&Tokenizer>, folder: &Path) -> Result<()> {
    let (visual, textual) = clip_towers(model, NAME)?;
    if visual.activation != textual.activation {
        let found = format!("{:?} and {:?}", visual.activation, textual.activation);
        return Err(Error::invalid("model.visual.activation, model.textual.activation", found, "the same in both"));
    }
    if visual.activation == ActivationFn::TanhGelu {
        return Err(Error::invalid("model.visual.activation", "tanh_gelu", "gelu or quick_gelu, the two of open_clip"));
    }
    let last = textual.vocabulary.saturating_sub(1);
    if manifest.texts.end_of_text as usize != last {
        let expected = format!("{last}, the largest id, at which open_clip pools a text");
        return Err(Error::invalid("texts.end_of_text", manifest.texts.end_of_text, expected));
    }
    let mut text = json!({
        "context_length": textual.context,
        "vocab_size": textual.vocabulary,
        "width": textual.width,
        "heads": textual.heads,
        "layers": textual.depth,
        "mlp_ratio": ratio(textual.width, textual.hidden()),
    });
    if manifest.texts.padding != 0 {
        text["pad_id"] = manifest.texts.padding.into();
    }
    let PixelStatistics { mean, std } = model.config().pixels;
    let config = json!({
        "model_cfg": {
            "embed_dim": model.head.spec().dim,
            "quick_gelu": visual.activation == ActivationFn::QuickGelu,
            "vision_cfg": {
                "image_size": visual.image_size,
                "layers": visual.depth,
                "width": visual.width,
                "head_width": visual.width / visual.heads,
                "patch_size": visual.patch,
                "mlp_ratio": ratio(visual.width, visual.hidden()),
            },
            "text_cfg": text,
        },
        "preprocess_cfg": {
            "mean": decimal(mean),
            "std": decimal(std),
            "interpolation": "bicubic",
            "resize_mode": if manifest.images.crop == EvalCrop::Center { "shortest" } else { "squash" },
        },
        CONIFER_SECTION: ConiferSection::of(model, manifest),
    });
    write_json(&config, &folder.join(CONFIG))?;
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(&folder.join(TOKENIZER))?;
    }
    weights::save_for_torch(&scatter(model, mapping), &folder.join(WEIGHTS))
}

/// The ratio for which `floor(width * ratio)` is `hidden`. With the plain quotient, `width * ratio` can round to just
/// below `hidden`.
fn ratio(width: usize, hidden: usize) -> f64 {
    let ratio = hidden as f64 / width as f64;
    if width as f64 * ratio < hidden as f64 { ratio.next_up() } else { ratio }
}
