//! ALIGN in the layout of Hugging Face's `transformers` (`AlignModel`): a folder with `config.json` and
//! `model.safetensors` (or `pytorch_model.bin`).
//!
//! `AlignModel` does not project photographs, and projects texts with an affine map that is part of the encoder here.
//! Both projections of the model are therefore the identity. Pixels are scaled as in `preprocessor_config.json`, or to
//! [-1, 1] without it. Photographs are resampled with a bicubic filter; the filter that the file names is ignored.
//! BERT's pooler is dropped, because ALIGN does not use it.

use std::path::Path;

use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use conifer_geometry::ManifoldSpec;
use serde::Deserialize;

use super::layout::{TensorMapping, gather, read_json};
use super::published::{CheckpointFormat, ImportOptions};
use super::state_dict::StateDict;
use super::{ImageFeed, Manifest, TextFeed, weights};
use crate::encoders::bert::BERT_NORM_EPSILON;
use crate::encoders::efficientnet::{ConvActivation, STAGES};
use crate::encoders::{BertConfig, EfficientNetConfig, TextualConfig, TokenPooling, VisualConfig};
use crate::head::{Head, HeadConfig};
use crate::model::{Model, ModelConfig, PixelStatistics};
use crate::params::Init;
use crate::weight_array::{WeightArray, Weights};
use crate::{Error, Result};

pub(super) const FORMAT: CheckpointFormat = CheckpointFormat {
    name: "hf-align",
    summary: "the folder of transformers' AlignModel",
    files: &["model.safetensors", "pytorch_model.bin"],
    marks: &["vision_model.encoder.blocks."],
    import,
    export: None,
};

fn import(mut stored: StateDict, options: &ImportOptions, device: &Device) -> Result<(Model, Manifest)> {
    let folder = stored.path.parent().unwrap_or(Path::new("")).to_owned();
    let path = folder.join("config.json");
    let config: Config = read_json(&path)?;
    let dim = config.projection_dim;
    let visual = config.vision_config.architecture(&path)?;
    let textual = config.text_config.architecture(dim, options, &path)?;
    let wrong = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
        Error::format(&path, format!("`{key}` is {found}; expected {expected}"))
    };
    if config.model_type != "align" {
        return Err(wrong("model_type", &config.model_type, "align"));
    }
    let [.., last] = visual.channels;
    if last != dim || config.vision_config.hidden_dim != dim {
        let found = format!("{dim}, but the network ends with {last} channels");
        return Err(wrong("projection_dim", &found, "equal numbers, because photographs are not projected"));
    }
    let AlignPreprocessing { pixels, images, image_size } = preprocessing(&folder.join("preprocessor_config.json"))?;
    let described = ModelConfig {
        visual: VisualConfig::EfficientNet(EfficientNetConfig {
            image_size: image_size.unwrap_or(visual.image_size),
            ..visual.clone()
        }),
        textual: TextualConfig::Bert(textual),
        pixels,
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let beside = stored.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // This is a lower bound: every block except the first of its stage reads and writes this many channels.
    let stages = visual.channels.iter().zip(visual.repeats);
    let min_values = stages.map(|(&channels, repeats)| repeats.saturating_sub(1) as f64 * (channels as f64).powi(2));
    super::check_numbers((last as f64).powi(2) + min_values.sum::<f64>(), &stored.weights, &path, &beside)?;
    super::check_size(&described, &stored.weights, &path, &beside)?;

    stored.weights.retain(|name, _| !name.starts_with("text_model.pooler."));
    let head_config = HeadConfig::default();
    let head = Head::new(&ManifoldSpec::sphere(dim), &head_config, device)?;
    let mut init = Init::blank_for(&stored.weights, device);
    let model = Model::new(&described, head, &mut init).map_err(super::in_file(&path))?;
    let own = ["visual_proj.weight", "textual_proj.weight"];
    let needed = weights::shapes(&model).into_iter().filter(|(name, _)| !own.contains(&name.as_str())).collect();
    let mut weights = gather(needed, stored.weights, mapping, &stored.path)?;
    let identity = (0..dim * dim).map(|i| f32::from(u8::from(i / dim == i % dim))).collect::<Vec<_>>();
    weights.extend(own.map(|name| (name.to_owned(), WeightArray::f32([dim, dim], identity.clone()))));
    invert_temperature(&mut weights, &stored.path)?;
    let model = weights::import(model, weights, &stored.path)?;

    let end_of_text = options.end_of_text.or(config.text_config.eos_token_id).unwrap_or(SEPARATOR);
    let texts = TextFeed { tokenizer: None, end_of_text, padding: config.text_config.pad_token_id };
    let mut manifest = Manifest::new(&model, &head_config, options.method.as_deref().unwrap_or("clip"), texts);
    manifest.images = images;
    Ok((model, manifest))
}

