//! Mini-batches for a training step, as plain arrays with one row per sample.

use crate::loader::PhotoRegion;

/// Images of equal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageBatch {
    /// Number of images.
    pub n: usize,
    /// Width and height in pixels.
    pub size: usize,
    /// `[n, 3, size, size]`, channels red, green, blue, values 0 to 255.
    pub data: Vec<u8>,
}

/// Token ids of texts.
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
    /// `[signs * tiers * samples]`, where `signs` is 2 with `negatives` and otherwise 1: the first tier of all
    /// samples, then the second, and so on. Negative tiers follow the positive ones.
    pub texts: TokenBatch,
    /// Number of tiers in a chain.
    pub tiers: usize,
    /// True if each positive tier has a negative one.
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
    /// `[N]`, the id of the object that each crop shows, from 0. Crops of the same box or photo have the same id, also
    /// in different samples of the batch.
    pub things: Vec<u32>,
    /// Part-of relations as (whole, part) pairs of ids in `things`, without duplicates.
    pub parts: Vec<[u32; 2]>,
}

/// The samples of one training step. Row i of `ids`, `images`, `texts`, `box_images` and `box_texts` belongs to sample
/// i. The rows of `chains` and `edges` are ordered differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Index of the batch, counted from 0 across all epochs.
    pub index: u64,
    /// Ids of the samples.
    pub ids: Vec<String>,
    /// Whole photos.
    pub images: Option<ImageBatch>,
    /// Whole photos as references, instead of `images`.
    pub regions: Option<Vec<PhotoRegion>>,
    /// Captions; `None` if the views have photos without captions.
    pub texts: Option<TokenBatch>,
    /// One box crop of each photo.
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
        Self { n: rows.len(), size, data }
    }
}

impl TokenBatch {
    /// Pads texts to the length of the longest. A text ends at its first `end_of_text`, or at its last token if it has
    /// none. The published models take the position of the largest id instead. In CLIP's vocabulary that is the same
    /// position, because end of text is the largest id.
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
    fn images_are_concatenated_in_order() {
        let batch = ImageBatch::from_rows(&[[1_u8; 12], [2; 12]], 2);
        assert_eq!((batch.n, batch.data.len()), (2, 24));
        assert_eq!((batch.data[11], batch.data[12]), (1, 2));
    }
}
