//! Settings of the loader.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::edges::EdgeChoice;
use crate::error::{Error, Result};
use crate::sample::{PixelLimits, View};
use crate::transform::Augment;

/// Settings of the loader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoaderConfig {
    /// What a batch contains. [`View::Pair`]: photo and caption. [`View::Photo`]: the photo without a caption.
    /// [`View::Boxes`]: a pair, plus one box of the photo and its phrase. [`View::Chain`]: a chain of texts.
    /// [`View::Edges`]: the photo, its boxes, and their part-of relations.
    pub views: Vec<View>,
    /// Number of samples per batch.
    pub batch_size: usize,
    /// Seed of the sample order, the random choices and the augmentation.
    pub seed: u64,
    /// Width and height of images, in pixels.
    pub image_size: usize,
    /// Maximum length of a text, in tokens.
    pub context: usize,
    /// The source, and how its samples are read.
    pub data: DataConfig,
}

/// `[data]` of a config: a source, and how its samples are read. The loader does not read the fields of the source.
/// `workers` and `prefetch` do not change the batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Kind of source (`conifer data` lists the kinds).
    pub kind: String,
    /// File, folder or shard pattern, relative to the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Use only the samples of this split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, in addition to the folder of the data file, in which records may name photos.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// Options of this kind of source.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
    /// Augmentation of training photos.
    pub augment: Augment,
    /// Which of a photo's captions to use.
    pub caption: CaptionChoice,
    /// Which chain of texts to use.
    pub chain: ChainChoice,
    /// Which boxes to use, and when a box is a part of another box.
    pub edges: EdgeChoice,
    /// Minimum area of a box, in pixels of the original photo. Smaller boxes are not used. The crops of
    /// `grit_processed` are not checked again. HyCoCLIP's preparation of GRIT keeps boxes above 32 x 32 = 1024.
    pub min_box_pixels: u32,
    /// Limits on the size of the photos.
    pub limits: PixelLimits,
    /// Drop the last, smaller batch of each epoch.
    pub drop_last: bool,
    /// Maximum fraction of broken samples, 0 to 1. The run stops if this fraction is exceeded after at least 100
    /// samples.
    pub max_broken_share: f64,
    /// Cache of decoded photos in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_pixels: Option<PixelCacheConfig>,
    /// Number of reader threads, at most 1024; 0: one per core.
    pub workers: usize,
    /// Maximum number of batches that are in preparation or ready, 1 to 10,000.
    pub prefetch: usize,
}

/// Which caption of a photo is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptionChoice {
    /// A random caption in each epoch.
    #[default]
    Random,
    /// The first caption.
    First,
    /// A random caption that mentions the phrase drawn for [`View::Boxes`]: one with a span of the phrase, or, if the
    /// phrase has no spans, one that contains its text. If no caption mentions the phrase, any caption.
    WithPhrase,
    /// A random tier of the chain of texts in each epoch (HierarCaps' "FT with CLIP objective").
    Tier,
}

/// Which chain of texts of a sample is used, and which tiers of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChainChoice {
    /// Source of the chain of texts: the tiers of the captions, or the names of the taxon.
    pub of: ChainSource,
    /// Number of tiers, at least 2; 4 in HierarCaps. Of a longer chain, only the last and most specific tiers are used.
    /// A sample with a shorter chain of captions is broken. A taxon that lacks ranks is used with the ranks that have a
    /// name.
    pub tiers: usize,
    /// Index of a tier or rank to leave out; 0 is the most general. (1 with `tiers = 3` gives the "3 tiers" of
    /// HierarCaps' supplement, Table 2.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<usize>,
    /// Add to each tier a negative text, which is wrong for the photo: the negative tiers of the sample, or another
    /// taxon of the same rank, drawn in each epoch. A sample without negatives is broken.
    pub negatives: bool,
    /// For a taxon: draw a near taxon as the negative (RCME Sec. 4.3), instead of any taxon.
    pub hard: bool,
    /// Which taxa count as near.
    pub hard_kind: HardNegative,
}

impl Default for ChainChoice {
    fn default() -> Self {
        Self {
            of: ChainSource::Tiers,
            tiers: 4,
            without: None,
            negatives: true,
            hard: true,
            hard_kind: HardNegative::Sibling,
        }
    }
}

/// Which taxa are hard negatives of a taxon. The text of RCME Sec. 4.3 has both readings (DEVIATIONS.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HardNegative {
    /// A sibling, which has the same names at all higher ranks. Without a sibling, the nearest other taxon of the rank.
    #[default]
    Sibling,
    /// A child of a sibling of the parent. Without such a child, the nearest other taxon of the rank that is not a
    /// sibling; if all others are siblings, a sibling.
    Cousin,
}

/// Source of a chain of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChainSource {
    /// Captions from general to specific, with their negatives (HierarCaps).
    #[default]
    Tiers,
    /// Names of the taxon, each text with all names before it: "Animalia", "Animalia Chordata", ... (BioCLIP, RCME).
    Taxon,
}

/// Settings of the cache of decoded photos, which avoids repeated decoding. Photos and box crops are shrunk before
/// augmentation *even if* the cache is full, so `bytes` does not change the batches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PixelCacheConfig {
    /// Memory for decoded photos, in bytes. Photos that no longer fit are decoded each time. Nothing is evicted,
    /// because every epoch reads every photo once in random order, so no photo is more likely to be needed soon.
    pub bytes: u64,
    /// The shorter side of a cached photo, as a multiple of the image size, 1 to 100. A square crop with half the area
    /// of a square photo has 0.71 of the photo's side. With 1.5, such a crop still has more pixels than the model's
    /// input.
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
            data: DataConfig::default(),
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            kind: "toy".to_owned(),
            path: None,
            split: None,
            roots: Vec::new(),
            options: BTreeMap::new(),
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

impl Default for PixelCacheConfig {
    fn default() -> Self {
        Self { bytes: 1 << 30, shorter_side: 1.5 }
    }
}

impl LoaderConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// A setting is out of its range. The message names the first such setting.
    pub fn check(&self) -> Result<()> {
        let data = &self.data;
        let wrong = |key: &str, found: String, expected: &str| Err(Error::invalid(key, found, expected));
        if self.views.is_empty() {
            return wrong("views", "none".to_owned(), "pair, boxes, chain or edges");
        }
        data.edges.check()?;
        if data.chain.tiers < 2 {
            return wrong("chain.tiers", data.chain.tiers.to_string(), "at least 2 links");
        }
        if !(1..=8192).contains(&self.image_size) {
            return wrong("image_size", self.image_size.to_string(), "1 to 8192 pixels");
        }
        if !(0.0..=1.0).contains(&data.max_broken_share) {
            return wrong("max_broken_share", data.max_broken_share.to_string(), "0 to 1");
        }
        if data.workers > 1024 {
            return wrong("workers", data.workers.to_string(), "0 (one per core) to 1024 threads");
        }
        if !(1..=10_000).contains(&data.prefetch) {
            return wrong("prefetch", data.prefetch.to_string(), "1 to 10000 batches");
        }
        if let Some(cache) = data.cache_pixels
            && !(1.0..=100.0).contains(&cache.shorter_side)
        {
            return wrong("cache_pixels.shorter_side", cache.shorter_side.to_string(), "1 to 100");
        }
        data.augment.check()
    }
}
