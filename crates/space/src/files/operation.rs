//! File operations of this module, one function each, so that tests can inject a fault into any of them.

use std::fs::{self, File};
use std::path::Path;

use crate::error::{Error, Result};

pub(crate) fn create_dir(path: &Path) -> Result<()> {
    run("create", path, || fs::create_dir(path))
}

pub(crate) fn create_dir_all(path: &Path) -> Result<()> {
    run("create", path, || fs::create_dir_all(path))
}

pub(crate) fn create_file(path: &Path) -> Result<File> {
    run("create", path, || File::create(path))
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    run("rename to", to, || fs::rename(from, to))
}

/// Removes a folder with its content; succeeds if it does not exist.
pub(crate) fn remove_dir_all(path: &Path) -> Result<()> {
    run("remove", path, || match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    })
}

/// Removes a file; succeeds if it does not exist.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    run("remove", path, || match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    })
}

/// Flushes a file, or the entries of a folder on systems that support it.
pub(crate) fn sync(path: &Path) -> Result<()> {
    if !cfg!(unix) && path.is_dir() {
        return Ok(());
    }
    run("flush", path, || File::open(path)?.sync_all())
}

#[cfg(not(test))]
fn run<T>(action: &'static str, path: &Path, work: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
    work().map_err(Error::io(action, path))
}

/// In tests every operation can fail before it runs, or run and still report a failure.
#[cfg(test)]
fn run<T>(action: &'static str, path: &Path, work: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
    faults::step().and_then(|()| work()).and_then(|done| faults::step().map(|()| done)).map_err(Error::io(action, path))
}

#[cfg(test)]
pub(crate) mod faults {
    use std::cell::Cell;
    use std::io::{Error, ErrorKind, Result};

    /// The kind of fault.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum InjectedFault {
        /// Only that step fails.
        Once,
        /// That step and all later ones fail, as in a killed process.
        Killed,
    }

    thread_local! {
        static PLAN: Cell<Option<(usize, InjectedFault)>> = const { Cell::new(None) };
        static SEEN: Cell<usize> = const { Cell::new(0) };
    }

    /// Runs `work` with a fault at step `at`. Each operation has two steps: before it and after it. Returns the result
    /// and the number of steps.
    pub(crate) fn with<T>(at: usize, fault: InjectedFault, work: impl FnOnce() -> T) -> (T, usize) {
        PLAN.set(Some((at, fault)));
        SEEN.set(0);
        let result = work();
        PLAN.set(None);
        (result, SEEN.get())
    }

    pub(super) fn step() -> Result<()> {
        let seen = SEEN.replace(SEEN.get() + 1);
        let fails = PLAN.get().is_some_and(|(at, fault)| match fault {
            InjectedFault::Once => seen == at,
            InjectedFault::Killed => seen >= at,
        });
        if fails { Err(Error::from(ErrorKind::StorageFull)) } else { Ok(()) }
    }
}
