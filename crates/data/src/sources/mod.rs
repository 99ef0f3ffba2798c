//! Sources of samples: one module per file format, all registered in [`SOURCES`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::not_a_file;
use crate::hierarchy::Tree;
use crate::roots::{self, AllowedRoots, RootedSource};
use crate::sample::{Broken, Sample, View};
use crate::vectors::TextVectors;

pub mod breeds;
mod contrasts;
pub mod csv_pairs;
pub mod features;
pub mod grit_processed;
pub mod grit_raw;
pub mod hyperlex;
pub mod image_folder;
pub mod image_text_shards;
pub mod imported;
pub mod inat_folders;
pub mod inat_json;
pub mod jsonl;
pub mod karpathy;
pub mod sugarcrepe;
mod taxa;
pub mod taxon_table;
pub mod toy;
pub mod tree_of_life;
pub mod vg_attribution;
pub mod vl_checklist;

pub use taxa::class_name;

/// A finite, indexable collection of samples. `get` may be called from many threads in any order and must return the
/// same sample for the same index every time.
pub trait Source: Send + Sync {
    /// The kind in [`SOURCES`], or the name of the data set in [`crate::DATA_SETS`].
    fn name(&self) -> &str;

    /// Number of samples, broken ones included.
    fn len(&self) -> usize;

    /// Returns sample `index`, validated. `index` must be below `len()`. A fault in the file gives [`Broken`], never a
    /// panic.
    fn get(&self, index: usize) -> Result<Sample, Broken>;

    /// The views that its samples can provide.
    fn views(&self) -> &[View];

    /// SHA-256 (hex) of the records. Equal data has equal fingerprints, independent of the location of the files. The
    /// pixels of photos in files are not hashed, only their names and, for shards and folders of photos, their lengths.
    fn fingerprint(&self) -> String;

    /// Every class of the data set, in the order of the data set, including classes without a sample here. Empty if the
    /// source knows only the classes of its samples.
    fn classes(&self) -> Vec<ClassEntry> {
        Vec::new()
    }

    /// The tree of the classes, with the labels as nodes, if the source knows the ranks above the classes.
    fn class_tree(&self) -> Option<Tree> {
        None
    }

    /// True if the photos are found by listing a folder. All other sources take paths from records, which may name any
    /// file.
    fn lists_files(&self) -> bool {
        false
    }

    /// The folders that contain the files of the samples, as far as the source knows them.
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Number of samples of the complete published data set (or of this split), if known. It exceeds `len()` if only
    /// some of the samples are present.
    fn complete(&self) -> Option<usize> {
        None
    }

    /// Message about the samples that the options excluded ("1422 photos in 474 of 486 folders left out: no node of the
    /// hierarchy"). Benchmark records include it.
    fn left_out(&self) -> Option<String> {
        None
    }

    /// The vectors of the texts, if another program computed them.
    fn text_vectors(&self) -> Option<Arc<TextVectors>> {
        None
    }

    /// True if there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A class of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassEntry {
    /// As in [`Sample::label`].
    pub label: String,
    /// The name to use in prompts.
    pub name: String,
    /// As in [`Sample::taxon`]; may be empty.
    pub taxon: Vec<String>,
}

/// A source as written in a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// A kind in [`SOURCES`].
    pub kind: String,
    /// The file, the folder, or the pattern of shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Keep only the samples of this split, if the source has splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, in addition to that of the data file, in which records may name files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// Options of this kind of source; unknown options are an error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
}

/// An entry of the registry of sources.
pub struct SourceEntry {
    /// As in [`SourceSpec::kind`].
    pub kind: &'static str,
    /// Short description for `--help`.
    pub summary: &'static str,
    /// Help text for [`SourceSpec::path`], [`SourceSpec::split`] and [`SourceSpec::options`] of this kind.
    pub inputs: &'static str,
    /// Opens the source. Reads the records or an index of them, but no photo.
    pub open: fn(&SourceSpec) -> Result<Box<dyn Source>>,
}

/// Every kind of source.
pub const SOURCES: &[SourceEntry] = &[
    toy::ENTRY,
    jsonl::ENTRY,
    grit_raw::ENTRY,
    grit_processed::ENTRY,
    image_text_shards::ENTRY,
    csv_pairs::ENTRY,
    features::ENTRY,
    image_folder::ENTRY,
    karpathy::ENTRY,
    taxon_table::ENTRY,
    inat_json::ENTRY,
    inat_folders::ENTRY,
    tree_of_life::ENTRY,
    imported::ENTRY,
    sugarcrepe::ENTRY,
    vl_checklist::ENTRY,
    vg_attribution::ENTRY,
    hyperlex::ENTRY,
    breeds::ENTRY,
];

