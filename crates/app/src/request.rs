//! What was typed, made into requests of the library crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use conifer_data::{SOURCES, Source, SourceSpec};
use conifer_index::Snapshot;
use conifer_space::points::Draft;

use crate::cli::DataSet;
use crate::set_model::{is_run, set_of};

/// The source that `--data`, `--split` and `--data-option` name.
pub(crate) fn source_spec(data: &DataSet) -> anyhow::Result<SourceSpec> {
    let (kind, path) = kind_and_path(&data.data)?;
    Ok(SourceSpec { kind, path, split: data.split.clone(), options: options(&data.data_options)? })
}

/// Opens that source.
pub(crate) fn open_source(data: &DataSet) -> anyhow::Result<Box<dyn Source>> {
    if let Some(folder) = data.data.strip_prefix("set:") {
        return open_set(Path::new(folder), data);
    }
    conifer_data::open(&source_spec(data)?).with_context(|| format!("--data {}", data.data))
}

/// An evaluation data set in its usual layout, known by the name of its folder.
fn open_set(folder: &Path, data: &DataSet) -> anyhow::Result<Box<dyn Source>> {
    anyhow::ensure!(
        data.split.is_none() && data.data_options.is_empty(),
        "--data {}: an evaluation set takes neither --split nor --data-option",
        data.data
    );
    let place = || format!("--data {}", data.data);
    // `.` and `..` have no name of their own.
    let folder = &match folder.file_name() {
        Some(_) => folder.to_owned(),
        None => folder.canonicalize().with_context(place)?,
    };
    let name = folder.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    let set = conifer_data::sets::find(&name).with_context(place)?;
    set.open(folder).with_context(place)
}

/// The rows of an embedding set, of a store, or of the embedding set inside a training run.
pub(crate) fn open_rows(path: &Path) -> anyhow::Result<Snapshot> {
    let set = &set_of(path);
    if !set.exists() && !Draft::is_begun(set) {
        if is_run(path) {
            let (run, set) = (path.display(), set.display());
            bail!(
                "opening {run}: it is a training run without {set}; expected an embedding set; make one with \
                 `conifer embed {run} --data DATA --out {set}`"
            );
        }
        bail!(
            "{} is not there; expected an embedding set, as `conifer embed` writes it, a store, as `conifer store create` makes it, or a \
             training run with embeddings, as `conifer quickstart` leaves it",
            path.display()
        );
    }
    Ok(Snapshot::open(set)?)
}

/// `name=value` settings; a value that reads as JSON (a number, true) is one, else it is a text.
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

fn kind_and_path(text: &str) -> anyhow::Result<(String, Option<PathBuf>)> {
    let known = |kind: &str| SOURCES.iter().any(|entry| entry.kind == kind);
    if known(text) {
        return Ok((text.into(), None));
    }
    if let Some((kind, path)) = text.split_once(':')
        && known(kind)
    {
        return Ok((kind.into(), Some(path.into())));
    }
    let path = Path::new(text);
    let kind = match path.extension().and_then(|it| it.to_str()) {
        Some("jsonl") => "jsonl",
        Some("csv" | "tsv") => "csv_pairs",
        Some("tar") => "image_text_shards",
        _ if path.is_dir() => "image_folder",
        _ => bail!(
            "--data {text}: neither KIND:PATH nor a .jsonl, .csv, .tsv, .tar file or a folder that exists; kinds: {}",
            SOURCES.iter().map(|entry| entry.kind).collect::<Vec<_>>().join(", ")
        ),
    };
    Ok((kind.into(), Some(path.into())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn kinds_show_in_the_path() {
        assert_eq!(kind_and_path("a/b.jsonl").unwrap(), ("jsonl".into(), Some("a/b.jsonl".into())));
        assert_eq!(kind_and_path("toy").unwrap(), ("toy".into(), None));
        assert!(kind_and_path("absent.xyz").unwrap_err().to_string().contains("KIND:PATH"));
        assert_eq!(options(&["a=1".into(), "b=x".into()]).unwrap()["a"], serde_json::json!(1));
        assert!(options(&["a".into()]).is_err());
    }
}
