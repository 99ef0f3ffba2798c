//! Rows of [`View::Edges`](crate::sample::View::Edges): photos, box crops, and their part-of relations.

use std::collections::HashMap;
use std::sync::Arc;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cache::{DecodedPhoto, SampleImageKey};
use super::config::DataConfig;
use super::regions::{RegionMode, part_of};
use super::row::{RowImage, RowMaker};
use crate::error::{Error, Result};
use crate::parts::PartRule;
use crate::rng::{Stream, rng_for};
use crate::sample::{BBox, Broken, Cause, Picture, Sample};
use crate::source::Source;
use crate::transform::crop_pixels;

/// Choice of boxes of a photo and of their part-of relations (Wang et al., Sec. 3.1 and App. B).
///
/// Every chosen box is a part of its photo. A box is a part of another box if its phrase has `part_of` and that phrase
/// has exactly one box, or if `rule` accepts the pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeChoice {
    /// Minimum area of boxes, and the rule that makes a box a part of another box.
    pub rule: PartRule,
    /// Maximum number of boxes per photo, 1 to 1000. If a photo has more boxes, a random subset is drawn in each epoch.
    pub boxes: usize,
    /// Cross-image pairs: for each class among the drawn boxes, up to this many boxes of that class from other photos
    /// become parts of this photo; at most 1000, 0: none. The class of a box is the text of its phrase. The paper uses
    /// 1, and reports that cross-image pairs help for classes that look different from photo to photo.
    pub cross: usize,
    /// Crops per box, augmented independently, 1 to 1000. The default is 1; HCL compares two crops of each box.
    pub copies: usize,
}

impl Default for EdgeChoice {
    fn default() -> Self {
        Self { rule: PartRule::default(), boxes: 4, cross: 1, copies: 1 }
    }
}

impl EdgeChoice {
    /// Checks the ranges of the settings.
    ///
    /// # Errors
    /// A setting is out of its range. The message names the first such setting.
    pub(super) fn check(&self) -> Result<()> {
        let within = |key: &str, found: usize, least: usize| match (least..=1000).contains(&found) {
            true => Ok(()),
            false => Err(Error::invalid(format!("edges.{key}"), found.to_string(), format!("{least} to 1000"))),
        };
        self.rule.check()?;
        within("boxes", self.boxes, 1)?;
        within("cross", self.cross, 0)?;
        within("copies", self.copies, 1)
    }
}

/// Sample index and box number. Number 0 is the photo; boxes count from 1 across all phrases.
pub(super) type BoxKey = (u64, u32);

/// The crops and relations that one photo adds to a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EdgeRow {
    /// (object, crop); the photo is the first.
    pub(super) crops: Vec<(BoxKey, RowImage)>,
    /// (whole, part) pairs.
    pub(super) parts: Vec<(BoxKey, BoxKey)>,
}

/// The photo or a box, before augmentation.
enum EdgeImage<'a> {
    Pixels(DecodedPhoto),
    /// Sample index and part number of a region ([`PhotoRegion`]). A copy of the region is drawn later.
    Region(&'a RegionMode, u64, u32),
}

/// Boxes of each class in all samples, for cross-image pairs.
#[derive(Debug, Default)]
pub(super) struct ClassBoxes {
    /// Sample index and box number, by class.
    members: HashMap<String, Vec<BoxKey>>,
}

impl ClassBoxes {
    /// Reads every sample once. Broken samples have no boxes here, and the loader counts them later. The size of a
    /// box in pixels is unknown without its photo, so boxes that are too small are skipped when they are drawn.
    pub(super) fn of(source: &dyn Source, rule: &PartRule) -> Self {
        let mut it = Self::default();
        for index in 0..source.len() {
            let Ok(sample) = source.get(index) else { continue };
            for found in boxes(&sample).filter(|found| rule.keeps(&found.bbox)) {
                let class = &sample.phrases[found.phrase].text;
                let key = (index as u64, found.number);
                match it.members.get_mut(class) {
                    Some(members) => members.push(key),
                    None => _ = it.members.insert(class.clone(), vec![key]),
                }
            }
        }
        it
    }

