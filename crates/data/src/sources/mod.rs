//! Where samples come from: one file per format, all listed in [`SOURCES`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
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

/// Opens the source that `spec` names.
///
/// # Errors
/// An unknown kind or option, a file that is missing or of another format, or a source without any sample.
pub fn open(spec: &SourceSpec) -> Result<Box<dyn Source>> {
    (entry(&spec.kind)?.open)(spec)
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

impl SourceSpec {
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
