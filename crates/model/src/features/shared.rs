//! Rows of one encoder in the store, for models that embed single batches.

use std::sync::{Mutex, PoisonError};

use super::store::FeatureShards;
use super::{ContentKey, FeatureStore, stored_or_computed};
use crate::Result;
use crate::head::Tower;

/// The stored features of one frozen encoder, shared by threads. Errors of the store never stop an embedding: rows that
/// cannot be read are computed, and rows that cannot be written are not kept.
#[derive(Debug)]
pub(crate) struct SharedRows {
    shards: Mutex<FeatureShards>,
    width: usize,
}

impl SharedRows {
    /// The features of the encoder with this identity; `None` without a folder, or if [`FeatureStore::open`] fails.
    pub(crate) fn open(store: &FeatureStore, tower: Tower, identity: &str, width: usize) -> Option<Self> {
        let shards = store.open(tower, identity, width).ok()??;
        Some(Self { shards: Mutex::new(shards), width })
    }

    /// Returns the rows with these keys, concatenated. `encode` computes the rows that the store lacks, given their
    /// indices in `keys`.
    pub(crate) fn rows(
        &self,
        keys: &[ContentKey],
        encode: impl FnMut(&[usize]) -> Result<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        // The store is valid after a panic in another thread, because it is only appended to.
        let lock = || self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().find(keys).unwrap_or_default();
        stored_or_computed(keys, known, self.width, keys.len(), encode, |fresh| _ = lock().add(fresh))
    }
}