    /// Up to `count` different random boxes of `class` in photos other than `own`, from at most `4 * count` draws. If
    /// the class has few boxes outside `own`, the result has fewer.
    fn others(&self, class: &str, own: u64, count: usize, rng: &mut impl Rng) -> Vec<BoxKey> {
        let Some(members) = self.members.get(class) else { return Vec::new() };
        let mut found = Vec::new();
        for _ in 0..4 * count {
            if found.len() == count {
                break;
            }
            match members.choose(rng) {
                Some(&key) if key.0 != own && !found.contains(&key) => found.push(key),
                _ => {}
            }
        }
        found
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedBox {
    phrase: usize,
    pub(super) bbox: BBox,
    /// Box number in the sample, from 1; 0 is the photo.
    pub(super) number: u32,
}

/// The boxes that are large enough in a photo of `width` x `height`.
pub(super) fn usable_boxes(
    sample: &Sample,
    (width, height): (u32, u32),
    config: &DataConfig,
) -> impl Iterator<Item = NumberedBox> {
    let DataConfig { edges, min_box_pixels, .. } = config;
    boxes(sample)
        .filter(move |it| edges.rule.keeps(&it.bbox) && area(&it.bbox, width, height) >= u64::from(*min_box_pixels))
}

/// All boxes of a sample, in order.
fn boxes(sample: &Sample) -> impl Iterator<Item = NumberedBox> + '_ {
    let all =
        sample.phrases.iter().enumerate().flat_map(|(phrase, it)| it.boxes.iter().map(move |&bbox| (phrase, bbox)));
    all.zip(1..).map(|((phrase, bbox), number)| NumberedBox { phrase, bbox, number })
}

impl RowMaker {
    /// Crops of the photo, of some of its boxes and of boxes of the same classes in other photos, with their
    /// relations.
    pub(super) fn edges(&self, epoch: u64, index: u64, sample: &Sample) -> Result<EdgeRow, Broken> {
        let EdgeChoice { rule, boxes: most, cross, copies } = self.config.data.edges;
        let mut rng = rng_for(self.config.seed, epoch, index, Stream::Edges);
        let decoded = self.decoded(sample)?;
        let own = (index, 0);
        let photo = self.edge_image(sample, own, || decoded.get())?;
        let (width, height) = match &photo {
            EdgeImage::Pixels(photo) => photo.original,
            EdgeImage::Region(..) => decoded.size().map_err(|it| it.within(&sample.id))?,
        };
        let mut usable: Vec<NumberedBox> = usable_boxes(sample, (width, height), &self.config.data).collect();
        if usable.is_empty() {
            let detail = format!(
                "{} boxes; expected one that covers at least {} of the photo and {} of its {width} x {height} pixels",
                boxes(sample).count(),
                rule.min_area,
                self.config.data.min_box_pixels
            );
            return Err(Broken::new(&sample.id, Cause::NoBox, detail));
        }
        let mut drawn = usable.partial_shuffle(&mut rng, most).0.to_vec();
        drawn.sort_by_key(|it| it.number);

        let mut parts: Vec<(BoxKey, BoxKey)> = drawn.iter().map(|it| (own, (index, it.number))).collect();
        for whole in &drawn {
            for part in drawn.iter().filter(|part| is_part(sample, &rule, whole, part)) {
                parts.push(((index, whole.number), (index, part.number)));
            }
        }
        let mut foreign: Vec<BoxKey> = Vec::new();
        let mut classes: Vec<&str> = drawn.iter().map(|it| sample.phrases[it.phrase].text.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes.into_iter().filter(|_| cross > 0) {
            foreign.extend(self.classes.others(class, index, cross, &mut rng));
        }

        let mut crops = vec![(own, self.augmented(&photo, &mut rng))];
        for it in &drawn {
            let key = (index, it.number);
            let crop = self.edge_image(sample, key, || decoded.get().map(|picture| cut(&picture, &it.bbox)))?;
            crops.extend((0..copies).map(|_| (key, self.augmented(&crop, &mut rng))));
        }
        for key in foreign {
            // Skip broken photos of other samples; they are counted when their own rows are made.
            let Ok(crop) = self.foreign_crop(key) else { continue };
            parts.push((own, key));
            crops.extend((0..copies).map(|_| (key, self.augmented(&crop, &mut rng))));
        }
        Ok(EdgeRow { crops, parts })
    }

    /// The crop of a box of another sample.
    fn foreign_crop(&self, key: BoxKey) -> Result<EdgeImage<'_>, Broken> {
        let (index, number) = key;
        if let Some(broken) = self.regions.as_ref().and_then(|mode| mode.broken.get(&index)) {
            return Err(broken.clone());
        }
        let sample = self.source.get(index as usize)?;
        let missing =
            || Broken::new(&sample.id, Cause::NoBox, format!("no box {number}; expected the box seen at startup"));
        let found = boxes(&sample).find(|it| it.number == number).ok_or_else(missing)?;
        let decoded = self.decoded(&sample)?;
        let crop = self.edge_image(&sample, key, || decoded.get().map(|picture| cut(&picture, &found.bbox)))?;
        let pixels = match &crop {
            EdgeImage::Pixels(crop) => u64::from(crop.original.0) * u64::from(crop.original.1),
            EdgeImage::Region(..) => {
                let (width, height) = decoded.size()?;
                area(&found.bbox, width, height)
            }
        };
        match self.config.data.min_box_pixels {
            least if pixels >= u64::from(least) => Ok(crop),
            least => {
                let detail = format!("box {number} has {pixels} pixels; expected at least {least}");
                Err(Broken::new(&sample.id, Cause::NoBox, detail))
            }
        }
    }

