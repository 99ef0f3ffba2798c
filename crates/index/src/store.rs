//! A store: a folder of embeddings with atomic appends and deletions, which can be searched while a process writes to
//! it.
//!
//! # Layout (version 1)
//!
//! | path | content |
//! |---|---|
//! | `versions/NNNNNNNN.json` | manifest of version N: space, root, segments, deleted rows, lengths and checksums |
//! | `segments/NNNNNNNN/` | rows added by version N: an embedding set in the format of [`conifer_embeddings`] |
//! | `deleted/NNNNNNNN-MMMMMMMM.bits` | bitmap of the rows of segment M that are deleted as of version N |
//! | `lock`, `tmp/` | the lock of the writer; unfinished files, see below |
//!
//! A manifest holds the length and the sha256 of every file of its version. The last field of a manifest is the sha256
//! of the bytes before that field. A bitmap has one bit per row, in little-endian 64-bit words.
//!
//! A file never changes once it has its final name. The writer creates every file in `tmp/`, flushes it to the disk and
//! renames it. The manifest of the version is renamed last. So a reader needs no lock and sees either all of a version
//! or nothing of it. A process that is killed, or a machine that stops, leaves the store at its last version. The files
//! of a version exist until [`Store::gc`] removes the version. A reader that has opened them can read them even then. A
//! new store is created in a temporary folder next to its path, which is then renamed ([`Store::create_with`]).
//!
//! The next writer removes unfinished work, which it identifies by marker files in `tmp/`. It removes nothing else. The
//! manifest of a version is its own marker. Until the rename that commits the version, the marker is
//! `tmp/NNNNNNNN.begun`, and the files created for the version belong to no version. To remove a version, its manifest
//! is first renamed to `tmp/NNNNNNNN.removed`. The files that no other version needs are deleted next, and the marker
//! last. Files that no manifest lists and that have no marker ([`Store::unlisted`]) stay, for example after the user
//! has moved the manifest of a damaged version to another path. A new version gets a number above every number in use
//! in the store.

mod disk;
mod segment;
mod snapshot;
#[cfg(test)]
mod tests;
mod upkeep;
mod version;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use conifer_embeddings::{Element, EmbeddingSet, Modality};
use conifer_files::operation;
use conifer_geometry::{ManifoldSpec, Root};

use crate::error::{Error, Result};
use segment::{DeletedRows, SegmentContent};
pub use snapshot::Snapshot;
pub use upkeep::{Removed, StoreCheck};
pub use version::Version;
use version::{Segment, VersionManifest, file_name, number_of};
use writer::Writer;

/// A store of embeddings on disk, see [`Store::append`], [`Store::delete`] and [`Store::snapshot`].
///
/// Row numbers belong to a version: its rows are numbered in the order in which they were appended, without the deleted
/// ones.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    /// The final path, for messages, while the store is created in a temporary folder.
    name: Option<PathBuf>,
}

/// Handling of rows whose id and modality the store already has, in [`Store::append_with`]. (A photo and its caption
/// may share an id.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Append nothing and return [`Error::Repeated`].
    Refuse,
    /// Append the other rows.
    Skip,
    /// Append all rows.
    Keep,
}

/// The result of [`Store::append_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The version with the new rows, or the newest version if no row was appended.
    pub version: Version,
    /// Number of rows that were not appended.
    pub skipped: usize,
}

/// The result of [`Store::delete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The version without the rows, or the newest version if no row was deleted.
    pub version: Version,
    /// Number of deleted rows.
    pub rows: usize,
    /// Ids that no row has.
    pub absent: Vec<String>,
}

const VERSIONS: &str = "versions";
const SEGMENTS: &str = "segments";
const DELETED: &str = "deleted";
const TMP: &str = "tmp";
const LOCK: &str = "lock";
const FOLDERS: [&str; 4] = [SEGMENTS, DELETED, TMP, VERSIONS];
/// Maximum number of attempts to open the newest version. An attempt is repeated if its version is removed
/// concurrently.
const TRIES: usize = 16;

