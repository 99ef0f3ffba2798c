//! Caches embeddings between runs, keyed by the content of the embedded text or photo.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use conifer_data::transform::EvalCrop;
use conifer_data::{ImageRef, PixelLimits};
use conifer_embeddings::Element;
use conifer_eval::{EmbeddingModel, Error, Result};
use conifer_geometry::safe::SAME_POINT;
use conifer_geometry::{ManifoldSpec, Root};
use conifer_model::features::{ContentKey, FeatureStore, VectorFile, VectorLayout, stored_or_computed};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::embedder::ModelEmbedder;
use crate::output::note;

/// Number of points computed between two writes; a killed run loses at most this many.
const BATCH: usize = 1024;

/// Looks up points in a cache file before the model computes them, and adds those that it computes.
///
/// Each model has one file, named by a hash of [`ModelEmbedder::identity`]. A text is keyed by its token ids, a photo
/// by the bytes of its file (or its pixels) and the crop, and both by their vector if the model reads vectors. Each
/// run computes the first cached point again. If it differs from the cached one, the cached points are discarded. An
/// error of the cache never stops a run: the run prints a note, and computes points that it cannot read from the
/// cache.
pub(crate) struct CachedEmbedder {
    model: ModelEmbedder,
    cache: RefCell<Option<OpenCache>>,
}

struct OpenCache {
    store: VectorFile,
    /// True after this run has compared a cached point with the model, or has discarded the cache.
    checked: bool,
}

impl CachedEmbedder {
    /// Wraps a model. Without a `folder`, nothing is cached.
    pub(crate) fn new(model: ModelEmbedder, folder: Option<&Path>) -> Self {
        let cache = folder.and_then(|folder| note_failure("opened", folder, open(folder, &model)));
        Self { model, cache: RefCell::new(cache) }
    }

    /// The wrapped model.
    pub(crate) fn model(&self) -> &ModelEmbedder {
        &self.model
    }

    /// The points of the items with these keys, in order. `embed` computes points that are not cached, by item index.
    fn points(&self, keys: &[ContentKey], embed: &dyn Fn(&[usize]) -> Result<Vec<f32>>) -> Result<Vec<f32>> {
        let dim = self.spec().dim;
        let mut known = self.look_up(keys);
        if let Some(first) = (0..keys.len()).find(|&i| known.contains_key(&keys[i]))
            && !self.is_checked()
        {
            let again = embed(&[first])?;
            if agree(&known[&keys[first]], &again) {
                self.with(|cache| cache.checked = true);
            } else {
                self.discard();
                known.clear();
            }
        }
        stored_or_computed(keys, known, dim, BATCH, embed, |fresh| self.add(fresh))
    }

    fn look_up(&self, keys: &[ContentKey]) -> HashMap<ContentKey, Vec<f32>> {
        self.attempt("read", |cache| Ok(cache.store.find(keys)?)).unwrap_or_default()
    }

    /// Appends points to the file. After a failed write, the points that were already in the file can still be read.
    fn add(&self, points: &[(ContentKey, Vec<f32>)]) {
        self.with(|cache| {
            let (path, done) = (cache.store.path().to_owned(), cache.store.add(points));
            note_failure("written", &path, done.map_err(Into::into));
        });
    }

    fn discard(&self) {
        self.attempt("emptied", |cache| {
            let what = if cache.store.writes() { "the cache is emptied" } else { "the cache is not used" };
            let path = cache.store.path().display();
            note(&format!("{path}: the model now computes other embeddings than the cached ones; {what}"));
            cache.checked = true;
            Ok(cache.store.clear()?)
        });
    }

    fn is_checked(&self) -> bool {
        self.cache.borrow().as_ref().is_none_or(|cache| cache.checked)
    }

    fn with(&self, change: impl FnOnce(&mut OpenCache)) {
        if let Some(cache) = self.cache.borrow_mut().as_mut() {
            change(cache);
        }
    }

    /// Runs `work` on the cache file. On an error, prints a note, stops using the cache and returns `None`. Also
    /// returns `None` if the cache is not in use.
    fn attempt<T>(&self, what: &str, work: impl FnOnce(&mut OpenCache) -> anyhow::Result<T>) -> Option<T> {
        let mut slot = self.cache.borrow_mut();
        let cache = slot.as_mut()?;
        let file = cache.store.path().to_owned();
        let done = note_failure(what, &file, work(cache));
        if done.is_none() {
            *slot = None;
        }
        done
    }
}

