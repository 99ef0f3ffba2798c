//! A file of vectors by key: fixed-size records, each with a key, a vector and a checksum.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use conifer_files::Lock;
use sha2::{Digest as _, Sha256};

/// SHA-256 that identifies a text or photo.
pub type ContentKey = [u8; 32];

/// Bytes of a record's checksum: the first bytes of the SHA-256 of key and point.
const CHECK: usize = 8;
/// Size of the read buffer while a file is opened, in bytes.
const BUFFER: usize = 1 << 20;

/// Points by key. A record is 32 bytes of key, `dim` numbers (`f32`, little endian) and 8 bytes of checksum. If a key
/// has several records, the last one counts.
///
/// A record with a wrong checksum is ignored. Only the process that holds the file's lock writes; it also cuts off an
/// incomplete record at the end. Other processes read the records that existed when they opened the file.
#[derive(Debug)]
pub struct VectorFile {
    path: PathBuf,
    file: File,
    dim: usize,
    /// Byte offset of the record of each key.
    offsets: HashMap<ContentKey, u64>,
    /// End of the last complete record, in bytes.
    length: u64,
    writes: bool,
    _lock: Option<Lock>,
}

impl VectorFile {
    /// Opens or creates a file of points with `dim` numbers. The second value holds notes for the user.
    ///
    /// # Errors
    /// The file cannot be opened, read or written.
    pub fn open(path: &Path, dim: usize) -> std::io::Result<(Self, Vec<String>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let shown = path.display();
        let mut notes = Vec::new();
        let lock = Lock::take(file.try_clone()?)
            .map_err(|error| format!("{shown} cannot be locked: {error}"))
            .and_then(|lock| lock.ok_or_else(|| format!("{shown}: another conifer run is writing")))
            .map_err(|why| notes.push(format!("{why}; cached embeddings are read, but no new ones are added")))
            .ok();
        let (offsets, writes) = (HashMap::new(), lock.is_some());
        let mut store = Self { path: path.into(), file, dim, offsets, length: 0, writes, _lock: lock };
        let damaged = store.scan()?;
        if !damaged.is_empty() {
            let count = damaged.len();
            notes.push(match count {
                1 => format!("{shown}: 1 cached embedding is damaged and will be computed again"),
                _ => format!("{shown}: {count} cached embeddings are damaged and will be computed again"),
            });
        }
        if store.writes {
            store.mend(&damaged)?;
        }
        Ok((store, notes))
    }

    /// Reads all records and returns the offsets of the damaged ones.
    fn scan(&mut self) -> std::io::Result<Vec<u64>> {
        let (size, whole) = (self.size(), self.file.metadata()?.len());
        self.length = whole - whole % size as u64;
        let mut reader = BufReader::with_capacity(BUFFER, &self.file);
        let (mut record, mut damaged) = (vec![0; size], Vec::new());
        for offset in (0..self.length).step_by(size) {
            match reader.read_exact(&mut record) {
                // The process that holds the lock truncated the file meanwhile.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                done => done?,
            }
            match key_of(&record) {
                Some(key) => drop(self.offsets.insert(key, offset)),
                None if record.iter().all(|&byte| byte == 0) => {}
                None => damaged.push(offset),
            }
        }
        Ok(damaged)
    }

    /// Cuts off an incomplete record at the end, or empties the file if no record is valid. Zeroes damaged records, so
    /// that they are reported only once.
    fn mend(&mut self, damaged: &[u64]) -> std::io::Result<()> {
        if self.offsets.is_empty() {
            self.length = 0;
        }
        self.file.set_len(self.length)?;
        let empty = vec![0; self.size()];
        for &offset in damaged.iter().filter(|&&offset| offset < self.length) {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.write_all(&empty)?;
        }
        Ok(())
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if this process holds the lock, so that points can be added.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// The points of those keys that are in the file, with the exact bits that were added.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find(&mut self, keys: &[ContentKey]) -> std::io::Result<HashMap<ContentKey, Vec<f32>>> {
        let (mut found, mut record) = (HashMap::new(), vec![0; self.size()]);
        for key in keys {
            let Some(&offset) = self.offsets.get(key) else { continue };
            if found.contains_key(key) {
                continue;
            }
            self.file.seek(SeekFrom::Start(offset))?;
            let there = match self.file.read_exact(&mut record) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
                done => done.map(|()| key_of(&record) == Some(*key))?,
            };
            if there {
                let numbers = &record[key.len()..record.len() - CHECK];
                found.insert(*key, numbers.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect());
            } else {
                // Another process changed the file after it was opened.
                self.offsets.remove(key);
            }
        }
        Ok(found)
    }

    /// Appends points. If that fails, none of them is kept, and further calls do nothing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, points: &[(ContentKey, Vec<f32>)]) -> std::io::Result<()> {
        if !self.writes {
            return Ok(());
        }
        let size = self.size();
        let mut bytes = Vec::with_capacity(points.len() * size);
        for (key, point) in points {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            bytes.extend(point.iter().flat_map(|v| v.to_le_bytes()));
            let check = checksum(&bytes[start..]);
            bytes.extend_from_slice(&check);
        }
        let written = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| self.file.write_all(&bytes));
        if let Err(error) = written {
            self.writes = false;
            // If truncation fails too, the file ends with complete records and perhaps an incomplete one, which `mend`
            // cuts off.
            _ = self.file.set_len(self.length);
            return Err(error);
        }
        let offsets = (self.length..).step_by(size);
        self.offsets.extend(points.iter().map(|it| it.0).zip(offsets));
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Forgets all points. Empties the file if this process holds the lock.
    ///
    /// # Errors
    /// The file cannot be truncated.
    pub fn clear(&mut self) -> std::io::Result<()> {
        self.offsets.clear();
        if self.writes {
            self.length = 0;
            self.file.set_len(0)?;
        }
        Ok(())
    }

    /// Bytes per record.
    fn size(&self) -> usize {
        size_of::<ContentKey>() + self.dim * 4 + CHECK
    }
}

