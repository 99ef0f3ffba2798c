//! What happens to a training photo.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::resample::{Filter, Region, resample};
use super::{colour, crop, pad, planar, warp};
use crate::error::{Error, Result};
use crate::sample::Picture;

/// How training photos are varied. Applied in the order of the fields; the default is the published recipe of MERU,
/// HyCoCLIP and PHyCLIP without HyCoCLIP's white borders: a random resized crop of half to all of the area, no flip, no
/// change of colour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Augment {
    /// First fit the whole photo (or box crop) into a white square of the model's size, as HyCoCLIP prepares GRIT.
    pub white_pad: bool,
    /// How the photo becomes a square.
    pub crop: Crop,
    /// Probability of exchanging left and right. The published recipes have none: captions say "left".
    pub hflip: f32,
    /// Probability of exchanging top and bottom.
    pub vflip: f32,
    /// Turned by up to this many degrees either way.
    pub rotation: f32,
    /// Change of colours.
    pub jitter: Jitter,
    /// Gaussian blur.
    pub blur: Option<Blur>,
    /// JPEG files are decoded at 1/2, 1/4 or 1/8 of their size where at least so many pixels are left for each pixel of the result, along both
    /// sides of the crop: 1 or more; `None` decodes at full size. Only while a row needs nothing but that crop of the photo: no box
    /// cut out of it, no cache of pixels, no white borders. The draws are the same, pixels differ a little (docs/performance.md).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_at_scale: Option<f32>,
}

/// How a training photo becomes a square.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Crop {
    /// A part of random area and shape.
    RandomResized {
        /// Smallest and largest share of the area.
        #[serde(default = "default_scale")]
        scale: [f32; 2],
        /// Smallest and largest width / height.
        #[serde(default = "default_ratio")]
        ratio: [f32; 2],
    },
    /// Squeezed to `margin` times the size, then a part at a random place (RCME: 256 / 224).
    RandomWindow {
        /// At least 1.
        margin: f32,
    },
    /// As [`super::EvalCrop::Center`]. (Braces, because serde lets unknown keys pass in a tagged variant without them.)
    Center {},
    /// As [`super::EvalCrop::Squeeze`].
    Squeeze {},
}

/// Each factor is uniform in `[max(0, 1 - x), 1 + x]`, the turn of the hue uniform in `[-hue, hue]` of a full turn; the
/// four in random order (torchvision's `ColorJitter`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jitter {
    /// At least 0.
    pub brightness: f32,
    /// At least 0.
    pub contrast: f32,
    /// At least 0.
    pub saturation: f32,
    /// 0 to 0.5.
    pub hue: f32,
}

/// Gaussian blur.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blur {
    /// Pixels the kernel covers each way; odd.
    pub kernel: u32,
    /// Smallest and largest standard deviation, in pixels of the result.
    pub sigma: [f32; 2],
    /// How often it is applied.
    #[serde(default = "always")]
    pub probability: f32,
}

impl Default for Crop {
    fn default() -> Self {
        Self::RandomResized { scale: default_scale(), ratio: default_ratio() }
    }
}

impl Augment {
    /// Whether the settings make sense.
    ///
    /// # Errors
    /// Names the first setting out of its range.
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
                return Err(Error::config("augment.blur.kernel", kernel.to_string(), "an odd number, at most 99"));
            }
        }
        Ok(())
    }

    /// One variation of the photo, `[3, size, size]` bytes. Equal generators give equal bytes.
    pub fn apply(&self, picture: &Picture, size: u32, rng: &mut impl Rng) -> Vec<u8> {
        let padded = self.white_pad.then(|| pad::white_pad(picture, size));
        let picture = padded.as_ref().unwrap_or(picture);
        let region = self.region(picture.width, picture.height, size, rng);
        self.finish(resample(picture, region, size, size, Filter::Bicubic), rng)
    }

    /// Which part of a photo is taken.
    pub(super) fn region(&self, width: u32, height: u32, size: u32, rng: &mut impl Rng) -> Region {
        match self.crop {
            Crop::RandomResized { scale, ratio } => crop::random_resized(width, height, scale, ratio, rng),
            Crop::RandomWindow { margin } => crop::random_window(width, height, size, margin, rng),
            Crop::Center {} => crop::center(width, height, size),
            Crop::Squeeze {} => Region::Cut { left: 0, top: 0, width, height },
        }
    }

    /// What happens to the square that was taken.
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
    // Nothing is drawn for what is switched off, so that switching it off leaves the other draws of older runs as they
    // were.
    probability > 0.0 && rng.random::<f32>() < probability
}

/// One value, or a smallest and a largest, all in `[low, high]`.
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
    Err(Error::config(format!("augment.{key}"), found, expected))
}

/// MERU's and HyCoCLIP's.
fn default_scale() -> [f32; 2] {
    [0.5, 1.0]
}

/// torchvision's default, which MERU and HyCoCLIP keep.
fn default_ratio() -> [f32; 2] {
    [3.0 / 4.0, 4.0 / 3.0]
}

fn always() -> f32 {
    1.0
}
