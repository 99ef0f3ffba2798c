//! Segments: embedding sets in a store, written once and memory-mapped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use conifer_embeddings::{Draft, DraftPlan, Element, Modality, Provenance, StoredSet};
use conifer_files::operation;
use conifer_geometry::{ManifoldSpec, Root};
use std::sync::Arc;

use super::disk::{self, StoreFileDigest};
use super::version::{DeletedFile, Segment};
use super::{DELETED, SEGMENTS};
use crate::error::{Error, Result};
use crate::kernel::StoredCoordinate;
use crate::mapped::{MappedArray, MappedCoordinate};
use crate::rows::CoordinateArray;

/// Number of rows per write.
const PART: usize = 1024;

pub(super) struct SegmentContent<'a> {
    pub(super) spec: &'a ManifoldSpec,
    pub(super) root: &'a Root,
    pub(super) source: Provenance,
    pub(super) rows: usize,
    pub(super) columns: &'a BTreeMap<String, Vec<String>>,
    pub(super) ids: &'a [String],
    pub(super) modality: &'a [Modality],
    pub(super) point: &'a dyn Fn(usize) -> Cow<'a, [f32]>,
}

/// Writes a segment to `tmp/name` and flushes it to the disk. `progress` is called with the number of rows written.
pub(super) fn write(
    tmp: &Path,
    name: &str,
    element: Element,
    content: &SegmentContent<'_>,
    progress: &mut dyn FnMut(usize),
) -> Result<Segment> {
    let dir = tmp.join(name);
    let plan = DraftPlan {
        spec: content.spec.clone(),
        root: content.root.clone(),
        columns: content.columns.keys().cloned().collect(),
        element,
        identity: BTreeMap::new(),
    };
    let mut draft = Draft::open(&dir, plan)?;
    let (mut points, mut texts) = (Vec::new(), Vec::new());
    for first in (0..content.rows).step_by(PART) {
        points.clear();
        let last = (first + PART).min(content.rows);
        for i in first..last {
            texts.clear();
            texts.extend(content.columns.values().map(|column| column[i].as_str()));
            draft.add(&content.ids[i], content.modality[i], &texts)?;
            points.extend_from_slice(&(content.point)(i));
        }
        draft.put(first as u64, &points)?;
        progress(last);
    }
    draft.finish(content.source.clone())?;
    let seals =
        disk::names(&dir)?.into_iter().map(|file| Ok((file.clone(), StoreFileDigest::of_file(&dir.join(file))?)));
    Ok(Segment { name: name.to_owned(), rows: content.rows, files: seals.collect::<Result<_>>()?, deleted: None })
}

/// Opens a segment of the store `dir`: its metadata and its deleted rows. Checks the lengths of all files.
///
/// # Errors
/// Fails if a file is missing, has a wrong length, or is damaged. The points are not read, so damage in them is not
/// found here.
pub(super) fn open(dir: &Path, segment: &Segment) -> Result<(StoredSet, DeletedRows)> {
    let home = dir.join(SEGMENTS).join(&segment.name);
    for (name, seal) in &segment.files {
        seal.check_length(&home.join(name))?;
    }
    if let Some(seal) = segment.files.get("manifest.json") {
        // The manifest holds the checksums of the other files.
        let path = home.join("manifest.json");
        seal.check(&path, &StoreFileDigest::of_file(&path)?)?;
    }
    let set = StoredSet::open(&home)?;
    if set.len() != segment.rows {
        return Err(Error::store(
            &home,
            "number of rows",
            set.len(),
            format!("{}, as in the version's manifest", segment.rows),
        ));
    }
    // Read the bitmap only after the row count is verified, so that a wrong count allocates nothing.
    Ok((set, DeletedRows::read(&dir.join(DELETED), segment)?))
}

/// The points of a segment: memory-mapped if possible, else copied.
pub(super) fn points<E: MappedCoordinate + StoredCoordinate>(set: &StoredSet) -> Result<CoordinateArray<E>> {
    let path = &set.points;
    let file = File::open(path).map_err(Error::io("read", path))?;
    let count = set.len() * set.spec.dim;
    if count == 0 {
        return Ok(CoordinateArray::Owned(Arc::default()));
    }
    if let Some(mapped) = MappedArray::open(&file, set.offset, count).map_err(Error::io("map", path))? {
        return Ok(CoordinateArray::Mapped(Arc::new(mapped)));
    }
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let numbers = bytes.get(set.offset as usize..).unwrap_or_default().chunks_exact(size_of::<E>());
    let numbers: Vec<E> = numbers.take(count).map(E::from_le).collect();
    if numbers.len() != count {
        return Err(Error::store(path, "the number of coordinates", numbers.len(), format!("{count}, for its rows")));
    }
    Ok(CoordinateArray::Owned(Arc::new(numbers)))
}

/// The deleted rows of a segment: one bit per row, in little-endian 64-bit words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeletedRows {
    words: Vec<u64>,
}

impl DeletedRows {
    fn none(rows: usize) -> Self {
        DeletedRows { words: vec![0; rows.div_ceil(64)] }
    }

    /// Reads the bitmap of a segment, whose row count must be verified.
    fn read(dir: &Path, segment: &Segment) -> Result<Self> {
        let Some(deleted) = &segment.deleted else { return Ok(Self::none(segment.rows)) };
        let path = dir.join(&deleted.name);
        let bytes = disk::read(&path, segment.rows.div_ceil(64) as u64 * 8)?;
        deleted.seal.check(&path, &StoreFileDigest::of(&bytes))?;
        let deleted_rows =
            DeletedRows { words: bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect() };
        if deleted_rows.words.len() != segment.rows.div_ceil(64) || deleted_rows.count() != deleted.rows {
            let expected = format!("{} of {}, as in the version's manifest", deleted.rows, segment.rows);
            return Err(Error::store(&path, "the number of deleted rows", deleted_rows.count(), expected));
        }
        Ok(deleted_rows)
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.words[row / 64] >> (row % 64) & 1 == 1
    }

    pub(super) fn insert(&mut self, row: usize) {
        self.words[row / 64] |= 1 << (row % 64);
    }

    pub(super) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Writes the bitmap to `tmp/name`.
    pub(super) fn write(&self, tmp: &Path, name: String) -> Result<DeletedFile> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        operation::write(&tmp.join(&name), &bytes)?;
        Ok(DeletedFile { name, rows: self.count(), seal: StoreFileDigest::of(&bytes) })
    }
}
