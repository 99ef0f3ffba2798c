//! One batch at a time, for whoever streams: the caller decides what is embedded together, and so the last bits.

use std::collections::BTreeMap;

use conifer_data::Picture;
use conifer_data::batch::{ImageBatch, TokenBatch};
use conifer_data::transform::{EvalCrop, evaluate};

use super::{Embedder, finite};
use crate::Result;
use crate::model::{pixels, tokens};

impl Embedder {
    /// Photographs or texts that are embedded at a time, at most.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// What the image tower sees of a photograph: `[3, size, size]` bytes.
    pub fn pixels(&self, picture: &Picture, crop: EvalCrop) -> Vec<u8> {
        evaluate(picture, self.model.config().visual.reads().image_size as u32, crop)
    }

    /// Points `[n, dim]` of photographs given by their [`Embedder::pixels`], all at once.
    ///
    /// # Errors
    /// A point that is not finite.
    pub fn image_batch(&self, rows: &[Vec<u8>]) -> Result<Vec<f32>> {
        let batch = ImageBatch::from_rows(rows, self.model.config().visual.reads().image_size);
        finite(self.model.embed_images(pixels(&batch, &self.device))?)
    }

    /// Points `[n, dim]` of texts given by their [`Embedder::tokenize`]d ids, all at once, padded to the longest.
    ///
    /// # Errors
    /// A point that is not finite.
    pub fn token_batch(&self, rows: &[&[u32]]) -> Result<Vec<f32>> {
        let batch = TokenBatch::from_rows(rows, self.manifest.texts.end_of_text);
        finite(self.model.embed_texts(tokens(&batch, &self.device))?)
    }
}

/// The different ones among tokenized texts, the shortest first, each with its places: what is embedded together is then of similar
/// length, and nothing twice. A function of the texts and their order alone.
pub fn by_length(rows: &[Vec<u32>]) -> Vec<(&[u32], Vec<usize>)> {
    let mut places: BTreeMap<(usize, &[u32]), Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        places.entry((row.len(), row)).or_default().push(place);
    }
    places.into_iter().map(|((_, row), places)| (row, places)).collect()
}
