//! Writes one file atomically.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::folder::{is_temporary_name, parent, sibling, temporary_name};
use crate::{Error, Result, operation};

/// A file under a temporary name beside its target. [`NewFile::finish`] renames the file to the target. If the value is
/// dropped earlier, the file is removed. The mode of the file is 0666 minus the umask.
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
        let file = operation::create_file(&temporary).inspect_err(|_| _ = fs::remove_file(&temporary))?;
        Ok(Self { writer: Some(BufWriter::with_capacity(1 << 20, file)), temporary, target: target.to_owned() })
    }

    /// Sets the permissions of the temporary file to those of the target, if the target exists.
    ///
    /// # Errors
    /// The operating system reports an error.
    pub fn keep_permissions(&self) -> Result<()> {
        match fs::metadata(&self.target) {
            Ok(old) => {
                fs::set_permissions(&self.temporary, old.permissions()).map_err(Error::io("create", &self.target))
            }
            Err(_) => Ok(()),
        }
    }

    /// Flushes the file to the disk and renames it to the target, replacing an existing file.
    ///
    /// # Errors
    /// The operating system reports an error. The file at the target is then unchanged, or has the new content if only
    /// the last flush failed.
    pub fn finish(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let written =
            operation::run("write", &self.target, || writer.into_inner().map_err(io::IntoInnerError::into_error));
        let done = written
            .and_then(|file| operation::run("flush", &self.target, || file.sync_all()))
            .and_then(|()| operation::rename(&self.temporary, &self.target));
        if let Err(error) = done {
            // Ignore this error, because the first one is reported.
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

/// Creates the missing parent folders of a file.
///
/// # Errors
/// `path` does not end in a name; the operating system reports an error.
pub fn create_parent(path: &Path) -> Result<()> {
    operation::create_dir_all(&parent(path)?)
}

/// Removes the temporary files of killed writers of `target`. Call it only if no other process is writing `target`.
pub fn remove_abandoned(target: &Path) {
    let Ok(prefix) = sibling(target, ".") else { return };
    let (Some(folder), Some(prefix)) = (prefix.parent(), prefix.file_name().and_then(|it| it.to_str())) else { return };
    // Leftover files only waste space, so errors are ignored.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_str().is_some_and(|name| is_temporary_name(name, prefix));
        if is_temporary && entry.file_type().is_ok_and(|it| it.is_file()) {
            let _ = operation::remove_file(&entry.path());
        }
    }
}

/// Writes `bytes` to `path` atomically: a reader sees the old file or the new one.
///
/// # Errors
/// Creating, writing, flushing or renaming the file fails.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::operation::faults::{InjectedFault, with};

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.txt");
        write_whole(&path, b"old").unwrap();
        let (_, steps) =
            with(usize::MAX, InjectedFault::Once, || write_whole(&home.path().join("b.txt"), b"x").unwrap());
        fs::remove_file(home.path().join("b.txt")).unwrap();
        // The operations are: create, write, flush, rename, flush the folder. Each counts as two steps.
        assert_eq!(steps, 10);
        for at in 0..steps {
            write_whole(&path, b"old").unwrap();
            let (done, _) = with(at, InjectedFault::Once, || write_whole(&path, b"new"));
            assert!(done.is_err(), "step {at}");
            let found = fs::read(&path).unwrap();
            assert!(found == b"old" || found == b"new", "step {at}: {found:?}");
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "step {at}");
        }
    }

    #[test]
    fn files_of_killed_writers_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.txt");
        for name in [".a.txt.7-1.tmp", ".a.txt.notes.tmp", ".b.txt.7-1.tmp"] {
            fs::write(home.path().join(name), b"x").unwrap();
        }
        fs::create_dir(home.path().join(".a.txt.7-2.tmp")).unwrap();
        remove_abandoned(&path);
        let mut left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".a.txt.7-2.tmp", ".a.txt.notes.tmp", ".b.txt.7-1.tmp"]);
    }

    #[test]
    fn missing_folders_are_created_and_paths_without_a_name_are_errors() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("sub/deep/a.txt");
        assert!(write_whole(&path, b"x").unwrap_err().to_string().starts_with("cannot create `"));
        create_parent(&path).unwrap();
        write_whole(&path, b"x").unwrap();
        let nameless = write_whole(Path::new(".."), b"x").unwrap_err().to_string();
        assert_eq!(nameless, "path to write is `..`; expected a path that ends in a name");
    }

    #[cfg(unix)]
    #[test]
    fn modes_follow_the_umask() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(home.path().join(name)).unwrap().permissions().mode() & 0o777;
        // `plain` has the mode of a new file under the umask of this process.
        fs::write(home.path().join("plain"), b"x").unwrap();
        write_whole(&home.path().join("whole"), b"x").unwrap();
        assert_eq!(mode("whole"), mode("plain"));
    }
}
