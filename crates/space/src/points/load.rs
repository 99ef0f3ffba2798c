//! Reading a set, with one clear message for each way in which a folder can be wrong.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Draft, Element, EmbeddingSet, MOST_LINE, Manifest, Modality, Seal, hex};
use crate::error::{Error, Result};
use crate::files;

impl EmbeddingSet {
    /// Reads a folder in the format of [`crate::points`]. Files are read piece by piece: it takes the memory of the set, and no more.
    ///
    /// # Errors
    /// The set is still a [`Draft`]; a file is missing, truncated, damaged, of another version or of the wrong shape; the files disagree on the
    /// number of rows or the columns; the content does not pass [`EmbeddingSet::check`].
    pub fn load(dir: &Path) -> Result<Self> {
        let dir = files::resolve(dir);
        if !dir.exists() && Draft::is_begun(&dir) {
            let found = format!("`{}`, which is not finished", dir.display());
            return Err(Error::invalid(
                "embedding set",
                found,
                "a whole one: the command that began it goes on with it",
            ));
        }
        let manifest = read_manifest(&dir.join(Manifest::FILE))?;
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

/// What `rows.jsonl` holds.
pub(super) struct Rows {
    pub(super) ids: Vec<String>,
    pub(super) modality: Vec<Modality>,
    pub(super) columns: BTreeMap<String, Vec<String>>,
}

pub(super) fn read_manifest(path: &Path) -> Result<Manifest> {
    let bytes = read_small(path)?;
    let text = |e: serde_json::Error| Error::format(path, "the file", e, "JSON of a manifest");
    let value: Value = serde_json::from_slice(&bytes).map_err(text)?;
    let field = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    if field("format") != Manifest::FORMAT {
        let expected = format!("\"{}\"", Manifest::FORMAT);
        return Err(Error::format(path, "`format`", field("format"), expected));
    }
    // Before the other fields: another version may have other ones.
    if !Manifest::VERSIONS.iter().any(|version| field("version") == *version) {
        let expected = Manifest::VERSIONS.map(|version| version.to_string()).join(" or ");
        return Err(Error::format(path, "`version`", field("version"), format!("{expected}, which this build reads")));
    }
    serde_json::from_value(value).map_err(text)
}

/// A file of at most [`MOST_HEADER`] bytes.
pub(super) fn read_small(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(MOST_HEADER + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    match bytes.len() as u64 > MOST_HEADER {
        true => Err(Error::format(path, "length", "more", format!("at most {MOST_HEADER} bytes"))),
        false => Ok(bytes),
    }
}

fn read_points(dir: &Path, manifest: &Manifest) -> Result<Vec<f32>> {
    let path = dir.join(Manifest::POINTS);
    let mut file = Sealed::open(&path, Manifest::POINTS, manifest)?;
    let points = points_of(&mut file, manifest);
    // That the file was changed is told before what is wrong in it.
    file.finish()?;
    points
}

fn points_of(file: &mut Sealed<'_>, manifest: &Manifest) -> Result<Vec<f32>> {
    let Placed { element, skipped, length, .. } = header_of(file, manifest)?;
    file.skip(skipped)?;
    let (mut numbers, count) = (Vec::new(), manifest.rows * manifest.spec.dim);
    // A file can be longer than what it takes on the disk, and than the memory.
    numbers.try_reserve_exact(count).map_err(|e| {
        Error::format(file.path, "number of coordinates", format!("{count} ({e})"), "a set that fits into the memory")
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

/// Where the numbers of a file of points lie.
pub(super) struct Placed {
    pub(super) element: Element,
    /// Bytes of the file before them, and how many of these lie behind the header.
    pub(super) offset: u64,
    skipped: u64,
    /// Their bytes.
    length: usize,
}

/// Reads the header of a file of points, and leaves the reader behind it.
pub(super) fn header_of(file: &mut Sealed<'_>, manifest: &Manifest) -> Result<Placed> {
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
    if header > MOST_HEADER {
        return Err(damaged(&format!("its header has {header} bytes, of at most {MOST_HEADER}")));
    }
    let mut json = vec![0; header as usize];
    file.read(&mut json)?;
    let tensors: Metadata = serde_json::from_slice(&json).map_err(|e| damaged(&e))?;
    if bytes - 8 - header != tensors.data_len() as u64 {
        return Err(damaged(&format!("its header tells of {} bytes of numbers", tensors.data_len())));
    }
    let points = tensors.info(Manifest::TENSOR).ok_or_else(|| {
        let found = format!("missing; the file holds {:?}", tensors.offset_keys());
        Error::format(path, format!("tensor `{}`", Manifest::TENSOR), found, "there")
    })?;
    let element = element_of(points, path, manifest)?;
    let shape = [manifest.rows, manifest.spec.dim];
    if points.shape != shape {
        let found = format!("{:?}", points.shape);
        let expected = format!("{shape:?}, `rows` and `spec.dim` of {}", Manifest::FILE);
        return Err(Error::format(path, "shape of `points`", found, expected));
    }
    let (start, end) = points.data_offsets;
    Ok(Placed { element, offset: 8 + header + start as u64, skipped: start as u64, length: end - start })
}

/// The kind of number, if the version of the set has it.
fn element_of(points: &TensorInfo, path: &Path, manifest: &Manifest) -> Result<Element> {
    let known: Vec<_> = Element::ALL.iter().filter(|(it, ..)| Manifest::version_of(*it) <= manifest.version).collect();
    match Element::of(points.dtype).filter(|found| known.iter().any(|(it, ..)| it == found)) {
        Some(element) => Ok(element),
        None => {
            let names: Vec<_> = known.iter().map(|(.., name)| *name).collect();
            Err(Error::format(path, "type of `points`", format!("{:?}", points.dtype), names.join(", ")))
        }
    }
}

pub(super) fn read_rows(dir: &Path, manifest: &Manifest) -> Result<Rows> {
    let path = dir.join(Manifest::ROWS);
    let mut file = Sealed::open(&path, Manifest::ROWS, manifest)?;
    let columns = manifest.columns.iter().map(|name| (name.clone(), Vec::new())).collect();
    let mut rows = Rows { ids: Vec::new(), modality: Vec::new(), columns };
    let mut wrong = None;
    let (mut bytes, mut lines) = (Vec::new(), 0);
    while file.line(&mut bytes)? {
        lines += 1;
        if bytes.len() > MOST_LINE {
            // At once: what comes may be as long as the disk.
            let found = format!("longer than {MOST_LINE} bytes");
            return Err(Error::format(&path, format!("line {lines}"), found, "a row of at most that"));
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
    // That the file was changed is told before what is wrong in it, and a wrong number of lines before what is wrong in one.
    file.finish()?;
    if lines != manifest.rows {
        let expected = format!("{}, `rows` of {}", manifest.rows, Manifest::FILE);
        return Err(Error::format(&path, "number of lines", lines, expected));
    }
    wrong.map_or(Ok(rows), Err)
}

impl Rows {
    /// Takes one line, or says what is wrong with it: (what, found, expected).
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
            let expected = format!("one of `columns` in {}", Manifest::FILE);
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

/// Most bytes of what is read before any row is: a manifest, the header of a file of points (as the `safetensors` library has it).
const MOST_HEADER: u64 = 100_000_000;

/// Opens a file to read it; anything else (a pipe, on which to wait for ever) is an error.
fn open_file(path: &Path) -> Result<File> {
    let kind = fs::metadata(path).map_err(Error::io("read", path))?.file_type();
    if !kind.is_file() {
        return Err(Error::format(path, "the entry", "of another kind", "a file"));
    }
    File::open(path).map_err(Error::io("read", path))
}

/// Bytes that are read at once: a multiple of every element.
const PIECE: usize = 1 << 20;

/// A file that is compared with its seal in the manifest, if there is one, while it is read.
pub(super) struct Sealed<'a> {
    path: &'a Path,
    seal: Option<&'a Seal>,
    bytes: u64,
    reader: BufReader<File>,
    sha: Sha256,
}

impl<'a> Sealed<'a> {
    pub(super) fn open(path: &'a Path, name: &str, manifest: &'a Manifest) -> Result<Self> {
        let file = open_file(path)?;
        let bytes = file.metadata().map_err(Error::io("read", path))?.len();
        let seal = manifest.files.get(name);
        if let Some(seal) = seal.filter(|seal| seal.bytes != bytes) {
            let found = format!("{bytes} bytes");
            let expected = format!("{} bytes, as in {}", seal.bytes, Manifest::FILE);
            return Err(Error::format(path, "length", found, expected));
        }
        Ok(Self { path, seal, bytes, reader: BufReader::with_capacity(PIECE, file), sha: Sha256::new() })
    }

    /// Fills `bytes`.
    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.reader.read_exact(bytes).map_err(Error::io("read", self.path))?;
        self.hash(bytes);
        Ok(())
    }

    /// Passes over bytes.
    fn skip(&mut self, mut count: u64) -> Result<()> {
        let mut piece = [0; 4096];
        while count > 0 {
            let some = count.min(4096);
            self.read(&mut piece[..some as usize])?;
            count -= some;
        }
        Ok(())
    }

    /// The next line, with its break, or the first bytes of one that is longer than a row may be; whether there was one.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let mut some = self.reader.by_ref().take(MOST_LINE as u64 + 1);
        some.read_until(b'\n', line).map_err(Error::io("read", self.path))?;
        self.hash(line);
        Ok(!line.is_empty())
    }

    /// Reads what is left, and compares.
    fn finish(mut self) -> Result<()> {
        let mut piece = vec![0; 4096];
        loop {
            match self.reader.read(&mut piece).map_err(Error::io("read", self.path))? {
                0 => break,
                count => self.hash(&piece[..count]),
            }
        }
        let Some(seal) = self.seal else { return Ok(()) };
        let found = hex(self.sha);
        if found != seal.sha256 {
            let expected = format!("{}, as in {}: it was changed or damaged", seal.sha256, Manifest::FILE);
            return Err(Error::format(self.path, "sha256", found, expected));
        }
        Ok(())
    }

    fn hash(&mut self, bytes: &[u8]) {
        if self.seal.is_some() {
            self.sha.update(bytes);
        }
    }
}

impl Seal {
    /// The seal of a file on the disk, read piece by piece.
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(Error::io("read", path))?;
        let (mut sha, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
        loop {
            match file.read(&mut piece).map_err(Error::io("read", path))? {
                0 => return Ok(Seal { bytes, sha256: hex(sha) }),
                count => {
                    sha.update(&piece[..count]);
                    bytes += count as u64;
                }
            }
        }
    }
}
