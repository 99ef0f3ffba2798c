//! Settings of the loader.

use serde::{Deserialize, Serialize};

use super::edges::EdgeChoice;
use crate::error::{Error, Result};
use crate::sample::{PixelLimits, View};
use crate::transform::Augment;

/// How samples become batches. What changes a batch: everything except `workers` and `prefetch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoaderConfig {
    /// [`View::Pair`]: photo and caption. [`View::Boxes`]: also one box of the photo and its phrase. [`View::Chain`]: a chain of texts.
    /// [`View::Edges`]: the photo, its boxes, and which is a part of which.
    pub views: Vec<View>,
    /// Samples in a batch.
    pub batch_size: usize,
    /// Of the order, the choices and the augmentation.
    pub seed: u64,
    /// Pixels on a side.
    pub image_size: usize,
    /// Longest text, in tokens.
    pub context: usize,
    /// Applied to photo and box alike, with independent draws.
    pub augment: Augment,
    /// Which of a photo's captions.
    pub caption: CaptionChoice,
    /// Which chain of texts.
    pub chain: ChainChoice,
    /// Which boxes, and what they are parts of.
    pub edges: EdgeChoice,
    /// Boxes (and ready-made crops) of fewer pixels, measured in the original photo, are not used. HyCoCLIP's
    /// preparation of GRIT keeps more than 32 x 32 = 1024; small pictures need less.
    pub min_box_pixels: u32,
    /// Which photos are accepted.
    pub limits: PixelLimits,
    /// Leave the last, smaller batch of each epoch away.
    pub drop_last: bool,
    /// A run stops when more than this share of the samples it asked for was broken (from 100 samples on).
    pub max_broken_share: f64,
    /// Keep decoded photos in memory.
    pub cache_pixels: Option<CachePixels>,
    /// Threads that read; 0 is one per core.
    pub workers: usize,
    /// Batches that may be ready or in the making at a time: with their size, the bound on the loader's memory.
    pub prefetch: usize,
}

/// Which caption of a photo is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptionChoice {
    /// Any, anew each epoch.
    #[default]
    Random,
    /// The first.
    First,
    /// Any of those that mention the phrase drawn for [`View::Boxes`], by its spans, else by its words; any, where none
    /// does.
    WithPhrase,
    /// Any tier of its chain of texts, anew each epoch (HierarCaps' "FT with CLIP objective").
    Tier,
}

/// Which chain of texts of a sample is used, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChainChoice {
    /// Where it comes from.
    pub of: ChainOf,
    /// Its links: of a longer chain the last ones, the most specific; a shorter one is broken. 4 (HierarCaps).
    pub tiers: usize,
    /// A link that is left out, counted from 0, the most general. (1: the "3 tiers" of HierarCaps' supplement, Table 2, with `tiers = 3`.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<usize>,
    /// Whether each link comes with one that is wrong for the photo: the negative tiers of the sample, or of a taxon another one of its
    /// rank, drawn anew each epoch. A sample without them is broken.
    pub negatives: bool,
    /// Which other taxon: a sibling, or the nearest there is (RCME Sec. 4.3), instead of any.
    pub hard: bool,
}

impl Default for ChainChoice {
    fn default() -> Self {
        Self { of: ChainOf::Tiers, tiers: 4, without: None, negatives: true, hard: true }
    }
}

/// Where a chain of texts comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainOf {
    /// Captions from general to specific, with their negatives (HierarCaps).
    #[default]
    Tiers,
    /// Names of the taxon, each link with all names before it: "Animalia", "Animalia Chordata", ... (BioCLIP, RCME).
    Taxon,
}

/// Decoding costs more than everything else done to a photo. With this setting each photo and each box crop is shrunk
/// before it is augmented, *whether or not* there was room to keep it, so that the room changes no batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CachePixels {
    /// Memory for pixels, in bytes. What comes when it is full is decoded anew each time: in a random order, keeping
    /// the first is as good as any.
    pub bytes: u64,
    /// The shorter side is shrunk to this multiple of `image_size`. A crop of half the area has a side of 0.7, so 1.5
    /// keeps every crop at or above the model's resolution.
    pub shorter_side: f32,
}

impl Default for LoaderConfig {
    fn default() -> Self {
        Self {
            views: vec![View::Pair],
            batch_size: 32,
            seed: 0,
            image_size: 224,
            context: 77,
            augment: Augment::default(),
            caption: CaptionChoice::default(),
            chain: ChainChoice::default(),
            edges: EdgeChoice::default(),
            min_box_pixels: 16,
            limits: PixelLimits::default(),
            drop_last: true,
            max_broken_share: 0.05,
            cache_pixels: None,
            workers: 0,
            prefetch: 2,
        }
    }
}

impl Default for CachePixels {
    fn default() -> Self {
        Self { bytes: 1 << 30, shorter_side: 1.5 }
    }
}

impl LoaderConfig {
    /// Whether the settings make sense.
    ///
    /// # Errors
    /// Names the first setting out of its range.
    pub fn check(&self) -> Result<()> {
        let wrong = |key: &str, found: String, expected: &str| Err(Error::config(key, found, expected));
        if self.views.is_empty() {
            return wrong("views", "none".to_owned(), "pair, boxes, chain or edges");
        }
        self.edges.check()?;
        if self.chain.tiers < 2 {
            return wrong("chain.tiers", self.chain.tiers.to_string(), "at least 2 links");
        }
        if !(1..=8192).contains(&self.image_size) {
            return wrong("image_size", self.image_size.to_string(), "1 to 8192 pixels");
        }
        if !(0.0..=1.0).contains(&self.max_broken_share) {
            return wrong("max_broken_share", self.max_broken_share.to_string(), "0 to 1");
        }
        if self.workers > 1024 {
            return wrong("workers", self.workers.to_string(), "0 (one per core) to 1024 threads");
        }
        if !(1..=10_000).contains(&self.prefetch) {
            return wrong("prefetch", self.prefetch.to_string(), "1 to 10000 batches");
        }
        if let Some(cache) = self.cache_pixels
            && !(1.0..=100.0).contains(&cache.shorter_side)
        {
            return wrong("cache_pixels.shorter_side", cache.shorter_side.to_string(), "1 to 100");
        }
        self.augment.check()
    }
}
