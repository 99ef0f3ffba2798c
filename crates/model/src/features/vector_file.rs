//! A file of vectors by key: a header, then fixed-size records, each with a key, a vector and a checksum.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use conifer_embeddings::Element;
use conifer_files::Lock;
use sha2::{Digest as _, Sha256};

use super::mapped::MappedVectors;

/// SHA-256 that identifies a text or photo.
pub type ContentKey = [u8; 32];

/// Length of a record's checksum in bytes: the first bytes of the SHA-256 of key and stored vector.
const CHECK: usize = 8;
/// Size of the read buffer while a file is opened, in bytes.
const BUFFER: usize = 1 << 20;

/// First bytes of every file.
const MAGIC: &[u8; 16] = b"conifer vectors\0";
/// Version of the layout.
const VERSION: u32 = 1;
/// Bytes of the header: magic (16), version (4), number format (4), width (8), number of rows (8), identity (24).
const HEADER: u64 = 64;
/// Byte offset of the number of rows.
const ROWS_AT: u64 = 32;
/// Number formats by their code in the header.
const ELEMENTS: [Element; 3] = [Element::F32, Element::F16, Element::BF16];

/// Identity, width and number format of the vectors of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorLayout<'a> {
    /// Names everything besides the key that determines a vector, such as the fingerprint of an encoder.
    pub identity: &'a str,
    /// Number of values in a vector.
    pub width: usize,
    /// Number format on disk. `None`: the format of the existing file, or f32 for a new file.
    pub element: Option<Element>,
}

/// Vectors by key. All numbers are little endian. A record is 32 bytes of key, `width` numbers and 8 bytes of checksum.
/// If a key has several records, the last one counts.
///
/// The header counts the rows. It is updated after the records of [`VectorFile::add`] are written, so that a process
/// that was killed meanwhile leaves either all of them or none. A record with a wrong checksum is ignored. Only the
/// process that holds the file's lock writes. Other processes read the rows that existed when they opened the file.
#[derive(Debug)]
pub struct VectorFile {
    path: PathBuf,
    file: File,
    width: usize,
    element: Element,
    identity: [u8; 24],
    /// Number of the row of each key.
    positions: HashMap<ContentKey, u64>,
    rows: u64,
    writes: bool,
    _lock: Option<Lock>,
}

impl VectorFile {
    /// Opens or creates a file. The second value holds notes for the user.
    ///
    /// # Errors
    /// The file cannot be opened, read or written; [`ErrorKind::InvalidData`] if its header names another version,
    /// number format, width or identity.
    pub fn open(path: &Path, layout: &VectorLayout<'_>) -> Result<(Self, Vec<String>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let shown = path.display();
        let mut notes = Vec::new();
        let lock = Lock::take(file.try_clone()?)
            .map_err(|error| format!("{shown} cannot be locked: {error}"))
            .and_then(|lock| lock.ok_or_else(|| format!("{shown}: another conifer run is writing")))
            .map_err(|why| notes.push(format!("{why}; stored vectors are read, but no new ones are added")))
            .ok();
        let mut store = Self {
            path: path.into(),
            file,
            width: layout.width,
            element: layout.element.unwrap_or_default(),
            identity: identity_bytes(layout.identity),
            positions: HashMap::new(),
            rows: 0,
            writes: lock.is_some(),
            _lock: lock,
        };
        match store.read_header(layout)? {
            Some(stated) => {
                let (complete, damaged) = store.scan(stated)?;
                if complete < stated {
                    let lost = stated - complete;
                    notes.push(format!(
                        "{shown} ends before its last {} (half-written file); they will be computed again",
                        counted(lost, "vector")
                    ));
                }
                if !damaged.is_empty() {
                    let found = counted(damaged.len() as u64, "damaged vector");
                    notes.push(format!("{shown}: {found} will be computed again"));
                }
                if store.writes {
                    store.mend(stated, &damaged)?;
                }
            }
            None => {
                if store.file.metadata()?.len() > 0 {
                    notes.push(format!("{shown} does not start as a file of vectors; it is written anew"));
                }
                store.clear()?;
            }
        }
        Ok((store, notes))
    }

