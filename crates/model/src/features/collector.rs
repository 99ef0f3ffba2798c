//! Rows of one encoder during collection: stored rows and computed rows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rows::{FeatureLocation, FeatureRows, RowTable};
use super::store::FeatureShards;
use super::{ContentKey, FeatureStore};
use crate::embed::prefetch;
use crate::head::Tower;
use crate::{Error, Result};

/// Number of rows computed between two writes to the store. A killed run loses at most this many rows plus one batch.
const WRITE: usize = 512;

/// Rows of one encoder by content key.
pub(super) struct RowCollector {
    width: usize,
    shards: Option<FeatureShards>,
    /// Computed rows since the last write to the store.
    unwritten: Vec<(ContentKey, Vec<f32>)>,
    /// Length of `unwritten` at which it is written: [`WRITE`], or the size of a shard if that is smaller.
    write: usize,
    /// Computed rows that the store does not accept.
    memory: FeatureRows,
    in_memory: HashMap<ContentKey, usize>,
    encoded: usize,
}

/// Rows of one batch that an encoder computed.
pub(super) struct EncodedBatch {
    pub(super) keys: Vec<ContentKey>,
    /// Features of the rows in `keys`, `[keys, width]`.
    pub(super) values: Vec<f32>,
    /// Number of items in the batch, including those that could not be encoded.
    pub(super) items: usize,
}

impl RowCollector {
    /// # Errors
    /// The errors of [`FeatureStore::open`].
    pub(super) fn open(store: &FeatureStore, tower: Tower, identity: &str, width: usize) -> Result<Self> {
        Ok(Self {
            width,
            shards: store.open(tower, identity, width)?,
            unwritten: Vec::new(),
            write: WRITE.min(usize::try_from(store.shard_rows).unwrap_or(WRITE)),
            memory: FeatureRows { width, values: Vec::new() },
            in_memory: HashMap::new(),
            encoded: 0,
        })
    }

    /// True if the store has the row with this key.
    pub(super) fn is_stored(&self, key: &ContentKey) -> bool {
        self.shards.as_ref().is_some_and(|shards| shards.position(key).is_some())
    }

    /// Number of rows that were computed.
    pub(super) fn encoded(&self) -> usize {
        self.encoded
    }

    /// Size in bytes of the stored features of this encoder, and notes about them.
    pub(super) fn stored(&self) -> (u64, &[String]) {
        self.shards.as_ref().map_or((0, &[]), |shards| (shards.bytes(), shards.notes()))
    }

    /// Encodes batches and keeps their rows. Another thread reads the next batch meanwhile. `progress` receives the
    /// number of finished items. Returns false if `stop` was set; the rows computed until then are stored.
    ///
    /// # Errors
    /// The errors of `encode`, and of the store.
    pub(super) fn encode<B: Send>(
        &mut self,
        batches: impl Iterator<Item = B> + Send,
        stop: &AtomicBool,
        mut encode: impl FnMut(B) -> Result<EncodedBatch>,
        mut progress: impl FnMut(usize),
    ) -> Result<bool> {
        let (mut stopped, mut done) = (false, 0);
        prefetch(batches, |batch| {
            if stop.load(Ordering::Relaxed) {
                stopped = true;
                return Err(None);
            }
            let EncodedBatch { keys, values, items } = encode(batch).map_err(Some)?;
            self.add(&keys, &values).map_err(Some)?;
            done += items;
            progress(done);
            Ok(())
        })
        .or_else(|error: Option<Error>| error.map_or(Ok(()), Err))?;
        self.flush()?;
        Ok(!stopped)
    }

    fn add(&mut self, keys: &[ContentKey], values: &[f32]) -> Result<()> {
        let writes = self.shards.as_ref().is_some_and(FeatureShards::writes);
        self.encoded += keys.len();
        for (key, row) in keys.iter().zip(values.chunks_exact(self.width)) {
            if writes {
                self.unwritten.push((*key, row.to_vec()));
            } else {
                self.in_memory.insert(*key, self.memory.len());
                self.memory.values.extend_from_slice(row);
            }
        }
        // The rows of a batch are written together, so that a run that was killed forms the same batches again.
        if self.unwritten.len() >= self.write { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.unwritten);
        self.shards.as_mut().map_or(Ok(()), |shards| shards.add(&rows))
    }

