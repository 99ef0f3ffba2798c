//! What a store asks of the file system, one operation each, so that tests can stop it between any two.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use conifer_space::points::Lock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// What a finished file looks like, to tell a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seal {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Seal {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Seal { bytes: bytes.len() as u64, sha256: conifer_space::points::sha256_hex(bytes) }
    }

    /// Of a file, read piece by piece.
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
        Ok(Seal { bytes, sha256: hex(sha) })
    }

    /// That a file has the length it was written with.
    pub(super) fn check_length(&self, path: &Path) -> Result<()> {
        let bytes = fs::metadata(path).map_err(Error::io("read", path))?.len();
        if bytes != self.bytes {
            let expected = format!("{} bytes: it was changed or damaged", self.bytes);
            return Err(Error::store(path, "length", format!("{bytes} bytes"), expected));
        }
        Ok(())
    }

    /// That what was found in a file is what was written.
    pub(super) fn check(&self, path: &Path, found: &Seal) -> Result<()> {
        if found != self {
            let describe = |seal: &Seal| format!("{} bytes with sha256 {}", seal.bytes, seal.sha256);
            let expected = format!("{}: it was changed or damaged", describe(self));
            return Err(Error::store(path, "content", describe(found), expected));
        }
        Ok(())
    }
}

/// Opens a file to read it; anything else (a pipe, on which to wait for ever) is an error.
fn open(path: &Path) -> Result<File> {
    let kind = fs::metadata(path).map_err(Error::io("read", path))?.file_type();
    if !kind.is_file() {
        return Err(Error::store(path, "the entry", "of another kind", "a file"));
    }
    File::open(path).map_err(Error::io("read", path))
}

/// Reads a file of at most so many bytes.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > most {
        return Err(Error::store(path, "length", format!("more than {most} bytes"), format!("at most {most} bytes")));
    }
    Ok(bytes)
}

/// What an entry of a folder is itself, not what it may point to; `None` where there is none.
pub(super) fn kind(path: &Path) -> Result<Option<FileType>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => Ok(Some(other.map_err(Error::io("read", path))?.file_type())),
    }
}

/// A finished hash as 64 hex digits.
pub(super) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Makes a folder, if it is not there.
pub(super) fn create_dir(path: &Path) -> Result<()> {
    step("create", path)?;
    fs::create_dir_all(path).map_err(Error::io("create", path))
}

/// Writes one file and flushes it to the disk.
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

/// Makes the names in a folder survive a power cut, where the system has that notion.
pub(super) fn sync(dir: &Path) -> Result<()> {
    step("flush", dir)?;
    if cfg!(unix) {
        let handle = File::open(dir).map_err(Error::io("open", dir))?;
        handle.sync_all().map_err(Error::io("flush", dir))?;
    }
    Ok(())
}

/// Removes a file, or a folder with all that is in it, or a link and not what it points to; nothing, where there is none.
pub(super) fn remove(path: &Path) -> Result<()> {
    step("remove", path)?;
    let folder = kind(path)?.is_some_and(|it| it.is_dir());
    let removed = if folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes an empty folder; succeeds where there is none.
pub(super) fn remove_empty(path: &Path) -> Result<()> {
    step("remove", path)?;
    match fs::remove_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Names in a folder, in order; none where it does not exist.
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

/// The right to write to a store.
pub(super) fn lock(path: &Path, store: &Path) -> Result<Lock> {
    let mut options = OpenOptions::new();
    // Whatever has the name is not emptied.
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

/// Operations that fail on purpose.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io::{Error as IoError, ErrorKind};
    use std::path::Path;

    use crate::error::{Error, Result};

    /// What happens at the operation where it begins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        /// Only that operation fails.
        Once,
        /// The process is dead: nothing is done from there on.
        Killed,
        /// The disk is full: nothing is written from there on, but files can be removed.
        Full,
    }

    thread_local! {
        static PLAN: Cell<Option<(usize, Fault)>> = const { Cell::new(None) };
        static SEEN: Cell<usize> = const { Cell::new(0) };
    }

    /// Runs `work` with a fault at operation number `at`; also says how many operations there were.
    pub(crate) fn with<T>(at: usize, fault: Fault, work: impl FnOnce() -> T) -> (T, usize) {
        PLAN.set(Some((at, fault)));
        SEEN.set(0);
        let out = work();
        PLAN.set(None);
        (out, SEEN.get())
    }

    pub(crate) fn step(action: &'static str, path: &Path) -> Result<()> {
        let seen = SEEN.replace(SEEN.get() + 1);
        let fails = PLAN.get().is_some_and(|(at, fault)| match fault {
            Fault::Once => seen == at,
            Fault::Killed => seen >= at,
            Fault::Full => seen >= at && matches!(action, "create" | "write" | "flush"),
        });
        if fails { Err(Error::io(action, path)(IoError::from(ErrorKind::StorageFull))) } else { Ok(()) }
    }
}
