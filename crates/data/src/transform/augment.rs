//! Random augmentation of training photos.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resample::{ResampleFilter, ResampleRegion, resample};
use super::{colour, crop, pad, planar, warp};
use crate::error::{Error, Result};
use crate::sample::Picture;

/// Augmentation of training photos. The steps are applied in the order of the fields. The default is the published
/// recipe of MERU, HyCoCLIP and PHyCLIP without HyCoCLIP's white padding: a random resized crop of 50 to 100 % of the
/// area, no flip, no colour change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Augment {
    /// First fit the whole photo or box crop into a white square of the model's input size, as in HyCoCLIP's
    /// preparation of GRIT.
    pub white_pad: bool,
    /// Method of making the photo square.
    pub crop: Crop,
    /// Probability of a horizontal flip, 0 to 1. The published recipes have none, because captions mention "left" and
    /// "right".
    pub hflip: f32,
    /// Probability of a vertical flip, 0 to 1.
    pub vflip: f32,
    /// Maximum rotation in either direction, 0 to 180 degrees.
    pub rotation: f32,
    /// Random colour changes.
    pub jitter: Jitter,
    /// Settings of the Gaussian blur.
    pub blur: Option<Blur>,
    /// Decode JPEG files at 1/2, 1/4 or 1/8 of their size, if that leaves at least this many pixels per output pixel
    /// along both sides of the crop; 1 to 100. Absent: decode in full size. The setting has no effect with `white_pad`
    /// or `cache_pixels`, or on photos whose boxes are cropped.
    ///
    /// The random draws are the same, and pixels differ slightly (docs/performance.md).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_at_scale: Option<f32>,
    /// For stored features of a frozen encoder: the number of augmented copies of each photo and box that are encoded.
    /// 0: one copy, with the crop of an evaluation. Batches of pixels ignore this setting: each epoch draws a new
    /// augmentation.
    #[serde(skip_serializing_if = "is_zero")]
    pub copies: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Method of making a training photo square.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Crop {
    /// A part of the photo with random area and aspect ratio.
    RandomResized {
        /// For `random_resized`: minimum and maximum of the crop's area, as a fraction of the photo's area, 0 to 1.
        #[serde(default = "default_scale")]
        scale: [f32; 2],
        /// For `random_resized`: minimum and maximum of width / height, 0.001 to 1000.
        #[serde(default = "default_ratio")]
        ratio: [f32; 2],
    },
    /// Squeeze to `margin` times the size, then take a window at a random position (RCME: 256 / 224).
    RandomWindow {
        /// For `random_window`: ratio of the squeezed size to the output size, 1 to 100.
        margin: f32,
    },
    /// Resize the shorter side to the output size and crop the centre, as in [`super::EvalCrop::Center`]. (The braces
    /// make serde reject unknown keys.)
    Center {},
    /// Resize both sides to the output size, as in [`super::EvalCrop::Squeeze`].
    Squeeze {},
}

/// Colour jitter like torchvision's `ColorJitter`: brightness, contrast and saturation factors are uniform in `[max(0,
/// 1 - x), 1 + x]`, the hue rotation is uniform in `[-hue, hue]` of a full turn, and the four are applied in random
/// order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Jitter {
    /// Maximum change of the brightness factor, which is uniform in [max(0, 1 - x), 1 + x]; 0 to 100.
    pub brightness: f32,
    /// Maximum change of the contrast factor, which is uniform in [max(0, 1 - x), 1 + x]; 0 to 100.
    pub contrast: f32,
    /// Maximum change of the saturation factor, which is uniform in [max(0, 1 - x), 1 + x]; 0 to 100.
    pub saturation: f32,
    /// Maximum hue rotation in either direction, as a fraction of a full turn, 0 to 0.5.
    pub hue: f32,
}

/// Settings of the Gaussian blur.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blur {
    /// Width and height of the Gaussian kernel in pixels, odd, at most 99.
    pub kernel: u32,
    /// Minimum and maximum standard deviation in pixels of the result, 0.001 to 1000.
    pub sigma: [f32; 2],
    /// Probability of applying the blur, 0 to 1.
    #[serde(default = "always")]
    pub probability: f32,
}

impl Default for Crop {
    fn default() -> Self {
        Self::RandomResized { scale: default_scale(), ratio: default_ratio() }
    }
}

