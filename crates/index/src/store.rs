//! A folder of embeddings that grows and shrinks, and is searched meanwhile.
//!
//! # Layout (version 1)
//!
//! | path | content |
//! |---|---|
//! | `versions/NNNNNNNN.json` | what the store holds at version N: space, root, segments, deleted rows, with length and sha256 of every file; its last field is the sha256 of the bytes before it |
//! | `segments/NNNNNNNN/` | rows that came with version N: a set of embeddings, in the format of [`conifer_space::points`] |
//! | `deleted/NNNNNNNN-MMMMMMMM.bits` | which rows of segment M are gone since version N: a bit for each, in little-endian words of 64 |
//! | `lock`, `tmp/` | held by the one who writes; what is not finished |
//!
//! A file is never changed once it has its name: everything is made in `tmp/`, flushed to the disk and renamed, the file of the
//! version last. So a reader, who needs no lock, sees a version whole or not at all, and a process that is killed (or a machine that
//! stops) leaves the store at its last version; what it had begun is removed by the next one that writes. Files that a version
//! needs stay until [`Store::gc`] removes the version; a reader that has opened them keeps them even then.

mod disk;
mod segment;
mod snapshot;
#[cfg(test)]
mod tests;
mod version;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use conifer_space::points::{Element, StoredSet};
use conifer_space::{EmbeddingSet, ManifoldSpec, Root};

use crate::error::{Error, Result};
use disk::Seal;
use segment::{Content, Gone};
pub use snapshot::Snapshot;
pub use version::Version;
use version::{Manifest, Segment, file_name, name, number_of};

/// A store of embeddings on disk, see [`Store::append`], [`Store::delete`] and [`Store::snapshot`].
///
/// Rows are numbered per version: those that are there, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// What [`Store::delete`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The version without them; the newest one, where nothing was deleted.
    pub version: Version,
    /// Rows that are gone.
    pub rows: usize,
    /// Ids that no row had.
    pub absent: Vec<String>,
}

/// What [`Store::check`] found.
#[derive(Debug)]
pub struct Report {
    /// Versions that were looked at.
    pub versions: usize,
    /// Files that were read, every byte of them.
    pub files: usize,
    /// Their size.
    pub bytes: u64,
    /// What is wrong, with the name of the file.
    pub damage: Vec<Error>,
}

/// What [`Store::gc`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Versions.
    pub versions: usize,
    /// Segments that no version needs any more.
    pub segments: usize,
}

const VERSIONS: &str = "versions";
const SEGMENTS: &str = "segments";
const DELETED: &str = "deleted";
const TMP: &str = "tmp";
const LOCK: &str = "lock";
const FOLDERS: [&str; 4] = [SEGMENTS, DELETED, TMP, VERSIONS];
/// How often a reader looks for a newer version when the one it reads is removed under its hands.
const TRIES: usize = 16;

impl Store {
    /// Makes an empty store for points of one space, seen from one root, which it keeps as `element`: [`Element::F16`] takes half the
    /// space and rounds every coordinate to 11 significant bits.
    ///
    /// # Errors
    /// `dir` is a store already or holds other files; a spec or root that is not valid; [`Element::BF16`]; the system refuses.
    pub fn create(dir: &Path, spec: ManifoldSpec, root: Root, element: Element) -> Result<Self> {
        spec.check()?;
        root.check(&spec)?;
        if element == Element::BF16 {
            return Err(Error::store(dir, "the form of its numbers", element.name(), "F32 or F16"));
        }
        let store = Store { dir: dir.to_owned() };
        let ours = |name: &String| FOLDERS.contains(&name.as_str()) || name == LOCK;
        if let Some(other) = disk::names(dir)?.iter().find(|name| !ours(name)) {
            return Err(Error::store(dir, "an entry", format!("`{other}`"), "an empty folder, or none yet"));
        }
        disk::create_dir(dir)?;
        let _lock = disk::lock(&dir.join(LOCK), dir)?;
        if store.newest_number()?.is_some() {
            return Err(Error::store(dir, "the folder", "a store already", "an empty folder, or none yet"));
        }
        for folder in FOLDERS {
            disk::create_dir(&dir.join(folder))?;
        }
        disk::sync(dir)?;
        if let Some(parent) = dir.parent().filter(|it| !it.as_os_str().is_empty()) {
            disk::sync(parent)?;
        }
        store.publish(&Manifest::new(spec, root, element))?;
        Ok(store)
    }