/// Id of `[SEP]` in BERT's vocabulary. ALIGN ends texts with this id, which its config does not contain.
const SEPARATOR: u32 = 102;

/// ALIGN stores the temperature; conifer stores the logarithm of 1/temperature.
fn invert_temperature(weights: &mut Weights, path: &Path) -> Result<()> {
    let stored = weights.get("logit_scale").and_then(WeightArray::floats).and_then(|values| values.first().copied());
    match stored {
        Some(temperature) if temperature > 0.0 => {
            weights.insert("logit_scale".into(), WeightArray::f32([], vec![-temperature.ln()]));
            Ok(())
        }
        other => {
            let found = other.map_or("absent".to_owned(), |value| value.to_string());
            Err(Error::format(path, format!("`temperature` is {found}; expected a number above 0")))
        }
    }
}

/// Keys of `config.json` that affect the computation, with the defaults of `AlignConfig`.
#[derive(Deserialize)]
#[serde(default)]
struct Config {
    model_type: String,
    projection_dim: usize,
    text_config: AlignTextConfig,
    vision_config: AlignVisionConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model_type: "absent".into(),
            projection_dim: 640,
            text_config: AlignTextConfig::default(),
            vision_config: AlignVisionConfig::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct AlignTextConfig {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    pad_token_id: u32,
    eos_token_id: Option<u32>,
}

impl Default for AlignTextConfig {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: "gelu".into(),
            max_position_embeddings: 512,
            type_vocab_size: 2,
            layer_norm_eps: BERT_NORM_EPSILON,
            pad_token_id: 0,
            eos_token_id: None,
        }
    }
}

