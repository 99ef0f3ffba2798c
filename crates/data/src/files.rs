//! Atomic file writes, and reads of byte ranges of files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Writes `bytes` to `path` atomically: readers see either the old file or the new one.
///
/// # Errors
/// The file cannot be written. An existing file stays unchanged.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = StagedFile::create(path)?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.finish()
}

/// Opens a regular file for reading. A named pipe without a writer would block forever, and a device may never end.
///
/// # Errors
/// As [`File::open`]. Also if the path is neither a regular file nor a folder.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let refuse = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"));
    if let Some(what) = not_a_file(&fs::metadata(path)?) {
        return Err(refuse(what));
    }
    File::open(path)
}

/// Names the kind of a path that is neither a regular file nor a folder; otherwise `None`. Folders are accepted here
/// because the operating system already refuses to read them.
pub(crate) fn not_a_file(metadata: &fs::Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_dir() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return Some("a named pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
    }
    Some("a device")
}

pub(crate) fn read_range(path: &Path, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    // `take` instead of `with_capacity(len)`: a wrong length must not allocate more than the file holds.
    file.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == len {
        Ok(bytes)
    } else {
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the file ends {} bytes after byte {offset}; expected {len} bytes", bytes.len()),
        ))
    }
}

/// A file written under a temporary name beside its target. [`StagedFile::finish`] renames it; dropping it without
/// `finish` removes it.
pub(crate) struct StagedFile {
    writer: Option<BufWriter<File>>,
    temporary: PathBuf,
    target: PathBuf,
}

impl StagedFile {
    /// Creates the temporary file and any missing folders.
    pub(crate) fn create(target: &Path) -> Result<Self> {
        // Two writers of the same target in one process need different temporary files.
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = target
            .file_name()
            .ok_or_else(|| Error::config("path", format!("`{}`", target.display()), "a file name"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{serial}.tmp", std::process::id()));
        let temporary = target.with_file_name(hidden);
        if let Some(folder) = parent(target) {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        let file = File::create(&temporary).map_err(Error::io("create", target))?;
        Ok(Self { writer: Some(BufWriter::new(file)), temporary, target: target.to_owned() })
    }

    /// Syncs the file to disk and renames it to its target.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let done = writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.target));
        if let Err(error) = done {
            // Report the write error; a left-over temporary file is harmless.
            let _ = fs::remove_file(&self.temporary);
            return Err(Error::io("write", &self.target)(error));
        }
        // Sync the folder too, so that the rename survives a power loss. Some file systems cannot sync a folder, so
        // errors are ignored.
        if let Some(Ok(folder)) = parent(&self.target).map(File::open) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Some(writer) => writer.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Some(writer) => writer.flush(),
            None => Ok(()),
        }
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Removes temporary files that killed writers of `target` left behind. Call it only if one process at a time writes
/// `target`.
pub(crate) fn remove_abandoned(target: &Path) {
    let Some(name) = target.file_name().and_then(|name| name.to_str()) else { return };
    let folder = parent(target).unwrap_or(Path::new("."));
    // Left-over files are harmless, so errors are ignored.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let middle = found.to_str().and_then(|it| it.strip_prefix(&format!(".{name}."))?.strip_suffix(".tmp"));
        if middle.is_some_and(|it| it.chars().all(|c| c.is_ascii_digit() || c == '-')) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|p| !p.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dropped_staged_file_keeps_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/a.txt");
        write_whole(&path, b"old").unwrap();
        let mut file = StagedFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn range_past_the_end_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_whole(&path, b"0123456789").unwrap();
        assert_eq!(read_range(&path, 2, 3).unwrap(), b"234");
        let error = read_range(&path, 8, 1 << 40).unwrap_err();
        assert_eq!(error.to_string(), "the file ends 2 bytes after byte 8; expected 1099511627776 bytes");
    }
}
