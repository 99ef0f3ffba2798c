//! Reads an embedding set, with a specific error message for each defect of a folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::draft::Draft;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::manifest::{FileChecksum, MAX_LINE_BYTES, SetManifest};
use crate::modality::Modality;
use crate::set::EmbeddingSet;

impl EmbeddingSet {
    /// Reads a folder in the format of this crate. Files are read in chunks, so the peak memory is about that of
    /// the set.
    ///
    /// # Errors
    /// The set is still a [`Draft`]; a file is missing, truncated, damaged, of another version or of the wrong shape;
    /// the files disagree on the number of rows or the columns; the content does not pass [`EmbeddingSet::check`].
    pub fn load(dir: &Path) -> Result<Self> {
        let dir = conifer_files::resolve(dir);
        if !dir.exists() && Draft::is_begun(&dir) {
            let found = format!("`{}`, which is not finished", dir.display());
            return Err(Error::invalid(
                "embedding set",
                found,
                "a finished set: run the command that started it again to continue",
            ));
        }
        let manifest = read_manifest(&dir.join(SetManifest::FILE))?;
        manifest.spec.check()?;
        let points = read_points(&dir, &manifest)?;
        let rows = read_rows(&dir, &manifest)?;
        let set = EmbeddingSet {
            spec: manifest.spec,
            root: manifest.root,
            ids: rows.ids,
            modality: rows.modality,
            points,
            columns: rows.columns,
            source: manifest.source,
        };
        set.check()?;
        Ok(set)
    }
}

/// The content of `rows.jsonl`.
pub(crate) struct SetRows {
    pub(crate) ids: Vec<String>,
    pub(crate) modality: Vec<Modality>,
    pub(crate) columns: BTreeMap<String, Vec<String>>,
}

pub(crate) fn read_manifest(path: &Path) -> Result<SetManifest> {
    let bytes = read_small(path)?;
    let text = || Error::json(path, "the file", "JSON of a manifest");
    let value: Value = serde_json::from_slice(&bytes).map_err(text())?;
    let field = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    if field("format") != SetManifest::FORMAT {
        let expected = format!("\"{}\"", SetManifest::FORMAT);
        return Err(Error::format(path, "`format`", field("format"), expected));
    }
    // The version is checked first, because another version may have other fields.
    if !SetManifest::VERSIONS.iter().any(|version| field("version") == *version) {
        let expected = SetManifest::VERSIONS.map(|version| version.to_string()).join(" or ");
        return Err(Error::format(path, "`version`", field("version"), format!("{expected}, which this build reads")));
    }
    serde_json::from_value(value).map_err(text())
}

