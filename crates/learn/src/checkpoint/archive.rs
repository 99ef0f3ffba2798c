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
/// Size of a central directory entry without its name.
const ENTRY: usize = 46;

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
    let size = number(&tail[end..], 12, 4);
    // The directory ends where its end record begins. The ZIP64 form of this record is not read.
    let directory_end = start + end as u64;
    let Some(begin) = directory_end.checked_sub(size) else { return Ok(0) };
    let directory = read(&mut file, begin, size)?;
    let mut entries = directory.as_slice();
    let mut total = 0_u64;
    while entries.len() >= ENTRY && entries.starts_with(b"PK\x01\x02") {
        let stored = number(entries, 10, 2) == 0;
        if !stored {
            total = total.saturating_add(number(entries, 24, 4));
        }
        let behind = number(entries, 28, 2) + number(entries, 30, 2) + number(entries, 32, 2);
        entries = entries.get(ENTRY + behind as usize..).unwrap_or_default();
    }
    Ok(total)
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
