//! Reads the metadata of a set and leaves its points on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use conifer_geometry::{ManifoldSpec, Root};

use crate::element::Element;
use crate::error::{Error, Result};
use crate::load::{ChecksumReader, header_of, read_manifest, read_rows, read_small};
use crate::manifest::SetManifest;
use crate::modality::Modality;
use crate::provenance::Provenance;
use crate::set::check_count;

/// The metadata of an embedding set on disk, and the position of its points in their file.
#[derive(Clone, Debug)]
pub struct StoredSet {
    /// The space of the points.
    pub spec: ManifoldSpec,
    /// The root: the most general point, from which depths and cones are measured.
    pub root: Root,
    /// Provenance of the points.
    pub source: Provenance,
    /// One name per row.
    pub ids: Vec<String>,
    /// The kind of input of each row.
    pub modality: Vec<Modality>,
    /// Metadata columns, as in [`EmbeddingSet`](crate::EmbeddingSet).
    pub columns: BTreeMap<String, Vec<String>>,
    /// Path of the points file.
    pub points: PathBuf,
    /// Byte offset of the first number in the file. Row `i` begins `i * dim` numbers later; all are little endian.
    pub offset: u64,
    /// Storage type of the numbers.
    pub element: Element,
}

impl StoredSet {
    /// Reads the metadata of a set. It reads only the length and the header of the points file, so it does not detect
    /// changed numbers. Only [`EmbeddingSet::load`](crate::EmbeddingSet::load) verifies their checksum.
    ///
    /// # Errors
    /// The errors of [`EmbeddingSet::load`](crate::EmbeddingSet::load), except those about the numbers. The error for a
    /// set that is still a draft names a missing file.
    pub fn open(dir: &Path) -> Result<Self> {
        let dir = conifer_files::resolve(dir);
        let manifest = read_manifest(&dir.join(SetManifest::FILE))?;
        manifest.spec.check()?;
        manifest.root.check(&manifest.spec)?;
        manifest.source.check()?;
        let points = dir.join(SetManifest::POINTS);
        let layout = header_of(&mut ChecksumReader::open(&points, SetManifest::POINTS, &manifest)?, &manifest)?;
        let rows = read_rows(&dir, &manifest)?;
        check_count("`modality`", rows.modality.len(), rows.ids.len())?;
        let (offset, element) = (layout.offset, layout.element);
        Ok(StoredSet {
            spec: manifest.spec,
            root: manifest.root,
            source: manifest.source,
            ids: rows.ids,
            modality: rows.modality,
            columns: rows.columns,
            points,
            offset,
            element,
        })
    }

    /// The settings that determined the rows of a finished set
    /// ([`DraftPlan::identity`](crate::DraftPlan::identity)); `None` unless a [`Draft`](crate::Draft) with an identity
    /// wrote the set.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn identity(dir: &Path) -> Result<Option<BTreeMap<String, String>>> {
        let path = conifer_files::resolve(dir).join(SetManifest::IDENTITY);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read_small(&path)?;
        serde_json::from_slice(&bytes).map(Some).map_err(Error::json(&path, "the file", "a JSON object of strings"))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if the set has no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Read, Seek, SeekFrom};

    use crate::tests::sample;
    use crate::*;

    /// The numbers read directly from the file at the given offset equal those of the set.
    #[test]
    fn offset_is_that_of_the_first_number() {
        let set = sample();
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("set");
        set.save(&dir).unwrap();
        let stored = StoredSet::open(&dir).unwrap();
        assert_eq!((&stored.ids, &stored.modality, &stored.columns), (&set.ids, &set.modality, &set.columns));
        assert_eq!((stored.len(), stored.is_empty(), stored.element), (set.len(), false, Element::F32));
        let mut file = std::fs::File::open(&stored.points).unwrap();
        file.seek(SeekFrom::Start(stored.offset)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let found: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(found, set.points);

        std::fs::OpenOptions::new().write(true).open(&stored.points).unwrap().set_len(stored.offset).unwrap();
        let error = StoredSet::open(&dir).unwrap_err().to_string();
        assert!(error.contains("points.safetensors") && error.contains("length"), "{error}");
    }
}
