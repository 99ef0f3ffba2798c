//! Rows of one encoder in the store, for models that embed single batches.

use std::sync::{Mutex, PoisonError};

use super::{ContentKey, FeatureStore, VectorFile};
use crate::Result;

/// The file of one frozen encoder, shared by threads. Errors of the file never stop an embedding: rows that cannot be
/// read are computed, and rows that cannot be written are not kept.
#[derive(Debug)]
pub(crate) struct SharedRows {
    file: Mutex<VectorFile>,
}

impl SharedRows {
    /// The file of the encoder with this identity; `None` without a folder, or if the file cannot be opened.
    pub(crate) fn open(store: &FeatureStore, identity: &str, width: usize) -> Option<Self> {
        let file = store.open(identity, width).ok()??;
        Some(Self { file: Mutex::new(file) })
    }

    /// The rows with these keys, one after the other. `encode` computes those that the file lacks, by index.
    pub(crate) fn rows(
        &self,
        keys: &[ContentKey],
        width: usize,
        encode: impl FnOnce(&[usize]) -> Result<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        // The file is valid after a panic in another thread, because it is only appended to.
        let lock = || self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = lock().find(keys).unwrap_or_default();
        let missing: Vec<usize> = (0..keys.len()).filter(|&i| !known.contains_key(&keys[i])).collect();
        if !missing.is_empty() {
            let fresh = encode(&missing)?;
            let rows = missing.iter().map(|&i| keys[i]).zip(fresh.chunks_exact(width).map(<[f32]>::to_vec));
            let rows: Vec<(ContentKey, Vec<f32>)> = rows.collect();
            _ = lock().add(&rows);
            known.extend(rows);
        }
        Ok(keys.iter().flat_map(|key| known[key].iter().copied()).collect())
    }
}
