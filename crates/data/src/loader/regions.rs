//! Photos and boxes as references instead of pixels, for runs whose image encoder is frozen: its features are computed
//! once per region, and a batch refers to the regions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::cache::SampleImageKey;
use super::config::LoaderConfig;
use super::edges::usable_boxes;
use super::row::{LazyPhoto, PhraseImage, RowImage, RowMaker};
use crate::rng::{Stream, rng_of_key};
use crate::sample::guarded;
use crate::sample::{Broken, Cause, ImageRef, Picture, Sample, View};
use crate::source::Source;
use crate::transform::{Augment, EvalCrop, crop_pixels, evaluate};
use crate::vectors::SharedVector;

/// One augmented copy of a photo or of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PhotoRegion {
    /// Index of the sample in its source.
    pub sample: u64,
    /// 0: the whole photo; i: the i-th usable box or crop of its phrases; [`EDGE_PARTS`]` + i`: the i-th of all its
    /// boxes.
    pub part: u32,
    /// Number of the augmented copy, from 0.
    pub copy: u32,
}

/// Batches with [`PhotoRegion`]s instead of pixels.
#[derive(Clone, Debug, Default)]
pub struct RegionMode {
    /// Number of augmented copies of each region, at least 1. An epoch draws one copy for each sample.
    pub copies: u32,
    /// Samples whose regions have no features, with the reason. These samples count as broken.
    pub broken: Arc<BTreeMap<u64, Broken>>,
}

/// Offset in [`PhotoRegion::part`] of the boxes of [`View::Edges`], which are numbered from 1 across all phrases of a
/// sample.
pub const EDGE_PARTS: u32 = 1 << 31;

impl RegionMode {
    /// Region `part` of a sample, in one of its augmented copies, drawn at random.
    pub(super) fn draw(&self, sample: u64, part: u32, rng: &mut dyn Rng) -> RowImage {
        let copy = rng.random_range(0..self.copies.max(1));
        RowImage::Region(PhotoRegion { sample, part, copy })
    }
}

/// A region with a hash of the data that determine its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedRegion {
    /// The photo or box, and its augmented copy.
    pub region: PhotoRegion,
    /// SHA-256 over the bytes of the photo, the rectangle, the crop or augmentation, and the size. Equal content has
    /// equal keys in any data set.
    pub key: [u8; 32],
}

/// Lists the regions of each sample that batches can refer to, and computes their pixels.
pub struct RegionReader {
    source: Arc<dyn Source>,
    config: LoaderConfig,
    crop: EvalCrop,
    copies: u32,
}

impl RegionReader {
    /// Regions for batches of `config`: whole photos, and boxes if its views include [`View::Boxes`] or
    /// [`View::Edges`]. With `copies` 0 a region is cropped by `crop` as in an evaluation, else it is augmented
    /// `copies` times by `config.data.augment`.
    pub fn new(source: Arc<dyn Source>, config: LoaderConfig, crop: EvalCrop, copies: u32) -> Self {
        Self { source, config, crop, copies }
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.source.len() as u64
    }

    /// The regions of a sample, in a fixed order, without decoding the photo.
    ///
    /// # Errors
    /// [`Broken`] if the sample or its photo cannot be read.
    pub fn regions(&self, index: u64) -> Result<Vec<HashedRegion>, Broken> {
        guarded(
            || format!("{}[{index}]", self.source.name()),
            || {
                let sample = self.source.get(index as usize)?;
                let parts = self.parts(&sample)?;
                let mut found = Vec::with_capacity(parts.len() * self.copies.max(1) as usize);
                for copy in 0..self.copies.max(1) {
                    let part = |(part, content): &(u32, PartContent<'_>)| HashedRegion {
                        region: PhotoRegion { sample: index, part: *part, copy },
                        key: self.key(content, copy),
                    };
                    found.extend(parts.iter().map(part));
                }
                Ok(found)
            },
        )
    }

    /// Pixels `[3, size, size]` of regions of one sample, in order. The photo is decoded once.
    ///
    /// # Errors
    /// [`Broken`] if the sample or an image cannot be read, or if the sample does not have one of the regions.
    pub fn pixels(&self, index: u64, regions: &[HashedRegion]) -> Result<Vec<Vec<u8>>, Broken> {
        guarded(
            || format!("{}[{index}]", self.source.name()),
            || {
                let sample = self.source.get(index as usize)?;
                let image = photo(&sample)?;
                let lazy = LazyPhoto::new(image, &self.config.data.limits);
                let parts = self.parts(&sample)?;
                let mut rows = Vec::with_capacity(regions.len());
                for HashedRegion { region, key } in regions {
                    let Some((_, content)) = parts.iter().find(|(part, _)| *part == region.part) else {
                        let detail = format!("no region {}; expected the regions of the first reading", region.part);
                        return Err(Broken::new(&sample.id, Cause::BadRecord, detail));
                    };
                    let picture = match content.image {
                        None => lazy.get(),
                        Some(PhraseImage::Crop(image)) => image.open(&self.config.data.limits).map(Arc::new),
                        Some(PhraseImage::Pixels(rectangle)) => {
                            lazy.get().map(|picture| Arc::new(crop_pixels(&picture, rectangle)))
                        }
                    };
                    rows.push(self.transform(&*picture.map_err(|broken| broken.within(&sample.id))?, key));
                }
                Ok(rows)
            },
        )
    }

