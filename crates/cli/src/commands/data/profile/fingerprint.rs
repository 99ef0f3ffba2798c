//! Finds photos that occur several times in a data set: equal pixels, and nearly equal ones by a perceptual hash.

use std::collections::HashMap;

use conifer_data::Picture;
use conifer_data::transform::{EvalCrop, evaluate};
use sha2::{Digest as _, Sha256};

/// Side of the grid of grey values that is hashed.
const GRID: usize = 8;

/// Number of bits of a perceptual hash: neighbours in rows and in columns of the grid.
pub(super) const HASH_BITS: u32 = 2 * (GRID * (GRID - 1)) as u32;

/// Hashes that identify a photo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhotoFingerprint {
    /// SHA-256 of the size and the pixels.
    pub(super) pixels: [u8; 32],
    /// Difference hash (dHash) of the photo, squeezed to 8 x 8 grey values: a bit per pair of neighbours, set if the
    /// second one is brighter. It changes little if a photo is resized or compressed again.
    pub(super) hash: u128,
    /// True if the grey values of the grid differ by less than [`FLAT`]. Such photos have the same hash without being
    /// alike.
    pub(super) is_flat: bool,
}

/// Range of grey values below which a photo counts as flat: the noise of a compressed photo of one colour.
pub(super) const FLAT: u32 = 8;

impl PhotoFingerprint {
    /// Computes both hashes.
    pub(super) fn of(picture: &Picture) -> Self {
        let mut pixels = Sha256::new();
        pixels.update(picture.width.to_le_bytes());
        pixels.update(picture.height.to_le_bytes());
        pixels.update(&picture.rgb);
        let planes = evaluate(picture, GRID as u32, EvalCrop::Squeeze);
        let [red, green, blue] = [0, 1, 2].map(|plane| &planes[plane * GRID * GRID..(plane + 1) * GRID * GRID]);
        // Luma of ITU-R BT.601, in thousandths.
        let grey = |at: usize| 299 * u32::from(red[at]) + 587 * u32::from(green[at]) + 114 * u32::from(blue[at]);
        let mut hash = 0u128;
        for row in 0..GRID {
            for column in 0..GRID - 1 {
                let across = [row * GRID + column, row * GRID + column + 1];
                let down = [column * GRID + row, (column + 1) * GRID + row];
                for [a, b] in [across, down] {
                    hash = hash << 1 | u128::from(grey(b) > grey(a));
                }
            }
        }
        let (low, high) = (0..GRID * GRID).map(grey).fold((u32::MAX, 0), |(low, high), v| (low.min(v), high.max(v)));
        PhotoFingerprint { pixels: pixels.finalize().into(), hash, is_flat: high - low < 1000 * FLAT }
    }
}

/// A group of photos that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DuplicateGroup {
    /// Numbers of the photos, ascending.
    pub(super) photos: Vec<usize>,
    /// True if all have equal pixels.
    pub(super) is_exact: bool,
}