impl AlignTextConfig {
    fn architecture(&self, projection: usize, options: &ImportOptions, path: &Path) -> Result<BertConfig> {
        let wrong = |key: &str, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
            Error::format(path, format!("`text_config.{key}` is {found}; expected {expected}"))
        };
        if self.hidden_act != "gelu" {
            return Err(wrong("hidden_act", &self.hidden_act, &"gelu"));
        }
        if self.layer_norm_eps != BERT_NORM_EPSILON {
            return Err(wrong("layer_norm_eps", &self.layer_norm_eps, &BERT_NORM_EPSILON));
        }
        Ok(BertConfig {
            vocabulary: self.vocab_size,
            context: self.max_position_embeddings,
            width: self.hidden_size,
            depth: self.num_hidden_layers,
            heads: options.textual_heads.unwrap_or(self.num_attention_heads),
            mlp_ratio: self.intermediate_size as f64 / self.hidden_size as f64,
            segments: self.type_vocab_size,
            pooling: TokenPooling::First,
            projection,
            projection_tanh: false,
            normalize: false,
            epsilon: BERT_NORM_EPSILON,
            first_position: 0,
            relative_buckets: 0,
        })
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct AlignVisionConfig {
    num_channels: usize,
    image_size: usize,
    width_coefficient: f64,
    depth_coefficient: f64,
    depth_divisor: usize,
    kernel_sizes: [usize; STAGES],
    in_channels: [usize; STAGES],
    out_channels: [usize; STAGES],
    depthwise_padding: Vec<usize>,
    strides: [usize; STAGES],
    num_block_repeats: [usize; STAGES],
    expand_ratios: [usize; STAGES],
    squeeze_expansion_ratio: f64,
    hidden_act: String,
    hidden_dim: usize,
    pooling_type: String,
    batch_norm_eps: f64,
}

impl Default for AlignVisionConfig {
    fn default() -> Self {
        Self {
            num_channels: 3,
            image_size: 600,
            width_coefficient: 2.0,
            depth_coefficient: 3.1,
            depth_divisor: 8,
            kernel_sizes: [3, 3, 5, 3, 5, 5, 3],
            in_channels: [32, 16, 24, 40, 80, 112, 192],
            out_channels: [16, 24, 40, 80, 112, 192, 320],
            depthwise_padding: Vec::new(),
            strides: [1, 2, 2, 2, 1, 2, 1],
            num_block_repeats: [1, 2, 2, 3, 3, 4, 1],
            expand_ratios: [1, 6, 6, 6, 6, 6, 6],
            squeeze_expansion_ratio: 0.25,
            hidden_act: "swish".into(),
            hidden_dim: 2560,
            pooling_type: "mean".into(),
            batch_norm_eps: 0.001,
        }
    }
}

impl AlignVisionConfig {
    fn architecture(&self, path: &Path) -> Result<EfficientNetConfig> {
        let wrong = |key: &str, found: String, expected: &str| {
            Error::format(path, format!("`vision_config.{key}` is {found}; expected {expected}"))
        };
        if !["swish", "silu"].contains(&self.hidden_act.as_str()) {
            return Err(wrong("hidden_act", self.hidden_act.clone(), "swish"));
        }
        if self.pooling_type != "mean" {
            return Err(wrong("pooling_type", self.pooling_type.clone(), "mean"));
        }
        if self.num_channels != 3 {
            return Err(wrong("num_channels", self.num_channels.to_string(), "3"));
        }
        let factors = [self.width_coefficient, self.depth_coefficient];
        if self.depth_divisor == 0 || factors.iter().any(|factor| !(0.01..=100.0).contains(factor)) {
            let found = format!("{}, with coefficients {factors:?}", self.depth_divisor);
            return Err(wrong("depth_divisor", found, "above 0, with coefficients from 0.01 to 100"));
        }
        let channels = self.out_channels.map(|channels| self.rounded(channels));
        // The first convolution has as many output channels as the first stage has input channels: 32, rounded.
        let stem = self.rounded(32);
        let read = self.in_channels.map(|channels| self.rounded(channels));
        let written = [stem].into_iter().chain(channels);
        if let Some((read, written)) = read.into_iter().zip(written).find(|(read, written)| read != written) {
            let expected = format!("{written} where a stage reads {read} channels, the output of the previous stage");
            return Err(wrong("in_channels", format!("{:?}", self.in_channels), &expected));
        }
        Ok(EfficientNetConfig {
            image_size: self.image_size,
            stem,
            channels,
            repeats: self.num_block_repeats.map(|repeats| (self.depth_coefficient * repeats as f64).ceil() as usize),
            kernels: self.kernel_sizes,
            strides: self.strides,
            expansions: self.expand_ratios,
            squeeze: self.squeeze_expansion_ratio,
            epsilon: self.batch_norm_eps,
            symmetric: self.depthwise_padding.clone(),
            last: 0,
            activation: ConvActivation::Silu,
            same_padding: false,
        })
    }

