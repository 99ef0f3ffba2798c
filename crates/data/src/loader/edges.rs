//! Photos, boxes cut out of them, and which is a part of which, for [`View::Edges`](crate::sample::View::Edges).

use std::collections::HashMap;
use std::sync::Arc;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use serde::{Deserialize, Serialize};

use super::cache::{Part, Photo};
use super::row::RowMaker;
use crate::error::{Error, Result};
use crate::parts::PartRule;
use crate::rng::{Stream, rng_for};
use crate::sample::{BBox, Broken, Cause, Picture, Sample};
use crate::sources::Source;
use crate::transform::crop_pixels;

/// Which boxes of a photo are used, and what they are parts of (Wang et al., Sec. 3.1 and App. B).
///
/// Every box that is used is a part of its photo. One box is a part of another where the data say so (`part_of`, if that
/// whole has one box) or where it lies inside it by `rule`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeChoice {
    /// Which boxes are large enough, and which lie inside which.
    pub rule: PartRule,
    /// Most boxes of one photo; of more, some are drawn anew each epoch.
    pub boxes: usize,
    /// Cross-image pairs: for each class among the boxes drawn, so many boxes of that class from other photos become parts of this one.
    /// 1 in the paper, which has it help where a class looks different from photo to photo; 0 for none. The class of a box is its text.
    pub cross: usize,
    /// Crops of each box, augmented independently. 1, but HCL compares two.
    pub copies: usize,
}

impl Default for EdgeChoice {
    fn default() -> Self {
        Self { rule: PartRule::default(), boxes: 4, cross: 1, copies: 1 }
    }
}

impl EdgeChoice {
    /// Whether the settings make sense.
    ///
    /// # Errors
    /// Names the first one out of its range.
    pub(super) fn check(&self) -> Result<()> {
        let within = |key: &str, found: usize, least: usize| match (least..=1000).contains(&found) {
            true => Ok(()),
            false => Err(Error::config(format!("edges.{key}"), found.to_string(), format!("{least} to 1000"))),
        };
        self.rule.check()?;
        within("boxes", self.boxes, 1)?;
        within("cross", self.cross, 0)?;
        within("copies", self.copies, 1)
    }
}

/// A photo (box 0) or box number `n - 1` of a photo, counted through all its phrases.
pub(super) type Thing = (u64, u32);

/// What one photo adds to a batch.
#[derive(Debug)]
pub(super) struct Edges {
    /// Crops with what they show; the photo first.
    pub(super) crops: Vec<(Thing, Vec<u8>)>,
    /// Whole and part.
    pub(super) parts: Vec<(Thing, Thing)>,
}

/// Where the boxes of each class are, for cross-image pairs.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Photo and box, by class.
    members: HashMap<String, Vec<Thing>>,
}

impl Classes {
    /// Reads every sample once. A broken one has no boxes; the loader will count it. How many pixels a box has is known only with its photo, so
    /// a small one is left out when it is drawn.
    pub(super) fn of(source: &dyn Source, rule: &PartRule) -> Self {
        let mut it = Self::default();
        for index in 0..source.len() {
            let Ok(sample) = source.get(index) else { continue };
            for found in boxes(&sample).filter(|found| rule.keeps(&found.bbox)) {
                let class = &sample.phrases[found.phrase].text;
                let thing = (index as u64, found.number);
                match it.members.get_mut(class) {
                    Some(members) => members.push(thing),
                    None => _ = it.members.insert(class.clone(), vec![thing]),
                }
            }
        }
        it
    }

    /// Up to `count` boxes of `class` in other photos than `own`. Few tries: where nearly all are its own, there is none.
    fn others(&self, class: &str, own: u64, count: usize, rng: &mut impl Rng) -> Vec<Thing> {
        let Some(members) = self.members.get(class) else { return Vec::new() };
        let mut found = Vec::new();
        for _ in 0..4 * count {
            if found.len() == count {
                break;
            }
            match members.choose(rng) {
                Some(&thing) if thing.0 != own && !found.contains(&thing) => found.push(thing),
                _ => {}
            }
        }
        found
    }
}

/// One box of a sample.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Which phrase.
    phrase: usize,
    bbox: BBox,
    /// 1 for the first box of the sample: 0 is the photo.
    number: u32,
}

/// All boxes of a sample, in order.
fn boxes(sample: &Sample) -> impl Iterator<Item = Found> + '_ {
    let all =
        sample.phrases.iter().enumerate().flat_map(|(phrase, it)| it.boxes.iter().map(move |&bbox| (phrase, bbox)));
    all.zip(1..).map(|((phrase, bbox), number)| Found { phrase, bbox, number })
}

