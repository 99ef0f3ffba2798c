//! File system operations of a store, one per function, so that tests can inject a fault before any of them.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use conifer_space::points::Lock;
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
        StoreFileDigest { bytes: bytes.len() as u64, sha256: conifer_space::points::sha256_hex(bytes) }
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
        Ok(StoreFileDigest { bytes, sha256: hex(sha) })
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

pub(super) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Creates a folder if it does not exist.
pub(super) fn create_dir(path: &Path) -> Result<()> {
    step("create", path)?;
    fs::create_dir_all(path).map_err(Error::io("create", path))
}

/// Writes a file and flushes it to the disk.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    step("create", path)?;
    let mut file = File::create(path).map_err(Error::io("create", path))?;
    let (first, second) = bytes.split_at(bytes.len() / 2);
    file.write_all(first).map_err(Error::io("write", path))?;
    step("write", path)?;
    file.write_all(second).map_err(Error::io("write", path))?;
    step("flush", path)?;
    file.sync_all().map_err(Error::io("flush", path))
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    step("rename to", to)?;
    fs::rename(from, to).map_err(Error::io("rename to", to))
}

/// Flushes the entries of a folder, so that renames survive a power failure. Does nothing on systems without such an
/// operation.
pub(super) fn sync(dir: &Path) -> Result<()> {
    step("flush", dir)?;
    if cfg!(unix) {
        let handle = File::open(dir).map_err(Error::io("open", dir))?;
        handle.sync_all().map_err(Error::io("flush", dir))?;
    }
    Ok(())
}

/// Removes a file, a folder with its contents, or a symbolic link but not its target. Succeeds if nothing exists.
pub(super) fn remove(path: &Path) -> Result<()> {
    step("remove", path)?;
    let folder = kind(path)?.is_some_and(|it| it.is_dir());
    let removed = if folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes an empty folder; succeeds if it does not exist.
pub(super) fn remove_empty(path: &Path) -> Result<()> {
    step("remove", path)?;
    match fs::remove_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
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

#[cfg(not(test))]
pub(super) fn step(_action: &'static str, _path: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use faults::step;

/// Fault injection for tests.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io::{Error as IoError, ErrorKind};
    use std::path::Path;

    use crate::error::{Error, Result};

    /// Which operations fail, from a given operation on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum DiskFault {
        /// Only that operation fails.
        Once,
        /// The process is killed: no further operation is done.
        Killed,
        /// The disk is full: nothing more can be written, but files can be removed.
        Full,
    }

    thread_local! {
        static PLAN: Cell<Option<(usize, DiskFault)>> = const { Cell::new(None) };
        static OPERATIONS: Cell<usize> = const { Cell::new(0) };
    }

    /// Runs `work` with a fault at operation number `at`. Also returns the number of operations.
    pub(crate) fn with<T>(at: usize, fault: DiskFault, work: impl FnOnce() -> T) -> (T, usize) {
        PLAN.set(Some((at, fault)));
        OPERATIONS.set(0);
        let out = work();
        PLAN.set(None);
        (out, OPERATIONS.get())
    }

    pub(crate) fn step(action: &'static str, path: &Path) -> Result<()> {
        let operation = OPERATIONS.replace(OPERATIONS.get() + 1);
        let fails = PLAN.get().is_some_and(|(at, fault)| match fault {
            DiskFault::Once => operation == at,
            DiskFault::Killed => operation >= at,
            DiskFault::Full => operation >= at && matches!(action, "create" | "write" | "flush"),
        });
        if fails { Err(Error::io(action, path)(IoError::from(ErrorKind::StorageFull))) } else { Ok(()) }
    }
}
