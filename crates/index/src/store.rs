//! A folder of embeddings that grows and shrinks, and is searched meanwhile.
//!
//! # Layout (version 1)
//!
//! | path | content |
//! |---|---|
//! | `versions/NNNNNNNN.json` | what the store holds at version N: space, root, segments, deleted rows, with length and sha256 of every file; its last field is the sha256 of the bytes before it |
//! | `segments/NNNNNNNN/` | rows that came with version N: a set of embeddings, in the format of [`conifer_space::points`] |
//! | `deleted/NNNNNNNN-MMMMMMMM.bits` | which rows of segment M are gone since version N: a bit for each, in little-endian words of 64 |
//! | `lock`, `tmp/` | held by the one who writes; what is not finished, see below |
//!
//! A file is never changed once it has its name: everything is made in `tmp/`, flushed to the disk and renamed, the file of the
//! version last. So a reader, who needs no lock, sees a version whole or not at all, and a process that is killed (or a machine that
//! stops) leaves the store at its last version. Files that a version needs stay until [`Store::gc`] removes the version; a reader that
//! has opened them keeps them even then. A new store is made in a temporary folder beside its place and renamed
//! ([`Store::create_with`]).
//!
//! The next one that writes removes what was left half done, and nothing else: what carries a mark in `tmp/`. The file of a version
//! is its own mark: until the rename that commits it, it is `tmp/NNNNNNNN.begun`, and the files that came with it belong to nobody; when
//! the version is to go, it becomes `tmp/NNNNNNNN.removed` first, and what it and no other version needs goes before it. Files that no
//! version names and that carry no mark ([`Store::unlisted`]) stay where they are, as after somebody has moved the file of a damaged
//! version aside. Versions are counted on above every number that is in use in the store.

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

use conifer_space::points::Element;
use conifer_space::{EmbeddingSet, ManifoldSpec, Modality, Root, files};

use crate::error::{Error, Result};
use segment::{Content, Gone};
pub use snapshot::Snapshot;
pub use upkeep::{Removed, Report};
pub use version::Version;
use version::{Manifest, Segment, file_name, number_of};
use writer::Writer;

/// A store of embeddings on disk, see [`Store::append`], [`Store::delete`] and [`Store::snapshot`].
///
/// Rows are numbered per version: those that are there, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    /// The name in messages, while the store is made in a temporary folder.
    name: Option<PathBuf>,
}

/// What [`Store::append_with`] does with rows whose id and modality a row of the store has. (A photo and its caption may share an id.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Nothing is appended: [`Error::Repeated`].
    Refuse,
    /// The other rows are appended.
    Skip,
    /// All rows are appended.
    Keep,
}

