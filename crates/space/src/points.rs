//! Embedding sets: points with their space and metadata, and the file format.
//!
//! # Format (versions 1 and 2)
//! A folder with three files and an optional fourth one. Other programs can read it (Python:
//! `safetensors.numpy.load_file`, `json.loads` per line):
//!
//! | file | content |
//! |---|---|
//! | `points.safetensors` | one tensor `points`, F32 (version 2: F16 or BF16), `[N, dim]`: the space components of row i |
//! | `rows.jsonl` | N lines; line i is an object with `id`, `modality` (`image`, `text`, `box_image`, `box_text`) and one string per column, at most 16 MiB |
//! | `manifest.json` | `format`, `version`, `rows`, `columns`, `spec`, `root`, `source`, and per file its length and sha256 |
//! | `identity.json` | optional: the settings of the command that wrote the set, an object of strings ([`StoredSet::identity`]) |
//!
//! `root` is `"origin"` or `{"point": [dim numbers]}`; `spec` is a [`ManifoldSpec`]. Other writers may omit `files`,
//! `source.weights`, `spec.factors` (default 1) and `spec.curv` (default empty); everything else is required and
//! checked. [`EmbeddingSet::save`] writes a folder under a temporary name, flushes it to the disk and renames it, so
//! that a reader sees a complete set or none. [`Draft`] writes a set while its rows are produced. A set in half
//! precision has version 2, which older readers reject; otherwise the two versions are the same.

mod draft;
mod element;
mod load;
mod lock;
mod save;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use draft::{Draft, DraftPlan, SettingDifference, first_difference};
pub use element::Element;
pub use lock::Lock;
pub use stored::StoredSet;

use crate::error::{Error, Result};
use crate::root::Root;
use crate::safe;
use crate::space::space;
use crate::spec::ManifoldSpec;

/// Ordered points of one space, each with an id, a modality and metadata columns.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingSet {
    /// The space the points belong to.
    pub spec: ManifoldSpec,
    /// The root from which the cones are seen.
    pub root: Root,
    /// One name per row. Names may repeat (a photo and its caption may share one).
    pub ids: Vec<String>,
    /// The kind of input of each row.
    pub modality: Vec<Modality>,
    /// Space components, row-major `[N, dim]`.
    pub points: Vec<f32>,
    /// Metadata, one list of N strings per column name: caption, path, label, parent_id, level, ... The names `id` and
    /// `modality` are reserved.
    pub columns: BTreeMap<String, Vec<String>>,
    /// Provenance of the points.
    pub source: Provenance,
}

/// The kind of input that a row embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    /// A whole image.
    Image,
    /// A whole text.
    Text,
    /// A box of an image.
    BoxImage,
    /// The phrase that belongs to a box.
    BoxText,
}

impl Modality {
    /// The name in files and tables: `image`, `text`, `box_image`, `box_text`.
    pub fn name(self) -> &'static str {
        match self {
            Modality::Image => "image",
            Modality::Text => "text",
            Modality::BoxImage => "box_image",
            Modality::BoxText => "box_text",
        }
    }
}

/// Provenance of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The model, by name or path.
    pub model: String,
    /// The data, by name or path.
    pub data: String,
    /// A sha256 ([`sha256_hex`]) that identifies what produced the points; empty if unknown.
    pub hash: String,
    /// Version of conifer that wrote the set.
    pub conifer: String,
    /// sha256 of the model weights that produced the points; queries must use the same weights. Empty if unknown or if
    /// there were several.
    #[serde(default)]
    pub weights: String,
}

impl EmbeddingSet {
    /// Creates and checks a set without columns.
    ///
    /// # Errors
    /// The errors of [`EmbeddingSet::check`].
    pub fn new(
        spec: ManifoldSpec,
        root: Root,
        ids: Vec<String>,
        modality: Vec<Modality>,
        points: Vec<f32>,
        source: Provenance,
    ) -> Result<Self> {
        let columns = BTreeMap::new();
        let set = EmbeddingSet { spec, root, ids, modality, points, columns, source };
        set.check()?;
        Ok(set)
    }

    /// Number of rows N.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if the set has no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The `dim` space components of row `i`. Panics unless `i` is below [`EmbeddingSet::len`].
    pub fn row(&self, i: usize) -> &[f32] {
        &self.points[i * self.spec.dim..(i + 1) * self.spec.dim]
    }

