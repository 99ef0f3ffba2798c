//! Features that the data gives: no encoder runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conifer_data::Broken;
use conifer_data::loader::{PhotoRegion, RegionMode, RegionReader};
use conifer_data::vectors::TextVectors;
use rayon::prelude::*;

use super::{FeatureProgress, FeatureRequest, FeatureRows, FeatureStage, ImageFeatures, TextFeatures, given_rows};
use crate::Result;

/// Samples that are read between two reports of progress.
const CHUNK: usize = 4096;

/// The vectors of this `width` of all photos and boxes. Returns `None` if `stop` was set.
pub(super) fn image_vectors(
    width: usize,
    request: &FeatureRequest,
    stop: &AtomicBool,
    progress: FeatureProgress<'_>,
) -> Option<ImageFeatures> {
    let reader = RegionReader::new(request.source.clone(), request.loader.clone(), request.crop, 0);
    let samples: Vec<u64> = (0..reader.samples()).collect();
    let mut rows = FeatureRows { width, values: Vec::new() };
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
                        rows.values.extend(vector);
                    }
                }
                Err(error) => _ = broken.insert(sample, error),
            }
        }
        progress(FeatureStage::Reading, chunk.last().map_or(0, |last| *last as usize + 1), samples.len());
    }
    let mode = RegionMode { copies: 1, broken: Arc::new(broken) };
    Some(ImageFeatures { rows, positions, mode })
}

/// The vectors of the texts in `distinct`, which are token ids.
pub(super) fn text_vectors(texts: &Arc<TextVectors>, distinct: &[&[u32]]) -> Result<TextFeatures> {
    let rows = given_rows(texts, distinct)?;
    let positions = (0..).zip(distinct).map(|(position, ids)| (ids.to_vec(), position)).collect();
    Ok(TextFeatures { rows, positions, given: Some(texts.clone()) })
}
