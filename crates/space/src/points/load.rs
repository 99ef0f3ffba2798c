//! Reading a set, with one clear message for each way in which a folder can be wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde_json::{Map, Value};

use super::{EmbeddingSet, Manifest, Modality, Seal, folder};
use crate::error::{Error, Result};

impl EmbeddingSet {
    /// Reads a folder in the format of [`crate::points`].
    ///
    /// # Errors
    /// A file is missing, truncated, damaged, of another version or of the wrong shape; the files disagree on the
    /// number of rows or the columns; the content does not pass [`EmbeddingSet::check`].
    pub fn load(dir: &Path) -> Result<Self> {
        let dir = folder::resolve(dir)?;
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
struct Rows {
    ids: Vec<String>,
    modality: Vec<Modality>,
    columns: BTreeMap<String, Vec<String>>,
}

fn read_manifest(path: &Path) -> Result<Manifest> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let text = |e: serde_json::Error| Error::format(path, "the file", e, "JSON of a manifest");
    let value: Value = serde_json::from_slice(&bytes).map_err(text)?;
    let field = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    if field("format") != Manifest::FORMAT {
        let expected = format!("\"{}\"", Manifest::FORMAT);
        return Err(Error::format(path, "`format`", field("format"), expected));
    }
    // Before the other fields: another version may have other ones.
    if field("version") != Manifest::VERSION {
        let expected = format!("{}, the version this build reads", Manifest::VERSION);
        return Err(Error::format(path, "`version`", field("version"), expected));
    }
    serde_json::from_value(value).map_err(text)
}

fn read_points(dir: &Path, manifest: &Manifest) -> Result<Vec<f32>> {
    let path = dir.join(Manifest::POINTS);
    let bytes = read_sealed(&path, Manifest::POINTS, manifest)?;
    let damaged = |e: safetensors::SafeTensorError| {
        let found = format!("unreadable ({e}, {} bytes)", bytes.len());
        Error::format(&path, "the file", found, "a whole safetensors file")
    };
    let tensors = SafeTensors::deserialize(&bytes).map_err(damaged)?;
    let points = tensors.tensor(Manifest::TENSOR).map_err(|_| {
        let found = format!("missing; the file holds {:?}", tensors.names());
        Error::format(&path, format!("tensor `{}`", Manifest::TENSOR), found, "there")
    })?;
    if points.dtype() != Dtype::F32 {
        let found = format!("{:?}", points.dtype());
        return Err(Error::format(&path, "type of `points`", found, "F32"));
    }
    let shape = [manifest.rows, manifest.spec.dim];
    if points.shape() != shape {
        let found = format!("{:?}", points.shape());
        let expected = format!("{shape:?}, `rows` and `spec.dim` of {}", Manifest::FILE);
        return Err(Error::format(&path, "shape of `points`", found, expected));
    }
    let (numbers, _) = points.data().as_chunks::<4>();
    Ok(numbers.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

fn read_rows(dir: &Path, manifest: &Manifest) -> Result<Rows> {
    let path = dir.join(Manifest::ROWS);
    let bytes = read_sealed(&path, Manifest::ROWS, manifest)?;
    let text = std::str::from_utf8(&bytes).map_err(|e| Error::format(&path, "the file", e, "UTF-8 text"))?;
    let lines = text.lines().count();
    if lines != manifest.rows {
        let expected = format!("{}, `rows` of {}", manifest.rows, Manifest::FILE);
        return Err(Error::format(&path, "number of lines", lines, expected));
    }
    let columns = manifest.columns.iter().map(|name| (name.clone(), Vec::new())).collect();
    let mut rows = Rows { ids: Vec::new(), modality: Vec::new(), columns };
    for (i, line) in text.lines().enumerate() {
        rows.push(line).map_err(|(what, found, expected)| {
            Error::format(&path, format!("line {}: {what}", i + 1), found, expected)
        })?;
    }
    Ok(rows)
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

/// Reads a file and compares it with its seal in the manifest, if there is one.
fn read_sealed(path: &Path, name: &str, manifest: &Manifest) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let Some(seal) = manifest.files.get(name) else {
        return Ok(bytes);
    };
    if bytes.len() as u64 != seal.bytes {
        let found = format!("{} bytes", bytes.len());
        let expected = format!("{} bytes, as in {}", seal.bytes, Manifest::FILE);
        return Err(Error::format(path, "length", found, expected));
    }
    let found = Seal::of(&bytes);
    if found != *seal {
        let expected = format!("{}, as in {}: it was changed or damaged", seal.sha256, Manifest::FILE);
        return Err(Error::format(path, "sha256", found.sha256, expected));
    }
    Ok(bytes)
}