    /// All rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.points.chunks_exact(self.spec.dim)
    }

    /// Checks that all fields are valid and consistent.
    ///
    /// # Errors
    /// An invalid spec or root; a list whose length differs from `ids`; a reserved column name; a component that is not
    /// finite; a row that is not on the space or beyond [`safe::FARTHEST`]; a source hash that is not sha256.
    pub fn check(&self) -> Result<()> {
        self.spec.check()?;
        self.root.check(&self.spec)?;
        let rows = self.len();
        check_count("`modality`", self.modality.len(), rows)?;
        for (name, column) in &self.columns {
            if RESERVED.contains(&name.as_str()) {
                let expected = "a name other than `id` and `modality`, which every row has";
                return Err(Error::invalid("embedding set: a column", format!("`{name}`"), expected));
            }
            check_count(&format!("column `{name}`"), column.len(), rows)?;
        }
        self.source.check()?;
        if self.points.len() != rows * self.spec.dim {
            let found = format!("a list of {} numbers", self.points.len());
            let expected = format!("{rows} rows of {} = {}", self.spec.dim, rows * self.spec.dim);
            return Err(Error::invalid("embedding set: `points`", found, expected));
        }
        self.check_points()
    }

    /// Returns the rows at `indices`, in that order; an index may repeat.
    ///
    /// # Errors
    /// An index is out of range.
    pub fn select(&self, indices: &[usize]) -> Result<Self> {
        if let Some(i) = indices.iter().find(|i| **i >= self.len()) {
            let expected = format!("a row below {}", self.len());
            return Err(Error::invalid("embedding set: a selected row", i, expected));
        }
        let pick = |list: &Vec<String>| indices.iter().map(|i| list[*i].clone()).collect();
        Ok(EmbeddingSet {
            spec: self.spec.clone(),
            root: self.root.clone(),
            ids: pick(&self.ids),
            modality: indices.iter().map(|i| self.modality[*i]).collect(),
            points: indices.iter().flat_map(|i| self.row(*i)).copied().collect(),
            columns: self.columns.iter().map(|(name, c)| (name.clone(), pick(c))).collect(),
            source: self.source.clone(),
        })
    }

    /// Concatenates `sets` with the union of their columns; a column that a set lacks becomes empty strings. Different
    /// names in the sources are joined with ` + `, different hashes become the sha256 of their concatenation, and
    /// different weights become empty.
    ///
    /// # Errors
    /// `sets` is empty; the sets differ in their space or root.
    pub fn concat(sets: &[&EmbeddingSet]) -> Result<Self> {
        let Some((first, rest)) = sets.split_first() else {
            return Err(Error::invalid("embedding sets to join", "an empty list", "at least one"));
        };
        let mut joined = (*first).clone();
        for set in rest {
            if set.spec != joined.spec {
                let expected = format!("{}, the space of the first", joined.spec);
                return Err(Error::invalid("space of a set to join", &set.spec, expected));
            }
            if set.root != joined.root {
                let what = "root of a set to join";
                return Err(Error::invalid(what, "different", "the root of the first set"));
            }
            let names: BTreeSet<_> = joined.columns.keys().chain(set.columns.keys()).cloned().collect();
            for name in names {
                let column = joined.columns.entry(name.clone()).or_default();
                column.resize(joined.ids.len(), String::new());
                match set.columns.get(&name) {
                    Some(more) => column.extend_from_slice(more),
                    None => column.resize(joined.ids.len() + set.len(), String::new()),
                }
            }
            joined.ids.extend_from_slice(&set.ids);
            joined.modality.extend_from_slice(&set.modality);
            joined.points.extend_from_slice(&set.points);
            joined.source = joined.source.joined(&set.source);
        }
        Ok(joined)
    }

    fn check_points(&self) -> Result<()> {
        let space = space::<f32>(&self.spec)?;
        for (i, row) in self.rows().enumerate() {
            let row_name = || format!("embedding set: row {i} (`{}`)", self.ids[i]);
            if let Some(at) = row.iter().position(|v| !v.is_finite()) {
                let what = format!("{}, component {at},", row_name());
                return Err(Error::invalid(what, row[at], "a finite number"));
            }
            let reach = self.spec.reach(row);
            if reach > safe::FARTHEST {
                let what = format!("{}, `sqrt(c) |x|`,", row_name());
                return Err(Error::invalid(what, reach, format!("at most {:e}", safe::FARTHEST)));
            }
            let off = space.off_manifold(row);
            if f64::from(off) > safe::UNIT_TOLERANCE {
                let found = format!("{off} away from the {}", self.spec);
                let expected =
                    format!("at most {}; lift or normalise the points before storing them", safe::UNIT_TOLERANCE);
                return Err(Error::invalid(row_name(), found, expected));
            }
        }
        Ok(())
    }
}

