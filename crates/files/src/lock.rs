//! An advisory file lock, which lets one process write at a time.

use std::fs::{File, TryLockError};
use std::io;

/// An advisory lock on an open file, held until the value is dropped. The operating system releases it when the process
/// ends.
///
/// `drop` unlocks explicitly, because closing the file may not release the lock: if another thread spawns a process,
/// the child holds a duplicate of every open file descriptor between fork and exec, and a duplicate keeps the lock.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a file; `None` if another process or another open handle holds the lock.
    ///
    /// # Errors
    /// The error of the operating system, for example if the file system does not support locks.
    pub fn take(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock.
        _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = || File::create(folder.path().join("lock")).unwrap();
        let first = Lock::take(file()).unwrap().unwrap();
        assert!(Lock::take(file()).unwrap().is_none());
        drop(first);
        assert!(Lock::take(file()).unwrap().is_some());
    }

    /// The copy of the file simulates a child process that is being started.
    #[test]
    fn dropping_releases_copies_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = || File::create(folder.path().join("lock")).unwrap();
        let opened = file();
        let _copy = opened.try_clone().unwrap();
        drop(Lock::take(opened).unwrap().unwrap());
        assert!(Lock::take(file()).unwrap().is_some());
    }
}