    /// Opens a store.
    ///
    /// # Errors
    /// `dir` is no store; its newest version is damaged or was written by a later conifer.
    pub fn open(dir: &Path) -> Result<Self> {
        let store = Store { dir: dir.to_owned() };
        store.newest()?;
        Ok(store)
    }

    /// Opens a store whose newest version may be damaged, to [`Store::check`] it or to read an older one.
    ///
    /// # Errors
    /// `dir` is no store.
    pub fn open_any(dir: &Path) -> Result<Self> {
        let store = Store { dir: dir.to_owned() };
        if store.newest_number()?.is_none() {
            return Err(store.no_version());
        }
        Ok(store)
    }

    /// Whether a folder looks like a store (and not like a set of embeddings).
    pub fn is_store(dir: &Path) -> bool {
        dir.join(VERSIONS).is_dir()
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The space of its points.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn spec(&self) -> Result<ManifoldSpec> {
        Ok(self.newest()?.spec)
    }

    /// The root from which its points are seen.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn root(&self) -> Result<Root> {
        Ok(self.newest()?.root)
    }

    /// How it keeps its numbers.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn element(&self) -> Result<Element> {
        Ok(self.newest()?.element())
    }

    /// The newest version.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn version(&self) -> Result<Version> {
        Ok(self.newest()?.version())
    }

    /// The versions that are still there, oldest first.
    ///
    /// # Errors
    /// One of them is damaged.
    pub fn versions(&self) -> Result<Vec<Version>> {
        self.numbers()?.into_iter().map(|number| Ok(self.read(number)?.version())).collect()
    }

    /// The rows of the newest version, to search.
    ///
    /// # Errors
    /// Those of [`Store::open`]; a file of the version is missing, of another length, or (but for the points, which are not read) damaged.
    pub fn snapshot(&self) -> Result<Snapshot> {
        for _ in 1..TRIES {
            let newest = self.newest_number()?;
            match self.newest().and_then(|manifest| Snapshot::assemble(&self.dir, &manifest)) {
                // Perhaps because somebody removed that version, once there was a newer one.
                Err(_) if self.newest_number()? != newest => {}
                other => return other,
            }
        }
        Snapshot::assemble(&self.dir, &self.newest()?)
    }

    /// The rows of an older version.
    ///
    /// # Errors
    /// No such version; those of [`Store::snapshot`].
    pub fn snapshot_of(&self, number: u64) -> Result<Snapshot> {
        Snapshot::assemble(&self.dir, &self.known(number)?)
    }

    /// Adds the rows of a set behind those that are there; an empty set adds nothing. `progress` hears how many are written. When this
    /// returns, the rows are on the disk.
    ///
    /// # Errors
    /// A set of another space, root or (where both say which) other weights than the rows that are there; somebody else writes; the system
    /// refuses. The store is what it was then.
    pub fn append(&self, set: &EmbeddingSet, progress: &mut dyn FnMut(usize)) -> Result<Version> {
        set.check()?;
        let mut writer = Writer::begin(self)?;
        self.check_fits(&writer.newest, set)?;
        if set.is_empty() {
            return Ok(writer.newest.version());
        }
        let content = Content {
            spec: &set.spec,
            root: &set.root,
            source: set.source.clone(),
            rows: set.len(),
            columns: &set.columns,
            ids: &set.ids,
            modality: &set.modality,
            point: &|i| set.row(i).into(),
        };
        let mut next = writer.newest.next("append");
        let added = writer.segment(&next, &content, progress)?;
        next.segments.push(added);
        if next.weights.is_empty() {
            next.weights.clone_from(&set.source.weights);
        }
        writer.commit(next)
    }

    /// Deletes all rows that have one of these ids (a photo and its caption may share one).
    ///
    /// # Errors
    /// Those of [`Store::snapshot`]; somebody else writes; the system refuses. The store is what it was then.
    pub fn delete(&self, ids: &[String]) -> Result<Deletion> {
        let mut wanted: HashMap<&str, bool> = ids.iter().map(|id| (id.as_str(), false)).collect();
        let writer = Writer::begin(self)?;
        let mut gone = Vec::new();
        for segment in &writer.newest.segments {
            let mut rows = Gone::read(&self.dir.join(DELETED), segment)?;
            let set = self.segment(segment)?;
            for (i, id) in set.ids.iter().enumerate() {
                if let Some(found) = wanted.get_mut(id.as_str())
                    && !rows.contains(i)
                {
                    *found = true;
                    rows.insert(i);
                }
            }
            gone.push(rows);
        }
        let absent = ids.iter().filter(|id| wanted.remove(id.as_str()) == Some(false)).cloned().collect();
        let (version, rows) = writer.without(&gone)?;
        Ok(Deletion { version, rows, absent })
    }

    /// Deletes rows by their numbers in one version, which they name; some may be deleted already.
    ///
    /// # Errors
    /// No such version; a row that it does not have; its rows were put together anew since ([`Store::compact`]); those of [`Store::delete`].
    pub fn delete_rows(&self, number: u64, rows: &[usize]) -> Result<Deletion> {
        let writer = Writer::begin(self)?;
        let seen = self.known(number)?;
        let mut places = Vec::new();
        for (i, segment) in seen.segments.iter().enumerate() {
            let gone = Gone::read(&self.dir.join(DELETED), segment)?;
            places.extend((0..segment.rows).filter(|row| !gone.contains(*row)).map(|row| (i, row)));
        }
        let position = |old: &Segment| writer.newest.segments.iter().position(|it| it.name == old.name);
        let deleted = self.dir.join(DELETED);
        let mut gone: Vec<Gone> =
            writer.newest.segments.iter().map(|it| Gone::read(&deleted, it)).collect::<Result<_>>()?;
        for row in rows {
            let Some((segment, place)) = places.get(*row) else {
                let expected = format!("a row below {}, of version {number}", places.len());
                return Err(Error::store(&self.dir, "a row to delete", row, expected));
            };
            let Some(now) = position(&seen.segments[*segment]) else {
                let found = format!("of version {number}, before rows were put together anew");
                return Err(Error::store(&self.dir, "a row to delete", found, "a row of a later version"));
            };
            gone[now].insert(*place);
        }
        let (version, rows) = writer.without(&gone)?;
        Ok(Deletion { version, rows, absent: Vec::new() })
    }

    /// Puts all rows that are there into one segment, and leaves the deleted ones out. Row numbers stay. Space is given back by
    /// [`Store::gc`], once nobody needs the older versions. `progress` hears how many rows are written.
    ///
    /// # Errors
    /// Those of [`Store::snapshot`]; somebody else writes; the system refuses. The store is what it was then.
    pub fn compact(&self, progress: &mut dyn FnMut(usize)) -> Result<Version> {
        let mut writer = Writer::begin(self)?;
        if writer.newest.segments.iter().all(|it| it.deleted.is_none()) && writer.newest.segments.len() <= 1 {
            return Ok(writer.newest.version());
        }
        let rows = Snapshot::assemble(&self.dir, &writer.newest)?;
        rows.check()?;
        let mut next = writer.newest.next("compact");
        next.segments.clear();
        if !rows.is_empty() {
            let content = Content {
                spec: &rows.spec,
                root: &rows.root,
                source: rows.source.clone(),
                rows: rows.len(),
                columns: &rows.columns,
                ids: &rows.ids,
                modality: &rows.modality,
                point: &|i| rows.row(i),
            };
            let all = writer.segment(&next, &content, progress)?;
            next.segments.push(all);
        }
        writer.commit(next)
    }

    /// Removes all but the newest `keep` versions (at least one), and the files that no other version needs.
    ///
    /// # Errors
    /// A version that stays is damaged; somebody else writes; the system refuses.
    pub fn gc(&self, keep: usize) -> Result<Removed> {
        let writer = Writer::begin(self)?;
        let numbers = self.numbers()?;
        let (old, kept) = numbers.split_at(numbers.len().saturating_sub(keep.max(1)));
        let mut needed = BTreeSet::new();
        for number in kept {
            for segment in self.read(*number)?.segments {
                needed.extend(segment.deleted.map(|it| it.name));
                needed.insert(segment.name);
            }
        }
        let mut removed = Removed { versions: old.len(), segments: 0 };
        for number in old {
            disk::remove(&self.dir.join(VERSIONS).join(file_name(*number)))?;
        }
        if !old.is_empty() {
            disk::sync(&self.dir.join(VERSIONS))?;
        }
        for folder in [SEGMENTS, DELETED] {
            for entry in disk::names(&self.dir.join(folder))? {
                if number_of(&entry).is_some() && !needed.contains(&entry) {
                    // Away at once, so that no half of a segment has its name.
                    let aside = self.dir.join(TMP).join(&entry);
                    disk::rename(&self.dir.join(folder).join(&entry), &aside)?;
                    disk::remove(&aside)?;
                    removed.segments += usize::from(folder == SEGMENTS);
                }
            }
        }
        drop(writer);
        Ok(removed)
    }

    /// Reads every byte of every version, and compares it with what was written. `progress` hears of bytes.
    ///
    /// # Errors
    /// `dir` is no store, or cannot be listed. What is wrong with its files is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<Report> {
        let mut report = Report { versions: 0, files: 0, bytes: 0, damage: Vec::new() };
        let mut seals: BTreeMap<PathBuf, Seal> = BTreeMap::new();
        for number in self.numbers()? {
            let manifest = match self.read(number) {
                // Removed meanwhile.
                Err(_) if !self.numbers()?.contains(&number) => continue,
                Err(error) => {
                    report.damage.push(error);
                    continue;
                }
                Ok(manifest) => manifest,
            };
            report.versions += 1;
            report.files += 1;
            for segment in manifest.segments {
                let dir = self.dir.join(SEGMENTS).join(&segment.name);
                seals.extend(segment.files.into_iter().map(|(name, seal)| (dir.join(name), seal)));
                seals.extend(segment.deleted.map(|it| (self.dir.join(DELETED).join(it.name), it.seal)));
            }
        }
        for (path, seal) in seals {
            report.files += 1;
            match Seal::of_file(&path) {
                Ok(found) => {
                    report.bytes += found.bytes;
                    report.damage.extend(seal.check(&path, &found).err());
                }
                Err(error) => report.damage.push(error),
            }
            progress(report.bytes);
        }
        Ok(report)
    }

    /// That a set may join the rows that are there.
    fn check_fits(&self, newest: &Manifest, set: &EmbeddingSet) -> Result<()> {
        if set.spec != newest.spec {
            let (found, expected) = (set.spec.to_string(), newest.spec.to_string());
            let (found, expected) = if found == expected {
                (format!("{:?}", set.spec), format!("{:?}", newest.spec))
            } else {
                (found, expected)
            };
            return Err(Error::store(&self.dir, "the space of a set to append", found, expected));
        }
        if set.root != newest.root {
            let describe = |root: &Root| match root {
                Root::Origin => "the origin".to_owned(),
                Root::Point(point) => {
                    format!("the point that begins with {:?}", point.iter().take(3).collect::<Vec<_>>())
                }
            };
            let (found, expected) = (describe(&set.root), describe(&newest.root));
            return Err(Error::store(&self.dir, "the root of a set to append", found, expected));
        }
        let (found, known) = (&set.source.weights, &newest.weights);
        if !found.is_empty() && !known.is_empty() && found != known {
            let found = format!("sha256 {found} ({})", set.source.model);
            let expected = format!("{known}: points of different models do not compare");
            return Err(Error::store(&self.dir, "the weights that made a set to append", found, expected));
        }
        if newest.rows() + set.len() >= u32::MAX as usize {
            let found = newest.rows() + set.len();
            return Err(Error::store(&self.dir, "the number of rows", found, "less than 2^32"));
        }
        Ok(())
    }

    fn segment(&self, segment: &Segment) -> Result<StoredSet> {
        segment::open(&self.dir.join(SEGMENTS).join(&segment.name), segment)
    }

    /// The numbers of the versions that are there, in order.
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

    /// The file of the newest version. One that is damaged is an error: an older one would silently lack what was committed.
    fn newest(&self) -> Result<Manifest> {
        for _ in 1..TRIES {
            let number = self.newest_number()?.ok_or_else(|| self.no_version())?;
            match self.read(number) {
                Err(_) if self.newest_number()? != Some(number) => {}
                other => return other,
            }
        }
        self.read(self.newest_number()?.ok_or_else(|| self.no_version())?)
    }

    fn known(&self, number: u64) -> Result<Manifest> {
        let numbers = self.numbers()?;
        if !numbers.contains(&number) {
            let there = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::store(&self.dir, "the version", number, format!("one that is there: {there}")));
        }
        self.read(number)
    }

    fn read(&self, number: u64) -> Result<Manifest> {
        Manifest::read(&self.dir.join(VERSIONS).join(file_name(number)))
    }

    fn no_version(&self) -> Error {
        let found = if !self.dir.exists() {
            "not there"
        } else if self.dir.join("manifest.json").exists() {
            "without versions: a set of embeddings"
        } else {
            "without a version"
        };
        Error::store(&self.dir, "the folder", found, "a store, as `Store::create` makes it")
    }

    /// Makes a version the newest one: from its rename on, readers see it.
    fn publish(&self, manifest: &Manifest) -> Result<()> {
        let name = file_name(manifest.number);
        let tmp = self.dir.join(TMP).join(&name);
        disk::write(&tmp, &manifest.encode()?)?;
        disk::rename(&tmp, &self.dir.join(VERSIONS).join(&name))?;
        disk::sync(&self.dir.join(VERSIONS)).map_err(|error| {
            let found = format!("written, but the system does not flush it ({error})");
            let expected = "a version that is on the disk: it is there now, but may be gone after a power cut";
            Error::store(&self.dir, format!("version {}", manifest.number), found, expected)
        })
    }
}

