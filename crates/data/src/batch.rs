//! Mini-batches for a training step, as plain arrays with one row per sample.

use std::borrow::Cow;
use std::ops::Range;

use crate::loader::PhotoRegion;

/// Images of equal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageBatch {
    /// Number of images.
    pub n: usize,
    /// Width and height in pixels.
    pub size: usize,
    /// The rows whose pixels are in `data`. These are all rows, unless several processes read the batch
    /// ([`Loader::read_part`](crate::loader::Loader::read_part)).
    pub held: Range<usize>,
    /// `[held, 3, size, size]`, channels red, green, blue, values 0 to 255.
    pub data: Vec<u8>,
}

/// Token ids of several texts, padded to equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBatch {
    /// Number of texts.
    pub n: usize,
    /// Number of tokens of the longest text.
    pub len: usize,
    /// `[n, len]`; shorter texts are padded with zeros. A causal encoder that reads its output at `end` never attends
    /// to the padding.
    pub ids: Vec<u32>,
    /// `[n]`, the position of each text's last token.
    pub end: Vec<u32>,
}

/// Chains of texts from general to specific. A shorter chain repeats its last text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBatch {
    /// `[signs * tiers * samples]`, where `signs` is 2 with `negatives` and otherwise 1: the first tier of all samples,
    /// then the second, and so on. Negative tiers follow the positive tiers.
    pub texts: TokenBatch,
    /// Number of tiers in a chain.
    pub tiers: usize,
    /// True if each positive tier has a negative tier.
    pub negatives: bool,
    /// `[samples]`, the length of each chain before the repetition; empty if every chain has `tiers` texts.
    pub lengths: Vec<usize>,
}

/// Photos and boxes cropped from them, with part-of relations. There are more crops than samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeBatch {
    /// `[N, 3, size, size]`, the crops.
    pub images: Option<ImageBatch>,
    /// The crops as references, instead of `images`.
    pub regions: Option<Vec<PhotoRegion>>,
    /// `[N]`, the id of the object that each crop shows, counted from 0. All crops of the same box or photo in a batch
    /// have the same id, even if they belong to different samples.
    pub things: Vec<u32>,
    /// Part-of relations as (whole, part) pairs of ids in `things`, without duplicates.
    pub parts: Vec<[u32; 2]>,
}

/// The samples of one training step. Row i of `ids`, `images`, `texts`, `box_images` and `box_texts` is of sample i.
/// The rows of `chains` and `edges` are ordered differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Index of the batch, counted from 0 across all epochs.
    pub index: u64,
    /// Ids of the samples.
    pub ids: Vec<String>,
    /// Pixels of the whole photos. `None` if no view has photos, or if `regions` replaces them.
    pub images: Option<ImageBatch>,
    /// Whole photos as references, instead of `images`.
    pub regions: Option<Vec<PhotoRegion>>,
    /// Captions; `None` if the views have photos without captions.
    pub texts: Option<TokenBatch>,
    /// Pixels of one box crop of each photo.
    pub box_images: Option<ImageBatch>,
    /// The box crops as references, instead of `box_images`.
    pub box_regions: Option<Vec<PhotoRegion>>,
    /// The phrase of the box in `box_images`.
    pub box_texts: Option<TokenBatch>,
    /// A chain of texts for each sample.
    pub chains: Option<ChainBatch>,
    /// Photos and box crops, with part-of relations.
    pub edges: Option<EdgeBatch>,
}

impl ImageBatch {
    /// Concatenates pictures of `3 * size * size` bytes each.
    pub fn from_rows<R: AsRef<[u8]>>(rows: &[R], size: usize) -> Self {
        let mut data = Vec::with_capacity(rows.len() * 3 * size * size);
        for row in rows {
            debug_assert_eq!(row.as_ref().len(), 3 * size * size);
            data.extend_from_slice(row.as_ref());
        }
        Self { n: rows.len(), size, held: 0..rows.len(), data }
    }

