//! Pixel statistics, crop and size of the photographs, from the files beside the weights: `config.json` of timm, and
//! `preprocessor_config.json` of `transformers`.
//!
//! Photographs are resampled with a bicubic filter, and a centre crop takes the whole shorter side. The filter and the
//! margin of the crop (timm: `crop_pct`) in the files are ignored.

use std::path::Path;

use conifer_data::transform::EvalCrop;
use serde::Deserialize;
use serde_json::Value;

use super::super::ImageFeed;
use super::super::layout::read_json;
use super::assembly::wrong;
use crate::Result;
use crate::model::PixelStatistics;

const CONFIG: &str = "config.json";
const PREPROCESSOR: &str = "preprocessor_config.json";

/// Preprocessing of photographs, as described by the files beside the weights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PhotoPreprocessing {
    pub(super) pixels: PixelStatistics,
    pub(super) images: ImageFeed,
    /// Side of the square photographs; `None` if no file sets it.
    pub(super) image_size: Option<usize>,
}

/// `config.json` of a timm model on the hub.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TimmConfig {
    pub(super) global_pool: Option<String>,
    model_args: serde_json::Map<String, Value>,
    pretrained_cfg: TimmPretrained,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TimmPretrained {
    input_size: Option<[usize; 3]>,
    mean: Option<[f32; 3]>,
    std: Option<[f32; 3]>,
    crop_mode: Option<String>,
}

impl TimmConfig {
    /// The config in the folder `beside`, or the defaults of timm if there is none.
    ///
    /// # Errors
    /// The errors of [`read_json`]; [`crate::Error::Format`] for photographs that are not square RGB.
    pub(super) fn read(beside: &Path) -> Result<(Self, PhotoPreprocessing)> {
        let path = beside.join(CONFIG);
        let config: Self = if path.is_file() { read_json(&path)? } else { Self::default() };
        let TimmPretrained { input_size, mean, std, crop_mode } = &config.pretrained_cfg;
        let image_size = match *input_size {
            None => None,
            Some([3, height, width]) if height == width => Some(height),
            Some(size) => {
                return Err(wrong(&path, "pretrained_cfg.input_size", format!("{size:?}"), "[3, size, size]"));
            }
        };
        let default = PixelStatistics::default();
        let pixels = PixelStatistics { mean: mean.unwrap_or(default.mean), std: std.unwrap_or(default.std) };
        check(&pixels, &path, "pretrained_cfg.mean, pretrained_cfg.std")?;
        let crop = if crop_mode.as_deref() == Some("squash") { EvalCrop::Squeeze } else { EvalCrop::Center };
        Ok((config, PhotoPreprocessing { pixels, images: ImageFeed { crop }, image_size }))
    }

    /// An integer in `model_args`, the arguments with which timm creates the model.
    pub(super) fn model_arg(&self, name: &str) -> Option<usize> {
        usize::try_from(self.model_args.get(name)?.as_u64()?).ok()
    }
}

/// Keys of `preprocessor_config.json`.
#[derive(Deserialize)]
#[serde(default)]
struct HfProcessorConfig {
    do_center_crop: Option<bool>,
    crop_size: Value,
    size: Value,
    do_normalize: bool,
    image_mean: Option<[f32; 3]>,
    image_std: Option<[f32; 3]>,
    rescale_factor: f64,
}

impl Default for HfProcessorConfig {
    fn default() -> Self {
        Self {
            do_center_crop: None,
            crop_size: Value::Null,
            size: Value::Null,
            do_normalize: true,
            image_mean: None,
            image_std: None,
            rescale_factor: 1.0 / 255.0,
        }
    }
}

/// Reads `preprocessor_config.json` in the folder `beside`. `default` holds the values of the processor's class for
/// absent keys.
///
/// # Errors
/// The errors of [`read_json`]; [`crate::Error::Format`] for values that give no valid scale or sides that differ.
pub(super) fn hf_processor(beside: &Path, default: PhotoPreprocessing) -> Result<PhotoPreprocessing> {
    let path = beside.join(PREPROCESSOR);
    if !path.is_file() {
        return Ok(default);
    }
    let read: HfProcessorConfig = read_json(&path)?;
    let crop = match read.do_center_crop {
        None => default.images.crop,
        Some(true) => EvalCrop::Center,
        Some(false) => EvalCrop::Squeeze,
    };
    let (key, size) = match crop {
        EvalCrop::Center if !read.crop_size.is_null() => ("crop_size", &read.crop_size),
        _ => ("size", &read.size),
    };
    let image_size = side(size).map_err(|found| wrong(&path, key, found, "a number, or equal height and width"))?;
    // For pixels p in [0, 1] and f = `rescale_factor` the processor computes (255 p f - mean) / std.
    let scale = (255.0 * read.rescale_factor) as f32;
    let (mean, std) = match read.do_normalize {
        true => (read.image_mean.unwrap_or(default.pixels.mean), read.image_std.unwrap_or(default.pixels.std)),
        false => ([0.0; 3], [1.0; 3]),
    };
    let exact = (scale - 1.0).abs() < 1e-6;
    let scaled = |values: [f32; 3]| if exact { values } else { values.map(|value| value / scale) };
    let pixels = PixelStatistics { mean: scaled(mean), std: scaled(std) };
    check(&pixels, &path, "image_mean, image_std, rescale_factor")?;
    let image_size = image_size.or(default.image_size);
    Ok(PhotoPreprocessing { pixels, images: ImageFeed { crop }, image_size })
}

/// The side in `224`, `{"shortest_edge": 224}` or `{"height": 224, "width": 224}`; `None` for null. Any other value is
/// the error.
fn side(size: &Value) -> Result<Option<usize>, String> {
    let number = |value: &Value| value.as_u64().and_then(|side| usize::try_from(side).ok());
    if size.is_null() {
        return Ok(None);
    }
    let edge = |key| size.get(key).and_then(number);
    match (number(size).or(edge("shortest_edge")), edge("height"), edge("width")) {
        (Some(side), None, None) => Ok(Some(side)),
        (None, Some(height), Some(width)) if height == width => Ok(Some(height)),
        _ => Err(size.to_string()),
    }
}

fn check(pixels: &PixelStatistics, path: &Path, keys: &str) -> Result<()> {
    let valid = pixels.std.iter().all(|std| std.is_normal() && *std > 0.0) && pixels.mean.iter().all(|x| x.is_finite());
    match valid {
        true => Ok(()),
        false => Err(wrong(path, keys, format!("{pixels:?}"), "finite means and deviations above 0")),
    }
}