    /// Checks the header and returns the number of rows that it states; `None` without a header.
    fn read_header(&mut self, layout: &VectorLayout<'_>) -> Result<Option<u64>> {
        let mut header = [0; HEADER as usize];
        match self.file.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            done => done?,
        }
        if !header.starts_with(MAGIC) {
            return Ok(None);
        }
        let number = |at: usize, bytes: usize| {
            header[at..at + bytes].iter().rev().fold(0, |sum: u64, &byte| (sum << 8) | u64::from(byte))
        };
        let differs = |found: String, expected: String| {
            let advice = "remove the file, or use another folder";
            Err(Error::new(ErrorKind::InvalidData, format!("{found}; expected {expected}; {advice}")))
        };
        let version = number(16, 4);
        if version != u64::from(VERSION) {
            return differs(format!("version {version} of the file format"), format!("version {VERSION}"));
        }
        let Some(&element) = ELEMENTS.get(number(20, 4) as usize) else {
            return differs(format!("number format {}", number(20, 4)), "0 (F32), 1 (F16) or 2 (BF16)".to_owned());
        };
        if let Some(wanted) = layout.element.filter(|wanted| *wanted != element) {
            return differs(format!("vectors stored as {}", element.name()), wanted.name().to_owned());
        }
        if number(24, 8) != layout.width as u64 {
            return differs(format!("vectors of width {}", number(24, 8)), format!("width {}", layout.width));
        }
        if header[40..] != self.identity {
            let found = format!("vectors of another encoder (fingerprint {})", hex::encode(&header[40..46]));
            return differs(found, format!("fingerprint {}", hex::encode(&self.identity[..6])));
        }
        self.element = element;
        Ok(Some(number(ROWS_AT as usize, 8)))
    }

    /// Reads the `stated` records as far as the file has them. Returns the number of complete records, and the indices
    /// of the damaged ones.
    fn scan(&mut self, stated: u64) -> Result<(u64, Vec<u64>)> {
        let size = self.size();
        let there = (self.file.metadata()?.len() - HEADER) / size as u64;
        let complete = stated.min(there);
        self.file.seek(SeekFrom::Start(HEADER))?;
        let mut reader = BufReader::with_capacity(BUFFER, &self.file);
        let (mut record, mut damaged) = (vec![0; size], Vec::new());
        for row in 0..complete {
            match reader.read_exact(&mut record) {
                // The process that holds the lock emptied the file meanwhile.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                done => done?,
            }
            self.rows = row + 1;
            match key_of(&record) {
                Some(key) => drop(self.positions.insert(key, row)),
                None if record.iter().all(|&byte| byte == 0) => {}
                None => damaged.push(row),
            }
        }
        Ok((complete, damaged))
    }

    /// Removes the bytes that an interrupted write left at the end of the file. Zeroes damaged records, so that they
    /// are reported only once.
    fn mend(&mut self, stated: u64, damaged: &[u64]) -> Result<()> {
        let empty = vec![0; self.size()];
        for &row in damaged {
            self.file.seek(SeekFrom::Start(self.offset(row)))?;
            self.file.write_all(&empty)?;
        }
        if self.rows != stated {
            self.commit(self.rows)?;
        }
        self.file.set_len(self.offset(self.rows))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if this process holds the lock, so that vectors can be added.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Number of rows, including damaged and repeated ones.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.offset(self.rows)
    }

    /// Number format on disk.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Row number of the last record with this key; `None` if there is no such record.
    pub fn position(&self, key: &ContentKey) -> Option<u64> {
        self.positions.get(key).copied()
    }

    /// Maps the rows that the file has now.
    ///
    /// # Errors
    /// The file cannot be mapped, or was truncated.
    pub(crate) fn map(&self) -> Result<MappedVectors> {
        let first = HEADER as usize + size_of::<ContentKey>();
        MappedVectors::open(&self.file, first, self.size(), self.width, self.element, self.rows)
    }

    /// The vectors of those keys that are in the file, rounded to its number format.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find(&mut self, keys: &[ContentKey]) -> Result<HashMap<ContentKey, Vec<f32>>> {
        let (mut found, mut record) = (HashMap::new(), vec![0; self.size()]);
        for key in keys {
            let Some(&row) = self.positions.get(key) else { continue };
            if found.contains_key(key) {
                continue;
            }
            self.file.seek(SeekFrom::Start(self.offset(row)))?;
            let there = match self.file.read_exact(&mut record) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
                done => done.map(|()| key_of(&record) == Some(*key))?,
            };
            if there {
                let mut vector = Vec::with_capacity(self.width);
                self.element.decode(&record[key.len()..record.len() - CHECK], &mut vector);
                found.insert(*key, vector);
            } else {
                // Another process changed the file after it was opened.
                self.positions.remove(key);
            }
        }
        Ok(found)
    }

    /// Appends vectors, rounded to the number format of the file. After a failed write the file keeps none of them, and
    /// further calls do nothing.
    ///
    /// # Errors
    /// The file cannot be written; [`ErrorKind::InvalidData`] for a finite number beyond the range of the format.
    pub fn add(&mut self, vectors: &[(ContentKey, Vec<f32>)]) -> Result<()> {
        if !self.writes || vectors.is_empty() {
            return Ok(());
        }
        let written = self.records(vectors).and_then(|bytes| {
            self.file.seek(SeekFrom::Start(self.offset(self.rows)))?;
            self.file.write_all(&bytes)?;
            self.commit(self.rows + vectors.len() as u64)
        });
        if let Err(error) = written {
            self.writes = false;
            // If this fails too, `mend` removes the rows that the header does not count.
            _ = self.file.set_len(self.offset(self.rows));
            return Err(error);
        }
        self.positions.extend(vectors.iter().map(|it| it.0).zip(self.rows..));
        self.rows += vectors.len() as u64;
        Ok(())
    }

    fn records(&self, vectors: &[(ContentKey, Vec<f32>)]) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(vectors.len() * self.size());
        let mut rounded = Vec::with_capacity(self.width);
        for (key, vector) in vectors {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            self.element.encode(vector, &mut bytes);
            if self.element != Element::F32 {
                rounded.clear();
                self.element.decode(&bytes[start + key.len()..], &mut rounded);
                if let Some(at) = (0..self.width).find(|&at| vector[at].is_finite() && !rounded[at].is_finite()) {
                    let (value, name) = (vector[at], self.element.name());
                    let found = format!("the number {value} does not fit {name}; expected F32 for such vectors");
                    return Err(Error::new(ErrorKind::InvalidData, found));
                }
            }
            let check = checksum(&bytes[start..]);
            bytes.extend_from_slice(&check);
        }
        Ok(bytes)
    }

    /// Writes the number of rows to the header.
    fn commit(&mut self, rows: u64) -> Result<()> {
        self.file.seek(SeekFrom::Start(ROWS_AT))?;
        self.file.write_all(&rows.to_le_bytes())
    }

    /// Forgets all vectors. Empties the file if this process holds the lock.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn clear(&mut self) -> Result<()> {
        self.positions.clear();
        if self.writes {
            self.rows = 0;
            self.file.set_len(0)?;
            let code = ELEMENTS.iter().position(|it| *it == self.element).unwrap_or_default() as u32;
            let mut header = MAGIC.to_vec();
            header.extend(VERSION.to_le_bytes());
            header.extend(code.to_le_bytes());
            header.extend((self.width as u64).to_le_bytes());
            header.extend(0_u64.to_le_bytes());
            header.extend(self.identity);
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&header)?;
        }
        Ok(())
    }

    /// Size of a record in bytes.
    fn size(&self) -> usize {
        size_of::<ContentKey>() + self.width * self.element.size() + CHECK
    }

    fn offset(&self, row: u64) -> u64 {
        HEADER + row * self.size() as u64
    }
}

