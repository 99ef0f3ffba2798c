//! Converts command-line arguments to requests of the library crates.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use conifer_data::{Source, SourceSpec};
use conifer_datasets::SOURCES;
use conifer_embeddings::Draft;
use conifer_index::Snapshot;

use crate::arguments::DataArgs;
use crate::output::note;
use crate::set_model::{is_run, set_of};

/// The source that `--data`, `--split`, `--root` and `--data-option` name.
pub(crate) fn source_spec(data: &DataArgs) -> anyhow::Result<SourceSpec> {
    spec_of("--data", data)
}

/// Opens the source that `data` names.
pub(crate) fn open_source(data: &DataArgs) -> anyhow::Result<Box<dyn Source>> {
    open_source_of("--data", data)
}

/// As [`open_source`], for the data set of another option, which the messages name.
pub(crate) fn open_source_of(option: &str, data: &DataArgs) -> anyhow::Result<Box<dyn Source>> {
    if let Some(folder) = data.data.strip_prefix("set:") {
        return open_set(option, Path::new(folder), data);
    }
    conifer_datasets::open(&spec_of(option, data)?).with_context(|| format!("{option} {}", data.data))
}

fn spec_of(option: &str, data: &DataArgs) -> anyhow::Result<SourceSpec> {
    let named = conifer_datasets::spec_of_text(&data.data).with_context(|| {
        format!(
            "{option} {}: unknown kind of data; expected KIND:PATH, a .jsonl, .csv, .tsv or .tar file, or an existing folder; kinds: {}",
            data.data,
            SOURCES.iter().map(|entry| entry.kind).collect::<Vec<_>>().join(", ")
        )
    })?;
    let (split, roots) = (data.split.clone(), data.roots.clone());
    Ok(SourceSpec { split, roots, options: options(&data.data_options)?, ..named })
}

/// Opens an evaluation data set in its standard layout; the folder name selects the data set.
fn open_set(option: &str, folder: &Path, data: &DataArgs) -> anyhow::Result<Box<dyn Source>> {
    let place = || format!("{option} {}", data.data);
    anyhow::ensure!(
        data.split.is_none() && data.data_options.is_empty() && data.roots.is_empty(),
        "{}: an evaluation set takes no --split, --data-option or --root",
        place()
    );
    // The paths `.` and `..` have no file name.
    let folder = &match folder.file_name() {
        Some(_) => folder.to_owned(),
        None => folder.canonicalize().with_context(place)?,
    };
    let name = folder.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    let set = conifer_datasets::sets::find(&name).with_context(place)?;
    set.open(folder).with_context(place)
}

/// The rows of an embedding set, a store, or a training run's embedding set.
pub(crate) fn open_rows(path: &Path) -> anyhow::Result<Snapshot> {
    let set = &set_of(path);
    note_interrupted(set);
    if !conifer_files::resolve(set).exists() && !Draft::is_begun(set) {
        if is_run(path) {
            let (run, set) = (path.display(), set.display());
            bail!(
                "opening {run}: the training run has no embedding set {set}; create it with \
                 `conifer embed {run} --data DATA --out {set}`"
            );
        }
        bail!(
            "{} does not exist; expected an embedding set (written by `conifer embed`), a store (created by `conifer store create`) or a \
             training run with embeddings (written by `conifer quickstart`)",
            path.display()
        );
    }
    Ok(Snapshot::open(set)?)
}

/// Prints a note if the replacement of `path` was interrupted, so that its previous content is read from another path.
pub(crate) fn note_interrupted(path: &Path) {
    if let Some(previous) = conifer_files::interrupted(path) {
        note(&format!(
            "{}: its replacement was interrupted; reading its previous content from {}",
            path.display(),
            previous.display()
        ));
    }
}

/// Parses `name=value` settings. A value that is valid JSON (a number, true) is parsed as JSON, any other as a string.
pub(crate) fn options(given: &[String]) -> anyhow::Result<BTreeMap<String, serde_json::Value>> {
    given
        .iter()
        .map(|text| {
            let (name, value) =
                text.split_once('=').with_context(|| format!("option `{text}`: expected name=value"))?;
            Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn kind_is_inferred_from_the_path() {
        let spec = |text: &str| {
            source_spec(&DataArgs { data: text.into(), split: None, data_options: Vec::new(), roots: Vec::new() })
        };
        let named = |kind: &str, path: Option<&str>| (kind.to_owned(), path.map(PathBuf::from));
        let found = |text: &str| spec(text).map(|it| (it.kind, it.path)).unwrap();
        assert_eq!(found("a/b.jsonl"), named("jsonl", Some("a/b.jsonl")));
        assert_eq!(found("taxon_table:b.csv"), named("taxon_table", Some("b.csv")));
        assert_eq!(found("toy"), named("toy", None));
        assert!(spec("absent.xyz").unwrap_err().to_string().contains("KIND:PATH"));
        assert_eq!(options(&["a=1".into(), "b=x".into()]).unwrap()["a"], serde_json::json!(1));
        assert!(options(&["a".into()]).is_err());
    }
}
