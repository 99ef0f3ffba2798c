//! One pass over a part of a tar file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

const BLOCK: u64 = 512;

/// A member that belongs to a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The name up to the first dot of its last component, folders included.
    pub(super) key: String,
    /// What follows that dot, in lower case: "jpg", "parent000.txt".
    pub(super) extension: String,
    /// The full name.
    pub(super) name: String,
    /// First byte of its headers, those of a long name included.
    pub(super) begin: u64,
    /// First byte of its content.
    pub(super) offset: u64,
    /// Length of its content.
    pub(super) len: u64,
    /// One past its last block.
    pub(super) end: u64,
}

/// The point behind which nothing can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Torn {
    /// Key of the member that is cut off, where its name could still be read.
    pub(super) key: Option<String>,
    /// What was found, and what was expected.
    pub(super) detail: String,
}

impl std::fmt::Display for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

/// Calls `visit` for every member in bytes `start..stop` that belongs to a sample; its content can be read then and
/// only then. Folders, links, names without a dot, hidden names and names that begin with `__` (WebDataset's own
/// records) are passed over.
pub(super) fn walk(
    mut file: File,
    start: u64,
    stop: u64,
    mut visit: impl FnMut(Member, &mut dyn Read) -> io::Result<()>,
) -> Result<(), Torn> {
    let lost = |begin: u64, found: String| Torn {
        key: None,
        detail: format!("{found} at byte {begin}; expected a tar header"),
    };
    let file_len = file.metadata().map_err(|e| lost(start, e.to_string()))?.len();
    if file_len == 0 {
        return Err(lost(start, "empty file".to_owned()));
    }
    file.seek(SeekFrom::Start(start)).map_err(|e| lost(start, e.to_string()))?;
    let mut begin = start;
    let mut archive = tar::Archive::new(Window { file, start });
    let mut entries = archive.entries_with_seek().map_err(|e| lost(start, e.to_string()))?;
    // Never ask for a member behind `stop`: it belongs to another sample, and may be torn.
    while begin < stop {
        let mut entry = match entries.next() {
            None => return Ok(()),
            Some(Ok(entry)) => entry,
            Some(Err(error)) => return Err(lost(begin, error.to_string())),
        };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if is_sparse(&mut entry).map_err(|e| lost(begin, e.to_string()))? {
            return Err(Torn {
                detail: format!(
                    "member `{name}` at byte {begin} is a sparse file of GNU tar; expected whole files (pack the shard again without \
                     --sparse)"
                ),
                key: split(&name).map(|(key, _)| key.to_owned()),
            });
        }
        let (offset, len) = (start + entry.raw_file_position(), entry.size());
        let parts = split(&name).filter(|_| entry.header().entry_type().is_file());
        // Seeking past the end of a file is no error, so the length has to be compared.
        let content_end = offset.saturating_add(len);
        if content_end > file_len {
            return Err(Torn {
                detail: format!(
                    "member `{name}` has {} of its {len} bytes; expected all of them",
                    file_len.saturating_sub(offset)
                ),
                key: parts.map(|(key, _)| key.to_owned()),
            });
        }
        let end = offset + len.next_multiple_of(BLOCK);
        if let Some((key, extension)) = parts {
            let member = Member {
                key: key.to_owned(),
                extension: extension.to_lowercase(),
                name: name.clone(),
                begin,
                offset,
                len,
                end,
            };
            visit(member, &mut entry).map_err(|e| lost(offset, e.to_string()))?;
        }
        begin = end;
    }
    Ok(())
}

/// Whether only parts of the member are stored. In the old form the header says so, in that of POSIX archives a record does, and the
/// member looks like any other, with a list of parts in front of its content.
fn is_sparse<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<bool> {
    if entry.header().entry_type().is_gnu_sparse() {
        return Ok(true);
    }
    let Some(records) = entry.pax_extensions()? else { return Ok(false) };
    // A record that is none is no sign of a sparse file.
    Ok(records.flatten().any(|record| record.key_bytes().starts_with(b"GNU.sparse.")))
}

/// Key and extension of a member's name: split at the first dot behind the last slash.
fn split(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix("./").unwrap_or(name);
    let base = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].find('.')?;
    let (key, extension) = (&name[..dot], &name[dot + 1..]);
    let hidden = dot == base || name[base..].starts_with("__");
    (!hidden && !extension.is_empty()).then_some((key, extension))
}

/// A file whose positions count from `start`: the tar reader takes the place where it begins for 0.
struct Window {
    file: File,
    start: u64,
}

impl Read for Window {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => self.file.seek(SeekFrom::Start(self.start + at))?,
            other => self.file.seek(other)?,
        };
        at.checked_sub(self.start).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek before the window"))
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn names_are_split_at_the_first_dot_of_the_last_component() {
        assert_eq!(split("000.jpg"), Some(("000", "jpg")));
        assert_eq!(split("./000.child.jpg"), Some(("000", "child.jpg")));
        assert_eq!(split("a.b/000.parent000.txt"), Some(("a.b/000", "parent000.txt")));
        for skipped in ["__key__.txt", "a/__url__", ".hidden.jpg", "a/.b", "noext", "a/", "x."] {
            assert_eq!(split(skipped), None, "{skipped}");
        }
    }
}
