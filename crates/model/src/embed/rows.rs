//! Embeds single batches, for callers that stream. The caller decides which rows share a batch; this affects the last
//! bits of the points.

use std::collections::BTreeMap;

use burn::tensor::{Tensor, TensorData};
use conifer_data::batch::{ImageBatch, TokenBatch};
use conifer_data::transform::{EvalCrop, evaluate};
use conifer_data::{Broken, ImageRef, Picture};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::{Embedder, finite};
use crate::features::{ContentKey, SharedRows, given_rows, text_key};
use crate::head::Tower;
use crate::model::{pixels, tokens};
use crate::{Error, Result};

impl Embedder {
    /// Largest number of photographs or texts in a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Pixels of a photograph as the image tower reads them: `[3, size, size]` bytes.
    pub fn pixels(&self, picture: &Picture, crop: EvalCrop) -> Vec<u8> {
        evaluate(picture, self.model.config().visual.reads().image_size as u32, crop)
    }

    /// The input of the image tower for a photograph, as bytes: [`Embedder::pixels`], or the vector (`f32`, little
    /// endian).
    ///
    /// # Errors
    /// The photograph cannot be read, or is not a vector although the model reads vectors.
    pub fn image_input(&self, image: &ImageRef, crop: EvalCrop) -> Result<Vec<u8>, Broken> {
        match self.vector_width(Tower::Image) {
            Some(width) => image.vector(width).map(|vector| le_bytes(vector)),
            None => Ok(self.pixels(&image.open(&self.limits)?, crop)),
        }
    }

    /// The input of the text tower for each text, as bytes: token ids, or the vector. Equal bytes give equal points.
    ///
    /// # Errors
    /// The errors of [`Embedder::tokenize`].
    pub fn text_inputs<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<u8>>> {
        let rows = self.tokenize(texts)?;
        let Some(given) = self.tokenizer.text_vectors() else {
            return Ok(rows.iter().map(|row| row.iter().flat_map(|id| id.to_le_bytes()).collect()).collect());
        };
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let vectors = given_rows(given, &rows)?;
        Ok((0..rows.len()).map(|row| le_bytes(vectors.row(row))).collect())
    }

    /// Embeds vectors, for a tower that reads them. Returns points `[n, dim]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the tower has an encoder, or a vector has another width or a value that is not finite.
    /// Also fails if a point is not finite.
    pub fn vectors(&self, rows: &[Vec<f32>], tower: Tower) -> Result<Vec<f32>> {
        let name = match tower {
            Tower::Image => "image",
            Tower::Text => "text",
        };
        let Some(width) = self.vector_width(tower) else {
            let expected = format!("a photo or a text: this model has an {name} encoder and reads no vectors");
            return Err(Error::invalid("the query", "a vector", expected));
        };
        for row in rows {
            if row.len() != width {
                let expected = format!("{width}, the width that the {name} tower of this model reads");
                return Err(Error::invalid("the vector", format!("of width {}", row.len()), expected));
            }
            if let Some(value) = row.iter().find(|value| !value.is_finite()) {
                return Err(Error::invalid("a value of the vector", value, "a finite number"));
            }
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        finite(self.model.embed_features(self.tensor(rows.concat(), rows.len()), tower, None)?)
    }

    /// Embeds photographs, given as [`Embedder::image_input`], in one batch. Returns points `[n, dim]`.
    ///
    /// # Errors
    /// If a vector has another width than the model reads, the encoder fails, or a point is not finite.
    pub fn image_batch(&self, rows: &[Vec<u8>]) -> Result<Vec<f32>> {
        if self.vector_width(Tower::Image).is_some() {
            return self.vectors(&rows.iter().map(|row| floats(row)).collect::<Vec<_>>(), Tower::Image);
        }
        let size = self.model.config().visual.reads().image_size;
        let keys = || -> Vec<ContentKey> { rows.par_iter().map(|row| Sha256::digest(row).into()).collect() };
        let encode =
            |rows: &[&Vec<u8>]| self.model.image_features(pixels(&ImageBatch::from_rows(rows, size), &self.device));
        let features = self.features(self.image_rows.as_ref(), &rows.iter().collect::<Vec<_>>(), keys, encode)?;
        finite(self.model.embed_features(features, Tower::Image, None)?)
    }

    /// Embeds pixels from 0 to 1, row-major `[n, 3, size, size]`, in one batch. Pixel statistics are subtracted by the
    /// model. Stored features are not used. Returns points `[n, dim]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the model has no image encoder, the values are no whole photographs, or a value is outside
    /// `[0, 1]`; an error if a point is not finite.
    pub fn float_pixels(&self, values: Vec<f32>) -> Result<Vec<f32>> {
        if self.vector_width(Tower::Image).is_some() {
            return Err(Error::invalid("the photo", "given as pixels", "a vector: this model has no image encoder"));
        }
        let size = self.model.config().visual.reads().image_size;
        if !values.len().is_multiple_of(3 * size * size) {
            let expected = format!("a multiple of 3 x {size} x {size}");
            return Err(Error::invalid("the number of pixel values", values.len(), expected));
        }
        if let Some(value) = values.iter().find(|value| !(0.0..=1.0).contains(*value)) {
            return Err(Error::invalid("a pixel value", value, "a number from 0 to 1"));
        }
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let shape = [values.len() / (3 * size * size), 3, size, size];
        let pixels = Tensor::from_data(TensorData::new(values, shape), &self.device);
        finite(self.model.embed_features(self.model.image_features(pixels)?, Tower::Image, None)?)
    }

    /// Embeds texts, given as [`Embedder::tokenize`]d ids, in one batch padded to the longest. Returns points `[n,
    /// dim]`.
    ///
    /// # Errors
    /// If a text has no vector although the model reads vectors, a text is longer than the context, or a point is not
    /// finite.
    pub fn token_batch(&self, rows: &[&[u32]]) -> Result<Vec<f32>> {
        if let Some(given) = self.tokenizer.text_vectors() {
            let vectors = self.tensor(given_rows(given, rows)?.values, rows.len());
            return finite(self.model.embed_features(vectors, Tower::Text, None)?);
        }
        let keys = || rows.iter().map(|row| text_key(row)).collect::<Vec<_>>();
        let encode = |rows: &[&[u32]]| {
            let batch = TokenBatch::from_rows(rows, self.manifest.texts.end_of_text);
            self.model.text_features(tokens(&batch, &self.device))
        };
        let features = self.features(self.text_rows.as_ref(), rows, keys, encode)?;
        finite(self.model.embed_features(features, Tower::Text, None)?)
    }

    /// Features `[n, width]` of `inputs`. `encode` computes the features that are not in `stored`.
    fn features<I: Copy>(
        &self,
        stored: Option<&SharedRows>,
        inputs: &[I],
        keys: impl FnOnce() -> Vec<ContentKey>,
        encode: impl Fn(&[I]) -> Result<Tensor<2>>,
    ) -> Result<Tensor<2>> {
        let Some(stored) = stored else { return encode(inputs) };
        let missing = |some: &[usize]| finite(encode(&some.iter().map(|&i| inputs[i]).collect::<Vec<_>>())?);
        Ok(self.tensor(stored.rows(&keys(), missing)?, inputs.len()))
    }

    fn tensor(&self, values: Vec<f32>, rows: usize) -> Tensor<2> {
        let width = values.len() / rows.max(1);
        Tensor::from_data(TensorData::new(values, [rows, width]), &self.device)
    }
}

/// The values as little-endian bytes.
fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The inverse of [`le_bytes`].
fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).filter_map(|it| it.try_into().ok()).map(f32::from_le_bytes).collect()
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
