//! The writer of a store, and the clean-up of unfinished writes.

use std::collections::BTreeSet;

use conifer_files::{Lock, operation};

use super::segment::{self, DeletedRows, SegmentContent};
use super::version::{Version, VersionManifest, deleted_name, file_name, name, number_of, version_of_entry};
use super::{DELETED, FOLDERS, LOCK, SEGMENTS, Store, TMP, VERSIONS, disk};
use crate::error::{Error, Result};

/// Holds the write lock. Unfinished files are removed when the writer is dropped, or else by the next writer.
pub(super) struct Writer<'a> {
    store: &'a Store,
    pub(super) newest: VersionManifest,
    _lock: Lock,
}

impl<'a> Writer<'a> {
    pub(super) fn begin(store: &'a Store) -> Result<Self> {
        // Check for a store before creating the lock file in the folder.
        store.newest()?;
        store.check_own()?;
        let lock = disk::lock(&store.dir.join(LOCK), &store.dir)?;
        let writer = Writer { store, newest: store.newest()?, _lock: lock };
        for folder in FOLDERS {
            // Copying a store may have lost an empty folder.
            operation::create_dir_all(&store.dir.join(folder))?;
        }
        store.sweep()?;
        Ok(writer)
    }

    /// The manifest of the next version, with the same segments.
    pub(super) fn next(&self, made: &str) -> Result<VersionManifest> {
        let last = self.newest.number.max(self.store.last_number()?);
        let number = last.checked_add(1).ok_or_else(|| {
            Error::store(
                &self.store.dir,
                "the last number in use",
                last,
                "a number below 2^64 - 1: the next version needs a larger one",
            )
        })?;
        Ok(self.newest.next(number, made))
    }

    /// Commits a version with one more segment.
    pub(super) fn with_segment(
        self,
        mut next: VersionManifest,
        content: &SegmentContent<'_>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Version> {
        let name = name(next.number);
        next.segments.push(segment::write(&self.store.dir.join(TMP), &name, next.element(), content, progress)?);
        self.commit(&next, &[(SEGMENTS, name)])
    }

    /// Commits a version without these rows if that removes any, and returns the number of rows removed.
    pub(super) fn without(self, deleted_rows: &[DeletedRows]) -> Result<(Version, usize)> {
        let mut next = self.next("delete")?;
        let mut new = Vec::new();
        for (segment, deleted_rows) in next.segments.iter_mut().zip(deleted_rows) {
            if deleted_rows.count() > segment.deleted.as_ref().map_or(0, |it| it.rows) {
                let name = deleted_name(next.number, &segment.name);
                segment.deleted = Some(deleted_rows.write(&self.store.dir.join(TMP), name.clone())?);
                new.push((DELETED, name));
            }
        }
        if new.is_empty() {
            return Ok((self.newest.version(), 0));
        }
        let rows = self.newest.rows() - next.rows();
        Ok((self.commit(&next, &new)?, rows))
    }

    pub(super) fn commit(self, next: &VersionManifest, new: &[(&str, String)]) -> Result<Version> {
        self.store.publish(next, new)?;
        Ok(next.version())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // Frees disk space after a failure. If this fails, the next writer tries again.
        let _ = self.store.sweep();
    }
}

impl Store {
    /// Commits a version. `new` lists its new files as (folder, name), which must be complete in `tmp/`. Readers see
    /// the version once its manifest has been renamed.
    pub(super) fn publish(&self, manifest: &VersionManifest, new: &[(&str, String)]) -> Result<()> {
        let tmp = self.dir.join(TMP);
        let begun = tmp.join(VersionMarker::Begun(manifest.number).name());
        operation::write(&begun, &manifest.encode()?)?;
        if !new.is_empty() {
            // Flush the marker before any file leaves `tmp/`. A later clean-up only removes files that have a marker.
            operation::sync(&tmp)?;
        }
        for (folder, name) in new {
            operation::rename(&tmp.join(name), &self.dir.join(folder).join(name))?;
        }
        for folder in new.iter().map(|(folder, _)| *folder).collect::<BTreeSet<_>>() {
            operation::sync(&self.dir.join(folder))?;
        }
        operation::rename(&begun, &self.dir.join(VERSIONS).join(file_name(manifest.number)))?;
        operation::sync(&self.dir.join(VERSIONS)).map_err(|error| {
            let found = format!("written, but flushing it to the disk failed ({error})");
            let expected = "a flushed version: it is visible now, but may be lost in a power failure";
            Error::store(&self.dir, format!("version {}", manifest.number), found, expected).caused_by(error)
        })
    }

    /// Removes unfinished and partly removed files, and their markers last. Returns the number of removed segments.
    pub(super) fn sweep(&self) -> Result<usize> {
        let tmp = self.dir.join(TMP);
        let (marks, entries): (Vec<_>, Vec<_>) =
            disk::names(&tmp)?.into_iter().filter(|it| is_ours(it)).partition(|it| VersionMarker::of(it).is_some());
        for entry in entries {
            operation::remove(&tmp.join(entry))?;
        }
        let Some(removable) = self.removable()? else { return Ok(0) };
        let mut segments = 0;
        let mut touched = BTreeSet::new();
        for (folder, name) in self.entries()? {
            if removable.contains(&name) {
                // Rename first, so that a partly removed segment never has its final name.
                operation::rename(&self.dir.join(folder).join(&name), &tmp.join(&name))?;
                operation::remove(&tmp.join(&name))?;
                segments += usize::from(folder == SEGMENTS);
                touched.insert(folder);
            }
        }
        for folder in touched {
            operation::sync(&self.dir.join(folder))?;
        }
        for mark in marks {
            operation::remove(&tmp.join(mark))?;
        }
        Ok(segments)
    }