impl Augment {
    /// Checks the settings.
    ///
    /// # Errors
    /// A setting is out of its range. The message names the first such setting.
    pub fn check(&self) -> Result<()> {
        match &self.crop {
            Crop::RandomResized { scale, ratio } => {
                within("crop.scale", scale, 0.0, 1.0)?;
                within("crop.ratio", ratio, 1e-3, 1e3)?;
            }
            Crop::RandomWindow { margin } => within("crop.margin", &[*margin], 1.0, 100.0)?,
            Crop::Center {} | Crop::Squeeze {} => {}
        }
        within("hflip", &[self.hflip], 0.0, 1.0)?;
        within("vflip", &[self.vflip], 0.0, 1.0)?;
        within("rotation", &[self.rotation], 0.0, 180.0)?;
        let Jitter { brightness, contrast, saturation, hue } = self.jitter;
        within("jitter.brightness", &[brightness], 0.0, 100.0)?;
        within("jitter.contrast", &[contrast], 0.0, 100.0)?;
        within("jitter.saturation", &[saturation], 0.0, 100.0)?;
        within("jitter.hue", &[hue], 0.0, 0.5)?;
        if let Some(least) = self.decode_at_scale {
            within("decode_at_scale", &[least], 1.0, 100.0)?;
        }
        if let Some(Blur { kernel, sigma, probability }) = &self.blur {
            within("blur.sigma", sigma, 1e-3, 1e3)?;
            within("blur.probability", &[*probability], 0.0, 1.0)?;
            if kernel % 2 == 0 || *kernel > 99 {
                return Err(Error::invalid("augment.blur.kernel", kernel.to_string(), "an odd number, at most 99"));
            }
        }
        Ok(())
    }

    /// Augments a photo to `[3, size, size]` bytes. The result depends only on the arguments.
    pub fn apply(&self, picture: &Picture, size: u32, rng: &mut impl Rng) -> Vec<u8> {
        let padded = self.white_pad.then(|| pad::white_pad(picture, size));
        let picture = padded.as_ref().unwrap_or(picture);
        let region = self.region(picture.width, picture.height, size, rng);
        self.finish(resample(picture, region, size, size, ResampleFilter::Bicubic), rng)
    }

    /// Draws the region of the photo for the crop.
    pub(super) fn region(&self, width: u32, height: u32, size: u32, rng: &mut impl Rng) -> ResampleRegion {
        match self.crop {
            Crop::RandomResized { scale, ratio } => crop::random_resized(width, height, scale, ratio, rng),
            Crop::RandomWindow { margin } => crop::random_window(width, height, size, margin, rng),
            Crop::Center {} => crop::center(width, height, size),
            Crop::Squeeze {} => ResampleRegion::Cut { left: 0, top: 0, width, height },
        }
    }

    /// Applies the steps after the crop: flips, rotation, jitter and blur.
    pub(super) fn finish(&self, mut square: Picture, rng: &mut impl Rng) -> Vec<u8> {
        if chance(self.hflip, rng) {
            warp::flip_horizontal(&mut square);
        }
        if chance(self.vflip, rng) {
            warp::flip_vertical(&mut square);
        }
        if self.rotation > 0.0 {
            square = warp::rotate(&square, rng.random_range(-self.rotation..=self.rotation));
        }
        self.jitter.apply(&mut square, rng);
        if let Some(blur) = &self.blur
            && chance(blur.probability, rng)
        {
            let sigma = rng.random_range(blur.sigma[0]..=blur.sigma[1]);
            square = warp::blur(&square, blur.kernel, sigma);
        }
        planar(&square)
    }
}

impl Jitter {
    fn apply(&self, picture: &mut Picture, rng: &mut impl Rng) {
        type Change = fn(&mut Picture, f32);
        let factor = |strength: f32| [(1.0 - strength).max(0.0), 1.0 + strength];
        let mut changes: Vec<(Change, [f32; 2])> = [
            (self.brightness, colour::brightness as Change, factor(self.brightness)),
            (self.contrast, colour::contrast, factor(self.contrast)),
            (self.saturation, colour::saturation, factor(self.saturation)),
            (self.hue, colour::hue, [-self.hue, self.hue]),
        ]
        .into_iter()
        .filter(|(strength, ..)| *strength > 0.0)
        .map(|(_, change, range)| (change, range))
        .collect();
        changes.shuffle(rng);
        for (change, [low, high]) in changes {
            change(picture, rng.random_range(low..=high));
        }
    }
}

fn chance(probability: f32, rng: &mut impl Rng) -> bool {
    // Draw nothing if the step is disabled, so that the other draws of existing runs do not change.
    probability > 0.0 && rng.random::<f32>() < probability
}

/// Checks one value, or a minimum and a maximum; all must be in `[low, high]`.
fn within(key: &str, values: &[f32], low: f32, high: f32) -> Result<()> {
    if values.iter().all(|v| (low..=high).contains(v)) && values.is_sorted() {
        return Ok(());
    }
    let expected = match values.len() {
        1 => format!("{low} to {high}"),
        _ => format!("[smallest, largest], both {low} to {high}"),
    };
    let found = match values {
        [one] => one.to_string(),
        _ => format!("{values:?}"),
    };
    Err(Error::invalid(format!("augment.{key}"), found, expected))
}

/// Value of MERU and HyCoCLIP.
fn default_scale() -> [f32; 2] {
    [0.5, 1.0]
}

/// torchvision's default, also used by MERU and HyCoCLIP.
fn default_ratio() -> [f32; 2] {
    [3.0 / 4.0, 4.0 / 3.0]
}

fn always() -> f32 {
    1.0
}
