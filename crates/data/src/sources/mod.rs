//! Where samples come from: one file per format, all listed in [`SOURCES`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::not_a_file;
use crate::hierarchy::Tree;
use crate::roots::{self, AllowedRoots, RootedSource};
use crate::sample::{Broken, Sample, View};

pub mod breeds;
mod contrasts;
pub mod csv_pairs;
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

/// A finite, indexable collection of samples. `get` may be called from many threads, in any order, and gives the same
/// sample every time.
pub trait Source: Send + Sync {
    /// The name of its kind in [`SOURCES`], or of its data set in [`crate::DATA_SETS`].
    fn name(&self) -> &str;

    /// Number of samples, broken ones included.
    fn len(&self) -> usize;

    /// Sample `index`, validated; `index < len()`. A fault of the file is [`Broken`], never a panic.
    fn get(&self, index: usize) -> Result<Sample, Broken>;

    /// What its samples can provide.
    fn views(&self) -> &[View];

    /// SHA-256 (hex) of the records: equal for equal data wherever the files lie. Photographs count by name, in shards
    /// also by length.
    fn fingerprint(&self) -> String;

    /// Every class of the data set, whether or not a sample of it is here, in the order of the data set. Empty where the
    /// source knows only the classes of its samples.
    fn classes(&self) -> Vec<Class> {
        Vec::new()
    }

    /// The tree of the classes, whose nodes the labels are, where the source knows the ranks above them.
    fn class_tree(&self) -> Option<Tree> {
        None
    }

    /// Whether it finds its photos by listing a folder. Paths of all other sources come from records, which may name any file.
    fn lists_files(&self) -> bool {
        false
    }

    /// The folders in which the files of its samples are, as far as they are known.
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Number of samples of the whole data set (or of this split of it), where that is known: with fewer here, some are
    /// absent without a record that names them.
    fn complete(&self) -> Option<usize> {
        None
    }

    /// What the options of this source left out of its files, in words ("475 of 486 folders: no class of ImageNet"): records of
    /// benchmarks repeat it.
    fn left_out(&self) -> Option<String> {
        None
    }

    /// No sample at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A class of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// As in [`Sample::label`].
    pub label: String,
    /// What a prompt calls it.
    pub name: String,
    /// As in [`Sample::taxon`]; may be empty.
    pub taxon: Vec<String>,
}

/// Which source, as written in a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// A name in [`SOURCES`].
    pub kind: String,
    /// The file, folder, or pattern of shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Keep only the samples of this split, where the source has splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, besides that of the data file, in which the files may be that its records name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// Settings of this kind of source; unknown ones are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
}

/// One line of the registry.
pub struct SourceEntry {
    /// As in [`SourceSpec::kind`].
    pub kind: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// What [`SourceSpec::path`] and [`SourceSpec::options`] mean here.
    pub inputs: &'static str,
    /// Opens it: reads what is needed to know the number of samples, and no photograph.
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

/// Opens the source that `spec` names. A sample whose record names a file outside the folder of the data file and outside
/// [`SourceSpec::roots`] is broken ([`Cause::OutsideRoots`](crate::Cause::OutsideRoots)).
///
/// # Errors
/// An unknown kind or option, a file that is missing or of another format, a root that is no folder, or a source without any sample.
pub fn open(spec: &SourceSpec) -> Result<Box<dyn Source>> {
    let entry = entry(&spec.kind)?;
    if let Some(path) = &spec.path
        && let Some(what) = std::fs::metadata(path).ok().as_ref().and_then(not_a_file)
    {
        return Err(Error::format(
            format!("`{}`", path.display()),
            what,
            "a regular file or a folder (its parts are read at any place)",
        ));
    }
    let source = (entry.open)(spec)?;
    AllowedRoots::check_named(&spec.roots)?;
    Ok(Box::new(RootedSource::new(source, roots::of_spec(spec))))
}

/// The registry line of a kind of source.
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

/// A list of names, also as one text with commas between them, as it is easily typed: `ranks=genus,species`.
fn list<'de, D: serde::Deserializer<'de>>(input: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "names by commas, or a list of names")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(input)? {
        OneOrMany::One(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        OneOrMany::Many(names) => names,
    })
}

/// The kind of source that reads a path as it is, without options.
fn kind_of_path(path: &Path) -> Option<&'static str> {
    match path.extension().and_then(|it| it.to_str()) {
        Some("jsonl") => Some(jsonl::ENTRY.kind),
        Some("csv" | "tsv") => Some(csv_pairs::ENTRY.kind),
        Some("tar") => Some(image_text_shards::ENTRY.kind),
        _ if path.is_dir() => Some(image_folder::ENTRY.kind),
        _ => None,
    }
}

/// Whether a kind of source is one that a path shows by itself ([`SourceSpec::of_text`]).
pub fn shows_in_path(kind: &str) -> bool {
    [jsonl::ENTRY.kind, csv_pairs::ENTRY.kind, image_text_shards::ENTRY.kind, image_folder::ENTRY.kind].contains(&kind)
}

impl SourceSpec {
    /// The source that a text names: `KIND`, `KIND:PATH`, or a path whose kind shows (.jsonl, .csv, .tsv, .tar, a folder). `None` where
    /// the kind does not show.
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
    /// The options as a struct of the source (`#[serde(default, deny_unknown_fields)]`).
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
                format!("other settings: {error}"),
            )
        })
    }

    /// The path, which this kind of source needs.
    ///
    /// # Errors
    /// There is none.
    pub fn need_path(&self) -> Result<&PathBuf> {
        self.path.as_ref().ok_or_else(|| {
            Error::config(
                format!("path of source {}", self.kind),
                "not given",
                "a file, a folder or a pattern of shards",
            )
        })
    }

    /// Refuses a split, for sources without splits.
    ///
    /// # Errors
    /// There is one.
    pub fn no_split(&self) -> Result<()> {
        match &self.split {
            None => Ok(()),
            Some(split) => Err(Error::config(
                format!("split of source {}", self.kind),
                format!("{split:?}"),
                "none: these files know no splits (give another path)",
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
