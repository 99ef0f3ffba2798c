//! What a ZIP checkpoint claims to unpack to.
//!
//! `torch.save` stores its entries as they are. A compressed entry can claim a thousand times the size of the file, and the reader takes
//! memory for a pickle of 100 MB, and several gigabytes for the objects in it, before any tensor is looked at.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Longest comment behind the directory, and the record before it.
const TAIL: u64 = (1 << 16) + 22;
/// Size of an entry of the directory without its name.
const ENTRY: usize = 46;

/// Bytes of all compressed entries after unpacking, as the directory of the archive says; 0 for what is no archive. Entries that are
/// stored as they are do not count: they are in the file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn unpacked_bytes(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    let tail = read(&mut file, start, length - start)?;
    let Some(end) = tail.windows(4).rposition(|it| it == b"PK\x05\x06") else { return Ok(0) };
    let size = number(&tail[end..], 12, 4);
    // The directory ends where its record begins; larger ones than 4 GB, with a record of their own, no model has.
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

/// The little-endian number of some bytes; 0 where the bytes are not there.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
