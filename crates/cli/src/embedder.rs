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
use conifer_model::embed::{Embedder, by_length};
use conifer_model::features::FeatureStore;
use conifer_model::head::Tower;
use conifer_train::ranks::Ranks;

use crate::arguments::CropArg;
use crate::progress;
use crate::request::note_interrupted;

/// A trained model that implements [`conifer_eval::EmbeddingModel`], with progress bars on stderr.
pub(crate) struct ModelEmbedder {
    inner: Embedder,
    /// The processes that share the work of the methods of [`conifer_eval::EmbeddingModel`].
    ranks: Ranks,
}

impl ModelEmbedder {
    /// Opens a checkpoint folder, the latest checkpoint of a run, or a published model.
    pub(crate) fn open(reference: &Path, device: &Device) -> anyhow::Result<Self> {
        note_interrupted(reference);
        Ok(Self::new(Embedder::open(reference, device)?))
    }

    /// Uses the embedding of `text` as the root, if a text is given.
    pub(crate) fn with_root_text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => Self { inner: self.inner.with_root_text(text), ..self },
            None => self,
        }
    }

    /// Reads and keeps the features of frozen encoders in this store.
    pub(crate) fn with_features(self, store: &FeatureStore) -> Self {
        Self { inner: self.inner.with_feature_store(store), ..self }
    }

    /// The requested crop of photos; without one, the crop that the checkpoint names.
    pub(crate) fn crop(&self, requested: Option<CropArg>) -> EvalCrop {
        requested.map_or(self.inner.manifest().images.crop, EvalCrop::from)
    }

    /// Uses the vectors of the texts of `source`, for a model that reads them instead of texts.
    pub(crate) fn with_text_vectors(self, source: &dyn Source) -> anyhow::Result<Self> {
        match (self.inner.vector_width(Tower::Text), source.text_vectors()) {
            (Some(_), Some(texts)) => Ok(Self { inner: self.inner.with_text_vectors(texts)?, ..self }),
            _ => Ok(self),
        }
    }

    /// Sets the number of photos or texts per forward pass.
    pub(crate) fn with_batch(self, rows: usize) -> Self {
        Self { inner: self.inner.with_batch(rows), ..self }
    }

    /// Wraps a model in memory.
    pub(crate) fn new(inner: Embedder) -> Self {
        Self { inner, ranks: Ranks::default() }
    }

    /// Embeds the inputs of benchmarks on these ranks, in the batches of one process. Each rank embeds a part of the
    /// batches and receives all points. Every rank measures the same benchmarks in the same order.
    pub(crate) fn on_ranks(self, ranks: Ranks) -> Self {
        Self { ranks, ..self }
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
        if self.ranks.size() > 1 {
            return self.texts_on_ranks(texts);
        }
        let bar = progress::bar("texts", texts.len());
        let points = self.inner.texts(texts, &mut |done, _| bar.set_position(done as u64));
        bar.finish_and_clear();
        points.map_err(embedder_error)
    }

    fn images(&self, images: &[ImageRef], crop: EvalCrop) -> conifer_eval::Result<Vec<f32>> {
        let batch = self.inner.batch();
        let batches = self.ranks.share(images.len().div_ceil(batch));
        let own = &images[batches.start * batch..images.len().min(batches.end * batch)];
        let bar = progress::bar("photos", own.len());
        let points = self.inner.images(own, crop, &mut |done, _| bar.set_position(done as u64));
        bar.finish_and_clear();
        self.gathered(points)
    }
}

impl ModelEmbedder {
    /// The points of `texts`, of which this rank embeds a part of the batches of [`Embedder::texts`].
    fn texts_on_ranks(&self, texts: &[String]) -> conifer_eval::Result<Vec<f32>> {
        let rows = self.inner.tokenize(texts).map_err(embedder_error)?;
        let different = by_length(&rows);
        let batches: Vec<_> = different.chunks(self.inner.batch()).collect();
        let embed = |batch: &&[(&[u32], Vec<usize>)]| {
            self.inner.token_batch(&batch.iter().map(|(ids, _)| *ids).collect::<Vec<_>>())
        };
        let own: Result<Vec<_>, _> = batches[self.ranks.share(batches.len())].iter().map(embed).collect();
        let embedded = self.gathered(own.map(|batches| batches.concat()))?;
        let dim = self.inner.spec().dim;
        let mut points = vec![0.0; texts.len() * dim];
        for ((_, positions), point) in different.iter().zip(embedded.chunks_exact(dim)) {
            for &position in positions {
                points[position * dim..][..dim].copy_from_slice(point);
            }
        }
        Ok(points)
    }

    /// The points of all ranks, in their order.
    fn gathered(&self, own: conifer_model::Result<Vec<f32>>) -> conifer_eval::Result<Vec<f32>> {
        let own = match self.ranks.size() {
            1 => return own.map_err(embedder_error),
            _ => own.map_err(|error| anyhow::anyhow!("{error}")),
        };
        let own = self.ranks.agree(own).map_err(|error| Error::Embedder(error.to_string()))?;
        Ok(self.ranks.gather(&own))
    }
}

fn embedder_error(error: conifer_model::Error) -> Error {
    Error::Embedder(error.to_string())
}

/// The first 12 characters of a hash, enough to distinguish two hashes in a message.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
