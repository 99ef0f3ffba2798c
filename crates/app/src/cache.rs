//! Embeddings kept between runs, by the content of what was embedded.

mod store;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use conifer_data::transform::EvalCrop;
use conifer_data::{ImageRef, PixelLimits};
use conifer_eval::{Embedder, Error, Result};
use conifer_space::safe::SAME_POINT;
use conifer_space::{ManifoldSpec, Root};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::embedder::ModelEmbedder;
use crate::output::note;
use store::{Key, Store};

/// Points embedded between two writes: what a killed run loses at most.
const BATCH: usize = 1024;

/// A model whose points are looked up before they are computed, and kept afterwards.
///
/// One file per model: its name covers the weights, how the model is fed, and the version of the program. A text is known by
/// its token ids, a photo by the bytes of its file (or its pixels) and how it is cut. The first point that is found in a run
/// is computed once more: if it differs, what is kept is of no use and is thrown away. A cache that cannot be read or
/// written never stops a run: it is told once and left alone.
pub(crate) struct CachedEmbedder {
    model: ModelEmbedder,
    kept: RefCell<Option<Kept>>,
}

struct Kept {
    store: Store,
    /// Whether a point of it was computed again and agreed.
    checked: bool,
}

impl CachedEmbedder {
    /// Around a model; `folder` is where points are kept, `None` to keep none.
    pub(crate) fn new(model: ModelEmbedder, folder: Option<&Path>) -> Self {
        let kept = folder.and_then(|folder| told("opened", folder, open(folder, &model)));
        Self { model, kept: RefCell::new(kept) }
    }

    /// The model itself.
    pub(crate) fn model(&self) -> &ModelEmbedder {
        &self.model
    }

    /// The points of items given by their keys: kept ones, and others as `embed` computes them for their numbers.
    fn points(&self, keys: &[Key], embed: &dyn Fn(&[usize]) -> Result<Vec<f32>>) -> Result<Vec<f32>> {
        let dim = self.spec().dim;
        let mut known = self.look_up(keys);
        if let Some(first) = (0..keys.len()).find(|&i| known.contains_key(&keys[i]))
            && !self.is_checked()
        {
            let again = embed(&[first])?;
            if agree(&known[&keys[first]], &again) {
                self.with(|kept| kept.checked = true);
            } else {
                self.throw_away();
                known.clear();
            }
        }
        let mut asked = std::collections::HashSet::new();
        let missing: Vec<usize> =
            (0..keys.len()).filter(|&i| !known.contains_key(&keys[i]) && asked.insert(keys[i])).collect();
        for some in missing.chunks(BATCH) {
            let fresh: Vec<(Key, Vec<f32>)> =
                some.iter().map(|&i| keys[i]).zip(embed(some)?.chunks(dim).map(<[f32]>::to_vec)).collect();
            self.keep(&fresh);
            known.extend(fresh);
        }
        Ok(keys.iter().flat_map(|key| known.get(key).into_iter().flatten()).copied().collect())
    }

    fn look_up(&self, keys: &[Key]) -> HashMap<Key, Vec<f32>> {
        self.attempt("read", |kept| Ok(kept.store.find(keys)?)).unwrap_or_default()
    }

    /// Keeps points. Where that fails, what is kept already can still be read.
    fn keep(&self, points: &[(Key, Vec<f32>)]) {
        self.with(|kept| {
            let (path, done) = (kept.store.path().to_owned(), kept.store.add(points));
            told("written", &path, done.map_err(Into::into));
        });
    }

    fn throw_away(&self) {
        self.attempt("emptied", |kept| {
            let what = if kept.store.writes() { "they are thrown away" } else { "they are not used" };
            let place = kept.store.path().display();
            note(&format!("{place}: the model gives other points now than those kept; {what}"));
            kept.checked = true;
            Ok(kept.store.clear()?)
        });
    }

    fn is_checked(&self) -> bool {
        self.kept.borrow().as_ref().is_none_or(|kept| kept.checked)
    }

    fn with(&self, change: impl FnOnce(&mut Kept)) {
        if let Some(kept) = self.kept.borrow_mut().as_mut() {
            change(kept);
        }
    }

