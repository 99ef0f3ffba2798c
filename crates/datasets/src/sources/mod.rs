//! Sources of samples by the name of their kind: [`SOURCES`] lists the file formats of `conifer-data`, the toy world of
//! `conifer-toy`, and the formats of published data sets, which have one module each here.

use std::path::Path;

use conifer_data::sources::{
    csv_pairs, features, grit_processed, grit_raw, image_folder, image_text_shards, jsonl, kind_of_path,
};
use conifer_data::{Error, Result, Source, SourceEntry, SourceSpec};

pub mod breeds;
mod contrasts;
pub mod hyperlex;
pub mod imported;
pub mod inat_folders;
pub mod inat_json;
pub mod karpathy;
pub mod sugarcrepe;
mod taxa;
pub mod taxon_table;
pub mod tree_of_life;
pub mod vg_attribution;
pub mod vl_checklist;

pub use taxa::class_name;

/// All kinds of sources.
pub const SOURCES: &[SourceEntry] = &[
    conifer_toy::ENTRY,
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

/// Opens the source that `spec` describes. See [`SourceEntry::open`].
///
/// # Errors
/// An unknown kind, and the errors of [`SourceEntry::open`].
pub fn open(spec: &SourceSpec) -> Result<Box<dyn Source>> {
    entry(&spec.kind)?.open(spec)
}

/// The entry of a kind of source.
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

/// Parses `KIND`, `KIND:PATH`, or a path from which the kind can be inferred (.jsonl, .csv, .tsv, .tar, a folder).
/// `None` if the kind cannot be inferred.
pub fn spec_of_text(text: &str) -> Option<SourceSpec> {
    let known = |kind: &str| SOURCES.iter().any(|entry| entry.kind == kind);
    if known(text) {
        return Some(SourceSpec { kind: text.to_owned(), ..SourceSpec::default() });
    }
    let (kind, path) = match text.split_once(':') {
        Some((kind, path)) if known(kind) => (kind, path),
        _ => (kind_of_path(Path::new(text))?, text),
    };
    Some(SourceSpec { kind: kind.to_owned(), path: Some(path.into()), ..SourceSpec::default() })
}

#[cfg(test)]
mod contrasts_tests;
#[cfg(test)]
mod taxon_tests;
#[cfg(test)]
mod tests;
