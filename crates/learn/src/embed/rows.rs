//! Embeds single batches, for callers that stream. The caller decides which rows share a batch; this affects the last
//! bits of the points.

use std::collections::BTreeMap;

use burn::tensor::{Tensor, TensorData};
use conifer_data::Picture;
use conifer_data::batch::{ImageBatch, TokenBatch};
use conifer_data::transform::{EvalCrop, evaluate};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::{Embedder, finite};
use crate::Result;
use crate::features::{ContentKey, text_key};
use crate::head::Tower;
use crate::model::{pixels, tokens};

impl Embedder {
    /// Largest number of photographs or texts in a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Pixels of a photograph as the image tower reads them: `[3, size, size]` bytes.
    pub fn pixels(&self, picture: &Picture, crop: EvalCrop) -> Vec<u8> {
        evaluate(picture, self.model.config().visual.reads().image_size as u32, crop)
    }

    /// Embeds photographs, given as [`Embedder::pixels`], in one batch. Returns points `[n, dim]`.
    ///
    /// # Errors
    /// If a point is not finite.
    pub fn image_batch(&self, rows: &[Vec<u8>]) -> Result<Vec<f32>> {
        let size = self.model.config().visual.reads().image_size;
        let features =
            |rows: &[&Vec<u8>]| self.model.image_features(pixels(&ImageBatch::from_rows(rows, size), &self.device));
        let features = match &self.image_rows {
            None => features(&rows.iter().collect::<Vec<_>>())?,
            Some(stored) => {
                let keys: Vec<ContentKey> = rows.par_iter().map(|row| Sha256::digest(row).into()).collect();
                let encode = |missing: &[usize]| -> Result<Vec<f32>> {
                    finite(features(&missing.iter().map(|&i| &rows[i]).collect::<Vec<_>>())?)
                };
                self.tensor(stored.rows(&keys, self.model.visual.width(), encode)?, rows.len())
            }
        };
        finite(self.model.embed_features(features, Tower::Image, None)?)
    }

    /// Embeds texts, given as [`Embedder::tokenize`]d ids, in one batch padded to the longest. Returns points `[n,
    /// dim]`.
    ///
    /// # Errors
    /// If a point is not finite.
    pub fn token_batch(&self, rows: &[&[u32]]) -> Result<Vec<f32>> {
        let features = |rows: &[&[u32]]| {
            let batch = TokenBatch::from_rows(rows, self.manifest.texts.end_of_text);
            self.model.text_features(tokens(&batch, &self.device))
        };
        let features = match &self.text_rows {
            None => features(rows)?,
            Some(stored) => {
                let keys: Vec<ContentKey> = rows.iter().map(|row| text_key(row)).collect();
                let encode = |missing: &[usize]| -> Result<Vec<f32>> {
                    finite(features(&missing.iter().map(|&i| rows[i]).collect::<Vec<_>>())?)
                };
                self.tensor(stored.rows(&keys, self.model.textual.width(), encode)?, rows.len())
            }
        };
        finite(self.model.embed_features(features, Tower::Text, None)?)
    }

    fn tensor(&self, values: Vec<f32>, rows: usize) -> Tensor<2> {
        let width = values.len() / rows.max(1);
        Tensor::from_data(TensorData::new(values, [rows, width]), &self.device)
    }
}

/// The distinct tokenized texts, shortest first, each with its positions in `rows`. Consecutive entries have similar
/// lengths, and no text is embedded twice. The result depends only on the texts and their order.
pub fn by_length(rows: &[Vec<u32>]) -> Vec<(&[u32], Vec<usize>)> {
    let mut positions: BTreeMap<(usize, &[u32]), Vec<usize>> = BTreeMap::new();
    for (position, row) in rows.iter().enumerate() {
        positions.entry((row.len(), row)).or_default().push(position);
    }
    positions.into_iter().map(|((_, row), positions)| (row, positions)).collect()
}