/// Reads a file of at most [`MAX_HEADER_BYTES`] bytes.
pub(crate) fn read_small(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(MAX_HEADER_BYTES + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    match bytes.len() as u64 > MAX_HEADER_BYTES {
        true => Err(Error::format(path, "length", "over the limit", format!("at most {MAX_HEADER_BYTES} bytes"))),
        false => Ok(bytes),
    }
}

fn read_points(dir: &Path, manifest: &SetManifest) -> Result<Vec<f32>> {
    let path = dir.join(SetManifest::POINTS);
    let mut file = ChecksumReader::open(&path, SetManifest::POINTS, manifest)?;
    let points = points_of(&mut file, manifest);
    // Report a checksum mismatch before parse errors.
    file.finish()?;
    points
}

fn points_of(file: &mut ChecksumReader<'_>, manifest: &SetManifest) -> Result<Vec<f32>> {
    let PointsLayout { element, skipped, length, .. } = header_of(file, manifest)?;
    file.skip(skipped)?;
    let (mut numbers, count) = (Vec::new(), manifest.rows * manifest.spec.dim);
    // A sparse file can exceed the memory although it occupies little disk space.
    numbers.try_reserve_exact(count).map_err(|e| {
        Error::format(file.path, "number of coordinates", format!("{count} ({e})"), "a set that fits into memory")
    })?;
    let mut piece = vec![0; PIECE];
    let mut left = length;
    while left > 0 {
        let some = &mut piece[..left.min(PIECE)];
        file.read(some)?;
        element.decode(some, &mut numbers);
        left -= some.len();
    }
    Ok(numbers)
}

/// Position of the numbers in a points file.
pub(crate) struct PointsLayout {
    pub(crate) element: Element,
    /// Bytes of the file before the numbers.
    pub(crate) offset: u64,
    /// Bytes of other tensors between the header and the numbers; `offset` includes them.
    skipped: u64,
    /// Length of the numbers, in bytes.
    length: usize,
}

/// Reads the header of a points file; the reader is then positioned at the first byte after the header.
pub(crate) fn header_of(file: &mut ChecksumReader<'_>, manifest: &SetManifest) -> Result<PointsLayout> {
    let (path, bytes) = (file.path, file.bytes);
    let damaged = |why: &dyn std::fmt::Display| {
        let found = format!("unreadable ({why}, {bytes} bytes)");
        Error::format(path, "the file", found, "a whole safetensors file")
    };
    let mut length = [0; 8];
    if bytes >= 8 {
        file.read(&mut length)?;
    }
    let header = u64::from_le_bytes(length);
    if header == 0 || header > bytes - 8 {
        return Err(damaged(&"no header"));
    }
    if header > MAX_HEADER_BYTES {
        return Err(damaged(&format!("its header has {header} bytes; the limit is {MAX_HEADER_BYTES}")));
    }
    let mut json = vec![0; header as usize];
    file.read(&mut json)?;
    let tensors: Metadata = serde_json::from_slice(&json).map_err(|e| damaged(&e))?;
    if bytes - 8 - header != tensors.data_len() as u64 {
        return Err(damaged(&format!("its header announces {} bytes of tensor data", tensors.data_len())));
    }
    let points = tensors.info(SetManifest::TENSOR).ok_or_else(|| {
        let found = format!("missing; the file holds {:?}", tensors.offset_keys());
        Error::format(path, format!("tensor `{}`", SetManifest::TENSOR), found, "a tensor of this name")
    })?;
    let element = element_of(points, path, manifest)?;
    let shape = [manifest.rows, manifest.spec.dim];
    if points.shape != shape {
        let found = format!("{:?}", points.shape);
        let expected = format!("{shape:?}, `rows` and `spec.dim` of {}", SetManifest::FILE);
        return Err(Error::format(path, "shape of `points`", found, expected));
    }
    let (start, end) = points.data_offsets;
    Ok(PointsLayout { element, offset: 8 + header + start as u64, skipped: start as u64, length: end - start })
}

/// The storage type, if the version of the set supports it.
fn element_of(points: &TensorInfo, path: &Path, manifest: &SetManifest) -> Result<Element> {
    let known: Vec<_> =
        Element::ALL.iter().filter(|(it, ..)| SetManifest::version_of(*it) <= manifest.version).collect();
    match Element::of(points.dtype).filter(|found| known.iter().any(|(it, ..)| it == found)) {
        Some(element) => Ok(element),
        None => {
            let names: Vec<_> = known.iter().map(|(.., name)| *name).collect();
            Err(Error::format(path, "type of `points`", format!("{:?}", points.dtype), names.join(", ")))
        }
    }
}

pub(crate) fn read_rows(dir: &Path, manifest: &SetManifest) -> Result<SetRows> {
    let path = dir.join(SetManifest::ROWS);
    let mut file = ChecksumReader::open(&path, SetManifest::ROWS, manifest)?;
    let columns = manifest.columns.iter().map(|name| (name.clone(), Vec::new())).collect();
    let mut rows = SetRows { ids: Vec::new(), modality: Vec::new(), columns };
    let mut wrong = None;
    let (mut bytes, mut lines) = (Vec::new(), 0);
    while file.line(&mut bytes)? {
        lines += 1;
        if bytes.len() > MAX_LINE_BYTES {
            // Fail without reading on: the rest of the line may be arbitrarily long.
            let found = format!("longer than {MAX_LINE_BYTES} bytes");
            return Err(Error::format(&path, format!("line {lines}"), found, "a shorter line"));
        }
        if wrong.is_none() {
            let text =
                std::str::from_utf8(&bytes).map_err(|e| ("the text".to_owned(), e.to_string(), "UTF-8".to_owned()));
            wrong = text
                .and_then(|text| rows.push(text))
                .err()
                .map(|(what, found, expected)| Error::format(&path, format!("line {lines}: {what}"), found, expected));
        }
    }
    // Report a checksum mismatch before parse errors, and a wrong number of lines before an invalid line.
    file.finish()?;
    if lines != manifest.rows {
        let expected = format!("{}, `rows` of {}", manifest.rows, SetManifest::FILE);
        return Err(Error::format(&path, "number of lines", lines, expected));
    }
    wrong.map_or(Ok(rows), Err)
}

impl SetRows {
    /// Parses one line and appends it; the error is (what, found, expected).
    fn push(&mut self, line: &str) -> Result<(), (String, String, String)> {
        let wrong = |what: &str, found: &dyn std::fmt::Display, expected: &str| {
            (what.to_owned(), found.to_string(), expected.to_owned())
        };
        let mut row: Map<String, Value> =
            serde_json::from_str(line).map_err(|e| wrong("the row", &e, "a JSON object"))?;
        let id = take_text(&mut row, "id")?;
        let modality = row.remove("modality").unwrap_or(Value::Null);
        let modality = serde_json::from_value(modality.clone())
            .map_err(|_| wrong("`modality`", &modality, "image, text, box_image or box_text"))?;
        for (name, column) in &mut self.columns {
            column.push(take_text(&mut row, name)?);
        }
        if let Some(name) = row.keys().next() {
            let expected = format!("one of `columns` in {}", SetManifest::FILE);
            return Err(wrong("a field", &format!("`{name}`"), &expected));
        }
        self.ids.push(id);
        self.modality.push(modality);
        Ok(())
    }
}

fn take_text(row: &mut Map<String, Value>, name: &str) -> Result<String, (String, String, String)> {
    match row.remove(name) {
        Some(Value::String(text)) => Ok(text),
        other => {
            let found = other.map_or("missing".to_owned(), |value| value.to_string());
            Err((format!("`{name}`"), found, "a string".to_owned()))
        }
    }
}

/// Largest manifest, identity file and header of a points file, bytes: the limit of the `safetensors` library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Opens a regular file for reading. Anything else is an error, because opening a pipe can block forever.
fn open_file(path: &Path) -> Result<File> {
    let kind = fs::metadata(path).map_err(Error::io("read", path))?.file_type();
    if !kind.is_file() {
        return Err(Error::format(path, "the entry", "not a regular file", "a regular file"));
    }
    File::open(path).map_err(Error::io("read", path))
}

/// Bytes per read: a multiple of every element size.
const PIECE: usize = 1 << 20;

/// A file reader that compares the length and checksum with the manifest, if the manifest has them.
pub(crate) struct ChecksumReader<'a> {
    path: &'a Path,
    checksum: Option<&'a FileChecksum>,
    bytes: u64,
    reader: BufReader<File>,
    sha: Sha256,
}