/// Groups of at least two photos whose hashes differ in at most `max_bits` bits, directly or through other photos of
/// the group. Groups are in the order of their first photo. Flat photos are compared by their pixels alone.
pub(super) fn duplicate_groups(photos: &[PhotoFingerprint], max_bits: u32) -> Vec<DuplicateGroup> {
    let mut union = DisjointSets::new(photos.len());
    let mut by_pixels: HashMap<[u8; 32], usize> = HashMap::new();
    let mut by_hash: HashMap<u128, usize> = HashMap::new();
    for (at, photo) in photos.iter().enumerate() {
        union.join(*by_pixels.entry(photo.pixels).or_insert(at), at);
        if !photo.is_flat {
            union.join(*by_hash.entry(photo.hash).or_insert(at), at);
        }
    }
    let mut hashes: Vec<(u128, usize)> = by_hash.into_iter().collect();
    hashes.sort_unstable();
    for (a, b) in near_pairs(&hashes, max_bits) {
        union.join(a, b);
    }
    let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in 0..photos.len() {
        groups.entry(union.find(at)).or_default().push(at);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().filter(|it| it.len() > 1).collect();
    groups.sort_unstable();
    let group = |numbers: Vec<usize>| {
        let is_exact = numbers.iter().all(|at| photos[*at].pixels == photos[numbers[0]].pixels);
        DuplicateGroup { photos: numbers, is_exact }
    };
    groups.into_iter().map(group).collect()
}

/// Pairs of different hashes within `max_bits`. The bits are divided into `max_bits + 1` parts. At least one part of
/// such a pair is equal, so only hashes with an equal part are compared.
fn near_pairs(hashes: &[(u128, usize)], max_bits: u32) -> Vec<(usize, usize)> {
    let parts = (max_bits + 1).min(HASH_BITS);
    let mut found = Vec::new();
    for part in 0..parts {
        let [from, to] = [part, part + 1].map(|it| it * HASH_BITS / parts);
        let mask = (1u128 << (to - from)) - 1;
        let mut buckets: HashMap<u128, Vec<(u128, usize)>> = HashMap::new();
        for (hash, at) in hashes {
            let bucket = buckets.entry(hash >> from & mask).or_default();
            found.extend(
                bucket.iter().filter(|(other, _)| (other ^ hash).count_ones() <= max_bits).map(|it| (it.1, *at)),
            );
            bucket.push((*hash, *at));
        }
    }
    found
}

/// Union-find with path halving.
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    fn new(len: usize) -> Self {
        DisjointSets((0..len).collect())
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        // The smaller number is the root, so groups do not depend on the order of the pairs.
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, height: u32, value: impl Fn(u32, u32) -> u8) -> Picture {
        let rgb =
            (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| [value(x, y); 3]).collect();
        Picture { width, height, rgb }
    }

    /// A gradient to the right sets all bits of the rows, a gradient downwards all bits of the columns. Bits of rows
    /// and columns alternate.
    #[test]
    fn hashes_of_gradients() {
        let across = PhotoFingerprint::of(&picture(64, 64, |x, _| 3 * x as u8));
        let down = PhotoFingerprint::of(&picture(64, 64, |_, y| 3 * y as u8));
        assert_eq!((across.hash.count_ones(), down.hash.count_ones()), (HASH_BITS / 2, HASH_BITS / 2));
        assert_eq!((across.hash ^ down.hash).count_ones(), HASH_BITS);
        assert!(!across.is_flat && PhotoFingerprint::of(&picture(9, 9, |_, _| 200)).is_flat);
    }

    #[test]
    fn groups_are_exact_or_near() {
        let wave =
            |x: u32, y: u32, size: u32| (128.0 + 100.0 * (f64::from(x * 7 + y * 3) / f64::from(size)).sin()) as u8;
        let photos = [
            picture(64, 64, |x, y| wave(x, y, 64)),
            picture(64, 64, |x, _| 3 * x as u8),
            picture(32, 32, |x, y| wave(x, y, 32)),
            picture(64, 64, |x, _| 3 * x as u8),
            picture(16, 16, |_, _| 7),
            picture(16, 16, |_, _| 250),
        ]
        .map(|it| PhotoFingerprint::of(&it));
        let groups = duplicate_groups(&photos, 4);
        let expected = [(vec![0, 2], false), (vec![1, 3], true)];
        assert_eq!(groups, expected.map(|(photos, is_exact)| DuplicateGroup { photos, is_exact }));
    }

    /// Comparing only hashes with an equal part finds the same pairs as comparing all hashes.
    #[test]
    fn no_near_pair_is_missed() {
        let mut state = 1u128;
        let mut random = || {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            state >> 16
        };
        let mut hashes: Vec<(u128, usize)> = Vec::new();
        for at in 0..60 {
            let base = random();
            hashes.push((base, 2 * at));
            let flipped = (0..at % 9).fold(base, |hash, _| hash ^ 1 << (random() % u128::from(HASH_BITS)));
            hashes.push((flipped, 2 * at + 1));
        }
        for max_bits in [0, 3, 6] {
            let mut found = near_pairs(&hashes, max_bits);
            found.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
            found.sort_unstable();
            found.dedup();
            let mut all = Vec::new();
            for (i, a) in hashes.iter().enumerate() {
                all.extend(hashes[i + 1..].iter().filter(|b| (a.0 ^ b.0).count_ones() <= max_bits).map(|b| (a.1, b.1)));
            }
            all.sort_unstable();
            assert!(all.len() > 5 && found == all, "{max_bits}: {found:?} and {all:?}");
        }
    }
}
