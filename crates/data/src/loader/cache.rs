//! Cache of decoded photos in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sample::Picture;

/// A decoded photo, possibly shrunk. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Photo {
    pub(super) picture: Arc<Picture>,
    /// Width and height before shrinking.
    pub(super) original: (u32, u32),
}

/// Identifies an image of a sample: the photo, the `n`-th usable box or crop of its phrases, or the `n`-th of all its
/// boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Whole,
    Box(usize),
    Edge(u32),
}

/// Stores photos until `budget` bytes are used. Nothing is evicted.
#[derive(Debug)]
pub(super) struct Cache {
    budget: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: u64,
    photos: HashMap<(u64, Part), Photo>,
}

impl Cache {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, kept: Mutex::default() }
    }

    pub(super) fn get(&self, sample: u64, part: Part) -> Option<Photo> {
        // A panic in another thread cannot leave the map half written, so the data of a poisoned lock are valid.
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.photos.get(&(sample, part)).cloned()
    }

    pub(super) fn put(&self, sample: u64, part: Part, photo: &Photo) {
        let bytes = (photo.picture.rgb.len() + ENTRY) as u64;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.bytes + bytes <= self.budget;
        if fits && kept.photos.insert((sample, part), photo.clone()).is_none() {
            kept.bytes += bytes;
        }
    }
}

/// Bytes of an entry in addition to its pixels: the map slot and the structs, rounded up.
const ENTRY: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_no_more_than_its_budget() {
        let cache = Cache::new(3 * (300 + ENTRY as u64));
        let picture = Arc::new(Picture { width: 10, height: 10, rgb: vec![0; 300] });
        let photo = Photo { picture, original: (10, 10) };
        for sample in [0, 0, 1, 2, 3] {
            cache.put(sample, Part::Whole, &photo);
        }
        let kept = (0..4).map(|sample| cache.get(sample, Part::Whole).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [true, true, true, false]);
        assert!(cache.get(0, Part::Box(0)).is_none());
    }
}
