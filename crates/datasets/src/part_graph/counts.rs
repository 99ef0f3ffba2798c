//! Counts how often boxes of one class are parts of boxes of another class.

use std::collections::HashMap;

use conifer_data::{BBox, Broken, Cause, PartRule};
use serde::{Deserialize, Serialize};

/// Index of a class in the [`PartCounts`] that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

/// A box of a photo, with its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassBox {
    /// Class of the object in the box.
    pub class: ClassId,
    /// The box, in fractions of the photo.
    pub bbox: BBox,
    /// True if the box contains several objects of its class.
    pub group_of: bool,
}

/// Numbers of boxes, classes and part-of pairs in any number of photos. All counts are integer sums, so a data set can
/// be counted in blocks and the block counts added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartCounts {
    /// Number of photos with at least one box.
    pub photos: u64,
    /// Number of boxes read, excluding broken boxes.
    pub boxes: u64,
    /// Number of boxes that are smaller than [`PartRule::min_area`]. They are not used.
    pub small: u64,
    /// Number of unusable boxes and photos, by cause.
    pub broken: CauseCounts,
    /// The first examples of each cause, in the order of the files.
    pub examples: Vec<Broken>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Number of boxes used, by class.
    instances: Vec<u64>,
    pairs: HashMap<(u32, u32), PairCounts>,
}

/// Counts by cause, in the order of the causes.
pub type CauseCounts = std::collections::BTreeMap<Cause, u64>;

/// Counts for a pair (class of the whole, class of the part).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Number of box pairs.
    pub count: u64,
    /// Number of wholes with at least one such part.
    pub wholes: u64,
}

/// Maximum number of broken boxes and photos kept as examples, per cause.
const EXAMPLES: usize = 5;

impl PartCounts {
    /// Returns the index of a class; adds the class if it is new.
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

    /// Adds the boxes of one photo. Every ordered pair (whole, part) that `rule` accepts adds one to the count of its
    /// classes. Every whole adds one to `wholes` for each class among its parts. The time is quadratic in the number of
    /// boxes.
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

    /// Adds the counts of later blocks of the files.
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
        // Class indices of `next`, mapped to indices of `self`.
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

    /// Number of boxes of a class that were used.
    pub fn instances(&self, class: ClassId) -> u64 {
        self.instances[class.0 as usize]
    }

    /// Every pair (whole, part) that occurs, ordered by the class indices.
    pub fn pairs(&self) -> Vec<(ClassId, ClassId, PairCounts)> {
        let mut pairs: Vec<_> = self.pairs.iter().map(|(&(w, p), &pair)| (ClassId(w), ClassId(p), pair)).collect();
        pairs.sort_unstable_by_key(|&(whole, part, _)| (whole, part));
        pairs
    }

    /// Converts to the form in the state file.
    pub(super) fn stored(&self) -> StoredCounts {
        StoredCounts {
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

    /// Restores from the state file; `None` if a pair refers to an unknown class.
    pub(super) fn restored(stored: StoredCounts) -> Option<Self> {
        let StoredCounts { photos, boxes, small, broken, examples, classes, pairs } = stored;
        let examples = examples.into_iter().map(|(sample, cause, detail)| Broken { sample, cause, detail }).collect();
        let mut it = Self { photos, boxes, small, broken, examples, ..Self::default() };
        for (name, instances) in classes {
            let class = it.class(&name);
            it.instances[class.0 as usize] = instances;
        }
        for [whole, part, count, wholes] in pairs {
            let known = |number: u64| u32::try_from(number).ok().filter(|&it_| (it_ as usize) < it.names.len());
            let key = (known(whole)?, known(part)?);
            it.pairs.insert(key, PairCounts { count, wholes });
        }
        Some(it)
    }
}

/// [`PartCounts`] as stored in the state file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCounts {
    photos: u64,
    boxes: u64,
    small: u64,
    broken: CauseCounts,
    examples: Vec<(String, Cause, String)>,
    classes: Vec<(String, u64)>,
    /// One entry per pair of classes: index of the whole's class, index of the part's class, number of box pairs,
    /// number of wholes with such a part.
    pairs: Vec<[u64; 4]>,
}