/// The one who writes. What it leaves unfinished is removed when it goes, or else by the next one.
struct Writer<'a> {
    store: &'a Store,
    newest: Manifest,
    _lock: File,
}

impl<'a> Writer<'a> {
    fn begin(store: &'a Store) -> Result<Self> {
        // Not before it is known to be a store: a lock is a file.
        store.newest()?;
        let lock = disk::lock(&store.dir.join(LOCK), &store.dir)?;
        let writer = Writer { store, newest: store.newest()?, _lock: lock };
        writer.sweep()?;
        for folder in FOLDERS {
            // An empty folder may have been lost on the way to this place.
            disk::create_dir(&store.dir.join(folder))?;
        }
        Ok(writer)
    }

    /// Removes what belongs to no version: files on their way, and those that came with a version that was never committed.
    fn sweep(&self) -> Result<()> {
        let Store { dir } = self.store;
        let Some(newest) = self.store.newest_number()? else { return Ok(()) };
        for entry in disk::names(&dir.join(TMP))? {
            disk::remove(&dir.join(TMP).join(entry))?;
        }
        for folder in [SEGMENTS, DELETED] {
            for entry in disk::names(&dir.join(folder))? {
                if number_of(&entry).is_some_and(|number| number > newest) {
                    disk::remove(&dir.join(folder).join(entry))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the segment that comes with a version.
    fn segment(&mut self, next: &Manifest, content: &Content<'_>, progress: &mut dyn FnMut(usize)) -> Result<Segment> {
        let (dir, name) = (&self.store.dir, name(next.number));
        let segment = segment::write(&dir.join(TMP), &name, next.element(), content, progress)?;
        disk::rename(&dir.join(TMP).join(&name), &dir.join(SEGMENTS).join(&name))?;
        disk::sync(&dir.join(SEGMENTS))?;
        Ok(segment)
    }

    /// Commits a version without these rows, if that is fewer than now; says how many are gone.
    fn without(self, gone: &[Gone]) -> Result<(Version, usize)> {
        let dir = &self.store.dir;
        let mut next = self.newest.next("delete");
        let mut names = Vec::new();
        for (segment, gone) in next.segments.iter_mut().zip(gone) {
            if gone.count() > segment.deleted.as_ref().map_or(0, |it| it.rows) {
                let name = format!("{}-{}.bits", name(next.number), segment.name);
                segment.deleted = Some(gone.write(&dir.join(TMP), name.clone())?);
                names.push(name);
            }
        }
        if names.is_empty() {
            return Ok((self.newest.version(), 0));
        }
        for name in names {
            disk::rename(&dir.join(TMP).join(&name), &dir.join(DELETED).join(&name))?;
        }
        disk::sync(&dir.join(DELETED))?;
        let rows = self.newest.rows() - next.rows();
        Ok((self.commit(next)?, rows))
    }

    fn commit(self, next: Manifest) -> Result<Version> {
        self.store.publish(&next)?;
        Ok(next.version())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // After a failure, space may be short; where this fails too, the next writer does it.
        let _ = self.sweep();
    }
}
