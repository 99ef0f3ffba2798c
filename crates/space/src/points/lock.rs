//! The right to write, which one has at a time.

use std::fs::{File, TryLockError};
use std::io;

/// An advisory lock on an open file, which lives as long as this value; the system takes it from a process that ends.
///
/// It is given back by a call of its own. To close the file would not always do: a process that another thread starts in that very
/// moment holds a copy of each open file until its program begins, and the lock with it.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a file, which may be open elsewhere; `None` where another has it.
    ///
    /// # Errors
    /// What the system says, such as that this file system knows no locks.
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
        // Where this fails, the file's end gives the lock back.
        _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_has_it_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = || File::create(folder.path().join("lock")).unwrap();
        let first = Lock::take(file()).unwrap().unwrap();
        assert!(Lock::take(file()).unwrap().is_none());
        drop(first);
        assert!(Lock::take(file()).unwrap().is_some());
    }

    /// As a process that is being started has it.
    #[test]
    fn a_copy_of_its_file_does_not_keep_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = || File::create(folder.path().join("lock")).unwrap();
        let opened = file();
        let _copy = opened.try_clone().unwrap();
        drop(Lock::take(opened).unwrap().unwrap());
        assert!(Lock::take(file()).unwrap().is_some());
    }
}
