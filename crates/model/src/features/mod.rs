//! Features of frozen encoders: computed once for each photo, box and text, stored on disk, and read by every epoch and
//! every run.
//!
//! A [`FeatureBank`] holds the features that one run needs. [`FeatureBank::collect`] looks them up in the files of a
//! folder ([`FeatureStore`]) and computes the missing ones. Rows are read from memory maps of the files. A file holds
//! the rows of one encoder, and its name contains the fingerprint of that encoder. Rows are keyed by content, so data
//! sets and runs share them.

mod collect;
mod collector;
mod given;
mod identity;
mod lookup;
mod mapped;
mod request;
mod rows;
mod shared;
mod store;
mod vector_file;

use std::collections::HashMap;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use conifer_data::batch::TokenBatch;
use conifer_data::loader::{PhotoRegion, RegionMode};
use conifer_data::vectors::TextVectors;

pub use collect::{FeatureCounts, FeatureProgress, FeatureReport, FeatureStage, encode_texts};
use given::given_vector;
pub(crate) use identity::text_key;
pub use identity::{image_identity, text_identity};
pub use lookup::stored_or_computed;
pub use request::{FeatureRequest, model_features, reads_images, reads_texts};
use rows::RowTable;
pub use rows::{FeatureRows, FeatureStatistics};
pub(crate) use shared::SharedRows;
pub use store::{FeatureStore, SHARD_ROWS, StorePurpose};
pub use vector_file::{ContentKey, VectorFile, VectorLayout};

use crate::{Error, Result};

/// Features of the frozen towers for the data of one run.
#[derive(Debug)]
pub struct FeatureBank {
    images: Option<ImageFeatures>,
    texts: Option<TextFeatures>,
    report: FeatureReport,
}

/// Stored features of photos and crops, found by [`PhotoRegion`].
#[derive(Debug)]
struct ImageFeatures {
    rows: RowTable,
    positions: HashMap<PhotoRegion, u32>,
    mode: RegionMode,
}

/// Features of texts.
#[derive(Debug)]
enum TextFeatures {
    /// Rows by token ids.
    Encoded { rows: RowTable, positions: HashMap<Vec<u32>, u32> },
    /// Vectors of the data set. `used` holds the rows of all texts of the data, each once.
    Given { texts: Arc<TextVectors>, used: RowTable },
}

impl FeatureBank {
    /// True if the bank holds features of texts.
    pub fn has_texts(&self) -> bool {
        self.texts.is_some()
    }

    /// Makes the loader yield regions instead of pixels; `None` without features of photos.
    pub fn region_mode(&self) -> Option<RegionMode> {
        self.images.as_ref().map(|images| images.mode.clone())
    }

    /// Counts and faults of the collection.
    pub fn report(&self) -> &FeatureReport {
        &self.report
    }

    /// Features `[n, width]` of regions.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a region without features, which happens if the loader and the bank read different data.
    pub fn regions(&self, regions: &[PhotoRegion], device: &Device) -> Result<Tensor<2>> {
        let missing = |what: String| Error::invalid("features", what, "features of every photo and box of the data");
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

    /// Features `[n, width]` of texts. For texts that the bank does not hold, such as negatives drawn from other
    /// samples, `encode` computes features from the token ids, and the bank keeps them. If the data contains vectors of
    /// texts, the result consists of these vectors.
    ///
    /// # Errors
    /// The errors of `encode`; [`Error::Invalid`] without features of texts, or for a text without a vector.
    pub fn texts(
        &mut self,
        batch: &TokenBatch,
        device: &Device,
        encode: impl FnOnce(&[&[u32]]) -> Result<FeatureRows>,
    ) -> Result<Tensor<2>> {
        let texts =
            self.texts.as_mut().ok_or_else(|| Error::invalid("features", "none of texts", "features of texts"))?;
        let asked: Vec<&[u32]> =
            (0..batch.n).map(|row| &batch.ids[row * batch.len..][..=batch.end[row] as usize]).collect();
        let (rows, positions) = match texts {
            TextFeatures::Encoded { rows, positions } => (rows, positions),
            TextFeatures::Given { texts, .. } => {
                let vectors = asked.iter().map(|ids| given_vector(texts, ids));
                let table = RowTable::given(texts.width(), vectors.collect::<Result<Vec<_>>>()?);
                return Ok(table.tensor(0..asked.len(), device));
            }
        };
        let mut missing: Vec<&[u32]> = asked.iter().copied().filter(|row| !positions.contains_key(*row)).collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let fresh = encode(&missing)?;
            for (index, row) in missing.iter().enumerate() {
                positions.insert(row.to_vec(), rows.push(fresh.row(index)));
            }
        }
        let found: Vec<usize> = asked.iter().map(|row| positions[*row] as usize).collect();
        Ok(rows.tensor(found.into_iter(), device))
    }

    /// Mean and standard deviation of each feature of the photos and of the texts; `None` without such features.
    pub fn statistics(&self) -> [Option<FeatureStatistics>; 2] {
        let images = self.images.as_ref().map(|images| images.rows.statistics());
        [images, self.texts.as_ref().map(|texts| texts.rows().statistics())]
    }

    /// Number of rows of photos and of texts.
    pub fn rows(&self) -> [usize; 2] {
        let images = self.images.as_ref().map_or(0, |images| images.rows.len());
        [images, self.texts.as_ref().map_or(0, |texts| texts.rows().len())]
    }
}

impl TextFeatures {
    fn rows(&self) -> &RowTable {
        match self {
            Self::Encoded { rows, .. } => rows,
            Self::Given { used, .. } => used,
        }
    }
}

/// The vectors of texts, given by their [`TextVectors::id`].
///
/// # Errors
/// [`Error::Invalid`] for an id without a vector.
pub(crate) fn given_rows(texts: &TextVectors, rows: &[&[u32]]) -> Result<FeatureRows> {
    let mut values = Vec::with_capacity(rows.len() * texts.width());
    for row in rows {
        values.extend_from_slice(&given_vector(texts, row)?);
    }
    Ok(FeatureRows { width: texts.width(), values })
}
