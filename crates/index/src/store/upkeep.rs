//! Store maintenance: checksum verification, removal of old versions, and a list of files that no version references.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use conifer_files::operation;

use super::disk::StoreFileDigest;
use super::segment;
use super::version::file_name;
use super::writer::{VersionMarker, Writer};
use super::{DELETED, SEGMENTS, Store, TMP, VERSIONS};
use crate::error::{Error, Result};

/// The result of [`Store::check`].
#[derive(Debug)]
pub struct StoreCheck {
    /// Number of versions checked.
    pub versions: usize,
    /// Number of files read completely.
    pub files: usize,
    /// Total size of these files, in bytes.
    pub bytes: u64,
    /// The damage found, with the names of the files.
    pub damage: Vec<Error>,
}

/// The result of [`Store::gc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Number of removed versions.
    pub versions: usize,
    /// Number of removed segments, which no remaining version needs.
    pub segments: usize,
}

impl Store {
    /// Removes all versions except the newest `keep` (at least one), and the files that only the removed versions need.
    /// Files that no version lists stay, see [`Store::unlisted`].
    ///
    /// # Errors
    /// Fails if a version to keep is damaged, if another process writes to the store, or if a file operation fails.
    pub fn gc(&self, keep: usize) -> Result<Removed> {
        let _writer = Writer::begin(self)?;
        let numbers = self.numbers()?;
        let (old, recent) = numbers.split_at(numbers.len().saturating_sub(keep.max(1)));
        let mut opened = BTreeSet::new();
        for number in recent {
            for segment in self.read(*number)?.segments {
                // Open every version to keep, so that an unreadable one is an error before older versions are removed.
                let deleted = segment.deleted.as_ref().map(|it| it.name.clone());
                if opened.insert((segment.name.clone(), deleted)) {
                    segment::open(&self.dir, &segment)?;
                }
            }
        }
        let (versions, tmp) = (self.dir.join(VERSIONS), self.dir.join(TMP));
        for number in old {
            operation::rename(&versions.join(file_name(*number)), &tmp.join(VersionMarker::Removed(*number).name()))?;
        }
        if !old.is_empty() {
            operation::sync(&tmp)?;
            operation::sync(&versions)?;
        }
        Ok(Removed { versions: old.len(), segments: self.sweep()? })
    }

    /// Reads every file of every version and compares it with its checksum. `progress` is called with the number of
    /// bytes read.
    ///
    /// # Errors
    /// Fails if `dir` is not a store or cannot be listed. Damaged files are part of the report, not an error.
    pub fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<StoreCheck> {
        let mut report = StoreCheck { versions: 0, files: 0, bytes: 0, damage: Vec::new() };
        let mut seals: BTreeMap<PathBuf, StoreFileDigest> = BTreeMap::new();
        for number in self.numbers()? {
            let manifest = match self.read(number) {
                // The version was removed concurrently.
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
            match StoreFileDigest::of_file(&path) {
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

    /// Segments and bitmaps of deleted rows that no readable manifest lists, for example after the manifest of a
    /// damaged version was moved aside. No operation removes them. (Files of a version that is removed concurrently may
    /// be included.)
    ///
    /// # Errors
    /// Fails if the folder cannot be listed.
    pub fn unlisted(&self) -> Result<Vec<PathBuf>> {
        // Read files, markers and manifests in this order: a writer creates the marker before the files, and the
        // manifest before it removes the marker.
        let entries = self.entries()?;
        let mut listed = self.removable()?.unwrap_or_default();
        for number in self.numbers()? {
            listed.extend(self.read(number).into_iter().flat_map(|it| it.needed()));
        }
        let unknown = entries.into_iter().filter(|(_, name)| !listed.contains(name));
        let paths = unknown.map(|(folder, name)| self.dir.join(folder).join(name));
        Ok(paths.filter(|it| it.exists()).collect())
    }
}
