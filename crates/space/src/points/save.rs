//! Writing a set.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value};

use super::{EmbeddingSet, Manifest, Seal, folder};
use crate::error::{Error, Result};

impl EmbeddingSet {
    /// Writes the set as folder `dir`, whole or not at all; missing parent folders are created.
    ///
    /// An existing set at `dir` is replaced only once the new one is complete and flushed to the disk. If the machine
    /// stops in the middle of the replacement, [`EmbeddingSet::load`] still finds the old set.
    ///
    /// # Errors
    /// The set does not pass [`EmbeddingSet::check`]; `dir` holds files that are not ours (nothing is touched then);
    /// the system refuses to write, for example because the disk is full.
    pub fn save(&self, dir: &Path) -> Result<()> {
        self.check()?;
        let points = self.points_file(dir)?;
        let rows = self.rows_file(dir)?;
        let manifest = Manifest {
            format: Manifest::FORMAT.to_owned(),
            version: Manifest::VERSION,
            rows: self.len(),
            columns: self.columns.keys().cloned().collect(),
            spec: self.spec.clone(),
            root: self.root.clone(),
            source: self.source.clone(),
            files: BTreeMap::from([
                (Manifest::POINTS.to_owned(), Seal::of(&points)),
                (Manifest::ROWS.to_owned(), Seal::of(&rows)),
            ]),
        };
        let manifest = serde_json::to_vec_pretty(&manifest).map_err(encoding(dir))?;
        let files = [(Manifest::POINTS, points), (Manifest::ROWS, rows), (Manifest::FILE, manifest)];
        folder::replace(dir, &files.each_ref().map(|(name, _)| *name), |fresh| {
            files.iter().try_for_each(|(name, bytes)| folder::write(&fresh.join(name), bytes))
        })
    }

    fn points_file(&self, dir: &Path) -> Result<Vec<u8>> {
        let bytes: Vec<u8> = self.points.iter().flat_map(|v| v.to_le_bytes()).collect();
        let failed = |e: safetensors::SafeTensorError| encoding(dir)(e);
        let view = TensorView::new(Dtype::F32, vec![self.len(), self.spec.dim], &bytes);
        let tensors = [(Manifest::TENSOR, view.map_err(failed)?)];
        safetensors::serialize(tensors, None).map_err(failed)
    }

    fn rows_file(&self, dir: &Path) -> Result<Vec<u8>> {
        let mut lines = Vec::new();
        for i in 0..self.len() {
            let mut row = Map::new();
            row.insert("id".to_owned(), Value::from(self.ids[i].as_str()));
            let modality = serde_json::to_value(self.modality[i]).map_err(encoding(dir))?;
            row.insert("modality".to_owned(), modality);
            for (name, column) in &self.columns {
                row.insert(name.clone(), Value::from(column[i].as_str()));
            }
            serde_json::to_writer(&mut lines, &row).map_err(encoding(dir))?;
            lines.push(b'\n');
        }
        Ok(lines)
    }
}

/// For `map_err`: an encoder's error as an error of this crate.
fn encoding<E: std::error::Error + Send + Sync + 'static>(dir: &Path) -> impl FnOnce(E) -> Error {
    let failed = Error::io("encode", dir);
    move |error| failed(std::io::Error::other(error))
}