/// Returns the sha256 of `bytes` as 64 hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

/// Finishes a hash and returns it as 64 hex digits.
fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Largest length of a line of `rows.jsonl` in bytes, with its line break. Without a limit, a file without line breaks
/// could exhaust the memory of the reader.
const MAX_LINE_BYTES: usize = 1 << 24;

/// Returns an error if the folder holds anything but the files of a set, so that saving never deletes foreign files.
fn may_replace(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        if !SetManifest::OWNED.iter().any(|owned| name == **owned) {
            let expected = format!("only {}, because the folder would be replaced", SetManifest::OWNED.join(", "));
            return Err(Error::format(dir, "an entry", format!("`{}`", name.display()), expected));
        }
    }
    Ok(())
}

/// Field names that every line of `rows.jsonl` has besides the columns.
const RESERVED: [&str; 2] = ["id", "modality"];

/// `manifest.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetManifest {
    format: String,
    version: u32,
    rows: usize,
    columns: Vec<String>,
    spec: ManifoldSpec,
    root: Root,
    source: Provenance,
    #[serde(default)]
    files: BTreeMap<String, FileChecksum>,
}

/// Length and checksum of a finished file, to detect damage.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct FileChecksum {
    bytes: u64,
    sha256: String,
}

impl SetManifest {
    const FORMAT: &str = "conifer embedding set";
    /// The versions that this build reads.
    const VERSIONS: [u32; 2] = [1, 2];
    const FILE: &str = "manifest.json";
    const POINTS: &str = "points.safetensors";
    const ROWS: &str = "rows.jsonl";
    /// The settings that determined the rows, by name; only in sets that a [`Draft`] wrote.
    const IDENTITY: &str = "identity.json";
    /// Name of the tensor in [`SetManifest::POINTS`].
    const TENSOR: &str = "points";
    /// The files that a folder may hold if saving is to replace it.
    const OWNED: [&str; 4] = [SetManifest::POINTS, SetManifest::ROWS, SetManifest::FILE, SetManifest::IDENTITY];
    /// Required files.
    #[cfg(test)]
    const REQUIRED: [&str; 3] = [SetManifest::POINTS, SetManifest::ROWS, SetManifest::FILE];

    /// The format version of a set with this element type: the first version that supports it.
    fn version_of(element: Element) -> u32 {
        if element == Element::F32 { 1 } else { 2 }
    }
}

impl Provenance {
    fn check(&self) -> Result<()> {
        let hash = &self.hash;
        if hash.is_empty() || hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(());
        }
        Err(Error::invalid("embedding set: `source.hash`", format!("`{hash}`"), "64 hex digits, or an empty string"))
    }

    fn joined(&self, other: &Provenance) -> Provenance {
        let both = |a: &str, b: &str| match a == b {
            true => a.to_owned(),
            false => format!("{a} + {b}"),
        };
        Provenance {
            model: both(&self.model, &other.model),
            data: both(&self.data, &other.data),
            hash: match self.hash == other.hash {
                true => self.hash.clone(),
                false => sha256_hex(format!("{}{}", self.hash, other.hash).as_bytes()),
            },
            conifer: both(&self.conifer, &other.conifer),
            weights: if self.weights == other.weights { self.weights.clone() } else { String::new() },
        }
    }
}

fn check_count(what: &str, found: usize, rows: usize) -> Result<()> {
    if found == rows {
        return Ok(());
    }
    let expected = format!("{rows}, one per id");
    Err(Error::invalid(format!("embedding set: {what}"), format!("a list of {found}"), expected))
}