    /// Names in `segments/` and `deleted/` to be removed according to the markers in `tmp/`. Returns `None` while a
    /// version is damaged, because it may need any of them.
    pub(super) fn removable(&self) -> Result<Option<BTreeSet<String>>> {
        let tmp = self.dir.join(TMP);
        let marks: Vec<VersionMarker> = disk::names(&tmp)?.iter().filter_map(|it| VersionMarker::of(it)).collect();
        let mut removable = BTreeSet::new();
        if marks.is_empty() {
            return Ok(Some(removable));
        }
        for (_, entry) in self.entries()? {
            if marks.iter().any(|mark| version_of_entry(&entry) == Some(mark.number())) {
                removable.insert(entry);
            }
        }
        for mark in marks {
            // A version that was not committed may also list files of earlier versions. Therefore only the lists of
            // removed versions are used.
            if let VersionMarker::Removed(number) = mark
                && let Ok(manifest) = VersionManifest::read(&tmp.join(mark.name()), number)
            {
                removable.extend(manifest.needed());
            }
        }
        for number in self.numbers()? {
            match self.read(number) {
                Ok(manifest) => {
                    for name in manifest.needed() {
                        removable.remove(&name);
                    }
                }
                Err(_) if !self.numbers()?.contains(&number) => {}
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(removable))
    }

    /// Entries of `segments/` and `deleted/` whose names a store creates, as (folder, name).
    pub(super) fn entries(&self) -> Result<Vec<(&'static str, String)>> {
        let mut entries = Vec::new();
        for folder in [SEGMENTS, DELETED] {
            let ours = disk::names(&self.dir.join(folder))?.into_iter().filter(|it| version_of_entry(it).is_some());
            entries.extend(ours.map(|name| (folder, name)));
        }
        Ok(entries)
    }

    /// The highest number at the start of any name in the store, including files that the user moved aside.
    fn last_number(&self) -> Result<u64> {
        let mut names = Vec::new();
        for entry in disk::names(&self.dir)? {
            let path = self.dir.join(&entry);
            if path.is_dir() {
                names.extend(disk::names(&path)?);
            }
            names.push(entry);
        }
        Ok(names.iter().filter_map(|it| number_of(it)).max().unwrap_or(0))
    }

    /// Checks that a store can be created here: the folder is missing, empty, or has only the remains of an unfinished
    /// creation.
    pub(super) fn check_empty(&self) -> Result<()> {
        self.check_own()?;
        let dir = &self.dir;
        if self.newest_number()?.is_some() {
            return Err(Error::store(dir, "the folder", "a store already", "an empty folder, or none yet"));
        }
        for entry in disk::names(dir)? {
            let inside = if FOLDERS.contains(&entry.as_str()) { disk::names(&dir.join(&entry))? } else { Vec::new() };
            let begun = |it: &String| entry == TMP && *it == VersionMarker::Begun(1).name();
            let foreign = match inside.iter().find(|it| !begun(it)) {
                Some(it) => Some(format!("{entry}/{it}")),
                None => (entry != LOCK && !FOLDERS.contains(&entry.as_str())).then_some(entry),
            };
            if let Some(foreign) = foreign {
                return Err(Error::store(dir, "an entry", format!("`{foreign}`"), "an empty folder, or none yet"));
            }
        }
        Ok(())
    }

    /// Removes the remains of an unfinished creation, after [`Store::check_empty`]. Folders are removed only if they
    /// are empty.
    pub(super) fn clear_begun(&self) -> Result<()> {
        if self.dir.exists() {
            operation::remove(&self.dir.join(TMP).join(VersionMarker::Begun(1).name()))?;
            FOLDERS.iter().try_for_each(|folder| operation::remove_empty_dir(&self.dir.join(folder)))?;
            operation::remove(&self.dir.join(LOCK))?;
        }
        Ok(())
    }

    /// Checks that the folders and the lock of the store are real folders and a real file. Through a symbolic link the
    /// store would write and delete elsewhere.
    fn check_own(&self) -> Result<()> {
        for (name, folder) in FOLDERS.map(|it| (it, true)).into_iter().chain([(LOCK, false)]) {
            let path = self.dir.join(name);
            let Some(kind) = disk::kind(&path)? else { continue };
            if kind.is_dir() != folder || !folder && !kind.is_file() {
                let found = if kind.is_symlink() { "a symbolic link" } else { "of another kind" };
                let expected = if folder { "a folder of the store itself" } else { "a file of the store itself" };
                return Err(Error::store(&path, "the entry", found, expected));
            }
        }
        Ok(())
    }
}

/// The reason why a manifest is in `tmp/`, which makes it a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionMarker {
    /// The version is not committed yet.
    Begun(u64),
    /// The version is being removed.
    Removed(u64),
}

impl VersionMarker {
    pub(super) fn name(self) -> String {
        match self {
            VersionMarker::Begun(number) => format!("{}.begun", name(number)),
            VersionMarker::Removed(number) => format!("{}.removed", name(number)),
        }
    }

    fn number(self) -> u64 {
        match self {
            VersionMarker::Begun(number) | VersionMarker::Removed(number) => number,
        }
    }

    fn of(file: &str) -> Option<Self> {
        let number = number_of(file)?;
        [VersionMarker::Begun(number), VersionMarker::Removed(number)].into_iter().find(|it| it.name() == file)
    }
}

/// True if a writer creates files of this name in `tmp/`: a marker, or a finished or unfinished file.
fn is_ours(entry: &str) -> bool {
    let unfinished = entry.strip_prefix('.').and_then(|it| it.strip_suffix(".unfinished"));
    VersionMarker::of(entry).is_some() || version_of_entry(unfinished.unwrap_or(entry)).is_some()
}