impl Store {
    /// Creates an empty store for points of one space with one root. Coordinates are stored as `element`:
    /// [`Element::F16`] takes half the disk space and rounds every coordinate to 11 significant bits.
    ///
    /// # Errors
    /// Returns the errors of [`Store::create_with`].
    pub fn create(dir: &Path, spec: ManifoldSpec, root: Root, element: Element) -> Result<Self> {
        Ok(Self::create_with(dir, spec, root, element, |_| Ok::<(), Error>(()))?.0)
    }

    /// As [`Store::create`], and lets `fill` add rows before the store becomes visible. The store is created in a
    /// temporary folder next to `dir`, which is renamed to `dir` after `fill` has succeeded. So either a complete store
    /// appears at `dir` or nothing.
    ///
    /// # Errors
    /// Fails if `dir` is a store or contains other files, if the spec or the root is invalid, if `element` is
    /// [`Element::BF16`], if a file operation fails, or with the error of `fill`. `dir` is then unchanged, or holds the
    /// complete store if only the final flush failed.
    pub fn create_with<T, E: From<Error> + From<conifer_files::Error>>(
        dir: &Path,
        spec: ManifoldSpec,
        root: Root,
        element: Element,
        fill: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        spec.check().map_err(Error::from)?;
        root.check(&spec).map_err(Error::from)?;
        if element == Element::BF16 {
            return Err(Error::store(dir, "the element type", element.name(), "F32 or F16").into());
        }
        let store = Store { dir: dir.to_owned(), name: None };
        // Remains of an interrupted creation by an older version of conifer may be replaced.
        let may_replace = |_: &Path| -> Result<(), E> {
            store.check_empty()?;
            Ok(store.clear_begun()?)
        };
        let filled = conifer_files::create_folder(dir, may_replace, |fresh| {
            let made = Store { dir: fresh.to_owned(), name: Some(dir.to_owned()) };
            for folder in FOLDERS {
                operation::create_dir_all(&fresh.join(folder))?;
            }
            operation::sync(fresh)?;
            made.publish(&VersionManifest::new(spec, root, element), &[])?;
            fill(&made)
        })?;
        Ok((store, filled))
    }

    /// Opens a store.
    ///
    /// # Errors
    /// Fails if `dir` is not a store, or if its newest version is damaged or was written by a later version of conifer.
    pub fn open(dir: &Path) -> Result<Self> {
        let store = Store { dir: dir.to_owned(), name: None };
        store.newest()?;
        Ok(store)
    }

    /// Opens a store whose newest version may be damaged, for [`Store::check`] or to read an older version.
    ///
    /// # Errors
    /// Fails if `dir` is not a store.
    pub fn open_any(dir: &Path) -> Result<Self> {
        let store = Store { dir: dir.to_owned(), name: None };
        if store.newest_number()?.is_none() {
            return Err(store.no_version());
        }
        Ok(store)
    }

    /// True if a folder looks like a store, as opposed to an embedding set.
    pub fn is_store(dir: &Path) -> bool {
        dir.join(VERSIONS).is_dir()
    }

    /// The folder of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path for messages: the final path of the store.
    fn name(&self) -> &Path {
        self.name.as_deref().unwrap_or(&self.dir)
    }

    /// The space of the points.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`].
    pub fn spec(&self) -> Result<ManifoldSpec> {
        Ok(self.newest()?.spec)
    }

    /// The root of the hierarchy of the points.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`].
    pub fn root(&self) -> Result<Root> {
        Ok(self.newest()?.root)
    }

    /// The number type in which coordinates are stored.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`].
    pub fn element(&self) -> Result<Element> {
        Ok(self.newest()?.element())
    }

    /// The newest version.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`].
    pub fn version(&self) -> Result<Version> {
        Ok(self.newest()?.version())
    }

    /// The existing versions, oldest first.
    ///
    /// # Errors
    /// Fails if one of them is damaged.
    pub fn versions(&self) -> Result<Vec<Version>> {
        self.numbers()?.into_iter().map(|number| Ok(self.read(number)?.version())).collect()
    }

