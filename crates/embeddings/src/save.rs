//! Writes an embedding set from memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use conifer_files::operation;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::element::Element;
use crate::error::{Error, Result};
use crate::manifest::{FileChecksum, MAX_LINE_BYTES, SetManifest, may_replace};
use crate::modality::Modality;
use crate::set::EmbeddingSet;

impl EmbeddingSet {
    /// Writes the set as folder `dir`, atomically; missing parent folders are created. It needs almost no memory in
    /// addition to the set.
    ///
    /// An existing set at `dir` is replaced only after the new one is complete and flushed to the disk. If the machine
    /// stops during the replacement, [`EmbeddingSet::load`] still finds the old set.
    ///
    /// # Errors
    /// The set does not pass [`EmbeddingSet::check`]; a row is longer than 16 MiB in `rows.jsonl`; `dir` holds foreign
    /// files (nothing is changed then); the operating system reports an error, for example a full disk.
    pub fn save(&self, dir: &Path) -> Result<()> {
        self.check()?;
        conifer_files::replace_folder(dir, may_replace, |fresh| {
            let points = write_file(&fresh.join(SetManifest::POINTS), |file| self.write_points(file))?;
            let rows = write_file(&fresh.join(SetManifest::ROWS), |file| self.write_rows(file))?;
            let manifest = SetManifest {
                format: SetManifest::FORMAT.to_owned(),
                version: SetManifest::version_of(Element::F32),
                rows: self.len(),
                columns: self.columns.keys().cloned().collect(),
                spec: self.spec.clone(),
                root: self.root.clone(),
                source: self.source.clone(),
                files: BTreeMap::from([(SetManifest::POINTS.to_owned(), points), (SetManifest::ROWS.to_owned(), rows)]),
            };
            manifest.write(fresh)
        })
    }

    fn write_points(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(&Element::F32.header(self.len(), self.spec.dim))?;
        let mut bytes = Vec::new();
        for some in self.points.chunks(1 << 16) {
            bytes.clear();
            Element::F32.encode(some, &mut bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    fn write_rows(&self, out: &mut dyn Write) -> std::io::Result<()> {
        for i in 0..self.len() {
            let columns = self.columns.iter().map(|(name, column)| (name.as_str(), column[i].as_str()));
            out.write_all(&line(&self.ids[i], self.modality[i], columns)?)?;
        }
        Ok(())
    }
}

impl SetManifest {
    /// Writes the manifest into a folder and flushes it to the disk.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(SetManifest::FILE);
        let failed = |error: serde_json::Error| Error::io("encode", &path)(std::io::Error::other(error));
        Ok(conifer_files::write_whole(&path, &serde_json::to_vec_pretty(self).map_err(failed)?)?)
    }
}

/// Encodes a line of `rows.jsonl`; `columns` must be in alphabetical order.
pub(crate) fn line<'a>(
    id: &str,
    modality: Modality,
    columns: impl Iterator<Item = (&'a str, &'a str)>,
) -> std::io::Result<Vec<u8>> {
    let mut row = Map::new();
    row.insert("id".to_owned(), Value::from(id));
    row.insert("modality".to_owned(), Value::from(modality.name()));
    row.extend(columns.map(|(name, value)| (name.to_owned(), Value::from(value))));
    let mut line = serde_json::to_vec(&row)?;
    line.push(b'\n');
    if line.len() > MAX_LINE_BYTES {
        let text = format!("a row of {} bytes; expected at most {MAX_LINE_BYTES}, the limit of readers", line.len());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
    Ok(line)
}

/// Writes one file, flushes it to the disk and returns its checksum.
fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<FileChecksum> {
    let file = operation::create_file(path)?;
    let mut out = ChecksumWriter { out: BufWriter::with_capacity(1 << 20, file), sha: Sha256::new(), bytes: 0 };
    operation::run("write", path, || fill(&mut out).and_then(|()| out.flush()))?;
    operation::run("flush", path, || out.out.get_ref().sync_all())?;
    Ok(FileChecksum { bytes: out.bytes, sha256: hex::encode(out.sha.finalize()) })
}

/// A file writer that also computes the hash and the length.
struct ChecksumWriter {
    out: BufWriter<File>,
    sha: Sha256,
    bytes: u64,
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sha.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
