use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use conifer_data::ImageRef;
use conifer_data::transform::EvalCrop;
use conifer_geometry::{ManifoldSpec, Root};

use crate::{EmbeddingModel, Result};

/// Caches embeddings, so the variants of a protocol embed a data set only once.
///
/// The cache holds the points of every embedded list. Each data set has a new cache.
pub(super) struct SuiteEmbeddingCache<'a> {
    inner: &'a dyn EmbeddingModel,
    points: RefCell<HashMap<EmbeddingListKey, Vec<f32>>>,
}

/// Length and two independent 64-bit hashes of a list. Collisions of the 128 hash bits are negligible.
type EmbeddingListKey = (usize, u64, u64);

impl<'a> SuiteEmbeddingCache<'a> {
    pub(super) fn new(inner: &'a dyn EmbeddingModel) -> Self {
        Self { inner, points: RefCell::default() }
    }

    fn or_else(&self, key: EmbeddingListKey, embed: impl FnOnce() -> Result<Vec<f32>>) -> Result<Vec<f32>> {
        if let Some(points) = self.points.borrow().get(&key) {
            return Ok(points.clone());
        }
        let points = embed()?;
        self.points.borrow_mut().insert(key, points.clone());
        Ok(points)
    }
}

impl EmbeddingModel for SuiteEmbeddingCache<'_> {
    fn spec(&self) -> &ManifoldSpec {
        self.inner.spec()
    }

    fn root(&self) -> Result<Root> {
        self.inner.root()
    }

    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        let key = key(texts.len(), |hasher| ("texts", texts).hash(hasher));
        self.or_else(key, || self.inner.texts(texts))
    }

    fn images(&self, images: &[ImageRef], crop: EvalCrop) -> Result<Vec<f32>> {
        let key = key(images.len(), |hasher| {
            ("images", crop == EvalCrop::Squeeze).hash(hasher);
            images.iter().for_each(|image| hash(image, hasher));
        });
        self.or_else(key, || self.inner.images(images, crop))
    }
}

fn key(len: usize, content: impl Fn(&mut DefaultHasher)) -> EmbeddingListKey {
    let seeded = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        content(&mut hasher);
        hasher.finish()
    };
    (len, seeded(0), seeded(1))
}

/// Hashes an image by its location, or by its bytes if it is in memory.
fn hash(image: &ImageRef, hasher: &mut DefaultHasher) {
    match image {
        ImageRef::File(path) => (0u8, path).hash(hasher),
        ImageRef::Member { shard, offset, len, .. } => (1u8, shard, offset, len).hash(hasher),
        ImageRef::Encoded(bytes) => (2u8, bytes).hash(hasher),
        ImageRef::Pixels(picture) => (3u8, picture.width, picture.height, &picture.rgb).hash(hasher),
        ImageRef::Vector(values) => {
            4u8.hash(hasher);
            values.iter().for_each(|value| value.to_bits().hash(hasher));
        }
    }
}
