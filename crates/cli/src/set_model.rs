//! Finds the model that made an embedding set, as named by the set's manifest.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_index::Snapshot;

use crate::embedder::ModelEmbedder;
use crate::output::note;

/// Name of the folder of an embedding set in a run folder of `quickstart`, and in the folder of `explore`.
pub(crate) const EMBEDDINGS: &str = "embeddings";

/// Returns true for the folder of a training run.
pub(crate) fn is_run(path: &Path) -> bool {
    path.join("checkpoints").is_dir() && path.join("config.toml").is_file()
}

/// The embedding set at `path`: `path` itself, or for a training run its `embeddings` folder.
pub(crate) fn set_of(path: &Path) -> PathBuf {
    if is_run(path) { path.join(EMBEDDINGS) } else { path.to_owned() }
}

/// Opens the model that the manifest of the set at `path` names. Only local files and folders are tried, and a
/// candidate must have weights with the sha256 in the manifest: a manifest cannot cause a download.
///
/// # Errors
/// The manifest names no model or no weights; no candidate exists; the existing candidates have other weights.
pub(crate) fn open_model_of(set: &Snapshot, path: &Path, device: &Device) -> anyhow::Result<ModelEmbedder> {
    let (model, shown_path) = (&set.source.model, path.display());
    let todo = "name the model with --checkpoint MODEL";
    if set.source.weights.is_empty() {
        anyhow::bail!(
            "embedding a query for {shown_path}: the set does not name the weights of its model (`{model}`), and queries must be embedded by the \
             same model; {todo}"
        );
    }
    let found = candidates(model, path);
    let mut refused = None;
    for candidate in &found {
        match ModelEmbedder::open(candidate, device).and_then(|it| it.check_made(&set.spec, &set.source).map(|()| it)) {
            Ok(embedder) => {
                note(&format!("queries are embedded by {}, the model that made {shown_path}", candidate.display()));
                return Ok(embedder);
            }
            Err(error) => refused = refused.or(Some((candidate, error))),
        }
    }
    match refused {
        Some((candidate, error)) => Err(error.context(format!(
            "embedding a query for {shown_path}: cannot use {}, which the set names as its model; {todo}",
            candidate.display()
        ))),
        None => anyhow::bail!(
            "embedding a query for {shown_path}: the model that the set names, `{model}`, was not found; expected it or a model with the same \
             weights (sha256 {}); {todo}",
            set.source.weights
        ),
    }
}

/// The existing files and folders that `model` may refer to, in the order in which they are tried: relative to the
/// working directory, relative to the folders above the set (for a project that was moved), and the run that contains
/// the set. A store names several models, separated by ` + `.
fn candidates(model: &str, set: &Path) -> Vec<PathBuf> {
    let full = std::fs::canonicalize(set).unwrap_or_else(|_| set.to_owned());
    let above: Vec<&Path> = full.ancestors().skip(1).collect();
    let names = model.split(" + ").filter(|it| !it.is_empty());
    let mut all: Vec<PathBuf> = names
        .flat_map(|name| std::iter::once(PathBuf::from(name)).chain(above.iter().map(move |it| it.join(name))))
        .collect();
    all.extend(above.first().filter(|it| is_run(it)).map(|it| it.to_path_buf()));
    let mut seen = Vec::new();
    all.retain(|it| match std::fs::canonicalize(it) {
        Ok(real) if !seen.contains(&real) => {
            seen.push(real);
            true
        }
        _ => false,
    });
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn model_is_searched_above_the_set_and_in_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("runs/a/checkpoints/step_1")).unwrap();
        std::fs::create_dir_all(at("runs/a/embeddings")).unwrap();
        std::fs::write(at("runs/a/config.toml"), "").unwrap();
        let found = candidates("runs/a/checkpoints/step_1", &at("runs/a/embeddings"));
        let real = |path: PathBuf| std::fs::canonicalize(path).unwrap();
        assert_eq!(
            found.into_iter().map(real).collect::<Vec<_>>(),
            [real(at("runs/a/checkpoints/step_1")), real(at("runs/a"))]
        );
        assert_eq!(set_of(&at("runs/a")), at("runs/a/embeddings"));
        assert_eq!(set_of(&at("runs")), at("runs"));
        assert!(candidates("owner/model", &at("runs")).is_empty());
    }
}
