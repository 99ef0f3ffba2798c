//! Sources of samples from files of general formats: one module per format, each with a [`SourceEntry`].
//!
//! `conifer_datasets::SOURCES` lists these entries together with the toy world and the formats of published data sets,
//! and opens a source by the name of its kind.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::files::not_a_file;
use crate::roots::{self, AllowedRoots, RootedSource};
use crate::source::{Source, SourceSpec};

mod caption_prefix;
pub mod csv_pairs;
pub mod features;
pub mod grit_processed;
pub mod grit_raw;
pub mod image_folder;
pub mod image_text_shards;
pub mod jsonl;

/// A kind of source.
pub struct SourceEntry {
    /// Name that selects this kind in [`SourceSpec::kind`].
    pub kind: &'static str,
    /// Short description for `--help`.
    pub summary: &'static str,
    /// Help text for [`SourceSpec::path`], [`SourceSpec::split`] and [`SourceSpec::options`] of this kind.
    pub inputs: &'static str,
    /// Reads the records or an index of them, but no photo. See [`SourceEntry::open`].
    pub read: fn(&SourceSpec) -> Result<Box<dyn Source>>,
}

impl SourceEntry {
    /// Opens the source that `spec` describes. [`SourceSpec::kind`] is not read. A sample is broken
    /// ([`Cause::OutsideRoots`](crate::Cause::OutsideRoots)) if its record names a file outside the folder of the data
    /// file and outside [`SourceSpec::roots`].
    ///
    /// # Errors
    /// An unknown option, a file that is missing or has another format, a root that is not a folder, or a source
    /// without samples.
    pub fn open(&self, spec: &SourceSpec) -> Result<Box<dyn Source>> {
        if let Some(path) = &spec.path
            && let Some(what) = std::fs::metadata(path).ok().as_ref().and_then(not_a_file)
        {
            return Err(Error::format(
                format!("`{}`", path.display()),
                what,
                "a regular file or a folder (the reader needs random access)",
            ));
        }
        let source = (self.read)(spec)?;
        AllowedRoots::check_named(&spec.roots)?;
        Ok(Box::new(RootedSource::new(source, roots::of_spec(spec))))
    }
}

/// Deserialises a list of names, or one string of names separated by commas, which is easier to type:
/// `ranks=genus,species`.
///
/// # Errors
/// The value is neither a string nor a list of strings.
pub fn name_list<'de, D: serde::Deserializer<'de>>(input: D) -> std::result::Result<Vec<String>, D::Error> {
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

/// The kind of source that can read a path without options: by the extension of the path, or `image_folder` for a
/// folder. `None` for other paths.
pub fn kind_of_path(path: &Path) -> Option<&'static str> {
    match path.extension().and_then(|it| it.to_str()) {
        Some("jsonl") => Some(jsonl::ENTRY.kind),
        Some("csv" | "tsv") => Some(csv_pairs::ENTRY.kind),
        Some("tar") => Some(image_text_shards::ENTRY.kind),
        _ if path.is_dir() => Some(image_folder::ENTRY.kind),
        _ => None,
    }
}

/// Returns true if [`kind_of_path`] can return this kind.
pub fn shows_in_path(kind: &str) -> bool {
    [jsonl::ENTRY.kind, csv_pairs::ENTRY.kind, image_text_shards::ENTRY.kind, image_folder::ENTRY.kind].contains(&kind)
}

/// Opens a source of this crate by the name of its kind.
#[cfg(test)]
pub(crate) fn open(spec: &SourceSpec) -> Result<Box<dyn Source>> {
    let entries = [
        jsonl::ENTRY,
        grit_raw::ENTRY,
        grit_processed::ENTRY,
        image_text_shards::ENTRY,
        csv_pairs::ENTRY,
        features::ENTRY,
        image_folder::ENTRY,
    ];
    entries.iter().find(|entry| entry.kind == spec.kind).expect("a kind of this crate").open(spec)
}

#[cfg(test)]
mod tests;