impl EmbeddingModel for CachedEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        self.model.spec()
    }

    fn root(&self) -> Result<Root> {
        self.model.root()
    }

    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        if self.cache.borrow().is_none() {
            return self.model.texts(texts);
        }
        let inputs = self.model.inner().text_inputs(texts).map_err(|error| Error::Embedder(error.to_string()))?;
        let keys: Vec<ContentKey> = inputs.iter().map(|input| key("text", input)).collect();
        self.points(&keys, &|some| self.model.texts(&some.iter().map(|&i| texts[i].clone()).collect::<Vec<_>>()))
    }

    fn images(&self, images: &[ImageRef], crop: EvalCrop) -> Result<Vec<f32>> {
        if self.cache.borrow().is_none() {
            return self.model.images(images, crop);
        }
        let limits = PixelLimits::default();
        let kind = format!("photo {crop:?}");
        let key_of = |image: &ImageRef| match image {
            ImageRef::Pixels(picture) => {
                Ok(key(&format!("{kind} {} x {}", picture.width, picture.height), &picture.rgb))
            }
            ImageRef::Vector(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                Ok(key("vector", &bytes))
            }
            _ => Ok(key(&kind, image.bytes(limits.max_bytes)?.as_deref().unwrap_or_default())),
        };
        let keys: std::result::Result<Vec<ContentKey>, conifer_data::Broken> = images.par_iter().map(key_of).collect();
        // Report the unreadable photos among all requested photos, as a run without a cache does.
        let unreadable = |error| self.model.unreadable(images).unwrap_or(error);
        let keys = match keys {
            Ok(keys) => keys,
            Err(broken) => return Err(unreadable(Error::Embedder(broken.to_string()))),
        };
        self.points(&keys, &|some| {
            self.model.images(&some.iter().map(|&i| images[i].clone()).collect::<Vec<_>>(), crop)
        })
        .map_err(unreadable)
    }
}

/// The default cache folder: `conifer` in the user's cache folder. `None` if the environment does not name that folder.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME").or_else(|| set("USERPROFILE"))?.join(".cache")))?;
    Some(base.join("conifer"))
}

/// The store of the features of frozen encoders, in the default cache folder.
pub(crate) fn feature_cache() -> FeatureStore {
    feature_cache_in(default_folder())
}

/// As [`feature_cache`], in another cache folder.
pub(crate) fn feature_cache_in(folder: Option<PathBuf>) -> FeatureStore {
    FeatureStore::cache(folder.map(|folder| folder.join("features")))
}

fn open(folder: &Path, model: &ModelEmbedder) -> anyhow::Result<OpenCache> {
    open_of(folder, &model.identity()?, model.inner().spec().dim)
}

/// Opens the cache file of the model with this identity, which covers everything that determines its points.
fn open_of(folder: &Path, identity: &str, dim: usize) -> anyhow::Result<OpenCache> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let name = hex::encode(&key("model", identity.as_bytes())[..12]);
    let file = folder.join(format!("{name}.points"));
    let layout = VectorLayout { identity, width: dim, element: Some(Element::F32) };
    let (store, lines) = VectorFile::open(&file, &layout).with_context(|| file.display().to_string())?;
    lines.iter().for_each(|line| note(line));
    Ok(OpenCache { store, checked: false })
}

/// Turns an error of the cache into a note on stderr; the run continues.
fn note_failure<T>(what: &str, path: &Path, done: anyhow::Result<T>) -> Option<T> {
    done.map_err(|error| note(&format!("embeddings are not cached: {} cannot be {what}: {error:#}", path.display())))
        .ok()
}

fn key(kind: &str, content: &[u8]) -> ContentKey {
    let mut hash = Sha256::new();
    hash.update((kind.len() as u64).to_le_bytes());
    hash.update(kind);
    hash.update(content);
    hash.finalize().into()
}

/// Returns true if two computations of a point agree up to rounding, which depends on the batch size.
fn agree(cached: &[f32], again: &[f32]) -> bool {
    let norm = |it: &mut dyn Iterator<Item = f32>| it.map(|v| v * v).sum::<f32>().sqrt();
    let apart = norm(&mut cached.iter().zip(again).map(|(a, b)| a - b));
    cached.len() == again.len() && apart <= SAME_POINT * norm(&mut again.iter().copied())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn file_in_place_of_the_cache_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let cache_folder = folder.path().join("cache");
        assert!(open_of(&cache_folder, "a", 3).is_ok());
        assert_eq!(std::fs::read_dir(&cache_folder).unwrap().count(), 1);
        let file = std::fs::read_dir(&cache_folder).unwrap().next().unwrap().unwrap().path();
        let error = open_of(&file, "a", 3).err().unwrap().to_string();
        assert!(error.contains(".points"), "{error}");
    }

    #[test]
    fn points_agree_up_to_rounding() {
        assert!(agree(&[1.0, 0.0], &[1.0, 1e-5]));
        assert!(!agree(&[1.0, 0.0], &[1.0, 1e-3]));
        assert!(!agree(&[1.0], &[1.0, 0.0]));
    }

    #[test]
    fn keys_depend_on_kind_and_content() {
        assert_eq!(key("text", b"a"), key("text", b"a"));
        assert_ne!(key("text", b"a"), key("texta", b""));
        assert_ne!(key("text", b"a"), key("text", b"b"));
    }
}