fn checksum(content: &[u8]) -> [u8; CHECK] {
    let hash: [u8; 32] = Sha256::digest(content).into();
    let mut first = [0; CHECK];
    first.copy_from_slice(&hash[..CHECK]);
    first
}

/// The key of a record, if its checksum is valid.
fn key_of(record: &[u8]) -> Option<ContentKey> {
    let (content, check) = record.split_last_chunk::<CHECK>()?;
    let (key, _) = content.split_first_chunk::<32>()?;
    (checksum(content) == *check).then_some(*key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SIZE: usize = 32 + 3 * 4 + 8;

    fn points(range: std::ops::Range<u8>) -> Vec<(ContentKey, Vec<f32>)> {
        range.map(|i| ([i; 32], vec![f32::from(i) / 3.0, -0.0, f32::MIN_POSITIVE / 2.0])).collect()
    }

    fn keys(range: std::ops::Range<u8>) -> Vec<ContentKey> {
        range.map(|i| [i; 32]).collect()
    }

    fn filled(path: &Path) {
        let (mut store, notes) = VectorFile::open(path, 3).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        store.add(&points(0..2)).unwrap();
        store.add(&points(2..5)).unwrap();
    }

    fn bits(point: &[f32]) -> Vec<u32> {
        point.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn points_round_trip_exactly_and_the_last_record_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let (mut store, notes) = VectorFile::open(&path, 3).unwrap();
        let found = store.find(&keys(0..7)).unwrap();
        assert_eq!((found.len(), notes.len()), (5, 0));
        assert!(points(0..5).iter().all(|(key, point)| bits(&found[key]) == bits(point)));
        store.add(&[([1; 32], vec![9.0, 9.0, 9.0])]).unwrap();
        assert_eq!(store.find(&keys(1..2)).unwrap()[&[1; 32]], [9.0; 3]);
        drop(store);
        let (mut store, _) = VectorFile::open(&path, 3).unwrap();
        assert_eq!(store.find(&keys(1..2)).unwrap()[&[1; 32]], [9.0; 3]);
        store.clear().unwrap();
        assert!(store.find(&keys(0..7)).unwrap().is_empty());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn incomplete_last_record_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let (mut store, notes) = VectorFile::open(&path, 3).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 * SIZE as u64);
        assert_eq!(store.find(&keys(0..5)).unwrap().len(), 4);
        store.add(&points(4..5)).unwrap();
        drop(store);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        std::fs::write(&path, "not a file of points at all").unwrap();
        filled(&path);
    }

    #[test]
    fn damaged_record_is_dropped_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        for at in [0, 31, 32, SIZE - 9, SIZE - 1] {
            let path = folder.path().join(format!("{at}.points"));
            filled(&path);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[2 * SIZE + at] ^= 16;
            std::fs::write(&path, bytes).unwrap();
            let (mut store, notes) = VectorFile::open(&path, 3).unwrap();
            assert!(notes[0].contains("points: 1 cached embedding is damaged and will be computed again"), "{notes:?}");
            let found = store.find(&keys(0..5)).unwrap();
            assert_eq!((found.len(), found.contains_key(&[2; 32])), (4, false));
            store.add(&points(2..3)).unwrap();
            drop(store);
            let (mut store, notes) = VectorFile::open(&path, 3).unwrap();
            assert_eq!((store.find(&keys(0..5)).unwrap().len(), notes.len()), (5, 0));
            // A record that is damaged while the file is open is not returned either.
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[SIZE + at] ^= 16;
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(store.find(&keys(0..5)).unwrap().len(), 4);
        }
    }

    #[test]
    fn only_the_lock_holder_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let (mut first, _) = VectorFile::open(&path, 3).unwrap();
        let (mut second, notes) = VectorFile::open(&path, 3).unwrap();
        assert!(notes[0].contains("another conifer run is writing") && !second.writes(), "{notes:?}");
        assert_eq!(second.find(&keys(0..5)).unwrap().len(), 5);
        second.add(&points(5..6)).unwrap();
        second.clear().unwrap();
        assert_eq!(first.find(&keys(0..6)).unwrap().len(), 5);
        // Records that the first process clears are no longer found by the second.
        let mut second = VectorFile::open(&path, 3).unwrap().0;
        first.clear().unwrap();
        first.add(&points(4..5)).unwrap();
        assert!(second.find(&keys(0..4)).unwrap().is_empty());
        drop(first);
        assert!(VectorFile::open(&path, 3).unwrap().1.is_empty());
    }

    #[test]
    fn failed_write_is_an_error_and_disables_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let (mut store, _) = VectorFile::open(&path, 3).unwrap();
        store.file = File::open(&path).unwrap();
        assert!(store.add(&points(5..6)).is_err() && !store.writes());
        assert_eq!(store.find(&keys(0..6)).unwrap().len(), 5);
        assert!(VectorFile::open(folder.path(), 3).is_err());
    }
}