    /// Scales `channels` by the width coefficient and rounds to the nearest multiple of the divisor, or up if the
    /// result would be less than 90 % of the scaled number.
    fn rounded(&self, channels: usize) -> usize {
        let divisor = self.depth_divisor;
        let scaled = channels as f64 * self.width_coefficient;
        let nearest = ((scaled + divisor as f64 / 2.0) as usize / divisor * divisor).max(divisor);
        if (nearest as f64) < 0.9 * scaled { nearest + divisor } else { nearest }
    }
}

struct AlignPreprocessing {
    pixels: PixelStatistics,
    images: ImageFeed,
    image_size: Option<usize>,
}

/// Keys of `preprocessor_config.json`, with the defaults of `EfficientNetImageProcessor`.
#[derive(Deserialize)]
#[serde(default)]
struct AlignProcessorConfig {
    do_center_crop: bool,
    crop_size: Option<AlignCropSize>,
    rescale_factor: f64,
    rescale_offset: bool,
    do_normalize: bool,
    image_mean: [f64; 3],
    image_std: [f64; 3],
    include_top: bool,
}

#[derive(Deserialize)]
struct AlignCropSize {
    height: usize,
}

impl Default for AlignProcessorConfig {
    fn default() -> Self {
        Self {
            do_center_crop: false,
            crop_size: None,
            rescale_factor: 1.0 / 255.0,
            rescale_offset: false,
            do_normalize: true,
            image_mean: [0.485, 0.456, 0.406],
            image_std: [0.229, 0.224, 0.225],
            include_top: true,
        }
    }
}

fn preprocessing(path: &Path) -> Result<AlignPreprocessing> {
    if !path.is_file() {
        let pixels = PixelStatistics { mean: [0.5; 3], std: [0.5; 3] };
        return Ok(AlignPreprocessing { pixels, images: ImageFeed::default(), image_size: None });
    }
    let read: AlignProcessorConfig = read_json(path)?;
    let crop = if read.do_center_crop { EvalCrop::Center } else { EvalCrop::Squeeze };
    // For pixels p in [0, 1] and f = `rescale_factor` the processor computes (255 p f - offset - mean) / std, and
    // divides by std again under `include_top`. The statistics below give the same values as (p - mean) / std.
    let offset = f64::from(u8::from(read.rescale_offset));
    let scale = 255.0 * read.rescale_factor;
    let channel = |i: usize| {
        let (mean, std) = if read.do_normalize { (read.image_mean[i], read.image_std[i]) } else { (0.0, 1.0) };
        let std = if read.include_top { std * read.image_std[i] } else { std };
        (((offset + mean) / scale) as f32, (std / scale) as f32)
    };
    let channels = [channel(0), channel(1), channel(2)];
    if channels.iter().any(|(mean, std)| !mean.is_finite() || !std.is_finite() || *std == 0.0) {
        let detail =
            "`rescale_factor`, `image_mean` and `image_std` give no valid scale; expected finite numbers other than 0";
        return Err(Error::format(path, detail));
    }
    let pixels = PixelStatistics { mean: channels.map(|(mean, _)| mean), std: channels.map(|(_, std)| std) };
    let image_size = read.crop_size.filter(|_| read.do_center_crop).map(|side| side.height);
    Ok(AlignPreprocessing { pixels, images: ImageFeed { crop }, image_size })
}

/// Maps our tensor names to those of `AlignModel`. Names below `visual` differ only in this prefix.
fn mapping(name: &str) -> TensorMapping {
    let Some(rest) = name.strip_prefix("textual.") else {
        return TensorMapping::Same(match name {
            "logit_scale" => "temperature".into(),
            _ => name.replacen("visual.", "vision_model.", 1),
        });
    };
    if let Some(leaf) = rest.strip_prefix("projection.") {
        return TensorMapping::Same(format!("text_projection.{leaf}"));
    }
    let rest = rest.replace("layer_norm.", "LayerNorm.");
    match rest.split_once(".qkv.") {
        Some((before, leaf)) => {
            let part = |part: &str| format!("text_model.{before}.self.{part}.{leaf}");
            TensorMapping::Parts(["query", "key", "value"].map(part).into())
        }
        None => TensorMapping::Same(format!("text_model.{rest}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use burn::tensor::{Tensor, TensorData};

    use super::super::clip_tests::{ClipGolden, golden};
    use super::super::published::import;
    use super::*;
    use crate::encoders::Tokens;

    #[test]
    fn align_matches_reference_outputs_and_round_trips() {
        let Some(folder) = golden("hf_align") else { return };
        let io = ClipGolden::read(&folder);
        let saved = tempfile::tempdir().unwrap();
        for device in [Device::flex(), Device::flex().autodiff()] {
            let (model, manifest) = import(&folder, &ImportOptions::default(), &device).unwrap();
            let native = saved.path().join("native");
            super::super::save(&native, &model, &manifest, None).unwrap();
            let (loaded, read) = super::super::load(&native, &device).unwrap();
            assert_eq!(weights::export(&loaded), weights::export(&model));
            assert_eq!(read, manifest);

            let image = io.error("out.image_embeds", loaded.embed_images(io.pixels(model.config().pixels)).unwrap());
            // A text ends where its attention mask ends.
            let ends: Vec<i32> = io.rows("in.attention_mask").map(|row| row.iter().sum::<f32>() as i32 - 1).collect();
            let ids = io.tokens_ending_at(ends.clone());
            let text = io.error("out.text_embeds", loaded.embed_texts(ids).unwrap());
            eprintln!("hf_align: relative error {image:.1e} (image), {text:.1e} (text)");
            assert!(image < 1e-5 && text < 1e-5, "off by {image:e} (image), {text:e} (text)");

            // Ids after the end are not read.
            let rows = io.rows("in.input_ids").zip(&ends);
            let rubbish = rows.flat_map(|(row, &end)| {
                let replaced = row.iter().enumerate().map(move |(i, &id)| if i as i32 > end { 7 } else { id as i32 });
                replaced.collect::<Vec<_>>()
            });
            let rubbish: Vec<i32> = rubbish.collect();
            let count = ends.len();
            let tokens = Tokens {
                ids: Tensor::from_data(
                    TensorData::new(rubbish.clone(), [count, rubbish.len() / count]),
                    &Device::flex(),
                ),
                end: Tensor::from_data(TensorData::new(ends, [count]), &Device::flex()),
            };
            assert!(io.error("out.text_embeds", loaded.embed_texts(tokens).unwrap()) < 1e-5);
        }
    }

    #[test]
    fn preprocessor_config_sets_the_pixel_statistics() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("preprocessor_config.json");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            preprocessing(&path)
        };
        // The bytes 0 and 255 become -1 and 1.
        let offset = r#"{"rescale_factor": 0.00784313725490196, "rescale_offset": true, "do_normalize": false,
            "include_top": false, "do_center_crop": true, "crop_size": {"height": 289, "width": 289}}"#;
        let found = read(offset).unwrap();
        assert_eq!((found.image_size, found.images.crop), (Some(289), EvalCrop::Center));
        for (mean, std) in found.pixels.mean.into_iter().zip(found.pixels.std) {
            assert!(((0.0 - mean) / std + 1.0).abs() < 1e-6 && ((1.0 - mean) / std - 1.0).abs() < 1e-6);
        }
        // By default the processor computes (p - mean) / std / std, the normalisation for networks with a classifier.
        let found = read("{}").unwrap();
        assert!((found.pixels.mean[0] - 0.485).abs() < 1e-6 && (found.pixels.std[0] - 0.229 * 0.229).abs() < 1e-6);
        let message = read(r#"{"image_std": [0, 1, 1]}"#).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("give no valid scale"), "{message}");
    }

    #[test]
    fn widths_are_rounded_as_in_the_published_network() {
        let b7 = AlignVisionConfig::default().architecture(Path::new("x")).unwrap();
        assert_eq!((b7.stem, b7.channels), (64, [32, 48, 80, 160, 224, 384, 640]));
        assert_eq!(b7.repeats, [4, 7, 7, 10, 10, 13, 4]);
        let b0 = AlignVisionConfig { width_coefficient: 1.0, depth_coefficient: 1.0, ..AlignVisionConfig::default() };
        let b0 = b0.architecture(Path::new("x")).unwrap();
        assert_eq!((b0.stem, b0.channels), (32, [16, 24, 40, 80, 112, 192, 320]));
        let odd = AlignVisionConfig { in_channels: [32, 16, 24, 48, 80, 112, 192], ..AlignVisionConfig::default() };
        let message = odd.architecture(Path::new("x")).unwrap_err().to_string();
        assert!(message.contains("expected 80 where a stage reads 96 channels"), "{message}");
    }
}