    /// Opens the rows of the newest version for a search.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`]. Fails if a file of the version is missing, has a wrong length, or is
    /// damaged. The points are not read, so damage in them is not found here.
    pub fn snapshot(&self) -> Result<Snapshot> {
        for _ in 1..TRIES {
            let newest = self.newest_number()?;
            match self.newest().and_then(|manifest| Snapshot::assemble(&self.dir, &manifest)) {
                // The version may have been removed after a newer one was committed.
                Err(_) if self.newest_number()? != newest => {}
                other => return other,
            }
        }
        Snapshot::assemble(&self.dir, &self.newest()?)
    }

    /// Opens the rows of an older version.
    ///
    /// # Errors
    /// Fails if there is no such version. Returns the errors of [`Store::snapshot`].
    pub fn snapshot_of(&self, number: u64) -> Result<Snapshot> {
        Snapshot::assemble(&self.dir, &self.manifest_of(number)?)
    }

    /// Appends all rows of a set, without a check for duplicates: [`Store::append_with`] with [`Duplicates::Keep`].
    ///
    /// # Errors
    /// Returns the errors of [`Store::append_with`].
    pub fn append(&self, set: &EmbeddingSet, progress: &mut dyn FnMut(usize)) -> Result<Version> {
        Ok(self.append_with(set, Duplicates::Keep, progress)?.version)
    }

