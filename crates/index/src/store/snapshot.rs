//! The rows of a store at one version, or of an embedding set, for searches.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use conifer_embeddings::{Element, StoredSet, sha256_hex};
use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::safe::{FARTHEST, UNIT_TOLERANCE};
use conifer_geometry::{ManifoldSpec, Root, space};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::Store;
use super::segment::{self, DeletedRows};
use super::version::VersionManifest;
use crate::error::{Error, Result};
use crate::mapped::MappedCoordinate;
use crate::rows::{GatheredRows, PointRows, RowLocation};

/// Number of rows that one thread hashes at a time.
const HASHED: usize = 4096;

/// Rows with their metadata. The points are in memory or in memory-mapped files, which stay readable if the store
/// changes. Indexes over a snapshot ([`FlatIndex::on`](crate::FlatIndex::on)) share them.
#[derive(Clone)]
pub struct Snapshot {
    /// The space of the points.
    pub spec: ManifoldSpec,
    /// The root of the hierarchy, to which depths and exterior angles refer.
    pub root: Root,
    /// One name per row, not necessarily unique.
    pub ids: Vec<String>,
    /// The kind of item that each row embeds.
    pub modality: Vec<Modality>,
    /// Metadata: one text per row and column, empty if the row was added without the column.
    pub columns: BTreeMap<String, Vec<String>>,
    /// Origin of the points: model, data and weights.
    pub source: Provenance,
    version: Option<u64>,
    /// sha256 of the manifest of the version, if the snapshot has all rows of the version.
    sealed: Option<String>,
    pub(crate) rows: PointRows,
}

impl Snapshot {
    /// Opens a folder that is an embedding set or a store. For a store, opens its newest version.
    ///
    /// # Errors
    /// Returns the errors of [`EmbeddingSet::load`] or of [`Store::snapshot`].
    pub fn open(dir: &Path) -> Result<Self> {
        if Store::is_store(dir) {
            return Store::open(dir)?.snapshot();
        }
        Ok(Self::loaded(EmbeddingSet::load(dir)?))
    }

    /// Makes a snapshot of a set in memory. The points are moved, not copied.
    ///
    /// # Errors
    /// Fails if the set does not pass [`EmbeddingSet::check`].
    pub fn of(set: EmbeddingSet) -> Result<Self> {
        set.check()?;
        Ok(Self::loaded(set))
    }

