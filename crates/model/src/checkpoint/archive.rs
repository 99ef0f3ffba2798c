//! Computes the unpacked size that a ZIP checkpoint claims.
//!
//! `torch.save` stores its entries uncompressed. A compressed entry can expand to far more than the size of the file,
//! and the pickle reader would allocate that memory before any tensor is checked.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Number of bytes at the end of the file that are searched for the end-of-central-directory record: the record and the
/// longest archive comment.
const TAIL: u64 = (1 << 16) + 22;
/// Size of the fixed fields of a central directory entry.
const ENTRY: usize = 46;
/// Size of the locator of the ZIP64 end record, directly before the ordinary end record.
const LOCATOR: usize = 20;

/// Unpacked size of all compressed entries, as the archive's central directory states it; 0 for a file that is not an
/// archive. Uncompressed entries do not count, because the file contains their bytes.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn unpacked_bytes(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    let tail = read(&mut file, start, length - start)?;
    let Some(end) = tail.windows(4).rposition(|it| it == b"PK\x05\x06") else { return Ok(0) };
    // The end record follows the directory. In a ZIP64 archive, the ZIP64 end record and its locator are between them.
    let is_zip64 = end.checked_sub(LOCATOR).is_some_and(|at| tail[at..].starts_with(b"PK\x06\x07"));
    let (directory_end, size) = match tail[..end].windows(4).rposition(|it| it == b"PK\x06\x06") {
        Some(record) if is_zip64 => (start + record as u64, number(&tail[record..], 40, 8)),
        _ => (start + end as u64, number(&tail[end..], 12, 4)),
    };
    let Some(begin) = directory_end.checked_sub(size) else { return Ok(0) };
    let directory = read(&mut file, begin, size)?;
    let mut entries = directory.as_slice();
    let mut total = 0_u64;
    while entries.len() >= ENTRY && entries.starts_with(b"PK\x01\x02") {
        let stored = number(entries, 10, 2) == 0;
        if !stored {
            total = total.saturating_add(unpacked_size(entries));
        }
        let behind = number(entries, 28, 2) + number(entries, 30, 2) + number(entries, 32, 2);
        entries = entries.get(ENTRY + behind as usize..).unwrap_or_default();
    }
    Ok(total)
}

/// The unpacked size of a directory entry: its 32-bit field, or the ZIP64 extra field if the 32-bit field is 2^32 - 1.
fn unpacked_size(entry: &[u8]) -> u64 {
    let size = number(entry, 24, 4);
    if size != u64::from(u32::MAX) {
        return size;
    }
    let start = ENTRY + number(entry, 28, 2) as usize;
    let extra = entry.get(start..start + number(entry, 30, 2) as usize);
    let mut fields = extra.unwrap_or_default();
    while fields.len() >= 4 {
        let length = number(fields, 2, 2) as usize;
        if number(fields, 0, 2) == 1 && length >= 8 {
            return number(fields, 4, 8);
        }
        fields = fields.get(4 + length..).unwrap_or_default();
    }
    size
}

fn read(file: &mut File, from: u64, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The little-endian integer of `length` bytes at offset `at`; 0 if the bytes are missing.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A placeholder for the file contents, a directory with one deflated entry of `size` bytes, and the end records.
    fn archive(size: u64, zip64: bool) -> Vec<u8> {
        let mut entry = vec![0; ENTRY];
        entry[..4].copy_from_slice(b"PK\x01\x02");
        entry[10] = 8; // deflate
        entry[24..28].copy_from_slice(&(if zip64 { u32::MAX } else { size as u32 }).to_le_bytes());
        entry[28] = 4;
        entry.extend(b"data");
        if zip64 {
            entry[30] = 18;
            // The entry has another extra field before the ZIP64 field.
            entry.extend([9, 0, 2, 0, 7, 7, 1, 0, 8, 0]);
            entry.extend(size.to_le_bytes());
        }
        let mut bytes = b"contents".to_vec();
        bytes.extend(&entry);
        if zip64 {
            let mut record = vec![0; 56];
            record[..4].copy_from_slice(b"PK\x06\x06");
            record[40..48].copy_from_slice(&(entry.len() as u64).to_le_bytes());
            bytes.extend(record);
            let mut locator = vec![0; LOCATOR];
            locator[..4].copy_from_slice(b"PK\x06\x07");
            bytes.extend(locator);
        }
        let mut end = vec![0; 22];
        end[..4].copy_from_slice(b"PK\x05\x06");
        let size = if zip64 { u32::MAX } else { entry.len() as u32 };
        end[12..16].copy_from_slice(&size.to_le_bytes());
        bytes.extend(end);
        bytes
    }

    #[test]
    fn the_unpacked_size_is_read_from_ordinary_and_zip64_directories() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pth");
        for (size, zip64) in [(1 << 30, false), (1 << 30, true), (1 << 40, true)] {
            std::fs::write(&path, archive(size, zip64)).unwrap();
            assert_eq!(unpacked_bytes(&path).unwrap(), size, "ZIP64: {zip64}");
        }
        std::fs::write(&path, b"no archive").unwrap();
        assert_eq!(unpacked_bytes(&path).unwrap(), 0);
    }
}
