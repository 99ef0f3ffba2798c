//! The one who writes to a store, and what is done about one who did not finish.

use std::collections::BTreeSet;

use conifer_space::points::Lock;

use super::segment::{self, Content, Gone};
use super::version::{Manifest, Version, came_with, deleted_name, file_name, name, number_of};
use super::{DELETED, FOLDERS, LOCK, SEGMENTS, Store, TMP, VERSIONS, disk};
use crate::error::{Error, Result};

/// Holds the lock. What it leaves unfinished is removed when it goes, or else by the next one.
pub(super) struct Writer<'a> {
    store: &'a Store,
    pub(super) newest: Manifest,
    _lock: Lock,
}

impl<'a> Writer<'a> {
    pub(super) fn begin(store: &'a Store) -> Result<Self> {
        // Not before it is known to be a store: a lock is a file.
        store.newest()?;
        store.check_own()?;
        let lock = disk::lock(&store.dir.join(LOCK), &store.dir)?;
        let writer = Writer { store, newest: store.newest()?, _lock: lock };
        for folder in FOLDERS {
            // An empty folder may have been lost on the way to this place.
            disk::create_dir(&store.dir.join(folder))?;
        }
        store.sweep()?;
        Ok(writer)
    }

    /// A version to come after the newest one, with the same content so far.
    pub(super) fn next(&self, made: &str) -> Result<Manifest> {
        let last = self.newest.number.max(self.store.last_number()?);
        let number = last.checked_add(1).ok_or_else(|| {
            Error::store(&self.store.dir, "the last number in use", last, "one that has another after it")
        })?;
        Ok(self.newest.next(number, made))
    }

    /// Commits a version with one segment more.
    pub(super) fn with_segment(
        self,
        mut next: Manifest,
        content: &Content<'_>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Version> {
        let name = name(next.number);
        next.segments.push(segment::write(&self.store.dir.join(TMP), &name, next.element(), content, progress)?);
        self.commit(&next, &[(SEGMENTS, name)])
    }

    /// Commits a version without these rows, if that is fewer than now; says how many are gone.
    pub(super) fn without(self, gone: &[Gone]) -> Result<(Version, usize)> {
        let mut next = self.next("delete")?;
        let mut new = Vec::new();
        for (segment, gone) in next.segments.iter_mut().zip(gone) {
            if gone.count() > segment.deleted.as_ref().map_or(0, |it| it.rows) {
                let name = deleted_name(next.number, &segment.name);
                segment.deleted = Some(gone.write(&self.store.dir.join(TMP), name.clone())?);
                new.push((DELETED, name));
            }
        }
        if new.is_empty() {
            return Ok((self.newest.version(), 0));
        }
        let rows = self.newest.rows() - next.rows();
        Ok((self.commit(&next, &new)?, rows))
    }

    pub(super) fn commit(self, next: &Manifest, new: &[(&str, String)]) -> Result<Version> {
        self.store.publish(next, new)?;
        Ok(next.version())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // After a failure, space may be short; where this fails too, the next writer does it.
        let _ = self.store.sweep();
    }
}

impl Store {
    /// Makes a version the newest one, with what came with it: (folder, name), finished in `tmp/`. Readers see it from its rename on.
    pub(super) fn publish(&self, manifest: &Manifest, new: &[(&str, String)]) -> Result<()> {
        let tmp = self.dir.join(TMP);
        let begun = tmp.join(Mark::Begun(manifest.number).name());
        disk::write(&begun, &manifest.encode()?)?;
        if !new.is_empty() {
            // Before anything leaves `tmp/`: without its mark nobody would dare to remove it.
            disk::sync(&tmp)?;
        }
        for (folder, name) in new {
            disk::rename(&tmp.join(name), &self.dir.join(folder).join(name))?;
        }
        for folder in new.iter().map(|(folder, _)| *folder).collect::<BTreeSet<_>>() {
            disk::sync(&self.dir.join(folder))?;
        }
        disk::rename(&begun, &self.dir.join(VERSIONS).join(file_name(manifest.number)))?;
        disk::sync(&self.dir.join(VERSIONS)).map_err(|error| {
            let found = format!("written, but the system does not flush it ({error})");
            let expected = "a version that is on the disk: it is there now, but may be gone after a power cut";
            Error::store(&self.dir, format!("version {}", manifest.number), found, expected)
        })
    }

