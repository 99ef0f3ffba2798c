//! An embedding set in place of a model: a benchmark finds the points of its texts and photos among the rows.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context as _;
use conifer_data::ImageRef;
use conifer_data::transform::EvalCrop;
use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_eval::{EmbeddingModel, Error, Result};
use conifer_geometry::{ManifoldSpec, Root};
use conifer_index::Store;

use crate::request::open_rows;

/// The points of another model, read from a set. A text is found by the id or by the column `text` or `caption` of a text
/// row; a photo by the id of an image row, which is the path of its file or the end of the path.
pub(crate) struct SetEmbedder {
    name: String,
    rows: EmbeddingSet,
    root: Root,
    texts: HashMap<String, usize>,
    /// Rows by the last component of the id.
    photos: HashMap<String, Vec<usize>>,
}

impl SetEmbedder {
    /// True for the folder of an embedding set or of a store.
    pub(crate) fn is_set(path: &Path) -> bool {
        path.join("points.safetensors").is_file() || Store::is_store(path)
    }

    /// Reads a set or a store. `root_text` names the text whose point is the root, instead of the root of the set.
    ///
    /// # Errors
    /// The set cannot be read, or has no row for `root_text`.
    pub(crate) fn open(path: &Path, root_text: Option<&str>) -> anyhow::Result<Self> {
        let rows = open_rows(path)?.to_set();
        let (mut texts, mut photos) = (HashMap::new(), HashMap::<String, Vec<usize>>::new());
        let named = ["text", "caption"].map(|name| rows.columns.get(name));
        for (row, (id, modality)) in rows.ids.iter().zip(&rows.modality).enumerate() {
            match modality {
                Modality::Text => {
                    let values = named.iter().flatten().map(|values| values[row].as_str());
                    for text in values.filter(|text| !text.is_empty()).chain([id.as_str()]) {
                        texts.entry(text.to_owned()).or_insert(row);
                    }
                }
                Modality::Image => photos.entry(last(id).to_owned()).or_default().push(row),
                _ => {}
            }
        }
        let root = match root_text {
            None => rows.root.clone(),
            Some(text) => {
                let row = texts.get(text).copied();
                let row = row.with_context(|| format!("--root-text: {} has no text row `{text}`", path.display()))?;
                Root::Point(rows.row(row).iter().map(|&value| f64::from(value)).collect())
            }
        };
        Ok(Self { name: path.display().to_string(), rows, root, texts, photos })
    }

    /// The set that was read.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// sha256 of the weights that made the set; empty if unknown.
    pub(crate) fn weights(&self) -> &str {
        &self.rows.source.weights
    }

    fn photo(&self, image: &ImageRef) -> Option<usize> {
        let path = match image {
            ImageRef::File(path) => path.as_path(),
            ImageRef::Member { name, .. } => Path::new(name),
            _ => return None,
        };
        let rows = self.photos.get(path.file_name()?.to_str()?)?;
        // The longest id that is an end of the path: `a/1.jpg` before `1.jpg`.
        rows.iter()
            .copied()
            .filter(|&row| path.ends_with(&self.rows.ids[row]))
            .max_by_key(|&row| self.rows.ids[row].len())
    }

    /// The points of these rows. `wanted` describes an item that has no row.
    fn points(
        &self,
        rows: impl Iterator<Item = Option<usize>>,
        wanted: impl Fn(usize) -> String,
        expected: &str,
    ) -> Result<Vec<f32>> {
        let (mut points, mut missing, mut first) = (Vec::new(), 0, None);
        for (number, row) in rows.enumerate() {
            match row {
                Some(row) => points.extend_from_slice(self.rows.row(row)),
                None => {
                    missing += 1;
                    first.get_or_insert(number);
                }
            }
        }
        match first {
            None => Ok(points),
            Some(first) => Err(Error::Embedder(format!(
                "the set {} has no point for {missing} of the items, first: {}; expected {expected}",
                self.name,
                wanted(first)
            ))),
        }
    }
}

impl EmbeddingModel for SetEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        &self.rows.spec
    }

    fn root(&self) -> Result<Root> {
        Ok(self.root.clone())
    }

    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        self.points(
            texts.iter().map(|text| self.texts.get(text).copied()),
            |number| format!("the text `{}`", texts[number]),
            "a text row with this text as its id or in its column `text`",
        )
    }

    fn images(&self, images: &[ImageRef], _crop: EvalCrop) -> Result<Vec<f32>> {
        self.points(
            images.iter().map(|image| self.photo(image)),
            |number| format!("the photo {}", images[number].place()),
            "an image row with the path of the photo as its id",
        )
    }
}

/// The last component of a path.
fn last(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use conifer_embeddings::Provenance;

    use super::*;

    fn set() -> EmbeddingSet {
        EmbeddingSet {
            spec: ManifoldSpec::euclidean(1),
            root: Root::Origin,
            ids: ["a/1.jpg", "b/1.jpg", "1.jpg", "t0"].map(str::to_owned).to_vec(),
            modality: vec![Modality::Image, Modality::Image, Modality::Image, Modality::Text],
            points: vec![0.0, 1.0, 2.0, 3.0],
            columns: BTreeMap::from([("text".to_owned(), ["", "", "", "a dog"].map(str::to_owned).to_vec())]),
            source: Provenance::default(),
        }
    }

    #[test]
    fn rows_are_found_by_text_and_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        assert!(!SetEmbedder::is_set(&path));
        set().save(&path).unwrap();
        assert!(SetEmbedder::is_set(&path));
        let model = SetEmbedder::open(&path, Some("a dog")).unwrap();
        assert_eq!(model.root().unwrap(), Root::Point(vec![3.0]));
        assert_eq!(model.texts(&["a dog".to_owned(), "t0".to_owned()]).unwrap(), [3.0, 3.0]);
        let photos = ["/x/b/1.jpg", "/x/a/1.jpg", "/x/c/1.jpg", "1.jpg"].map(|it| ImageRef::File(it.into()));
        assert_eq!(model.images(&photos, EvalCrop::Center).unwrap(), [1.0, 0.0, 2.0, 2.0]);
        let message = model.texts(&["a cat".to_owned(), "t0".to_owned()]).unwrap_err().to_string();
        assert!(
            message.contains("no point for 1 of the items, first: the text `a cat`; expected a text row"),
            "{message}"
        );
        let message = model.images(&[ImageRef::File("2.jpg".into())], EvalCrop::Center).unwrap_err().to_string();
        assert!(message.contains("expected an image row with the path of the photo as its id"), "{message}");
        let message = format!("{:#}", SetEmbedder::open(&path, Some("a cat")).err().unwrap());
        assert!(message.contains("has no text row `a cat`"), "{message}");
    }
}
