//! Features of frozen encoders: computed once for each photo, box and text, kept on disk, and read by every epoch and
//! every run.
//!
//! A [`FeatureBank`] holds the features that one run needs. [`FeatureBank::collect`] reads them from the files of a
//! folder ([`VectorFile`]) and computes the missing ones. A file belongs to one encoder: its name is the fingerprint of
//! the weights. Rows are keyed by content, so data sets and runs share them.

mod collect;
mod given;
mod shared;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use conifer_data::batch::TokenBatch;
use conifer_data::loader::{PhotoRegion, RegionMode};
use conifer_data::vectors::TextVectors;

pub use collect::{FeatureProgress, FeatureRequest, FeatureStage, image_identity, text_identity};
pub(crate) use collect::{encode_texts, text_key};
pub(crate) use shared::SharedRows;
pub use store::{ContentKey, VectorFile};

use crate::{Error, Result};

/// Features of the frozen towers for the data of one run.
#[derive(Debug)]
pub struct FeatureBank {
    images: Option<ImageFeatures>,
    texts: Option<TextFeatures>,
}

/// Rows by region.
#[derive(Debug)]
struct ImageFeatures {
    rows: FeatureRows,
    positions: HashMap<PhotoRegion, u32>,
    mode: RegionMode,
}

/// Rows by token ids.
#[derive(Debug)]
struct TextFeatures {
    rows: FeatureRows,
    positions: HashMap<Vec<u32>, u32>,
    /// The vectors that the data gives, if the text tower reads vectors.
    given: Option<Arc<TextVectors>>,
}

/// A matrix `[n, width]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureRows {
    /// Numbers in a row.
    pub width: usize,
    /// The rows, one after the other.
    pub values: Vec<f32>,
}

/// Mean and standard deviation of each feature over the training data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeatureStatistics {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
}

/// Where features are kept between runs.
#[derive(Clone, Debug, Default)]
pub struct FeatureStore {
    /// The folder; `None`: features are kept in memory only.
    pub folder: Option<PathBuf>,
}

impl FeatureStore {
    /// Opens the file of the encoder with this identity, for rows of this width; `None` without a folder.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened.
    pub(crate) fn open(&self, identity: &str, width: usize) -> Result<Option<VectorFile>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let path = folder.join(format!("{}.features", &identity[..identity.len().min(24)]));
        Ok(Some(VectorFile::open(&path, width).map_err(Error::io(&path))?.0))
    }
}

impl FeatureRows {
    /// Row `index`.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Mean and standard deviation of each column, in f64 with two passes.
    pub(crate) fn statistics(&self) -> FeatureStatistics {
        let n = self.len().max(1) as f64;
        let mut mean = vec![0.0; self.width];
        for row in self.values.chunks_exact(self.width.max(1)) {
            mean.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x) / n);
        }
        let mut variance = vec![0.0; self.width];
        for row in self.values.chunks_exact(self.width.max(1)) {
            variance
                .iter_mut()
                .zip(&mean)
                .zip(row)
                .for_each(|((sum, mean), &x)| *sum += (f64::from(x) - mean).powi(2) / n);
        }
        let narrow = |values: Vec<f64>| -> Vec<f32> { values.into_iter().map(|x| x as f32).collect() };
        FeatureStatistics { mean: narrow(mean), std: narrow(variance.into_iter().map(f64::sqrt).collect()) }
    }

    /// The rows at `positions` as a tensor `[n, width]` on the plain version of `device`.
    fn tensor(&self, positions: impl ExactSizeIterator<Item = usize>, device: &Device) -> Tensor<2> {
        let shape = [positions.len(), self.width];
        let mut values = Vec::with_capacity(shape[0] * shape[1]);
        positions.for_each(|position| values.extend_from_slice(self.row(position)));
        Tensor::from_data(TensorData::new(values, shape), &device.clone().without_autodiff())
    }
}

