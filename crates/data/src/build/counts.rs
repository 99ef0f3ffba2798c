//! How often boxes of one class are parts of boxes of another.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::parts::PartRule;
use crate::sample::{BBox, Broken, Cause};

/// The number of a class in the [`PartCounts`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

/// A box of a photo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassBox {
    /// What is in it.
    pub class: ClassId,
    /// Where, in fractions of the photo.
    pub bbox: BBox,
    /// Whether it holds several things of its class.
    pub group_of: bool,
}

/// Counts over any number of photos; integers only, so that the sum over parts of a data set is the count over the whole of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartCounts {
    /// Photos with at least one box.
    pub photos: u64,
    /// Boxes that were read, broken ones not counted.
    pub boxes: u64,
    /// Boxes left out because they are smaller than [`PartRule::min_area`].
    pub small: u64,
    /// What was left out because it cannot be, by cause.
    pub broken: CauseCounts,
    /// The first of each cause, in the order of the files.
    pub examples: Vec<Broken>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Boxes of each class that were used.
    instances: Vec<u64>,
    pairs: HashMap<(u32, u32), Pair>,
}

/// Counts by cause, in the order of the causes.
pub type CauseCounts = std::collections::BTreeMap<Cause, u64>;

/// What is known of (class of the whole, class of the part).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Pairs of boxes.
    pub count: u64,
    /// Wholes that have at least one such part.
    pub wholes: u64,
}

/// How many broken boxes are kept as examples, for each cause.
const EXAMPLES: usize = 5;

impl PartCounts {
    /// The number of a class, new or known.
    pub fn class(&mut self, name: &str) -> ClassId {
        if let Some(&number) = self.numbers.get(name) {
            return ClassId(number);
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        self.instances.push(0);
        ClassId(number)
    }

    /// Adds the boxes of one photo: for every ordered pair (whole, part) that `rule` allows, one to the count of their classes; for every
    /// whole, one to the wholes of each class among its parts. Quadratic in the number of boxes of the photo.
    pub fn add_photo(&mut self, boxes: &[ClassBox], rule: &PartRule) {
        if boxes.is_empty() {
            return;
        }
        self.photos += 1;
        self.boxes += boxes.len() as u64;
        let kept: Vec<&ClassBox> = boxes.iter().filter(|it| rule.keeps(&it.bbox)).collect();
        self.small += (boxes.len() - kept.len()) as u64;
        let mut inside = Vec::new();
        for whole in &kept {
            self.instances[whole.class.0 as usize] += 1;
            let parts = kept.iter().filter(|part| rule.is_part(&whole.bbox, &part.bbox, part.group_of));
            inside.clear();
            inside.extend(parts.map(|part| part.class.0));
            inside.sort_unstable();
            for same in inside.chunk_by(|a, b| a == b) {
                let pair = self.pairs.entry((whole.class.0, same[0])).or_default();
                pair.count += same.len() as u64;
                pair.wholes += 1;
            }
        }
    }

    /// Counts a box or photo that cannot be used.
    pub fn add_broken(&mut self, broken: Broken) {
        let count = self.broken.entry(broken.cause).or_default();
        *count += 1;
        if *count <= EXAMPLES as u64 {
            self.examples.push(broken);
        }
    }

    /// Adds the counts of what comes behind in the files.
    pub fn merge(&mut self, next: Self) {
        self.photos += next.photos;
        self.boxes += next.boxes;
        self.small += next.small;
        for example in next.examples {
            if self.examples.iter().filter(|it| it.cause == example.cause).count() < EXAMPLES {
                self.examples.push(example);
            }
        }
        for (cause, count) in next.broken {
            *self.broken.entry(cause).or_default() += count;
        }
        // Their numbers in `self`, by their numbers in `next`.
        let ours: Vec<u32> = next.names.iter().map(|name| self.class(name).0).collect();
        for (number, count) in ours.iter().zip(next.instances) {
            self.instances[*number as usize] += count;
        }
        for ((whole, part), more) in next.pairs {
            let pair = self.pairs.entry((ours[whole as usize], ours[part as usize])).or_default();
            pair.count += more.count;
            pair.wholes += more.wholes;
        }
    }

    /// All classes, in order of appearance.
    pub fn classes(&self) -> impl Iterator<Item = ClassId> + use<> {
        (0..self.names.len() as u32).map(ClassId)
    }

    /// The name of a class.
    pub fn name(&self, class: ClassId) -> &str {
        &self.names[class.0 as usize]
    }

    /// How many boxes of a class were used.
    pub fn instances(&self, class: ClassId) -> u64 {
        self.instances[class.0 as usize]
    }

    /// Every pair (whole, part) that occurs, ordered by the numbers of the classes.
    pub fn pairs(&self) -> Vec<(ClassId, ClassId, Pair)> {
        let mut pairs: Vec<_> = self.pairs.iter().map(|(&(w, p), &pair)| (ClassId(w), ClassId(p), pair)).collect();
        pairs.sort_unstable_by_key(|&(whole, part, _)| (whole, part));
        pairs
    }

    /// For a state file.
    pub(super) fn stored(&self) -> Stored {
        Stored {
            photos: self.photos,
            boxes: self.boxes,
            small: self.small,
            broken: self.broken.clone(),
            examples: self.examples.iter().map(|it| (it.sample.clone(), it.cause, it.detail.clone())).collect(),
            classes: self.names.iter().cloned().zip(self.instances.iter().copied()).collect(),
            pairs: self
                .pairs()
                .into_iter()
                .map(|(w, p, pair)| [w.0.into(), p.0.into(), pair.count, pair.wholes])
                .collect(),
        }
    }

    /// From a state file; `None` when its numbers name classes that are not there.
    pub(super) fn restored(stored: Stored) -> Option<Self> {
        let Stored { photos, boxes, small, broken, examples, classes, pairs } = stored;
        let examples = examples.into_iter().map(|(sample, cause, detail)| Broken { sample, cause, detail }).collect();
        let mut it = Self { photos, boxes, small, broken, examples, ..Self::default() };
        for (name, instances) in classes {
            let class = it.class(&name);
            it.instances[class.0 as usize] = instances;
        }
        for [whole, part, count, wholes] in pairs {
            let known = |number: u64| u32::try_from(number).ok().filter(|&it_| (it_ as usize) < it.names.len());
            let key = (known(whole)?, known(part)?);
            it.pairs.insert(key, Pair { count, wholes });
        }
        Some(it)
    }
}

/// [`PartCounts`] as they are written.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    photos: u64,
    boxes: u64,
    small: u64,
    broken: CauseCounts,
    examples: Vec<(String, Cause, String)>,
    classes: Vec<(String, u64)>,
    /// Whole, part, count, wholes.
    pairs: Vec<[u64; 4]>,
}