    /// Appends the rows of a set to the rows of the store; an empty set changes nothing. `progress` is called with the
    /// number of rows written. When this function returns, the rows are on the disk. Unless duplicates are kept, this
    /// function reads the ids of all rows of the store.
    ///
    /// # Errors
    /// Fails if the set has another space, root or (if both are known) other weights than the store, if it has
    /// duplicates and they are refused, if another process writes to the store, or if a file operation fails. The store
    /// is then unchanged, unless only the final flush failed: the new version is then visible, but may be lost in a
    /// power failure. The message says so.
    pub fn append_with(
        &self,
        set: &EmbeddingSet,
        duplicates: Duplicates,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Appended> {
        set.check()?;
        let writer = Writer::begin(self)?;
        self.check_fits(&writer.newest, set)?;
        let repeated = if duplicates == Duplicates::Keep { vec![] } else { self.repeated(&writer.newest, set)? };
        if let (Duplicates::Refuse, Some(first)) = (duplicates, repeated.first()) {
            return Err(Error::Repeated {
                path: self.name().to_owned(),
                rows: repeated.len(),
                of: set.len(),
                id: set.ids[*first].clone(),
                modality: set.modality[*first].name(),
            });
        }
        if repeated.len() == set.len() {
            return Ok(Appended { version: writer.newest.version(), skipped: repeated.len() });
        }
        if repeated.is_empty() {
            return Ok(Appended { version: Self::write_rows(writer, set, progress)?, skipped: 0 });
        }
        let mut new = vec![true; set.len()];
        repeated.iter().for_each(|row| new[*row] = false);
        let rest: Vec<usize> = (0..set.len()).filter(|row| new[*row]).collect();
        let version = Self::write_rows(writer, &set.select(&rest)?, progress)?;
        Ok(Appended { version, skipped: repeated.len() })
    }

    /// Rows of a set whose id and modality the store already has.
    fn repeated(&self, newest: &VersionManifest, set: &EmbeddingSet) -> Result<Vec<usize>> {
        // Maps an id to the modalities of the rows of the store with this id.
        let mut there: HashMap<&str, Vec<Modality>> = set.ids.iter().map(|id| (id.as_str(), Vec::new())).collect();
        for segment in &newest.segments {
            let (rows, deleted_rows) = segment::open(&self.dir, segment)?;
            for (row, (id, modality)) in rows.ids.iter().zip(&rows.modality).enumerate() {
                if let Some(found) = there.get_mut(id.as_str())
                    && !deleted_rows.contains(row)
                    && !found.contains(modality)
                {
                    found.push(*modality);
                }
            }
        }
        Ok((0..set.len()).filter(|row| there[set.ids[*row].as_str()].contains(&set.modality[*row])).collect())
    }

    fn write_rows(writer: Writer<'_>, set: &EmbeddingSet, progress: &mut dyn FnMut(usize)) -> Result<Version> {
        let content = SegmentContent {
            spec: &set.spec,
            root: &set.root,
            source: set.source.clone(),
            rows: set.len(),
            columns: &set.columns,
            ids: &set.ids,
            modality: &set.modality,
            point: &|i| set.row(i).into(),
        };
        let mut next = writer.next("append")?;
        if next.weights.is_empty() {
            next.weights.clone_from(&set.source.weights);
        }
        writer.with_segment(next, &content, progress)
    }

    /// Deletes all rows that have one of these ids. (A photo and its caption may share an id.)
    ///
    /// # Errors
    /// Returns the errors of [`Store::snapshot`]. Fails if another process writes to the store or if a file operation
    /// fails. The store is then unchanged, unless only the final flush failed, see [`Store::append_with`].
    pub fn delete(&self, ids: &[String]) -> Result<Deletion> {
        let mut wanted: HashMap<&str, bool> = ids.iter().map(|id| (id.as_str(), false)).collect();
        let writer = Writer::begin(self)?;
        let mut deleted_rows = Vec::new();
        for segment in &writer.newest.segments {
            let (set, mut rows) = segment::open(&self.dir, segment)?;
            for (i, id) in set.ids.iter().enumerate() {
                if let Some(found) = wanted.get_mut(id.as_str())
                    && !rows.contains(i)
                {
                    *found = true;
                    rows.insert(i);
                }
            }
            deleted_rows.push(rows);
        }
        let absent = ids.iter().filter(|id| wanted.remove(id.as_str()) == Some(false)).cloned().collect();
        let (version, rows) = writer.without(&deleted_rows)?;
        Ok(Deletion { version, rows, absent })
    }

    /// Deletes rows by their row numbers in version `number`. Rows that were deleted since then are ignored.
    ///
    /// # Errors
    /// Fails if there is no such version, if it does not have one of the rows, or if its rows were compacted since then
    /// ([`Store::compact`]). Returns the errors of [`Store::delete`].
    pub fn delete_rows(&self, number: u64, rows: &[usize]) -> Result<Deletion> {
        let writer = Writer::begin(self)?;
        let old_version = self.manifest_of(number)?;
        let mut locations = Vec::new();
        for (i, segment) in old_version.segments.iter().enumerate() {
            let (set, deleted_rows) = segment::open(&self.dir, segment)?;
            locations.extend((0..set.len()).filter(|row| !deleted_rows.contains(*row)).map(|row| (i, row)));
        }
        let position = |old: &Segment| writer.newest.segments.iter().position(|it| it.name == old.name);
        let open = |it: &Segment| Ok(segment::open(&self.dir, it)?.1);
        let mut deleted_rows: Vec<DeletedRows> = writer.newest.segments.iter().map(open).collect::<Result<_>>()?;
        for row in rows {
            let Some((segment, location)) = locations.get(*row) else {
                let expected = format!("a row below {}, of version {number}", locations.len());
                return Err(Error::store(&self.dir, "a row to delete", row, expected));
            };
            let Some(now) = position(&old_version.segments[*segment]) else {
                let found = format!("of version {number}, older than the last compaction");
                return Err(Error::store(&self.dir, "a row to delete", found, "a row of a later version"));
            };
            deleted_rows[now].insert(*location);
        }
        let (version, rows) = writer.without(&deleted_rows)?;
        Ok(Deletion { version, rows, absent: Vec::new() })
    }

    /// Copies all rows into one segment and drops the deleted rows. Does nothing if there is at most one segment and no
    /// deleted row. A store without rows has no segment afterwards. Row numbers do not change. [`Store::gc`] frees the
    /// disk space of the older versions. `progress` is called with the number of rows written.
    ///
    /// # Errors
    /// Returns the errors of [`Store::snapshot`] and of [`Snapshot::check`]. Fails if another process writes to the
    /// store or if a file operation fails. The store is then unchanged, unless only the final flush failed, see
    /// [`Store::append_with`].
    pub fn compact(&self, progress: &mut dyn FnMut(usize)) -> Result<Version> {
        let writer = Writer::begin(self)?;
        if writer.newest.segments.iter().all(|it| it.deleted.is_none()) && writer.newest.segments.len() <= 1 {
            return Ok(writer.newest.version());
        }
        let rows = Snapshot::assemble(&self.dir, &writer.newest)?;
        rows.check()?;
        let mut next = writer.next("compact")?;
        next.segments.clear();
        if rows.is_empty() {
            return writer.commit(&next, &[]);
        }
        let content = SegmentContent {
            spec: &rows.spec,
            root: &rows.root,
            source: rows.source.clone(),
            rows: rows.len(),
            columns: &rows.columns,
            ids: &rows.ids,
            modality: &rows.modality,
            point: &|i| rows.row(i),
        };
        writer.with_segment(next, &content, progress)
    }

    /// Checks that a set can be appended to the store.
    fn check_fits(&self, newest: &VersionManifest, set: &EmbeddingSet) -> Result<()> {
        if set.spec != newest.spec {
            let (found, expected) = (set.spec.to_string(), newest.spec.to_string());
            let (found, expected) = if found == expected {
                (format!("{:?}", set.spec), format!("{:?}", newest.spec))
            } else {
                (found, expected)
            };
            return Err(Error::store(self.name(), "the space of a set to append", found, expected));
        }
        if set.root != newest.root {
            let describe = |root: &Root| match root {
                Root::Origin => "the origin".to_owned(),
                Root::Point(point) => {
                    format!("the point that begins with {:?}", point.iter().take(3).collect::<Vec<_>>())
                }
            };
            let (found, expected) = (describe(&set.root), describe(&newest.root));
            return Err(Error::store(self.name(), "the root of a set to append", found, expected));
        }
        let (found, known) = (&set.source.weights, &newest.weights);
        if !found.is_empty() && !known.is_empty() && found != known {
            let found = format!("sha256 {found} ({})", set.source.model);
            let expected = format!("{known}: points of different models are not comparable");
            return Err(Error::store(self.name(), "the weights that made a set to append", found, expected));
        }
        if newest.rows() + set.len() >= u32::MAX as usize {
            let found = newest.rows() + set.len();
            return Err(Error::store(self.name(), "the number of rows", found, "less than 2^32"));
        }
        Ok(())
    }

    /// The numbers of the existing versions, in order.
    fn numbers(&self) -> Result<Vec<u64>> {
        let names = disk::names(&self.dir.join(VERSIONS))?;
        let of_version = |name: &String| number_of(name).filter(|number| *name == file_name(*number));
        let mut numbers: Vec<u64> = names.iter().filter_map(of_version).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn newest_number(&self) -> Result<Option<u64>> {
        Ok(self.numbers()?.last().copied())
    }

    /// The manifest of the newest version. Fails if that manifest is damaged: an older version would silently lack
    /// committed changes.
    fn newest(&self) -> Result<VersionManifest> {
        for _ in 1..TRIES {
            let number = self.newest_number()?.ok_or_else(|| self.no_version())?;
            match self.read(number) {
                Err(_) if self.newest_number()? != Some(number) => {}
                other => return other,
            }
        }
        self.read(self.newest_number()?.ok_or_else(|| self.no_version())?)
    }

    fn manifest_of(&self, number: u64) -> Result<VersionManifest> {
        let numbers = self.numbers()?;
        if !numbers.contains(&number) {
            let there = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::store(
                &self.dir,
                "the version",
                number,
                format!("one of the existing versions: {there}"),
            ));
        }
        self.read(number)
    }

    fn read(&self, number: u64) -> Result<VersionManifest> {
        VersionManifest::read(&self.dir.join(VERSIONS).join(file_name(number)), number)
    }

    fn no_version(&self) -> Error {
        let found = if !self.dir.exists() {
            "not there"
        } else if self.dir.join("manifest.json").exists() {
            "an embedding set without versions"
        } else {
            "without a version"
        };
        Error::store(&self.dir, "the folder", found, "a store (`conifer store create` makes one)")
    }
}
