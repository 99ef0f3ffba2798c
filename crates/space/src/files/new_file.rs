//! Writes one file atomically.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::folder::{parent, temporary_name};
use super::operation;
use crate::error::{Error, Result};

/// A file under a temporary name beside its target. [`NewFile::finish`] renames it to the target; dropping it earlier
/// removes it. Its mode is 0666 minus the umask.
#[derive(Debug)]
pub struct NewFile {
    writer: Option<BufWriter<File>>,
    temporary: PathBuf,
    target: PathBuf,
}

impl NewFile {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// `target` does not end in a name; the operating system reports an error.
    pub fn create(target: &Path) -> Result<Self> {
        let temporary = temporary_name(target)?;
        let file = operation::create_file(&temporary)?;
        Ok(Self { writer: Some(BufWriter::with_capacity(1 << 20, file)), temporary, target: target.to_owned() })
    }

    /// Flushes the file to the disk and renames it to the target, replacing an existing file.
    ///
    /// # Errors
    /// The operating system reports an error; the file at the target is then unchanged.
    pub fn finish(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let done = writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .map_err(Error::io("write", &self.target))
            .and_then(|()| operation::rename(&self.temporary, &self.target));
        if let Err(error) = done {
            // The first error is the one to report.
            let _ = fs::remove_file(&self.temporary);
            return Err(error);
        }
        operation::sync(&parent(&self.target)?)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Writes `bytes` to `path` atomically: a reader sees the old file or the new one.
///
/// # Errors
/// The errors of [`NewFile`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::operation::faults::{InjectedFault, with};
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.txt");
        write_whole(&path, b"old").unwrap();
        let (_, steps) =
            with(usize::MAX, InjectedFault::Once, || write_whole(&home.path().join("b.txt"), b"x").unwrap());
        fs::remove_file(home.path().join("b.txt")).unwrap();
        assert!(steps >= 6, "{steps}");
        for at in 0..steps {
            write_whole(&path, b"old").unwrap();
            let (done, _) = with(at, InjectedFault::Once, || write_whole(&path, b"new"));
            assert!(done.is_err(), "step {at}");
            let found = fs::read(&path).unwrap();
            assert!(found == b"old" || found == b"new", "step {at}: {found:?}");
            // A temporary file remains only if its creation itself reported a failure.
            assert!(at < 2 || fs::read_dir(home.path()).unwrap().count() == 1, "step {at}");
            for entry in fs::read_dir(home.path()).unwrap().flatten() {
                if entry.path() != path {
                    fs::remove_file(entry.path()).unwrap();
                }
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn modes_follow_the_umask() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(home.path().join(name)).unwrap().permissions().mode() & 0o777;
        // The mode of an ordinary new file under the umask of this process.
        fs::write(home.path().join("plain"), b"x").unwrap();
        write_whole(&home.path().join("whole"), b"x").unwrap();
        assert_eq!(mode("whole"), mode("plain"));
    }
}