/// A count with its noun: `1 vector`, `2 vectors`.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn identity_bytes(identity: &str) -> [u8; 24] {
    let hash: [u8; 32] = Sha256::digest(identity).into();
    let mut first = [0; 24];
    first.copy_from_slice(&hash[..24]);
    first
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

    const LAYOUT: VectorLayout<'_> = VectorLayout { identity: "a", width: 3, element: None };
    const SIZE: usize = 32 + 3 * 4 + 8;
    const START: usize = HEADER as usize;

    fn points(range: std::ops::Range<u8>) -> Vec<(ContentKey, Vec<f32>)> {
        range.map(|i| ([i; 32], vec![f32::from(i) / 3.0, -0.0, f32::MIN_POSITIVE / 2.0])).collect()
    }

    fn keys(range: std::ops::Range<u8>) -> Vec<ContentKey> {
        range.map(|i| [i; 32]).collect()
    }

    fn open(path: &Path) -> (VectorFile, Vec<String>) {
        VectorFile::open(path, &LAYOUT).unwrap()
    }

    fn filled(path: &Path) {
        let (mut store, _) = open(path);
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
        let (mut store, notes) = open(&path);
        let found = store.find(&keys(0..7)).unwrap();
        assert_eq!((found.len(), notes.len()), (5, 0));
        assert!(points(0..5).iter().all(|(key, point)| bits(&found[key]) == bits(point)));
        // The memory map returns the same bits.
        let map = store.map().unwrap();
        for (key, point) in points(0..5) {
            let mut row = Vec::new();
            map.read(store.position(&key).unwrap(), &mut row);
            assert_eq!(bits(&row), bits(&point));
        }
        store.add(&[([1; 32], vec![9.0, 9.0, 9.0])]).unwrap();
        assert_eq!(store.find(&keys(1..2)).unwrap()[&[1; 32]], [9.0; 3]);
        drop(store);
        let (mut store, _) = open(&path);
        assert_eq!(store.find(&keys(1..2)).unwrap()[&[1; 32]], [9.0; 3]);
        assert_eq!((store.rows(), store.bytes()), (6, (START + 6 * SIZE) as u64));
        store.clear().unwrap();
        assert!(store.find(&keys(0..7)).unwrap().is_empty());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), HEADER);
    }

    #[test]
    fn half_precision_is_bounded_and_numbers_out_of_range_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let half = VectorLayout { element: Some(Element::F16), ..LAYOUT };
        let path = folder.path().join("a.points");
        let vector = vec![1.0 / 3.0, -1234.567, 1e-6];
        let mut store = VectorFile::open(&path, &half).unwrap().0;
        store.add(&[([1; 32], vector.clone())]).unwrap();
        let found = store.find(&keys(1..2)).unwrap().remove(&[1; 32]).unwrap();
        for (found, exact) in found.iter().zip(&vector) {
            // Half a unit in the last place at 11 significant bits. Subnormal numbers have a step of 2^-24.
            assert!((found - exact).abs() <= (exact.abs() * 2.0_f32.powi(-11)).max(2.0_f32.powi(-25)));
        }
        assert_ne!(found, vector);
        let mut mapped = Vec::new();
        store.map().unwrap().read(0, &mut mapped);
        assert_eq!(mapped, found);
        assert_eq!(store.bytes(), HEADER + 32 + 3 * 2 + 8);
        let error = store.add(&[([2; 32], vec![0.0, 70000.0, 0.0])]).unwrap_err().to_string();
        assert!(error.contains("the number 70000 does not fit F16; expected F32"), "{error}");
        drop(store);
        // Without a requested format, that of the file is used.
        let store = open(&path).0;
        assert_eq!((store.element(), store.rows()), (Element::F16, 1));
    }

    #[test]
    fn other_headers_are_refused_and_the_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let bytes = std::fs::read(&path).unwrap();
        let message = |layout: VectorLayout<'_>| VectorFile::open(&path, &layout).unwrap_err().to_string();
        let half = message(VectorLayout { element: Some(Element::F16), ..LAYOUT });
        assert!(half.contains("vectors stored as F32; expected F16; remove the file, or use another folder"), "{half}");
        let wide = message(VectorLayout { width: 5, ..LAYOUT });
        assert!(wide.contains("vectors of width 3; expected width 5"), "{wide}");
        let other = message(VectorLayout { identity: "b", ..LAYOUT });
        assert!(
            other.contains("vectors of another encoder (fingerprint ") && other.contains("; expected fingerprint ")
        );
        for (at, words) in [(16, "version 7 of the file format; expected version 1"), (20, "number format 7")] {
            let mut changed = bytes.clone();
            changed[at] = 7;
            std::fs::write(&path, &changed).unwrap();
            assert!(message(LAYOUT).contains(words), "{}", message(LAYOUT));
            assert!(std::fs::read(&path).unwrap() == changed);
        }
    }

    #[test]
    fn interrupted_write_leaves_the_rows_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let bytes = std::fs::read(&path).unwrap();
        // A process that is killed before it updates the header leaves more records than the header counts.
        std::fs::write(&path, [&bytes[..], &bytes[START..START + SIZE + 5]].concat()).unwrap();
        let (mut store, notes) = open(&path);
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(store.find(&keys(0..7)).unwrap().len(), 5);
        drop(store);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        // A truncated file has fewer records than the header counts.
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let (mut store, notes) = open(&path);
        assert!(notes[0].contains("ends before its last 1 vector (half-written file)"), "{notes:?}");
        assert_eq!(store.find(&keys(0..5)).unwrap().len(), 4);
        store.add(&points(4..5)).unwrap();
        drop(store);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        for start in [&b"not a file of points at all"[..], &bytes[..20]] {
            std::fs::write(&path, start).unwrap();
            let (store, notes) = open(&path);
            assert!(notes[0].contains("does not start as a file of vectors; it is written anew"), "{notes:?}");
            drop(store);
            filled(&path);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn damaged_record_is_dropped_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        for at in [0, 31, 32, SIZE - 9, SIZE - 1] {
            let path = folder.path().join(format!("{at}.points"));
            filled(&path);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[START + 2 * SIZE + at] ^= 16;
            std::fs::write(&path, bytes).unwrap();
            let (mut store, notes) = open(&path);
            assert!(notes[0].contains("points: 1 damaged vector will be computed again"), "{notes:?}");
            let found = store.find(&keys(0..5)).unwrap();
            assert_eq!((found.len(), found.contains_key(&[2; 32])), (4, false));
            store.add(&points(2..3)).unwrap();
            drop(store);
            let (mut store, notes) = open(&path);
            assert_eq!((store.find(&keys(0..5)).unwrap().len(), notes.len()), (5, 0));
            // A record that is damaged while the file is open is not returned either.
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[START + SIZE + at] ^= 16;
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(store.find(&keys(0..5)).unwrap().len(), 4);
        }
    }

    #[test]
    fn only_the_lock_holder_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let (mut first, _) = open(&path);
        let (mut second, notes) = open(&path);
        assert!(notes[0].contains("another conifer run is writing") && !second.writes(), "{notes:?}");
        assert_eq!(second.find(&keys(0..5)).unwrap().len(), 5);
        second.add(&points(5..6)).unwrap();
        second.clear().unwrap();
        assert_eq!(first.find(&keys(0..6)).unwrap().len(), 5);
        // Records that the first process clears are no longer found by the second.
        let mut second = open(&path).0;
        first.clear().unwrap();
        first.add(&points(4..5)).unwrap();
        assert!(second.find(&keys(0..4)).unwrap().is_empty());
        drop(first);
        assert!(open(&path).1.is_empty());
    }

    #[test]
    fn failed_write_is_an_error_and_disables_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let (mut store, _) = open(&path);
        store.file = File::open(&path).unwrap();
        assert!(store.add(&points(5..6)).is_err() && !store.writes());
        assert_eq!(store.find(&keys(0..6)).unwrap().len(), 5);
        assert!(VectorFile::open(folder.path(), &LAYOUT).is_err());
    }

    #[test]
    fn a_file_that_was_cut_is_not_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.points");
        filled(&path);
        let store = open(&path).0;
        std::fs::write(&path, [0; 100]).unwrap();
        assert_eq!(store.map().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