    /// Does something with the file; when that fails, says so and goes on without it.
    fn attempt<T>(&self, what: &str, work: impl FnOnce(&mut Kept) -> anyhow::Result<T>) -> Option<T> {
        let mut place = self.kept.borrow_mut();
        let kept = place.as_mut()?;
        let file = kept.store.path().to_owned();
        let done = told(what, &file, work(kept));
        if done.is_none() {
            *place = None;
        }
        done
    }
}

impl Embedder for CachedEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        self.model.spec()
    }

    fn root(&self) -> Result<Root> {
        self.model.root()
    }

    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        if self.kept.borrow().is_none() {
            return self.model.texts(texts);
        }
        let ids = self.model.inner().tokenize(texts).map_err(|error| Error::Embedder(error.to_string()))?;
        let keys: Vec<Key> = ids
            .iter()
            .map(|ids| key("text", ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>().as_slice()))
            .collect();
        self.points(&keys, &|some| self.model.texts(&some.iter().map(|&i| texts[i].clone()).collect::<Vec<_>>()))
    }

    fn images(&self, images: &[ImageRef], crop: EvalCrop) -> Result<Vec<f32>> {
        if self.kept.borrow().is_none() {
            return self.model.images(images, crop);
        }
        let limits = PixelLimits::default();
        let kind = format!("photo {crop:?}");
        let key_of = |image: &ImageRef| match image {
            ImageRef::Pixels(picture) => {
                Ok(key(&format!("{kind} {} x {}", picture.width, picture.height), &picture.rgb))
            }
            _ => Ok(key(&kind, image.bytes(limits.max_bytes)?.as_deref().unwrap_or_default())),
        };
        let keys: std::result::Result<Vec<Key>, conifer_data::Broken> = images.par_iter().map(key_of).collect();
        // Photos that cannot be read are counted among all that were asked for, whatever is kept.
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

/// Where points are kept unless it is said otherwise: the cache folder of the user.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME").or_else(|| set("USERPROFILE"))?.join(".cache")))?;
    Some(base.join("conifer"))
}

fn open(folder: &Path, model: &ModelEmbedder) -> anyhow::Result<Kept> {
    open_of(folder, &model.identity()?, model.inner().spec().dim)
}

/// The file of a model, known by what decides its points.
fn open_of(folder: &Path, identity: &str, dim: usize) -> anyhow::Result<Kept> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let name: String = key("model", identity.as_bytes())[..12].iter().map(|b| format!("{b:02x}")).collect();
    let file = folder.join(format!("{name}.points"));
    let (store, lines) = Store::open(&file, dim).with_context(|| file.display().to_string())?;
    lines.iter().for_each(|line| note(line));
    Ok(Kept { store, checked: false })
}

/// The result of work on the cache; a failure is said on stderr, and is none to the run.
fn told<T>(what: &str, place: &Path, done: anyhow::Result<T>) -> Option<T> {
    done.map_err(|error| note(&format!("embeddings are not kept: {} cannot be {what}: {error:#}", place.display())))
        .ok()
}

fn key(kind: &str, content: &[u8]) -> Key {
    let mut hash = Sha256::new();
    hash.update((kind.len() as u64).to_le_bytes());
    hash.update(kind);
    hash.update(content);
    hash.finalize().into()
}

/// Whether two computations gave one point: batches of other sizes round otherwise in the last digits.
fn agree(kept: &[f32], again: &[f32]) -> bool {
    let norm = |it: &mut dyn Iterator<Item = f32>| it.map(|v| v * v).sum::<f32>().sqrt();
    let apart = norm(&mut kept.iter().zip(again).map(|(a, b)| a - b));
    kept.len() == again.len() && apart <= SAME_POINT * norm(&mut again.iter().copied())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_in_the_place_of_the_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        assert!(open_of(&place, "a", 3).is_ok());
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
        let file = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
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
    fn keys_tell_kinds_and_contents_apart() {
        assert_eq!(key("text", b"a"), key("text", b"a"));
        assert_ne!(key("text", b"a"), key("texta", b""));
        assert_ne!(key("text", b"a"), key("text", b"b"));
    }
}
