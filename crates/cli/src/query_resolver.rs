//! Resolves the texts, photos and ids of a command line to points, and its filters to row numbers.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::hierarchy::Tree;
use conifer_data::vectors::VectorMatrix;
use conifer_index::{Filter, FlatIndex, Snapshot};
use conifer_model::head::Tower;
use conifer_search::{ENDPOINT_TIMEOUT, EmbeddingEndpoint, LABEL, RowConditions};

use crate::arguments::{FilterArgs, QueryArgs, QueryEmbedderArgs, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::set_model::open_model_of;

/// Maximum number of column values that an error message lists.
const MAX_LISTED: usize = 20;

/// An embedding set and the model that made it. The model is opened when the first query has to be embedded.
pub(crate) struct QueryResolver<'a> {
    set: &'a Snapshot,
    path: &'a Path,
    by: &'a QueryEmbedderArgs,
    device: &'a Device,
    embedder: OnceCell<ModelEmbedder>,
}

impl<'a> QueryResolver<'a> {
    /// `path` is the path of the set. Without a checkpoint in `by`, the model that the set's manifest names is used.
    pub(crate) fn new(set: &'a Snapshot, path: &'a Path, by: &'a QueryEmbedderArgs, device: &'a Device) -> Self {
        Self { set, path, by, device, embedder: OnceCell::new() }
    }

    /// The point of a text, a photo, a vector or a row.
    pub(crate) fn point(&self, query: &QueryArgs) -> anyhow::Result<Vec<f32>> {
        if let Some(given) = &query.image_vector {
            return self.embedder()?.vector(vector_of(given).context("--image-vector")?, Tower::Image);
        }
        if let Some(given) = &query.text_vector {
            return self.embedder()?.vector(vector_of(given).context("--text-vector")?, Tower::Text);
        }
        match (&query.text, &query.image, &query.id) {
            (Some(text), ..) => self.text(text),
            (_, Some(path), _) => self.image(path),
            (.., Some(id)) => Ok(self.set.row(self.row(id)?).into_owned()),
            _ => anyhow::bail!("expected one of --text, --image, --id, --image-vector, --text-vector"),
        }
    }

    /// The point of a text, or of the row `ID` if `words` is `id:ID`.
    pub(crate) fn named(&self, words: &str) -> anyhow::Result<Vec<f32>> {
        match words.strip_prefix("id:") {
            Some(id) => Ok(self.set.row(self.row(id)?).into_owned()),
            None => self.text(words),
        }
    }

    /// The first row with this id.
    pub(crate) fn row(&self, id: &str) -> anyhow::Result<usize> {
        let set = self.set;
        set.ids.iter().position(|it| it == id).with_context(|| {
            let example = set.ids.first().map_or("", |it| it);
            format!("no row has the id `{id}`; the set has {} rows, e.g. `{example}`", set.len())
        })
    }

    /// The rows that pass the filters: `views` (modalities; empty for all) and `only`.
    pub(crate) fn rows(&self, index: &FlatIndex, views: &[ViewArg], only: &FilterArgs) -> anyhow::Result<Vec<usize>> {
        let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for it in &only.columns {
            let (name, value) = it
                .split_once('=')
                .with_context(|| format!("--where is `{it}`; expected a column and a value, such as label=car"))?;
            columns.entry(name.to_owned()).or_default().push(value.to_owned());
        }
        let depth = match only.depth[..] {
            [min, max] if min > max => anyhow::bail!("--depth is {min} {max}; expected the smaller one first"),
            [min, max] => Some([min, max]),
            _ => None,
        };
        let tree = only.tree.as_deref().map(Tree::read_edges).transpose().context("--tree")?;
        let below = tree.as_ref().zip(only.subtree.as_deref()).map(|(tree, class)| {
            let top = tree.get(class).context("--subtree")?;
            let labels = self.set.columns.get(LABEL).context("--subtree: these rows have no column `label`")?;
            anyhow::Ok((labels, tree.subtree(top).map(|node| tree.name(node)).collect::<Vec<_>>()))
        });
        let below = below.transpose()?;
        let subtree = below.as_ref().map(|(column, wanted)| Filter::Column { column, wanted });
        let points = |named: &[String]| named.iter().map(|it| self.named(it)).collect::<anyhow::Result<Vec<_>>>();
        let modality = (!views.is_empty()).then(|| views.iter().map(|&it| it.into()).collect());
        let conditions =
            RowConditions { modality, columns, depth, inside: points(&only.inside)?, not: points(&only.not)? };
        let rows = conditions.rows(index, &self.set.columns, subtree)?;
        Ok(rows.unwrap_or_else(|| (0..index.len()).collect()))
    }

