//! Persistent state of a build. A build that was killed at any time resumes after the last block that was saved.

use std::collections::HashSet;
use std::fs;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use conifer_data::{Error, PartRule, Result, files};
use serde::{Deserialize, Serialize};

use super::counts::{PartCounts, StoredCounts};
use super::inputs::{BoxFile, FilePosition};

/// The counts, and the position in the files up to which boxes were counted.
pub(super) struct BuildState {
    folder: PathBuf,
    key: BuildKey,
    pub(super) counts: PartCounts,
    pub(super) file: usize,
    pub(super) position: FilePosition,
    seen: HashSet<u64>,
    /// Hashes of photo ids that are not on disk yet.
    fresh: Vec<u64>,
}

/// Identifies the input and the settings of the counts. The folders of the files are excluded, so that a data set can
/// be moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BuildKey {
    /// Name and length of each file.
    boxes: Vec<(String, u64)>,
    rule: PartRule,
}

/// Content of `state.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    format: u32,
    key: BuildKey,
    file: usize,
    byte: u64,
    line: u64,
    /// Number of valid hashes in [`PHOTOS`]. Later hashes are from a save that did not complete.
    photos: usize,
    counts: StoredCounts,
}

const FORMAT: u32 = 1;
const STATE: &str = "state.json";
/// Hashes of the ids of the photos seen so far, 8 bytes each, little endian.
const PHOTOS: &str = "photos.bin";

impl BuildState {
    /// Loads the state from `folder`, or creates an empty one.
    ///
    /// # Errors
    /// The folder cannot be created, or its state cannot be read or was saved for other files or another rule.
    pub(super) fn open(folder: &Path, boxes: &[BoxFile], rule: &PartRule) -> Result<Self> {
        let name = |file: &BoxFile| file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let key = BuildKey { boxes: boxes.iter().map(|file| (name(file), file.len)).collect(), rule: *rule };
        let path = folder.join(STATE);
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        conifer_files::remove_abandoned(&path);
        let mut it = Self {
            folder: folder.to_owned(),
            key,
            counts: PartCounts::default(),
            file: 0,
            position: boxes.first().map_or(FilePosition::default(), |file| file.start),
            seen: HashSet::new(),
            fresh: Vec::new(),
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(it),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        let fault = |found: String, expected: &str| {
            let expected = format!("{expected} (delete the folder to start over)");
            Error::format(format!("`{}`", path.display()), found, expected)
        };
        let disk: StateFile =
            serde_json::from_slice(&bytes).map_err(|error| fault(error.to_string(), "the state of an earlier run"))?;
        if disk.format != FORMAT {
            return Err(fault(format!("format {}", disk.format), &format!("format {FORMAT}")));
        }
        if disk.key != it.key {
            let show = |key: &BuildKey| serde_json::to_string(key).unwrap_or_default();
            return Err(fault(format!("the state of {}", show(&disk.key)), &format!("that of {}", show(&it.key))));
        }
        let photos = folder.join(PHOTOS);
        if disk.photos > 0 {
            let hashes = files::read_range(&photos, 0, 8 * disk.photos as u64).map_err(Error::io("read", &photos))?;
            it.seen = hashes.chunks_exact(8).filter_map(|it| Some(u64::from_le_bytes(it.try_into().ok()?))).collect();
        }
        it.counts = PartCounts::restored(disk.counts)
            .ok_or_else(|| fault("a pair of unknown classes".into(), "indices of listed classes"))?;
        (it.file, it.position) = (disk.file, FilePosition { byte: disk.byte, line: disk.line });
        Ok(it)
    }

    /// Records the hash of a photo id. Returns false if the hash was recorded before.
    pub(super) fn see(&mut self, photo: u64) -> bool {
        let new = self.seen.insert(photo);
        self.fresh.extend(new.then_some(photo));
        new
    }

    /// Saves the state. Photo hashes are written before the state file, because surplus hashes are ignored on loading.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn save(&mut self) -> Result<()> {
        if !self.fresh.is_empty() {
            let path = self.folder.join(PHOTOS);
            let known = 8 * (self.seen.len() - self.fresh.len()) as u64;
            let bytes: Vec<u8> = self.fresh.iter().flat_map(|it| it.to_le_bytes()).collect();
            let write = || {
                let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
                file.set_len(known)?;
                file.seek(SeekFrom::Start(known))?;
                file.write_all(&bytes)?;
                file.sync_all()
            };
            write().map_err(Error::io("write", &path))?;
            self.fresh.clear();
        }
        let disk = StateFile {
            format: FORMAT,
            key: self.key.clone(),
            file: self.file,
            byte: self.position.byte,
            line: self.position.line,
            photos: self.seen.len(),
            counts: self.counts.stored(),
        };
        let path = self.folder.join(STATE);
        let bytes = serde_json::to_vec(&disk).map_err(|error| Error::io("write", &path)(error.into()))?;
        files::write_whole(&path, &bytes)
    }
}