    /// The rows with these keys, in the order of their first appearance, and the row number of each key. Keys without
    /// a row are skipped.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be mapped.
    pub(super) fn finish(self, keys: impl Iterator<Item = ContentKey>) -> Result<(RowTable, HashMap<ContentKey, u32>)> {
        let (mut rows, mut numbers) = (Vec::new(), HashMap::new());
        for key in keys {
            let stored = || self.shards.as_ref().and_then(|shards| shards.position(&key)).map(FeatureLocation::Shard);
            let location = self.in_memory.get(&key).map(|row| FeatureLocation::Memory(*row));
            if !numbers.contains_key(&key)
                && let Some(location) = location.or_else(stored)
            {
                numbers.insert(key, rows.len() as u32);
                rows.push(location);
            }
        }
        let shards = self.shards.map(FeatureShards::into_mapped).transpose()?.unwrap_or_default();
        Ok((RowTable::new(rows, shards, self.memory), numbers))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;
    use crate::features::StorePurpose;

    fn open(folder: &Path) -> RowCollector {
        let store = FeatureStore { shard_rows: 4, ..FeatureStore::cache(Some(folder.to_owned())) };
        RowCollector::open(&store, Tower::Text, &"a".repeat(64), 2).unwrap()
    }

    fn keys(batch: u8) -> Vec<ContentKey> {
        (0..3).map(|i| [3 * batch + i; 32]).collect()
    }

    /// Encodes batches of three rows; sets `stop` after `most` of them.
    fn encode(rows: &mut RowCollector, batches: std::ops::Range<u8>, most: usize) -> (bool, usize) {
        let stop = AtomicBool::new(false);
        let batches: Vec<u8> = batches.filter(|batch| !rows.is_stored(&keys(*batch)[0])).collect();
        let mut done = 0;
        let encode = |batch: u8| {
            let keys = keys(batch);
            let values = keys.iter().flat_map(|key| [f32::from(key[0]), 0.5]).collect();
            Ok(EncodedBatch { keys, values, items: 3 })
        };
        let progress = |items: usize| {
            done = items;
            stop.store(items >= 3 * most, Ordering::Relaxed);
        };
        let finished = rows.encode(batches.into_iter(), &stop, encode, progress).unwrap();
        (finished, done)
    }

    fn values(rows: RowCollector, count: u8) -> Vec<f32> {
        let (table, numbers) = rows.finish((0..count).map(|i| [i; 32])).unwrap();
        let mut values = Vec::new();
        (0..count).for_each(|i| table.read(numbers[&[i; 32]] as usize, &mut values));
        values
    }

    #[test]
    fn stopped_collection_continues_with_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
        let mut rows = open(&whole);
        assert_eq!(encode(&mut rows, 0..5, 9), (true, 15));
        assert_eq!(rows.encoded(), 15);
        let expected = values(rows, 15);
        assert_eq!(expected[..4], [0.0, 0.5, 1.0, 0.5]);
        // `stop` is set after two batches, so the third is not started.
        let mut rows = open(&parts);
        assert_eq!(encode(&mut rows, 0..5, 2), (false, 6));
        drop(rows);
        let mut rows = open(&parts);
        assert_eq!(encode(&mut rows, 0..5, 9), (true, 9));
        assert_eq!(rows.encoded(), 9);
        assert_eq!(values(rows, 15), expected);
        let files = |folder: &Path| {
            let entries = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap());
            let mut files: Vec<_> = entries.map(|it| (it.file_name(), std::fs::read(it.path()).unwrap())).collect();
            files.sort();
            files
        };
        assert_eq!(files(&whole), files(&parts));
    }

    #[test]
    fn rows_stay_in_memory_if_the_store_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = open(folder.path());
        encode(&mut writer, 0..1, 9);
        let mut second = open(folder.path());
        assert_eq!(encode(&mut second, 0..3, 9), (true, 6));
        assert!(second.stored().1[0].contains("another conifer run is writing"));
        assert_eq!(values(second, 9)[10..14], [5.0, 0.5, 6.0, 0.5]);
        let mut memory = RowCollector::open(&FeatureStore::default(), Tower::Text, "a", 2).unwrap();
        encode(&mut memory, 0..3, 9);
        assert_eq!(values(memory, 9).len(), 18);
        let fill = FeatureStore { purpose: StorePurpose::Fill, ..FeatureStore::cache(Some(folder.path().to_owned())) };
        assert!(RowCollector::open(&fill, Tower::Text, &"a".repeat(64), 2).is_err());
    }
}