    /// Message for an empty search result. `passing` is the number of rows that pass the filters.
    pub(crate) fn nothing_found(&self, only: &FilterArgs, passing: usize) -> String {
        let set = self.set;
        let mut why = format!("nothing found: {passing} of {} rows pass the filters", set.len());
        for (name, value) in only.columns.iter().filter_map(|it| it.split_once('=')) {
            let Some(column) = set.columns.get(name).filter(|it| !it.iter().any(|it| it == value)) else { continue };
            let known: BTreeSet<&str> = column.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
            let some: Vec<&str> = known.iter().copied().take(MAX_LISTED).collect();
            let more = if known.len() > MAX_LISTED { format!(", .. ({} values)", known.len()) } else { String::new() };
            why += &format!("; no row has {name}={value}; `{name}` is one of: {}{more}", some.join(", "));
        }
        why
    }

    /// The point of a photo.
    pub(crate) fn image(&self, path: &Path) -> anyhow::Result<Vec<f32>> {
        self.embedder()?.image(path)
    }

    /// The point of a text. With an embedding endpoint, the endpoint makes the vector that the model reads.
    pub(crate) fn text(&self, text: &str) -> anyhow::Result<Vec<f32>> {
        let model = self.embedder()?;
        let Some(endpoint) = self.by.endpoint.settings()? else { return model.text(text) };
        let width = model.inner().vector_width(Tower::Text);
        let endpoint = EmbeddingEndpoint::open(&endpoint, model.inner().name(), width, ENDPOINT_TIMEOUT)?;
        model.vector(endpoint.vector_blocking(text)?, Tower::Text)
    }

    fn embedder(&self) -> anyhow::Result<&ModelEmbedder> {
        if let Some(it) = self.embedder.get() {
            return Ok(it);
        }
        let embedder = match self.by.checkpoint.as_deref() {
            Some(checkpoint) => {
                let embedder = ModelEmbedder::open(checkpoint, self.device)?;
                embedder.check_made(&self.set.spec, &self.set.source)?;
                embedder
            }
            None => open_model_of(self.set, self.path, self.device)?,
        };
        Ok(self.embedder.get_or_init(|| embedder))
    }
}

/// A vector given as a JSON list, a file with such a list, or an array file with one vector.
fn vector_of(given: &str) -> anyhow::Result<Vec<f32>> {
    fn of_json(text: &str) -> anyhow::Result<Vec<f32>> {
        serde_json::from_str(text).context("expected a JSON list of numbers")
    }
    if given.trim_start().starts_with('[') {
        return of_json(given);
    }
    let path = Path::new(given);
    if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json")) {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        return of_json(&text).with_context(|| path.display().to_string());
    }
    Ok(VectorMatrix::read_one(path)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn vectors_are_lists_or_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("query.json");
        std::fs::write(&path, "[0.5, 2]").unwrap();
        assert_eq!(vector_of(path.to_str().unwrap()).unwrap(), [0.5, 2.0]);
        assert_eq!(vector_of(" [-1, 2e0]").unwrap(), [-1.0, 2.0]);
        for wrong in ["[1, \"a\"]", "query.txt", "absent.npy"] {
            assert!(vector_of(wrong).is_err(), "{wrong}");
        }
    }
}