    /// Removes what is half made and what is half removed, and the marks that say so last. Gives the number of segments.
    pub(super) fn sweep(&self) -> Result<usize> {
        let tmp = self.dir.join(TMP);
        let (marks, pieces): (Vec<_>, Vec<_>) =
            disk::names(&tmp)?.into_iter().filter(|it| is_ours(it)).partition(|it| Mark::of(it).is_some());
        for piece in pieces {
            disk::remove(&tmp.join(piece))?;
        }
        let Some(going) = self.going()? else { return Ok(0) };
        let mut segments = 0;
        let mut touched = BTreeSet::new();
        for (folder, name) in self.pieces()? {
            if going.contains(&name) {
                // Away at once, so that no half of a segment has its name.
                disk::rename(&self.dir.join(folder).join(&name), &tmp.join(&name))?;
                disk::remove(&tmp.join(&name))?;
                segments += usize::from(folder == SEGMENTS);
                touched.insert(folder);
            }
        }
        for folder in touched {
            disk::sync(&self.dir.join(folder))?;
        }
        for mark in marks {
            disk::remove(&tmp.join(mark))?;
        }
        Ok(segments)
    }

    /// Names in `segments/` and `deleted/` that are to go, by the marks in `tmp/`; `None` as long as a version is damaged, which may need
    /// any of them.
    pub(super) fn going(&self) -> Result<Option<BTreeSet<String>>> {
        let tmp = self.dir.join(TMP);
        let marks: Vec<Mark> = disk::names(&tmp)?.iter().filter_map(|it| Mark::of(it)).collect();
        let mut going = BTreeSet::new();
        if marks.is_empty() {
            return Ok(Some(going));
        }
        for (_, entry) in self.pieces()? {
            if marks.iter().any(|mark| came_with(&entry) == Some(mark.number())) {
                going.insert(entry);
            }
        }
        for mark in marks {
            // What a version needs that was never committed belongs to those before it, but for what came with it.
            if let Mark::Removed(number) = mark
                && let Ok(manifest) = Manifest::read(&tmp.join(mark.name()), number)
            {
                going.extend(manifest.needed());
            }
        }
        for number in self.numbers()? {
            match self.read(number) {
                Ok(manifest) => {
                    for name in manifest.needed() {
                        going.remove(&name);
                    }
                }
                Err(_) if !self.numbers()?.contains(&number) => {}
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(going))
    }

    /// What lies in `segments/` and `deleted/` under a name that a store gives, with the folder.
    pub(super) fn pieces(&self) -> Result<Vec<(&'static str, String)>> {
        let mut pieces = Vec::new();
        for folder in [SEGMENTS, DELETED] {
            let ours = disk::names(&self.dir.join(folder))?.into_iter().filter(|it| came_with(it).is_some());
            pieces.extend(ours.map(|name| (folder, name)));
        }
        Ok(pieces)
    }

    /// The highest number that any name in the store begins with, also that of a file which somebody has set aside.
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

    /// That a store can be made here: there is nothing yet, or what is left of a creation that did not finish.
    pub(super) fn check_empty(&self) -> Result<()> {
        self.check_own()?;
        let dir = &self.dir;
        if self.newest_number()?.is_some() {
            return Err(Error::store(dir, "the folder", "a store already", "an empty folder, or none yet"));
        }
        for entry in disk::names(dir)? {
            let inside = if FOLDERS.contains(&entry.as_str()) { disk::names(&dir.join(&entry))? } else { Vec::new() };
            let begun = |it: &String| entry == TMP && *it == Mark::Begun(1).name();
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

    /// Removes what is left of a creation that did not finish, which [`Store::check_empty`] has looked at. Folders are removed only if
    /// they are empty.
    pub(super) fn clear_begun(&self) -> Result<()> {
        if self.dir.exists() {
            disk::remove(&self.dir.join(TMP).join(Mark::Begun(1).name()))?;
            FOLDERS.iter().try_for_each(|folder| disk::remove_empty(&self.dir.join(folder)))?;
            disk::remove(&self.dir.join(LOCK))?;
        }
        Ok(())
    }

    /// That what has our names is ours: whoever follows a link writes, and removes, somewhere else.
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

/// Why a file of a version lies in `tmp/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is not committed yet.
    Begun(u64),
    /// It is no version any more.
    Removed(u64),
}

impl Mark {
    pub(super) fn name(self) -> String {
        match self {
            Mark::Begun(number) => format!("{}.begun", name(number)),
            Mark::Removed(number) => format!("{}.removed", name(number)),
        }
    }

    fn number(self) -> u64 {
        match self {
            Mark::Begun(number) | Mark::Removed(number) => number,
        }
    }

    fn of(file: &str) -> Option<Self> {
        let number = number_of(file)?;
        [Mark::Begun(number), Mark::Removed(number)].into_iter().find(|it| it.name() == file)
    }
}

/// Whether a name in `tmp/` is one that a writer gives: a mark, or a finished or unfinished piece.
fn is_ours(entry: &str) -> bool {
    let unfinished = entry.strip_prefix('.').and_then(|it| it.strip_suffix(".unfinished"));
    Mark::of(entry).is_some() || came_with(unfinished.unwrap_or(entry)).is_some()
}
