//! Adapts a checkpoint to the embedder interface of benchmarks and searches.

use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use conifer_data::{ImageRef, PixelLimits, Source};
use conifer_embeddings::Provenance;
use conifer_eval::Error;
use conifer_geometry::{ManifoldSpec, Root};
use conifer_model::checkpoint::Manifest;
use conifer_model::embed::Embedder;
use conifer_model::features::FeatureStore;
use conifer_model::head::Tower;

use crate::arguments::CropArg;
use crate::progress;
use crate::request::note_interrupted;

/// A trained model that implements [`conifer_eval::EmbeddingModel`], with progress bars on stderr.
pub(crate) struct ModelEmbedder {
    inner: Embedder,
}

impl ModelEmbedder {
    /// Opens a checkpoint folder, the latest checkpoint of a run, or a published model.
    pub(crate) fn open(reference: &Path, device: &Device) -> anyhow::Result<Self> {
        note_interrupted(reference);
        Ok(Self { inner: Embedder::open(reference, device)? })
    }

    /// Uses the embedding of `text` as the root, if a text is given.
    pub(crate) fn with_root_text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => Self { inner: self.inner.with_root_text(text) },
            None => self,
        }
    }

    /// Reads and keeps the features of frozen encoders in this store.
    pub(crate) fn with_features(self, store: &FeatureStore) -> Self {
        Self { inner: self.inner.with_feature_store(store) }
    }

    /// The requested crop of photos; without one, the crop that the checkpoint names.
    pub(crate) fn crop(&self, requested: Option<CropArg>) -> EvalCrop {
        requested.map_or(self.inner.manifest().images.crop, EvalCrop::from)
    }

    /// Uses the vectors of the texts of `source`, for a model that reads them instead of texts.
    pub(crate) fn with_text_vectors(self, source: &dyn Source) -> anyhow::Result<Self> {
        match (self.inner.vector_width(Tower::Text), source.text_vectors()) {
            (Some(_), Some(texts)) => Ok(Self { inner: self.inner.with_text_vectors(texts)? }),
            _ => Ok(self),
        }
    }

    /// Sets the number of photos or texts per forward pass.
    pub(crate) fn with_batch(self, rows: usize) -> Self {
        Self { inner: self.inner.with_batch(rows) }
    }

    /// Wraps a model in memory.
    pub(crate) fn new(inner: Embedder) -> Self {
        Self { inner }
    }

    /// The wrapped model, without progress bars.
    #[cfg(feature = "serve")]
    pub(crate) fn into_inner(self) -> Embedder {
        self.inner
    }

    /// The wrapped model.
    pub(crate) fn inner(&self) -> &Embedder {
        &self.inner
    }

    /// Everything that determines a point besides the text or photo: version of the program, weights, manifest without
    /// the root, and space.
    pub(crate) fn identity(&self) -> anyhow::Result<String> {
        let manifest = Manifest { root: None, apex: None, ..self.inner.manifest().clone() };
        let (fed, spec) = (toml::to_string(&manifest)?, serde_json::to_string(self.inner.spec())?);
        Ok(format!("{}\n{}\n{fed}\n{spec}", env!("CARGO_PKG_VERSION"), self.inner.fingerprint()))
    }

    /// An error that counts the unreadable photos among `images`, or `None` if all can be read.
    pub(crate) fn unreadable(&self, images: &[ImageRef]) -> Option<Error> {
        self.inner.unreadable(images).map(|error| Error::Embedder(error.to_string()))
    }

    /// Checks that an embedding set with this space and provenance could come from this model. The weights are compared
    /// only if the source names them.
    ///
    /// # Errors
    /// The weights or the space differ.
    pub(crate) fn check_made(&self, spec: &ManifoldSpec, source: &Provenance) -> anyhow::Result<()> {
        let weights = &source.weights;
        anyhow::ensure!(
            weights.is_empty() || weights == self.inner.fingerprint(),
            "the set was made by {} with other weights than {} has (sha256 {} and {}); use the checkpoint that made the set",
            source.model,
            self.inner.name(),
            short(weights),
            short(self.inner.fingerprint()),
        );
        anyhow::ensure!(
            self.inner.spec() == spec,
            "the space of the set is {:?} (made by {}), but that of the checkpoint {} is {:?}; use the checkpoint that made the set",
            spec,
            source.model,
            self.inner.name(),
            self.inner.spec(),
        );
        Ok(())
    }

    pub(crate) fn text(&self, text: &str) -> anyhow::Result<Vec<f32>> {
        Ok(self.inner.texts(&[text], &mut |_, _| {})?)
    }

    /// Embeds a vector, for a model that reads vectors.
    pub(crate) fn vector(&self, values: Vec<f32>, tower: Tower) -> anyhow::Result<Vec<f32>> {
        Ok(self.inner.vectors(&[values], tower)?)
    }

    pub(crate) fn image(&self, path: &Path) -> anyhow::Result<Vec<f32>> {
        if let Some(width) = self.inner.vector_width(Tower::Image) {
            anyhow::bail!(
                "{}: the model reads vectors and has no image encoder; expected --image-vector with {width} numbers",
                path.display()
            );
        }
        let image = ImageRef::File(path.into());
        image.open(&PixelLimits::default()).with_context(|| path.display().to_string())?;
        Ok(self.inner.images(&[image], self.crop(None), &mut |_, _| {})?)
    }
}

impl conifer_eval::EmbeddingModel for ModelEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        self.inner.spec()
    }

    fn root(&self) -> conifer_eval::Result<Root> {
        self.inner.root().map_err(|error| Error::Embedder(error.to_string()))
    }

    fn texts(&self, texts: &[String]) -> conifer_eval::Result<Vec<f32>> {
        let bar = progress::bar("texts", texts.len());
        let points = self.inner.texts(texts, &mut |done, _| bar.set_position(done as u64));
        bar.finish_and_clear();
        points.map_err(|error| Error::Embedder(error.to_string()))
    }

    fn images(&self, images: &[ImageRef], crop: EvalCrop) -> conifer_eval::Result<Vec<f32>> {
        let bar = progress::bar("photos", images.len());
        let points = self.inner.images(images, crop, &mut |done, _| bar.set_position(done as u64));
        bar.finish_and_clear();
        points.map_err(|error| Error::Embedder(error.to_string()))
    }
}

/// The first 12 characters of a hash, enough to distinguish two hashes in a message.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
