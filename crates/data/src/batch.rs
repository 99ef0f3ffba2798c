//! What a training step reads: plain arrays, one row per sample.

/// Photos of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageBatch {
    /// Rows.
    pub n: usize,
    /// Pixels on a side.
    pub size: usize,
    /// `[n, 3, size, size]`, red green blue, 0 to 255.
    pub data: Vec<u8>,
}

/// Token ids of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBatch {
    /// Rows.
    pub n: usize,
    /// Tokens in the longest text.
    pub len: usize,
    /// `[n, len]`; shorter texts are followed by zeros. A causal encoder read at `end` never sees them.
    pub ids: Vec<u32>,
    /// `[n]`, the position of the end of each text.
    pub end: Vec<u32>,
}

/// Chains of texts, general to specific, as many links in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBatch {
    /// `[signs * tiers * samples]`: the first tier of all samples, then the second; after the last one the negative tiers, if there are any.
    pub texts: TokenBatch,
    /// Links of a chain.
    pub tiers: usize,
    /// Whether each positive tier has a negative one, so that `signs` is 2.
    pub negatives: bool,
}

/// Photos and boxes cut out of them, with the relation between wholes and parts. There are more crops than samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeBatch {
    /// `[N]` crops.
    pub images: ImageBatch,
    /// `[N]`, what each crop shows; equal for two crops of the same box or photo, wherever in the batch they stand. Counted from 0.
    pub things: Vec<u32>,
    /// Whole and part, as things: every relation that a sample of this batch declares, once.
    pub parts: Vec<[u32; 2]>,
}

/// The samples of one step. Row i of every part but `edges` belongs to the same sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Counted through all epochs, from 0.
    pub index: u64,
    /// Ids of the samples.
    pub ids: Vec<String>,
    /// Whole photos.
    pub images: Option<ImageBatch>,
    /// Captions.
    pub texts: Option<TokenBatch>,
    /// One box of each photo.
    pub box_images: Option<ImageBatch>,
    /// The phrase of that box.
    pub box_texts: Option<TokenBatch>,
    /// A chain of texts for each sample.
    pub chains: Option<ChainBatch>,
    /// The photos, their boxes, and which is a part of which.
    pub edges: Option<EdgeBatch>,
}

impl ImageBatch {
    /// Joins pictures of `3 * size * size` bytes each.
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
    /// Pads texts of different lengths. A text ends at its first `end_of_text` (the published models look for the
    /// largest id and so find the first one), or at its last token when it has none.
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
    fn texts_are_padded_to_the_longest_and_end_at_the_first_end_token() {
        let batch = TokenBatch::from_rows(&[vec![7, 1, 9], vec![7, 9], vec![7, 9, 2, 9], vec![7, 1]], 9);
        assert_eq!((batch.n, batch.len), (4, 4));
        assert_eq!(batch.ids, [7, 1, 9, 0, 7, 9, 0, 0, 7, 9, 2, 9, 7, 1, 0, 0]);
        assert_eq!(batch.end, [2, 1, 1, 1]);
        let none = TokenBatch::from_rows::<Vec<u32>>(&[], 9);
        assert_eq!((none.n, none.len, none.ids.len()), (0, 0, 0));
    }

    #[test]
    fn pictures_are_joined_in_order() {
        let batch = ImageBatch::from_rows(&[[1_u8; 12], [2; 12]], 2);
        assert_eq!((batch.n, batch.data.len()), (2, 24));
        assert_eq!((batch.data[11], batch.data[12]), (1, 2));
    }
}
