//! The trait [`Source`], and the description of a source in a config.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::sample::{Broken, Sample, View};
use crate::vectors::TextVectors;

/// A finite, indexable collection of samples. `get` may be called from many threads in any order and must return the
/// same sample for the same index every time.
pub trait Source: Send + Sync {
    /// The [kind](crate::SourceEntry::kind), or the name of the data set in `conifer_datasets::DATA_SETS`.
    fn name(&self) -> &str;

    /// Number of samples, broken ones included.
    fn len(&self) -> usize;

    /// Returns sample `index`, validated. `index` must be below `len()`. A fault in the file gives [`Broken`], never a
    /// panic.
    fn get(&self, index: usize) -> Result<Sample, Broken>;

    /// The views that the samples can provide.
    fn views(&self) -> &[View];

    /// SHA-256 (hex) of the records. Equal data has equal fingerprints, independent of the location of the files. The
    /// pixels of photos in files are not hashed, only their names and, for shards and folders of photos, their lengths.
    fn fingerprint(&self) -> String;

    /// Every class of the data set, in the order of the data set, including classes of which this source has no sample.
    /// Empty if the source knows only the classes of its samples.
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

    /// Known folders of the files of the samples.
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Number of samples of the complete published data set (or of this split), if known. It exceeds `len()` if only
    /// some of the samples are present.
    fn complete(&self) -> Option<usize> {
        None
    }

    /// Message about the samples that the options exclude ("1422 photos in 474 of 486 folders left out: no node of the
    /// hierarchy"). Benchmark records include it.
    fn left_out(&self) -> Option<String> {
        None
    }

    /// The vectors of the texts, if another program computed them; otherwise `None`.
    fn text_vectors(&self) -> Option<Arc<TextVectors>> {
        None
    }

    /// True if the source has no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A class of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassEntry {
    /// Class name, equal to [`Sample::label`] of the samples of the class.
    pub label: String,
    /// Name of the class in prompts.
    pub name: String,
    /// Names from the root of the taxonomy to the class, as in [`Sample::taxon`]. Empty if the class has no taxon.
    pub taxon: Vec<String>,
}

/// A source as written in a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Name of a kind of source ([`crate::SourceEntry::kind`]).
    pub kind: String,
    /// The file, the folder, or the pattern of shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Keep only the samples of this split, if the source has splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, in addition to the folder of the data file, in which records may name files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// Options of this kind of source; unknown options are an error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
}

impl SourceSpec {
    /// Deserialises the options into the options struct of a source (`#[serde(default, deny_unknown_fields)]`).
    ///
    /// # Errors
    /// An unknown option, or an option of the wrong type.
    pub fn parse_options<T: DeserializeOwned>(&self) -> Result<T> {
        let options = self.options.clone().into_iter().collect::<serde_json::Map<_, _>>();
        let shown = serde_json::Value::Object(options.clone());
        serde_json::from_value(serde_json::Value::Object(options)).map_err(|error| {
            Error::invalid(
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
            Error::invalid(
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
            Some(split) => Err(Error::invalid(
                format!("split of source {}", self.kind),
                format!("{split:?}"),
                "no split: files of this kind have no splits (select the split by its path)",
            )),
        }
    }
}
