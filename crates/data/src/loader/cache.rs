//! Cache of decoded photos in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sample::Picture;

/// A decoded photo, possibly shrunk. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct DecodedPhoto {
    pub(super) picture: Arc<Picture>,
    /// Width and height before shrinking.
    pub(super) original: (u32, u32),
}

/// Identifies an image of a sample: the photo, the `n`-th usable box or crop of its phrases, or the `n`-th of all its
/// boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SampleImageKey {
    Whole,
    Box(usize),
    Edge(u32),
}

/// Stores photos until `budget` bytes are used. Nothing is evicted.
#[derive(Debug)]
pub(super) struct PixelCache {
    budget: u64,
    state: Mutex<PixelCacheState>,
}

#[derive(Debug, Default)]
struct PixelCacheState {
    bytes: u64,
    photos: HashMap<(u64, SampleImageKey), DecodedPhoto>,
}

impl PixelCache {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, state: Mutex::default() }
    }

    pub(super) fn get(&self, sample: u64, key: SampleImageKey) -> Option<DecodedPhoto> {
        // A panic in another thread cannot leave the map half written, so the data of a poisoned lock are valid.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.photos.get(&(sample, key)).cloned()
    }

    pub(super) fn put(&self, sample: u64, key: SampleImageKey, photo: &DecodedPhoto) {
        let bytes = (photo.picture.rgb.len() + ENTRY_BYTES) as u64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = state.bytes + bytes <= self.budget;
        if fits && state.photos.insert((sample, key), photo.clone()).is_none() {
            state.bytes += bytes;
        }
    }
}

/// Bytes of an entry in addition to its pixels: the map slot and the structs, rounded up.
const ENTRY_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_not_exceeded() {
        let cache = PixelCache::new(3 * (300 + ENTRY_BYTES as u64));
        let picture = Arc::new(Picture { width: 10, height: 10, rgb: vec![0; 300] });
        let photo = DecodedPhoto { picture, original: (10, 10) };
        for sample in [0, 0, 1, 2, 3] {
            cache.put(sample, SampleImageKey::Whole, &photo);
        }
        let cached = (0..4).map(|sample| cache.get(sample, SampleImageKey::Whole).is_some());
        assert_eq!(cached.collect::<Vec<_>>(), [true, true, true, false]);
        assert!(cache.get(0, SampleImageKey::Box(0)).is_none());
    }
}
