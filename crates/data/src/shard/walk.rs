//! Walks over the members in a byte range of a tar file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

const BLOCK: u64 = 512;

/// A member of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TarMember {
    /// The name up to the first dot of its last component, including folders.
    pub(super) key: String,
    /// The rest of the name after that dot, in lower case: "jpg", "parent000.txt".
    pub(super) extension: String,
    pub(super) name: String,
    /// Offset of the member's first header block, including header blocks for a long name.
    pub(super) begin: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// End of the member's last block (exclusive).
    pub(super) end: u64,
}

/// Damage after which nothing more can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TarDamage {
    /// Key of the incomplete member, if its name was readable.
    pub(super) key: Option<String>,
    /// The content found and the content expected.
    pub(super) detail: String,
}

impl std::fmt::Display for TarDamage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

/// Calls `visit` for every member in bytes `start..stop` that belongs to a sample. The content of the member can only
/// be read during the call. Skips folders, links, names without a dot, hidden names, and names that begin with `__`
/// (WebDataset's own records).
pub(super) fn walk(
    mut file: File,
    start: u64,
    stop: u64,
    mut visit: impl FnMut(TarMember, &mut dyn Read) -> io::Result<()>,
) -> Result<(), TarDamage> {
    let lost = |begin: u64, found: String| TarDamage {
        key: None,
        detail: format!("{found} at byte {begin}; expected a tar header"),
    };
    let file_len = file.metadata().map_err(|e| lost(start, e.to_string()))?.len();
    if file_len == 0 {
        return Err(lost(start, "empty file".to_owned()));
    }
    file.seek(SeekFrom::Start(start)).map_err(|e| lost(start, e.to_string()))?;
    let mut begin = start;
    let mut archive = tar::Archive::new(OffsetFile { file, start });
    let mut entries = archive.entries_with_seek().map_err(|e| lost(start, e.to_string()))?;
    // Do not read beyond `stop`, because the next member belongs to another sample and may be damaged.
    while begin < stop {
        let mut entry = match entries.next() {
            None => return Ok(()),
            Some(Ok(entry)) => entry,
            Some(Err(error)) => return Err(lost(begin, error.to_string())),
        };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if is_sparse(&mut entry).map_err(|e| lost(begin, e.to_string()))? {
            return Err(TarDamage {
                detail: format!(
                    "member `{name}` at byte {begin} is a sparse file of GNU tar; expected whole files (pack the shard again without \
                     --sparse)"
                ),
                key: split(&name).map(|(key, _)| key.to_owned()),
            });
        }
        let (offset, len) = (start + entry.raw_file_position(), entry.size());
        let parts = split(&name).filter(|_| entry.header().entry_type().is_file());
        // Seeking past the end of a file succeeds, so compare the length.
        let content_end = offset.saturating_add(len);
        if content_end > file_len {
            return Err(TarDamage {
                detail: format!(
                    "member `{name}` has {} of its {len} bytes; expected all of them",
                    file_len.saturating_sub(offset)
                ),
                key: parts.map(|(key, _)| key.to_owned()),
            });
        }
        let end = offset + len.next_multiple_of(BLOCK);
        if let Some((key, extension)) = parts {
            let member = TarMember {
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

/// True if only parts of the member's content are stored. The old format marks this in the header. The POSIX format
/// marks it in a PAX record, and prepends a list of parts to the content of an otherwise normal member.
fn is_sparse<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<bool> {
    if entry.header().entry_type().is_gnu_sparse() {
        return Ok(true);
    }
    let Some(records) = entry.pax_extensions()? else { return Ok(false) };
    // A malformed record does not indicate a sparse file.
    Ok(records.flatten().any(|record| record.key_bytes().starts_with(b"GNU.sparse.")))
}

/// Splits a member's name into key and extension at the first dot after the last slash. `None` without an extension, or
/// if the file name begins with `.` or `__`.
fn split(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix("./").unwrap_or(name);
    let base = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].find('.')?;
    let (key, extension) = (&name[..dot], &name[dot + 1..]);
    let hidden = dot == base || name[base..].starts_with("__");
    (!hidden && !extension.is_empty()).then_some((key, extension))
}

/// A file with positions relative to `start`, because the tar reader assumes that it starts at 0.
struct OffsetFile {
    file: File,
    start: u64,
}

impl Read for OffsetFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl Seek for OffsetFile {
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
