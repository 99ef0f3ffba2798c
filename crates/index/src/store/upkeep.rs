//! Keeping a store in order: what is damaged, what no version needs any more, what belongs to none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::disk::{self, Seal};
use super::segment;
use super::version::file_name;
use super::writer::{Mark, Writer};
use super::{DELETED, SEGMENTS, Store, TMP, VERSIONS};
use crate::error::{Error, Result};

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

impl Store {
    /// Removes all but the newest `keep` versions (at least one), and what they needed that no other version needs. What no version
    /// names stays, see [`Store::unlisted`].
    ///
    /// # Errors
    /// A version that stays is damaged; somebody else writes; the system refuses.
    pub fn gc(&self, keep: usize) -> Result<Removed> {
        let _writer = Writer::begin(self)?;
        let numbers = self.numbers()?;
        let (old, kept) = numbers.split_at(numbers.len().saturating_sub(keep.max(1)));
        let mut opened = BTreeSet::new();
        for number in kept {
            for segment in self.read(*number)?.segments {
                // What stays can be read, or else the older ones stay, too.
                let deleted = segment.deleted.as_ref().map(|it| it.name.clone());
                if opened.insert((segment.name.clone(), deleted)) {
                    segment::open(&self.dir, &segment)?;
                }
            }
        }
        let (versions, tmp) = (self.dir.join(VERSIONS), self.dir.join(TMP));
        for number in old {
            disk::rename(&versions.join(file_name(*number)), &tmp.join(Mark::Removed(*number).name()))?;
        }
        if !old.is_empty() {
            disk::sync(&tmp)?;
            disk::sync(&versions)?;
        }
        Ok(Removed { versions: old.len(), segments: self.sweep()? })
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

    /// Segments and files of deleted rows that no version names which can be read, as when somebody has moved a damaged one aside.
    /// Nothing removes them. (A version that is removed while they are counted may leave some of it here.)
    ///
    /// # Errors
    /// `dir` cannot be listed.
    pub fn unlisted(&self) -> Result<Vec<PathBuf>> {
        // In the order in which a writer goes on: what it makes is marked before it is there, and named before the mark goes.
        let pieces = self.pieces()?;
        let mut known = self.going()?.unwrap_or_default();
        for number in self.numbers()? {
            known.extend(self.read(number).into_iter().flat_map(|it| it.needed()));
        }
        let unknown = pieces.into_iter().filter(|(_, name)| !known.contains(name));
        let paths = unknown.map(|(folder, name)| self.dir.join(folder).join(name));
        Ok(paths.filter(|it| it.exists()).collect())
    }
}