impl<'a> ChecksumReader<'a> {
    pub(crate) fn open(path: &'a Path, name: &str, manifest: &'a SetManifest) -> Result<Self> {
        let file = open_file(path)?;
        let bytes = file.metadata().map_err(Error::io("read", path))?.len();
        let checksum = manifest.files.get(name);
        if let Some(checksum) = checksum.filter(|checksum| checksum.bytes != bytes) {
            let found = format!("{bytes} bytes");
            let expected = format!("{} bytes, as in {}", checksum.bytes, SetManifest::FILE);
            return Err(Error::format(path, "length", found, expected));
        }
        Ok(Self { path, checksum, bytes, reader: BufReader::with_capacity(PIECE, file), sha: Sha256::new() })
    }

    /// Fills `bytes`.
    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.reader.read_exact(bytes).map_err(Error::io("read", self.path))?;
        self.hash(bytes);
        Ok(())
    }

    /// Skips bytes; they still count for the checksum.
    fn skip(&mut self, mut count: u64) -> Result<()> {
        let mut piece = [0; 4096];
        while count > 0 {
            let some = count.min(4096);
            self.read(&mut piece[..some as usize])?;
            count -= some;
        }
        Ok(())
    }

    /// Reads the next line with its line break, or the first bytes of a line over the limit. Returns false at the end
    /// of the file.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let mut some = self.reader.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        some.read_until(b'\n', line).map_err(Error::io("read", self.path))?;
        self.hash(line);
        Ok(!line.is_empty())
    }

    /// Reads the rest of the file and compares the checksum.
    fn finish(mut self) -> Result<()> {
        let mut piece = vec![0; 4096];
        loop {
            match self.reader.read(&mut piece).map_err(Error::io("read", self.path))? {
                0 => break,
                count => self.hash(&piece[..count]),
            }
        }
        let Some(checksum) = self.checksum else { return Ok(()) };
        let found = hex::encode(self.sha.finalize());
        if found != checksum.sha256 {
            let expected = format!("{}, as in {}: the file was changed or damaged", checksum.sha256, SetManifest::FILE);
            return Err(Error::format(self.path, "sha256", found, expected));
        }
        Ok(())
    }

    fn hash(&mut self, bytes: &[u8]) {
        if self.checksum.is_some() {
            self.sha.update(bytes);
        }
    }
}

impl FileChecksum {
    /// Computes the checksum of a file on disk, reading it in chunks.
    pub(crate) fn of_file(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(Error::io("read", path))?;
        let (mut sha, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
        loop {
            match file.read(&mut piece).map_err(Error::io("read", path))? {
                0 => return Ok(FileChecksum { bytes, sha256: hex::encode(sha.finalize()) }),
                count => {
                    sha.update(&piece[..count]);
                    bytes += count as u64;
                }
            }
        }
    }
}
