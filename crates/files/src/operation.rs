//! Single file operations. All functions of this crate write through them.
//!
//! Every error names the operation and the path. With the feature `faults`, a test can make any operation fail before
//! or after it runs.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::{Error, Result};

/// Creates a folder whose parent exists.
///
/// # Errors
/// [`Error::Io`], also if the path exists.
pub fn create_dir(path: &Path) -> Result<()> {
    run("create", path, || fs::create_dir(path))
}

/// Creates a folder and its missing parents; succeeds if the folder exists.
///
/// # Errors
/// [`Error::Io`].
pub fn create_dir_all(path: &Path) -> Result<()> {
    run("create", path, || fs::create_dir_all(path))
}

/// Creates a file for writing, or empties an existing one.
///
/// # Errors
/// [`Error::Io`].
pub fn create_file(path: &Path) -> Result<File> {
    run("create", path, || File::create(path))
}

/// Writes a file in place and flushes it to the disk. [`write_whole`](crate::write_whole) replaces a file atomically.
///
/// # Errors
/// [`Error::Io`]; a part of the file may have been written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = create_file(path)?;
    // Write in two halves, so that fault-injection tests can make the write fail halfway.
    let (first, second) = bytes.split_at(bytes.len() / 2);
    run("write", path, || file.write_all(first))?;
    run("write", path, || file.write_all(second))?;
    run("flush", path, || file.sync_all())
}

/// Renames a file or a folder; an existing file or empty folder at `to` is replaced.
///
/// # Errors
/// [`Error::Io`].
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    run("rename to", to, || fs::rename(from, to))
}

/// Removes a folder with its content; succeeds if the folder does not exist.
///
/// # Errors
/// [`Error::Io`].
pub fn remove_dir_all(path: &Path) -> Result<()> {
    run("remove", path, || unless_missing(fs::remove_dir_all(path)))
}

/// Removes a file; succeeds if the file does not exist.
///
/// # Errors
/// [`Error::Io`].
pub fn remove_file(path: &Path) -> Result<()> {
    run("remove", path, || unless_missing(fs::remove_file(path)))
}

/// Removes a file, a folder with its content, or a symbolic link but not its target; succeeds if the path does not
/// exist.
///
/// # Errors
/// [`Error::Io`].
pub fn remove(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_dir_all(path),
        _ => remove_file(path),
    }
}

/// Removes an empty folder; succeeds if the folder does not exist.
///
/// # Errors
/// [`Error::Io`], also if the folder is not empty.
pub fn remove_empty_dir(path: &Path) -> Result<()> {
    run("remove", path, || unless_missing(fs::remove_dir(path)))
}

/// Flushes a file, or the entries of a folder, to the disk. A folder is skipped on systems that cannot flush folders.
///
/// # Errors
/// [`Error::Io`].
pub fn sync(path: &Path) -> Result<()> {
    if !cfg!(unix) && path.is_dir() {
        return Ok(());
    }
    run("flush", path, || match File::open(path)?.sync_all() {
        // Some network file systems cannot flush a folder.
        Err(error) if path.is_dir() && is_unsupported(&error) => Ok(()),
        other => other,
    })
}

/// Runs one operation. Errors name it by the verb `action`.
///
/// # Errors
/// [`Error::Io`] with the error of `work`.
#[cfg(not(any(test, feature = "faults")))]
pub fn run<T>(action: &'static str, path: &Path, work: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
    work().map_err(Error::io(action, path))
}

/// Runs one operation. Errors name it by the verb `action`. A planned fault makes the operation fail before it runs, or
/// lets it run and then reports a failure.
///
/// # Errors
/// [`Error::Io`] with the error of `work` or the injected one.
#[cfg(any(test, feature = "faults"))]
pub fn run<T>(action: &'static str, path: &Path, work: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
    faults::step(action)
        .and_then(|()| work())
        .and_then(|done| faults::step(action).map(|()| done))
        .map_err(Error::io(action, path))
}

fn unless_missing(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn is_unsupported(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::Unsupported)
}

/// Fault injection for tests, per thread.
#[cfg(any(test, feature = "faults"))]
pub mod faults {
    use std::cell::Cell;
    use std::io::{Error, ErrorKind, Result};

    /// Which steps fail, counted from the step passed to [`with`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum InjectedFault {
        /// Only this step fails.
        Once,
        /// This step and all later ones fail, as in a killed process.
        Killed,
        /// From this step on, creating, writing and flushing fail, as on a full disk.
        Full,
    }

    thread_local! {
        static PLAN: Cell<Option<(usize, InjectedFault)>> = const { Cell::new(None) };
        static SEEN: Cell<usize> = const { Cell::new(0) };
    }

    /// Runs `work` with a fault at step `at`. Each operation counts as two steps, one before it runs and one after it.
    /// Returns the result and the number of steps.
    pub fn with<T>(at: usize, fault: InjectedFault, work: impl FnOnce() -> T) -> (T, usize) {
        PLAN.set(Some((at, fault)));
        SEEN.set(0);
        let result = work();
        PLAN.set(None);
        (result, SEEN.get())
    }

    pub(super) fn step(action: &str) -> Result<()> {
        let seen = SEEN.replace(SEEN.get() + 1);
        let fails = PLAN.get().is_some_and(|(at, fault)| match fault {
            InjectedFault::Once => seen == at,
            InjectedFault::Killed => seen >= at,
            InjectedFault::Full => seen >= at && matches!(action, "create" | "write" | "flush"),
        });
        if fails { Err(Error::from(ErrorKind::StorageFull)) } else { Ok(()) }
    }
}