impl RowMaker {
    /// The photo, some of its boxes and of its classes elsewhere, and the relations between them.
    pub(super) fn edges(&self, epoch: u64, index: u64, sample: &Sample) -> Result<Edges, Broken> {
        let EdgeChoice { rule, boxes: most, cross, copies } = self.config.edges;
        let mut rng = rng_for(self.config.seed, epoch, index, Stream::Edges);
        let decoded = self.decoded(sample)?;
        let photo = self.photo(sample, index, Part::Whole, || decoded.get())?;
        let (width, height) = photo.original;
        let mut usable: Vec<Found> = boxes(sample)
            .filter(|it| rule.keeps(&it.bbox) && area(&it.bbox, width, height) >= u64::from(self.config.min_box_pixels))
            .collect();
        if usable.is_empty() {
            let detail = format!(
                "{} boxes; expected one of at least {} of the photo and {} pixels of its {width} x {height}",
                boxes(sample).count(),
                rule.min_area,
                self.config.min_box_pixels
            );
            return Err(Broken::new(&sample.id, Cause::NoBox, detail));
        }
        let mut drawn = usable.partial_shuffle(&mut rng, most).0.to_vec();
        drawn.sort_by_key(|it| it.number);

        let own = (index, 0);
        let mut parts: Vec<(Thing, Thing)> = drawn.iter().map(|it| (own, (index, it.number))).collect();
        for whole in &drawn {
            for part in drawn.iter().filter(|part| is_part(sample, &rule, whole, part)) {
                parts.push(((index, whole.number), (index, part.number)));
            }
        }
        let mut elsewhere: Vec<Thing> = Vec::new();
        let mut classes: Vec<&str> = drawn.iter().map(|it| sample.phrases[it.phrase].text.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes.into_iter().filter(|_| cross > 0) {
            elsewhere.extend(self.classes.others(class, index, cross, &mut rng));
        }

        let mut crops = vec![(own, self.augmented(&photo, &mut rng))];
        for it in &drawn {
            let open = || decoded.get().map(|picture| cut(&picture, &it.bbox));
            let crop = self.photo(sample, index, Part::Edge(it.number), open)?;
            crops.extend((0..copies).map(|_| ((index, it.number), self.augmented(&crop, &mut rng))));
        }
        for thing in elsewhere {
            // A broken photo of another sample is not the fault of this one: it is counted when its own turn comes.
            let Ok(crop) = self.elsewhere(thing) else { continue };
            parts.push((own, thing));
            crops.extend((0..copies).map(|_| (thing, self.augmented(&crop, &mut rng))));
        }
        Ok(Edges { crops, parts })
    }

    /// A box of another sample.
    fn elsewhere(&self, (index, number): Thing) -> Result<Photo, Broken> {
        let sample = self.source.get(index as usize)?;
        let missing =
            || Broken::new(&sample.id, Cause::NoBox, format!("no box {number}; expected the one that was there"));
        let found = boxes(&sample).find(|it| it.number == number).ok_or_else(missing)?;
        let open = || self.decoded(&sample)?.get().map(|picture| cut(&picture, &found.bbox));
        let crop = self.photo(&sample, index, Part::Edge(number), open)?;
        let ((width, height), least) = (crop.original, self.config.min_box_pixels);
        match u64::from(width) * u64::from(height) >= u64::from(least) {
            true => Ok(crop),
            false => {
                let detail = format!("box {number} has {width} x {height} pixels; expected at least {least} in all");
                Err(Broken::new(&sample.id, Cause::NoBox, detail))
            }
        }
    }

    fn augmented(&self, photo: &Photo, rng: &mut impl Rng) -> Vec<u8> {
        self.config.augment.apply(&photo.picture, self.config.image_size as u32, rng)
    }
}

fn cut(picture: &Picture, bbox: &BBox) -> Arc<Picture> {
    Arc::new(crop_pixels(picture, bbox.to_pixels(picture.width, picture.height)))
}

fn area(bbox: &BBox, width: u32, height: u32) -> u64 {
    let [x1, y1, x2, y2] = bbox.to_pixels(width, height);
    u64::from(x2 - x1) * u64::from(y2 - y1)
}

fn is_part(sample: &Sample, rule: &PartRule, whole: &Found, part: &Found) -> bool {
    let phrase = &sample.phrases[part.phrase];
    let said = phrase.part_of == Some(whole.phrase) && sample.phrases[whole.phrase].boxes.len() == 1;
    part.number != whole.number && (said || rule.is_part(&whole.bbox, &part.bbox, phrase.group_of))
}
