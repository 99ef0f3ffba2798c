//! Reads regular files and byte ranges of files; writes files into folders that may not exist yet.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use conifer_files::NewFile;

use crate::error::Result;

/// Creates the missing parent folders of `path`, then a [`NewFile`] for `path`.
///
/// # Errors
/// The errors of [`NewFile::create`].
pub fn create(path: &Path) -> Result<NewFile> {
    conifer_files::create_parent(path)?;
    Ok(NewFile::create(path)?)
}

/// Creates the missing parent folders of `path`, then writes `bytes` to `path` atomically.
///
/// # Errors
/// The errors of [`conifer_files::write_whole`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    conifer_files::create_parent(path)?;
    Ok(conifer_files::write_whole(path, bytes)?)
}

/// Opens a regular file for reading. Other kinds of files are errors: a named pipe without a writer would block
/// forever, and a device may never end.
///
/// # Errors
/// The errors of [`File::open`], and an error if the path is neither a regular file nor a folder.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let refuse = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"));
    if let Some(what) = not_a_file(&fs::metadata(path)?) {
        return Err(refuse(what));
    }
    File::open(path)
}

/// Names the kind of a path that is neither a regular file nor a folder; otherwise `None`. Folders are accepted here
/// because the operating system already refuses to read them.
pub fn not_a_file(metadata: &fs::Metadata) -> Option<&'static str> {
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

/// Reads `len` bytes from byte `offset` on.
///
/// # Errors
/// The errors of [`open_regular`], and an error if the file ends earlier.
pub fn read_range(path: &Path, offset: u64, len: u64) -> io::Result<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