/// Opens the source that `spec` describes. A sample is broken ([`Cause::OutsideRoots`](crate::Cause::OutsideRoots)) if
/// its record names a file outside the folder of the data file and outside [`SourceSpec::roots`].
///
/// # Errors
/// An unknown kind or option, a file that is missing or has another format, a root that is not a folder, or a source
/// without samples.
pub fn open(spec: &SourceSpec) -> Result<Box<dyn Source>> {
    let entry = entry(&spec.kind)?;
    if let Some(path) = &spec.path
        && let Some(what) = std::fs::metadata(path).ok().as_ref().and_then(not_a_file)
    {
        return Err(Error::format(
            format!("`{}`", path.display()),
            what,
            "a regular file or a folder (the reader needs random access)",
        ));
    }
    let source = (entry.open)(spec)?;
    AllowedRoots::check_named(&spec.roots)?;
    Ok(Box::new(RootedSource::new(source, roots::of_spec(spec))))
}

/// The registry entry of a kind of source.
///
/// # Errors
/// [`Error::Unknown`] with the known kinds.
pub fn entry(kind: &str) -> Result<&'static SourceEntry> {
    SOURCES.iter().find(|entry| entry.kind == kind).ok_or_else(|| Error::Unknown {
        what: "source kind",
        found: kind.to_owned(),
        known: SOURCES.iter().map(|entry| entry.kind).collect::<Vec<_>>().join(", "),
    })
}

/// Deserialises a list of names, or one string of names separated by commas, which is easier to type:
/// `ranks=genus,species`.
fn list<'de, D: serde::Deserializer<'de>>(input: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a list of names, or names separated by commas")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(input)? {
        OneOrMany::One(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        OneOrMany::Many(names) => names,
    })
}

/// The kind of source that can read a path without options, by its extension.
fn kind_of_path(path: &Path) -> Option<&'static str> {
    match path.extension().and_then(|it| it.to_str()) {
        Some("jsonl") => Some(jsonl::ENTRY.kind),
        Some("csv" | "tsv") => Some(csv_pairs::ENTRY.kind),
        Some("tar") => Some(image_text_shards::ENTRY.kind),
        _ if path.is_dir() => Some(image_folder::ENTRY.kind),
        _ => None,
    }
}

/// Returns true if [`SourceSpec::of_text`] can infer this kind from a path.
pub fn shows_in_path(kind: &str) -> bool {
    [jsonl::ENTRY.kind, csv_pairs::ENTRY.kind, image_text_shards::ENTRY.kind, image_folder::ENTRY.kind].contains(&kind)
}

impl SourceSpec {
    /// Parses `KIND`, `KIND:PATH`, or a path from which the kind can be inferred (.jsonl, .csv, .tsv, .tar, a folder).
    /// `None` if the kind cannot be inferred.
    pub fn of_text(text: &str) -> Option<Self> {
        let known = |kind: &str| SOURCES.iter().any(|entry| entry.kind == kind);
        if known(text) {
            return Some(Self { kind: text.to_owned(), ..Self::default() });
        }
        let (kind, path) = match text.split_once(':') {
            Some((kind, path)) if known(kind) => (kind, path),
            _ => (kind_of_path(Path::new(text))?, text),
        };
        Some(Self { kind: kind.to_owned(), path: Some(path.into()), ..Self::default() })
    }
    /// Deserialises the options into the options struct of a source (`#[serde(default, deny_unknown_fields)]`).
    ///
    /// # Errors
    /// An unknown option or one of the wrong type.
    pub fn parse_options<T: DeserializeOwned>(&self) -> Result<T> {
        let options = self.options.clone().into_iter().collect::<serde_json::Map<_, _>>();
        let shown = serde_json::Value::Object(options.clone());
        serde_json::from_value(serde_json::Value::Object(options)).map_err(|error| {
            Error::config(
                format!("options of source {}", self.kind),
                shown.to_string(),
                format!("valid options ({error})"),
            )
        })
    }

    /// Returns the path, which this kind of source requires.
    ///
    /// # Errors
    /// The path is missing.
    pub fn need_path(&self) -> Result<&PathBuf> {
        self.path.as_ref().ok_or_else(|| {
            Error::config(
                format!("path of source {}", self.kind),
                "not given",
                "a file, a folder or a pattern of shards",
            )
        })
    }

    /// Rejects a split, for sources without splits.
    ///
    /// # Errors
    /// A split is set.
    pub fn no_split(&self) -> Result<()> {
        match &self.split {
            None => Ok(()),
            Some(split) => Err(Error::config(
                format!("split of source {}", self.kind),
                format!("{split:?}"),
                "no split: files of this kind have no splits (select the split by its path)",
            )),
        }
    }
}

#[cfg(test)]
mod contrasts_tests;
#[cfg(test)]
mod taxon_tests;
#[cfg(test)]
mod tests;