    /// The bytes of the pictures in `rows`, which must be within `held`.
    pub fn rows(&self, rows: Range<usize>) -> &[u8] {
        let (picture, first) = (3 * self.size * self.size, self.held.start);
        &self.data[(rows.start - first) * picture..(rows.end - first) * picture]
    }
}

impl TokenBatch {
    /// Pads texts to the length of the longest text. A text ends at its first `end_of_text`, or at its last token if it
    /// has none. The published models take the position of the largest id instead. In CLIP's vocabulary that is the
    /// same position, because end of text is the largest id.
    pub fn from_rows<R: AsRef<[u32]>>(rows: &[R], end_of_text: u32) -> Self {
        let rows = || rows.iter().map(AsRef::as_ref);
        let len = rows().map(<[u32]>::len).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(rows().len() * len);
        for row in rows() {
            ids.extend_from_slice(row);
            ids.resize(ids.len() + len - row.len(), 0);
        }
        let end = |row: &[u32]| {
            let found = row.iter().position(|&id| id == end_of_text);
            found.unwrap_or(row.len().saturating_sub(1)) as u32
        };
        Self { n: rows().len(), len, ids, end: rows().map(end).collect() }
    }

    /// The texts in `rows`, padded to the length of the longest text. `rows` must be within `0..n`. A text ends at its
    /// last token (`end`). The range `0..n` borrows the whole batch without copying it.
    pub fn rows(&self, rows: Range<usize>) -> Cow<'_, Self> {
        if rows == (0..self.n) {
            return Cow::Borrowed(self);
        }
        let end = &self.end[rows.clone()];
        let len = end.iter().max().map_or(0, |&last| last as usize + 1).min(self.len);
        let ids = rows.clone().flat_map(|row| &self.ids[row * self.len..][..len]).copied().collect();
        Cow::Owned(Self { n: rows.len(), len, ids, end: end.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_padded_to_the_longest() {
        let batch = TokenBatch::from_rows(&[vec![7, 1, 9], vec![7, 9], vec![7, 9, 2, 9], vec![7, 1]], 9);
        assert_eq!((batch.n, batch.len), (4, 4));
        assert_eq!(batch.ids, [7, 1, 9, 0, 7, 9, 0, 0, 7, 9, 2, 9, 7, 1, 0, 0]);
        assert_eq!(batch.end, [2, 1, 1, 1]);
        let none = TokenBatch::from_rows::<Vec<u32>>(&[], 9);
        assert_eq!((none.n, none.len, none.ids.len()), (0, 0, 0));
    }

    #[test]
    fn some_texts_are_padded_to_the_longest_of_them() {
        let batch = TokenBatch::from_rows(&[vec![7, 1, 2, 9], vec![7, 9], vec![7, 3, 9], vec![7, 9, 9, 9]], 9);
        let some = batch.rows(1..3);
        assert_eq!((some.n, some.len), (2, 3));
        assert_eq!((some.ids.as_slice(), some.end.as_slice()), (&[7, 9, 0, 7, 3, 9][..], &[1, 2][..]));
        assert!(matches!(batch.rows(0..4), Cow::Borrowed(all) if *all == batch));
        // Tokens after the end of a text are left out.
        assert_eq!(batch.rows(3..4).ids, [7, 9]);
        assert_eq!((batch.rows(2..2).n, batch.rows(2..2).len), (0, 0));
    }

    #[test]
    fn images_are_concatenated_in_order() {
        let batch = ImageBatch::from_rows(&[[1_u8; 12], [2; 12]], 2);
        assert_eq!((batch.n, batch.data.len()), (2, 24));
        assert_eq!((batch.data[11], batch.data[12]), (1, 2));
        assert_eq!((batch.rows(1..2), batch.rows(1..1).len()), (&[2; 12][..], 0));
        let part = ImageBatch { n: 5, held: 3..5, ..batch };
        assert_eq!(part.rows(4..5), [2; 12]);
    }
}
