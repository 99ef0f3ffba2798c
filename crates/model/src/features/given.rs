//! Precomputed features that are part of the data, for which no encoder runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conifer_data::Broken;
use conifer_data::loader::{PhotoRegion, RegionMode, RegionReader};
use conifer_data::vectors::{SharedVector, TextVectors};
use rayon::prelude::*;

use super::{FeatureProgress, FeatureRequest, FeatureStage, ImageFeatures, RowTable, TextFeatures};
use crate::{Error, Result};

/// Number of samples that are read between two reports of progress.
const CHUNK: usize = 4096;

/// The precomputed vectors of all photos and boxes, with `width` values each. Returns `None` if `stop` was set.
pub(super) fn image_vectors(
    width: usize,
    request: &FeatureRequest,
    stop: &AtomicBool,
    progress: FeatureProgress<'_>,
) -> Option<ImageFeatures> {
    let reader = RegionReader::new(request.source.clone(), request.loader.clone(), request.crop, 0);
    let samples: Vec<u64> = (0..reader.samples()).collect();
    let mut rows: Vec<SharedVector> = Vec::new();
    let mut positions: HashMap<PhotoRegion, u32> = HashMap::new();
    let mut broken: BTreeMap<u64, Broken> = BTreeMap::new();
    for chunk in samples.chunks(CHUNK) {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let found: Vec<_> = chunk.par_iter().map(|&sample| (sample, reader.vectors(sample, width))).collect();
        for (sample, vectors) in found {
            match vectors {
                Ok(vectors) => {
                    for (region, vector) in vectors {
                        positions.insert(region, rows.len() as u32);
                        rows.push(vector);
                    }
                }
                Err(error) => _ = broken.insert(sample, error),
            }
        }
        progress(FeatureStage::Reading, chunk.last().map_or(0, |last| *last as usize + 1), samples.len());
    }
    let mode = RegionMode { copies: 1, broken: Arc::new(broken) };
    Some(ImageFeatures { rows: RowTable::given(width, rows), positions, mode })
}

/// The vectors of the texts in `distinct`, which are token ids.
pub(super) fn text_vectors(texts: &Arc<TextVectors>, distinct: &[&[u32]]) -> Result<TextFeatures> {
    let vectors = distinct.iter().map(|ids| given_vector(texts, ids)).collect::<Result<Vec<_>>>()?;
    Ok(TextFeatures::Given { texts: texts.clone(), used: RowTable::given(texts.width(), vectors) })
}

/// The vector of a text, given by its [`TextVectors::id`].
///
/// # Errors
/// [`Error::Invalid`] for an id without a vector.
pub(super) fn given_vector(texts: &TextVectors, ids: &[u32]) -> Result<SharedVector> {
    let vector = match ids {
        [id] => texts.vector(*id),
        _ => None,
    };
    vector.ok_or_else(|| Error::invalid("text", format!("{ids:?}"), format!("the id of one of {} texts", texts.len())))
}
