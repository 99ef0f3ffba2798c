//! Reads files of a store, with their checksums, and locks it. [`conifer_files::operation`] writes.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::Read;
use std::path::Path;

use conifer_files::Lock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Length and checksum of a finished file, by which damage is detected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreFileDigest {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl StoreFileDigest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        StoreFileDigest { bytes: bytes.len() as u64, sha256: conifer_embeddings::sha256_hex(bytes) }
    }

    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let mut file = open(path)?;
        let (mut sha, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; 1 << 20]);
        loop {
            match file.read(&mut piece).map_err(Error::io("read", path))? {
                0 => break,
                count => {
                    sha.update(&piece[..count]);
                    bytes += count as u64;
                }
            }
        }
        Ok(StoreFileDigest { bytes, sha256: hex::encode(sha.finalize()) })
    }

    pub(super) fn check_length(&self, path: &Path) -> Result<()> {
        let bytes = fs::metadata(path).map_err(Error::io("read", path))?.len();
        if bytes != self.bytes {
            let expected = format!("{} bytes: it was changed or damaged", self.bytes);
            return Err(Error::store(path, "length", format!("{bytes} bytes"), expected));
        }
        Ok(())
    }

    pub(super) fn check(&self, path: &Path, found: &StoreFileDigest) -> Result<()> {
        if found != self {
            let describe = |seal: &StoreFileDigest| format!("{} bytes with sha256 {}", seal.bytes, seal.sha256);
            let expected = format!("{}: it was changed or damaged", describe(self));
            return Err(Error::store(path, "content", describe(found), expected));
        }
        Ok(())
    }
}

/// Opens a regular file for reading. Other files are an error; reading a pipe could block for ever.
fn open(path: &Path) -> Result<File> {
    let kind = fs::metadata(path).map_err(Error::io("read", path))?.file_type();
    if !kind.is_file() {
        return Err(Error::store(path, "the entry", "of another kind", "a file"));
    }
    File::open(path).map_err(Error::io("read", path))
}

/// Reads a file of at most `most` bytes.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > most {
        return Err(Error::store(path, "length", format!("more than {most} bytes"), format!("at most {most} bytes")));
    }
    Ok(bytes)
}

/// The type of an entry, without following symbolic links; `None` if it does not exist.
pub(super) fn kind(path: &Path) -> Result<Option<FileType>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => Ok(Some(other.map_err(Error::io("read", path))?.file_type())),
    }
}

/// Names in a folder, sorted; empty if the folder does not exist.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::io("list", dir))?,
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        Ok(entry.map_err(Error::io("list", dir))?.file_name().to_string_lossy().into_owned())
    };
    let mut names: Vec<String> = entries.map(name).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Takes the write lock of a store.
pub(super) fn lock(path: &Path, store: &Path) -> Result<Lock> {
    let mut options = OpenOptions::new();
    // Do not truncate: the file may belong to the user.
    options.write(true).create(true).truncate(false);
    let file = options.open(path).map_err(Error::io("create", path))?;
    Lock::take(file).map_err(Error::io("lock", path))?.ok_or_else(|| {
        let expected = "one writer at a time: wait until it has finished";
        Error::store(store, "the store", "being written to by another process", expected)
    })
}