    fn loaded(set: EmbeddingSet) -> Self {
        let EmbeddingSet { spec, root, ids, modality, points, columns, source } = set;
        Snapshot {
            spec,
            root,
            ids,
            modality,
            columns,
            source,
            version: None,
            sealed: None,
            rows: PointRows::owned(points),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The version number of the store; `None` for a set.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// The space components of row `i`, which must be below [`Snapshot::len`].
    pub fn row(&self, i: usize) -> Cow<'_, [f32]> {
        self.rows.get(i, self.spec.dim)
    }

    /// A sha256 by which processes can check that they opened the same rows. For a version of a store it is the sha256
    /// of the manifest, which holds the checksums of all files. For other rows it is the sha256 of the points and their
    /// metadata.
    ///
    /// # Errors
    /// Fails if the space cannot be encoded as JSON, which does not happen for a checked set.
    pub fn fingerprint(&self) -> Result<String> {
        if let Some(sealed) = &self.sealed {
            return Ok(sealed.clone());
        }
        let names: Vec<&String> = self.columns.keys().collect();
        let head = serde_json::to_string(&(self.len(), &self.spec, &self.root, &self.source.weights, names))
            .map_err(|e| Error::invalid("the space of a set", e, "values that JSON can hold"))?;
        let blocks: Vec<usize> = (0..self.len()).step_by(HASHED).collect();
        let blocks: Vec<_> =
            blocks.into_par_iter().map(|first| self.hash(first..(first + HASHED).min(self.len()))).collect();
        let mut all = Sha256::new_with_prefix(head);
        blocks.iter().for_each(|it| all.update(it));
        Ok(hex::encode(all.finalize()))
    }

    fn hash(&self, rows: Range<usize>) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut bytes = Vec::new();
        for i in rows {
            bytes.clear();
            let columns = self.columns.values().map(|it| it[i].as_str());
            for text in [self.ids[i].as_str(), self.modality[i].name()].into_iter().chain(columns) {
                // A length prefix makes the boundaries between texts unambiguous.
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            bytes.extend(self.row(i).iter().flat_map(|it| it.to_le_bytes()));
            hash.update(&bytes);
        }
        hash.finalize().into()
    }

    /// Selects rows, in the given order. Their points are not copied.
    ///
    /// # Errors
    /// Fails if a row number is out of range.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|row| **row >= self.len()) {
            return Err(Error::invalid("a selected row", row, format!("a row below {}", self.len())));
        }
        let pick = |list: &Vec<String>| rows.iter().map(|row| list[*row].clone()).collect();
        Ok(Snapshot {
            spec: self.spec.clone(),
            root: self.root.clone(),
            ids: pick(&self.ids),
            modality: rows.iter().map(|row| self.modality[*row]).collect(),
            columns: self.columns.iter().map(|(name, column)| (name.clone(), pick(column))).collect(),
            source: self.source.clone(),
            version: self.version,
            sealed: None,
            rows: self.rows.select(rows),
        })
    }

    /// Copies the rows to a set in memory.
    pub fn to_set(&self) -> EmbeddingSet {
        EmbeddingSet {
            spec: self.spec.clone(),
            root: self.root.clone(),
            ids: self.ids.clone(),
            modality: self.modality.clone(),
            points: (0..self.len()).flat_map(|i| self.row(i).into_owned()).collect(),
            columns: self.columns.clone(),
            source: self.source.clone(),
        }
    }

    /// Reads all points and checks that they are valid points of the space.
    ///
    /// # Errors
    /// Fails if a coordinate is not finite, or if a row is not on the space or is farther out than [`FARTHEST`]. Each
    /// of these faults means that a file is damaged.
    pub fn check(&self) -> Result<()> {
        let space = space::<f32>(&self.spec)?;
        let wrong = |i: usize| {
            let row = self.row(i);
            let off = space.off_manifold(&row);
            let is_none = row.iter().any(|v| !v.is_finite()) || self.spec.reach(&row) > FARTHEST;
            (is_none || f64::from(off) > UNIT_TOLERANCE).then_some((i, off))
        };
        match (0..self.len()).into_par_iter().find_map_first(wrong) {
            None => Ok(()),
            Some((i, off)) => {
                let found = format!("not a point of the {} (off by {off})", self.spec);
                let expected = "a valid point: a file is damaged (run `conifer store check` to find it)";
                Err(Error::invalid(format!("row {i} (`{}`)", self.ids[i]), found, expected))
            }
        }
    }

    /// Opens the rows of a version of the store `dir`.
    pub(super) fn assemble(dir: &Path, manifest: &VersionManifest) -> Result<Self> {
        let mut segments: Vec<(StoredSet, DeletedRows)> =
            manifest.segments.par_iter().map(|it| segment::open(dir, it)).collect::<Result<_>>()?;
        for (set, _) in &segments {
            let found = &set.element;
            if *found != manifest.element() || set.spec != manifest.spec {
                let found = format!("{} as {}", set.spec, found.name());
                let expected =
                    format!("{} as {}, as in the version's manifest", manifest.spec, manifest.element().name());
                return Err(Error::store(&set.points, "the space and the element type of the points", found, expected));
            }
        }
        let rows = match manifest.element() {
            Element::F16 => PointRows::F16(gather(&segments)?),
            _ => PointRows::F32(gather(&segments)?),
        };
        let names: BTreeSet<String> = segments.iter().flat_map(|(set, _)| set.columns.keys().cloned()).collect();
        let mut columns = BTreeMap::new();
        for name in names {
            let mut all = Vec::with_capacity(manifest.rows());
            for (set, deleted_rows) in &mut segments {
                match set.columns.remove(&name) {
                    Some(column) => all.extend(not_deleted(column, deleted_rows)),
                    None => all.resize(all.len() + set.len() - deleted_rows.count(), String::new()),
                }
            }
            columns.insert(name, all);
        }
        let source = source_of(segments.iter().map(|(set, _)| &set.source), &manifest.weights);
        let (mut ids, mut modality) = (Vec::with_capacity(manifest.rows()), Vec::with_capacity(manifest.rows()));
        for (set, deleted_rows) in segments {
            modality.extend(not_deleted(set.modality, &deleted_rows));
            ids.extend(not_deleted(set.ids, &deleted_rows));
        }
        let (spec, root) = (manifest.spec.clone(), manifest.root.clone());
        let sealed = Some(sha256_hex(&manifest.encode()?));
        Ok(Snapshot { spec, root, ids, modality, columns, source, version: Some(manifest.number), sealed, rows })
    }
}

/// The points of all segments. A single segment without deletions is used as it is; otherwise rows are listed by
/// location.
fn gather<E: MappedCoordinate>(segments: &[(StoredSet, DeletedRows)]) -> Result<GatheredRows<E>> {
    let numbers = segments.iter().map(|(set, _)| segment::points(set)).collect::<Result<Vec<_>>>()?;
    if let ([(_, deleted_rows)], [array]) = (segments, &numbers[..])
        && deleted_rows.count() == 0
    {
        return Ok(GatheredRows::single(array.clone()));
    }
    let mut locations =
        Vec::with_capacity(segments.iter().map(|(set, deleted_rows)| set.len() - deleted_rows.count()).sum());
    for (array, (set, deleted_rows)) in segments.iter().enumerate() {
        let rows = (0..set.len()).filter(|row| !deleted_rows.contains(*row));
        locations.extend(rows.map(|row| RowLocation { array: array as u32, row: row as u32 }));
    }
    Ok(GatheredRows::gathered(numbers, locations))
}

/// The values of the rows that are not deleted.
fn not_deleted<T>(values: Vec<T>, deleted_rows: &DeletedRows) -> impl Iterator<Item = T> {
    values.into_iter().enumerate().filter(|(row, _)| !deleted_rows.contains(*row)).map(|(_, value)| value)
}

/// Merges the origins of the segments: every distinct name once, and one hash over several hashes.
fn source_of<'a>(sources: impl Iterator<Item = &'a Provenance> + Clone, weights: &str) -> Provenance {
    let names = |field: fn(&Provenance) -> &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in sources.clone().map(field) {
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let hashes = names(|it| &it.hash);
    Provenance {
        model: names(|it| &it.model).join(" + "),
        data: names(|it| &it.data).join(" + "),
        hash: if let [one] = hashes[..] { one.to_owned() } else { many(&hashes) },
        conifer: names(|it| &it.conifer).join(" + "),
        weights: weights.to_owned(),
    }
}

fn many(hashes: &[&str]) -> String {
    if hashes.is_empty() { String::new() } else { sha256_hex(hashes.concat().as_bytes()) }
}