    /// The image of a photo or box before augmentation. `open` is not called if batches refer to regions.
    fn edge_image(
        &self,
        sample: &Sample,
        key: BoxKey,
        open: impl FnOnce() -> Result<Arc<Picture>, Broken>,
    ) -> Result<EdgeImage<'_>, Broken> {
        let image = match key.1 {
            0 => SampleImageKey::Whole,
            number => SampleImageKey::Edge(number),
        };
        match &self.regions {
            Some(mode) => Ok(EdgeImage::Region(mode, key.0, part_of(image))),
            None => self.photo(sample, key.0, image, open).map(EdgeImage::Pixels),
        }
    }

    fn augmented(&self, image: &EdgeImage<'_>, rng: &mut impl Rng) -> RowImage {
        match image {
            EdgeImage::Pixels(photo) => {
                RowImage::Pixels(self.config.data.augment.apply(&photo.picture, self.config.image_size as u32, rng))
            }
            EdgeImage::Region(mode, sample, part) => mode.draw(*sample, *part, rng),
        }
    }
}

fn cut(picture: &Picture, bbox: &BBox) -> Arc<Picture> {
    Arc::new(crop_pixels(picture, bbox.to_pixels(picture.width, picture.height)))
}

fn area(bbox: &BBox, width: u32, height: u32) -> u64 {
    let [x1, y1, x2, y2] = bbox.to_pixels(width, height);
    u64::from(x2 - x1) * u64::from(y2 - y1)
}

fn is_part(sample: &Sample, rule: &PartRule, whole: &NumberedBox, part: &NumberedBox) -> bool {
    let phrase = &sample.phrases[part.phrase];
    let declared = phrase.part_of == Some(whole.phrase) && sample.phrases[whole.phrase].boxes.len() == 1;
    part.number != whole.number && (declared || rule.is_part(&whole.bbox, &part.bbox, phrase.group_of))
}