impl FeatureBank {
    /// True if the bank holds features of texts.
    pub fn has_texts(&self) -> bool {
        self.texts.is_some()
    }

    /// How the loader names regions; `None` without features of photos.
    pub fn region_mode(&self) -> Option<RegionMode> {
        self.images.as_ref().map(|images| images.mode.clone())
    }

    /// Features `[n, width]` of regions.
    ///
    /// # Errors
    /// [`Error::Setting`] for a region without features; the loader and the bank then disagree about the data.
    pub fn regions(&self, regions: &[PhotoRegion], device: &Device) -> Result<Tensor<2>> {
        let missing = |what: String| Error::setting("features", what, "features of every photo and box of the data");
        let images = self.images.as_ref().ok_or_else(|| missing("no features of photos".to_owned()))?;
        let positions: Vec<usize> = regions
            .iter()
            .map(|region| {
                let position = images.positions.get(region).copied();
                position.map(|it| it as usize).ok_or_else(|| missing(format!("none for {region:?}")))
            })
            .collect::<Result<_>>()?;
        Ok(images.rows.tensor(positions.into_iter(), device))
    }

    /// Features `[n, width]` of texts. Texts that the bank does not hold, such as negatives drawn from other samples, are
    /// computed by `encode` from their token ids and kept. If the data gives the vectors of texts, they are used instead.
    ///
    /// # Errors
    /// The errors of `encode`; [`Error::Setting`] without features of texts.
    pub fn texts(
        &mut self,
        batch: &TokenBatch,
        device: &Device,
        encode: impl FnOnce(&[&[u32]]) -> Result<FeatureRows>,
    ) -> Result<Tensor<2>> {
        let texts =
            self.texts.as_mut().ok_or_else(|| Error::setting("features", "none of texts", "features of texts"))?;
        let rows: Vec<&[u32]> =
            (0..batch.n).map(|row| &batch.ids[row * batch.len..][..=batch.end[row] as usize]).collect();
        let mut missing: Vec<&[u32]> = rows.iter().copied().filter(|row| !texts.positions.contains_key(*row)).collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let fresh = match &texts.given {
                Some(given) => given_rows(given, &missing)?,
                None => encode(&missing)?,
            };
            for (index, row) in missing.iter().enumerate() {
                texts.positions.insert(row.to_vec(), texts.rows.len() as u32);
                texts.rows.values.extend_from_slice(fresh.row(index));
            }
        }
        let positions: Vec<usize> = rows.iter().map(|row| texts.positions[*row] as usize).collect();
        Ok(texts.rows.tensor(positions.into_iter(), device))
    }

    /// Mean and standard deviation of each feature of the photos and of the texts, as far as the bank holds them.
    pub(crate) fn statistics(&self) -> [Option<FeatureStatistics>; 2] {
        let images = self.images.as_ref().map(|images| images.rows.statistics());
        [images, self.texts.as_ref().map(|texts| texts.rows.statistics())]
    }

    /// Number of rows of photos and of texts.
    pub fn rows(&self) -> [usize; 2] {
        let images = self.images.as_ref().map_or(0, |images| images.rows.len());
        [images, self.texts.as_ref().map_or(0, |texts| texts.rows.len())]
    }
}

/// The vectors of texts, given by their [`TextVectors::id`].
///
/// # Errors
/// [`Error::Setting`] for an id without a vector.
pub(crate) fn given_rows(texts: &TextVectors, rows: &[&[u32]]) -> Result<FeatureRows> {
    let mut values = Vec::with_capacity(rows.len() * texts.width());
    for row in rows {
        let vector = match row {
            [id] => texts.vector(*id),
            _ => None,
        };
        let missing = || Error::setting("text", format!("{row:?}"), format!("the id of one of {} texts", texts.len()));
        values.extend_from_slice(vector.ok_or_else(missing)?);
    }
    Ok(FeatureRows { width: texts.width(), values })
}
