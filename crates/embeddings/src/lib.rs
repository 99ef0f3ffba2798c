//! Embedding sets: points with their space and metadata, in memory and on disk. Training writes them; search,
//! evaluation and plots read them.
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
//! `root` is `"origin"` or `{"point": [dim numbers]}`; `spec` is a [`ManifoldSpec`](conifer_geometry::ManifoldSpec).
//! Other writers may omit `files`, `source.weights`, `spec.factors` (default 1) and `spec.curv` (default empty);
//! everything else is required and checked. [`EmbeddingSet::save`] writes a folder under a temporary name, flushes it
//! to the disk and renames it, so that a reader sees a complete set or none. [`Draft`] writes a set while its rows
//! are produced. A set in half precision has version 2, which older readers reject; otherwise the two versions are
//! the same.

mod draft;
mod element;
mod error;
mod load;
mod manifest;
mod modality;
mod point_check;
mod provenance;
mod save;
mod set;
mod stored;
#[cfg(test)]
mod tests;

pub use draft::{Draft, DraftPlan, SettingDifference, first_difference};
pub use element::Element;
pub use error::{Error, Result};
pub use modality::Modality;
pub use provenance::{Provenance, sha256_hex};
pub use set::EmbeddingSet;
pub use stored::StoredSet;
