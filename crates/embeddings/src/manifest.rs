//! `manifest.json` and the other files of a set on disk.

use std::collections::BTreeMap;
use std::path::Path;

use conifer_geometry::{ManifoldSpec, Root};
use serde::{Deserialize, Serialize};

use crate::element::Element;
use crate::error::{Error, Result};
use crate::provenance::Provenance;

/// Content of `manifest.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetManifest {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<String>,
    pub(crate) spec: ManifoldSpec,
    pub(crate) root: Root,
    pub(crate) source: Provenance,
    #[serde(default)]
    pub(crate) files: BTreeMap<String, FileChecksum>,
}

/// Length and checksum of a finished file, to detect damage.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileChecksum {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl SetManifest {
    pub(crate) const FORMAT: &str = "conifer embedding set";
    /// The versions that this build reads.
    pub(crate) const VERSIONS: [u32; 2] = [1, 2];
    pub(crate) const FILE: &str = "manifest.json";
    pub(crate) const POINTS: &str = "points.safetensors";
    pub(crate) const ROWS: &str = "rows.jsonl";
    /// The settings that determined the rows, by name; only in sets that a [`Draft`] wrote.
    pub(crate) const IDENTITY: &str = "identity.json";
    /// Name of the tensor in [`SetManifest::POINTS`].
    pub(crate) const TENSOR: &str = "points";
    /// Saving may replace an existing folder only if all its files are among these.
    pub(crate) const OWNED: [&str; 4] =
        [SetManifest::POINTS, SetManifest::ROWS, SetManifest::FILE, SetManifest::IDENTITY];
    /// Files that every set has.
    #[cfg(test)]
    pub(crate) const REQUIRED: [&str; 3] = [SetManifest::POINTS, SetManifest::ROWS, SetManifest::FILE];

    /// The format version of a set with this element type: the first version that supports it.
    pub(crate) fn version_of(element: Element) -> u32 {
        if element == Element::F32 { 1 } else { 2 }
    }
}

/// Field names that every line of `rows.jsonl` has besides the columns.
pub(crate) const RESERVED: [&str; 2] = ["id", "modality"];

/// Largest length of a line of `rows.jsonl` in bytes, with its line break. Without a limit, a file without line breaks
/// could exhaust the memory of the reader.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 24;

/// Returns an error if the folder holds anything but the files of a set, so that saving never deletes foreign files.
pub(crate) fn may_replace(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        if !SetManifest::OWNED.iter().any(|owned| name == **owned) {
            let expected = format!("only {}, because the folder would be replaced", SetManifest::OWNED.join(", "));
            return Err(Error::format(dir, "an entry", format!("`{}`", name.display()), expected));
        }
    }
    Ok(())
}