/// What [`Store::append_with`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The version with the new rows; the newest one, where none was appended.
    pub version: Version,
    /// Rows that were left out.
    pub skipped: usize,
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
    /// Those of [`Store::create_with`].
    pub fn create(dir: &Path, spec: ManifoldSpec, root: Root, element: Element) -> Result<Self> {
        Ok(Self::create_with(dir, spec, root, element, |_| Ok::<(), Error>(()))?.0)
    }

    /// As [`Store::create`], with what `fill` puts into the store: it is made in a temporary folder beside `dir`, which is renamed to
    /// `dir` when `fill` has succeeded. So there is a store with these rows, or none.
    ///
    /// # Errors
    /// `dir` is a store already or holds other files; a spec or root that is not valid; [`Element::BF16`]; what `fill` returns; the
    /// system refuses. Nothing is at `dir` then that was not there before.
    pub fn create_with<T, E: From<Error> + From<conifer_space::Error>>(
        dir: &Path,
        spec: ManifoldSpec,
        root: Root,
        element: Element,
        fill: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        spec.check()?;
        root.check(&spec)?;
        if element == Element::BF16 {
            return Err(Error::store(dir, "the form of its numbers", element.name(), "F32 or F16").into());
        }
        let store = Store { dir: dir.to_owned(), name: None };
        // What an older version of conifer left of a creation that was interrupted is no obstacle.
        let may_replace = |_: &Path| -> Result<(), E> {
            store.check_empty()?;
            Ok(store.clear_begun()?)
        };
        let filled = files::create_folder(dir, may_replace, |fresh| {
            let made = Store { dir: fresh.to_owned(), name: Some(dir.to_owned()) };
            for folder in FOLDERS {
                disk::create_dir(&fresh.join(folder))?;
            }
            disk::sync(fresh)?;
            made.publish(&Manifest::new(spec, root, element), &[])?;
            fill(&made)
        })?;
        Ok((store, filled))
    }

    /// Opens a store.
    ///
    /// # Errors
    /// `dir` is no store; its newest version is damaged or was written by a later conifer.
    pub fn open(dir: &Path) -> Result<Self> {
        let store = Store { dir: dir.to_owned(), name: None };
        store.newest()?;
        Ok(store)
    }

    /// Opens a store whose newest version may be damaged, to [`Store::check`] it or to read an older one.
    ///
    /// # Errors
    /// `dir` is no store.
    pub fn open_any(dir: &Path) -> Result<Self> {
        let store = Store { dir: dir.to_owned(), name: None };
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

    /// Where it is, or will be.
    fn name(&self) -> &Path {
        self.name.as_deref().unwrap_or(&self.dir)
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

    /// Adds all rows of a set, whatever their ids: [`Store::append_with`] and [`Duplicates::Keep`].
    ///
    /// # Errors
    /// Those of [`Store::append_with`].
    pub fn append(&self, set: &EmbeddingSet, progress: &mut dyn FnMut(usize)) -> Result<Version> {
        Ok(self.append_with(set, Duplicates::Keep, progress)?.version)
    }

    /// Adds the rows of a set behind those that are there; an empty set adds nothing. `progress` hears how many are written. When this
    /// returns, the rows are on the disk. Unless duplicates are kept, the ids of all rows of the store are read.
    ///
    /// # Errors
    /// A set of another space, root or (where both say which) other weights than the rows that are there; duplicates, where they are
    /// refused; somebody else writes; the system refuses. The store is what it was then.
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

    /// Rows of a set whose id and modality a row of the store has.
    fn repeated(&self, newest: &Manifest, set: &EmbeddingSet) -> Result<Vec<usize>> {
        // By id: the modalities of the rows of the store that have it.
        let mut there: HashMap<&str, Vec<Modality>> = set.ids.iter().map(|id| (id.as_str(), Vec::new())).collect();
        for segment in &newest.segments {
            let (rows, gone) = segment::open(&self.dir, segment)?;
            for (row, (id, modality)) in rows.ids.iter().zip(&rows.modality).enumerate() {
                if let Some(found) = there.get_mut(id.as_str())
                    && !gone.contains(row)
                    && !found.contains(modality)
                {
                    found.push(*modality);
                }
            }
        }
        Ok((0..set.len()).filter(|row| there[set.ids[*row].as_str()].contains(&set.modality[*row])).collect())
    }

    fn write_rows(writer: Writer<'_>, set: &EmbeddingSet, progress: &mut dyn FnMut(usize)) -> Result<Version> {
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
        let mut next = writer.next("append")?;
        if next.weights.is_empty() {
            next.weights.clone_from(&set.source.weights);
        }
        writer.with_segment(next, &content, progress)
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
            let (set, mut rows) = segment::open(&self.dir, segment)?;
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
            let (set, gone) = segment::open(&self.dir, segment)?;
            places.extend((0..set.len()).filter(|row| !gone.contains(*row)).map(|row| (i, row)));
        }
        let position = |old: &Segment| writer.newest.segments.iter().position(|it| it.name == old.name);
        let open = |it: &Segment| Ok(segment::open(&self.dir, it)?.1);
        let mut gone: Vec<Gone> = writer.newest.segments.iter().map(open).collect::<Result<_>>()?;
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
        writer.with_segment(next, &content, progress)
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
            let expected = format!("{known}: points of different models do not compare");
            return Err(Error::store(self.name(), "the weights that made a set to append", found, expected));
        }
        if newest.rows() + set.len() >= u32::MAX as usize {
            let found = newest.rows() + set.len();
            return Err(Error::store(self.name(), "the number of rows", found, "less than 2^32"));
        }
        Ok(())
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
        Manifest::read(&self.dir.join(VERSIONS).join(file_name(number)), number)
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
}