    /// Returns the precomputed vectors of the photo of a sample and, if the views include [`View::Boxes`], of its
    /// boxes. The source must provide photos as vectors of this `width`.
    ///
    /// # Errors
    /// [`Broken`] if the sample cannot be read or has no photo, if one of its images is not a vector of this width, or
    /// if a box has no vector.
    pub fn vectors(&self, index: u64, width: usize) -> Result<Vec<(PhotoRegion, SharedVector)>, Broken> {
        guarded(
            || format!("{}[{index}]", self.source.name()),
            || {
                let sample = self.source.get(index as usize)?;
                let region = |part| PhotoRegion { sample: index, part, copy: 0 };
                let vector =
                    |image: &ImageRef| image.vector(width).cloned().map_err(|broken| broken.within(&sample.id));
                let mut found = vec![(region(0), vector(photo(&sample)?)?)];
                if !self.config.views.contains(&View::Boxes) {
                    return Ok(found);
                }
                for (phrase, images) in RowMaker::usable_boxes(&sample, VECTOR_SIZE, self.config.data.min_box_pixels) {
                    for (key, image) in images {
                        let PhraseImage::Crop(crop) = image else {
                            let detail = format!("phrase {:?} has a box without a vector; expected one", phrase.text);
                            return Err(Broken::new(&sample.id, Cause::NoBox, detail));
                        };
                        found.push((region(part_of(key)), vector(crop)?));
                    }
                }
                Ok(found)
            },
        )
    }

    fn transform(&self, picture: &Picture, key: &[u8; 32]) -> Vec<u8> {
        let size = self.config.image_size as u32;
        match self.copies {
            0 => evaluate(picture, size, self.crop),
            // The draw depends on the content alone, so that copies can be shared between data sets.
            _ => self.config.data.augment.apply(picture, size, &mut rng_of_key(*key, Stream::Photo)),
        }
    }

    fn parts<'a>(&self, sample: &'a Sample) -> Result<Vec<(u32, PartContent<'a>)>, Broken> {
        let image = photo(sample)?;
        let (photo_hash, size) = content(image, &self.config).map_err(|broken| broken.within(&sample.id))?;
        let mut parts = vec![(0, PartContent { image: None, photo: photo_hash })];
        if self.config.views.contains(&View::Boxes) {
            for (_, images) in RowMaker::usable_boxes(sample, size, self.config.data.min_box_pixels) {
                for (key, image) in images {
                    let photo = match image {
                        PhraseImage::Crop(crop) => content(crop, &self.config).map_err(|it| it.within(&sample.id))?.0,
                        PhraseImage::Pixels(_) => photo_hash,
                    };
                    parts.push((part_of(key), PartContent { image: Some(image), photo }));
                }
            }
        }
        if self.config.views.contains(&View::Edges) {
            for found in usable_boxes(sample, size, &self.config.data) {
                let image = PhraseImage::Pixels(found.bbox.to_pixels(size.0, size.1));
                let part = part_of(SampleImageKey::Edge(found.number));
                parts.push((part, PartContent { image: Some(image), photo: photo_hash }));
            }
        }
        Ok(parts)
    }

    /// The key of a stored feature (`ContentKey` in `conifer-model`): a hash of the photo, the rectangle, and the crop
    /// or the augmentation.
    fn key(&self, content: &PartContent<'_>, copy: u32) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(content.photo);
        hash.update((self.config.image_size as u64).to_le_bytes());
        if let Some(PhraseImage::Pixels(rectangle)) = content.image {
            rectangle.iter().for_each(|side| hash.update(side.to_le_bytes()));
        }
        match self.copies {
            0 => hash.update(format!("{:?}", self.crop)),
            _ => {
                hash.update(copy.to_le_bytes());
                // The number of copies is not hashed, because the pixels of a copy do not depend on it.
                let augment = Augment { copies: 0, ..self.config.data.augment.clone() };
                hash.update(serde_json::to_string(&augment).unwrap_or_default());
            }
        }
        hash.finalize().into()
    }
}

/// Width and height of an image that is given as a vector. Its boxes are vectors too and have no size.
pub(super) const VECTOR_SIZE: (u32, u32) = (1, 1);

/// The image of a part and the hash of the file that it comes from.
struct PartContent<'a> {
    /// `None`: the whole photo.
    image: Option<PhraseImage<'a>>,
    photo: [u8; 32],
}

/// The number of an image of a sample in [`PhotoRegion::part`].
pub(super) fn part_of(key: SampleImageKey) -> u32 {
    match key {
        SampleImageKey::Whole => 0,
        SampleImageKey::Box(index) => index as u32 + 1,
        SampleImageKey::Edge(number) => EDGE_PARTS + number,
    }
}

fn photo(sample: &Sample) -> Result<&ImageRef, Broken> {
    let none = || Broken::new(&sample.id, Cause::NoImage, "no photo; expected one");
    sample.image.as_ref().ok_or_else(none)
}

/// SHA-256 of the bytes of an image, and its width and height.
fn content(image: &ImageRef, config: &LoaderConfig) -> Result<([u8; 32], (u32, u32)), Broken> {
    if let Some(encoded) = image.encoded(&config.data.limits)? {
        return Ok((Sha256::digest(encoded.bytes()).into(), encoded.size()));
    }
    let picture = image.open(&config.data.limits)?;
    let mut hash = Sha256::new();
    hash.update([picture.width.to_le_bytes(), picture.height.to_le_bytes()].concat());
    hash.update(&picture.rgb);
    Ok((hash.finalize().into(), (picture.width, picture.height)))
}
