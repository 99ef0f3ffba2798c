//! Embeds photographs and texts with a trained model, into points or an [`EmbeddingSet`] that carries its space.

mod prefetch;
mod rows;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use conifer_data::vectors::TextVectors;
use conifer_data::{Broken, ImageRef, PixelLimits};
use conifer_embeddings::{EmbeddingSet, Modality, Provenance, sha256_hex};
use conifer_geometry::{ManifoldSpec, Root, entry, space};
use rayon::prelude::*;

pub(crate) use prefetch::prefetch;
pub use rows::by_length;

use crate::apex::Apex;
use crate::checkpoint::published::ImportOptions;
use crate::checkpoint::{self, FrozenTowers, Manifest, Weights};
use crate::features::{FeatureStore, SharedRows};
use crate::head::Tower;
use crate::model::Model;
use crate::{Error, Result};

/// Called after every batch with the number of finished rows and the total.
pub type EmbedProgress<'a> = &'a mut dyn FnMut(usize, usize);

/// A model without autodiff, with its tokenizer and its manifest.
///
/// The point of a row does not depend on the other rows of its batch, except for the last bits: matrix products of
/// different sizes sum in a different order.
#[derive(Debug)]
pub struct Embedder {
    name: String,
    model: Model,
    manifest: Manifest,
    tokenizer: Tokenizer,
    device: Device,
    spec: ManifoldSpec,
    batch: usize,
    limits: PixelLimits,
    fingerprint: OnceLock<String>,
    root: OnceLock<Root>,
    /// Stored features of the frozen towers.
    image_rows: Option<SharedRows>,
    text_rows: Option<SharedRows>,
}

impl Embedder {
    /// Prepares a model for inference. `name` becomes the `model` field of every set's [`Provenance`]. A model on a
    /// device with autodiff is moved to the same device without autodiff. Low-rank updates are merged into the weights.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the tokenizer does not match the model ([`Manifest::check_tokenizer`]).
    pub fn new(name: impl Into<String>, model: &Model, manifest: Manifest, tokenizer: Tokenizer) -> Result<Self> {
        manifest.check_tokenizer(&tokenizer)?;
        let (model, manifest) = checkpoint::merged(model.valid(), manifest);
        Ok(Self {
            name: name.into(),
            spec: model.head.spec(),
            device: model.devices().into_iter().next().unwrap_or_default(),
            model,
            manifest,
            tokenizer,
            batch: 32,
            limits: PixelLimits::default(),
            fingerprint: OnceLock::new(),
            root: OnceLock::new(),
            image_rows: None,
            text_rows: None,
        })
    }

    /// Opens anything that [`checkpoint::open`] accepts. The path that was read becomes the model name of the
    /// embeddings.
    ///
    /// # Errors
    /// The errors of [`checkpoint::open`] and [`Embedder::new`]; [`Error::Invalid`] for a model without a tokenizer.
    pub fn open(reference: &Path, device: &Device) -> Result<Self> {
        let device = device.clone().without_autodiff();
        let opened = checkpoint::open(reference, &ImportOptions::default(), &device)?;
        let tokenizer = opened.need_tokenizer()?;
        Self::new(opened.path.display().to_string(), &opened.model, opened.manifest, tokenizer)
    }

    /// The model name that is recorded in embeddings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the batch size (default: 32 photographs or texts). A larger batch is faster and takes more memory.
    #[must_use]
    pub fn with_batch(mut self, rows: usize) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// Reads features of frozen towers from this store, and adds those that it computes. Only towers that the manifest
    /// names as frozen are read and written.
    #[must_use]
    pub fn with_feature_store(mut self, store: &FeatureStore) -> Self {
        let FrozenTowers { visual, textual } = &self.manifest.frozen;
        let open =
            |tower, identity: &Option<String>, width| SharedRows::open(store, tower, identity.as_deref()?, width);
        self.image_rows = open(Tower::Image, visual, self.model.visual.width());
        self.text_rows = open(Tower::Text, textual, self.model.textual.width());
        self
    }

    /// Sets the precomputed vectors of texts, for a model without a text encoder.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the model has a text encoder, or expects vectors of another width.
    pub fn with_text_vectors(mut self, texts: Arc<TextVectors>) -> Result<Self> {
        let tokenizer = Tokenizer::of_vectors(texts);
        self.manifest.check_tokenizer(&tokenizer)?;
        self.tokenizer = tokenizer;
        self.root = OnceLock::new();
        Ok(self)
    }

    /// Width of the vectors that a tower reads; `None` if it has an encoder, which reads photos or texts.
    pub fn vector_width(&self, tower: Tower) -> Option<usize> {
        match tower {
            Tower::Image => self.model.config().visual.vector_width(),
            Tower::Text => self.model.config().textual.vector_width(),
        }
    }

    /// The space of all points, with its learned curvatures.
    pub fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    /// The model's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The root of the entailment cones. It is the first of these that exists: the stored root of the checkpoint, the
    /// root that the manifest names, on a sphere the embedding of the empty text, the origin. On a sphere the point is
    /// normalised. A model that reads vectors of texts has no embedding of the empty text and uses the origin.
    ///
    /// # Errors
    /// If the text cannot be embedded.
    pub fn root(&self) -> Result<Root> {
        if let Some(root) = self.root.get() {
            return Ok(root.clone());
        }
        let root = self.compute_root()?;
        Ok(self.root.get_or_init(|| root).clone())
    }

    /// Uses the embedding of `text` as the root, for a published model that does not record the root text of its
    /// training.
    #[must_use]
    pub fn with_root_text(mut self, text: &str) -> Self {
        self.manifest.root = None;
        self.manifest.apex = Some(Apex::Text(text.to_owned()));
        self.root = OnceLock::new();
        self
    }

    fn compute_root(&self) -> Result<Root> {
        let embed = |text: &str| -> Result<Vec<f64>> {
            Ok(self.texts(&[text], &mut |_, _| {})?.into_iter().map(f64::from).collect())
        };
        let point = match (&self.manifest.root, &self.manifest.apex) {
            (Some(root), _) => root.clone(),
            (None, Some(Apex::Text(text))) => embed(text)?,
            (None, None) if !entry(self.spec.kind.name())?.has_origin() && self.vector_width(Tower::Text).is_none() => {
                embed("")?
            }
            (None, _) => return Ok(Root::Origin),
        };
        let mut root = vec![0.0; point.len()];
        space::<f64>(&self.spec)?.project(&point, &mut root);
        Ok(Root::Point(root))
    }

    /// Embeds `texts`. Points are row-major, `[N, dim]`, in input order. Equal texts are embedded once; texts of
    /// similar length share a batch.
    ///
    /// # Errors
    /// If the tokenizer or the model fails. A model that reads vectors accepts only the texts of
    /// [`Embedder::with_text_vectors`]; any other model accepts every text, even an empty one.
    pub fn texts<S: AsRef<str> + Sync>(&self, texts: &[S], progress: EmbedProgress<'_>) -> Result<Vec<f32>> {
        let rows = self.tokenize(texts)?;
        let dim = self.spec.dim;
        let mut points = vec![0.0; texts.len() * dim];
        let mut done = 0;
        for chunk in by_length(&rows).chunks(self.batch) {
            let rows: Vec<&[u32]> = chunk.iter().map(|(row, _)| *row).collect();
            let embedded = self.token_batch(&rows)?;
            for ((_, positions), point) in chunk.iter().zip(embedded.chunks_exact(dim)) {
                for &position in positions {
                    points[position * dim..][..dim].copy_from_slice(point);
                }
                done += positions.len();
            }
            progress(done, texts.len());
        }
        Ok(points)
    }

    /// Embeds `images`. Points are row-major, `[N, dim]`, in input order.
    ///
    /// # Errors
    /// [`Error::Broken`] if a photograph cannot be read, or is not a vector although the model reads vectors. No
    /// photograph is skipped. Also the errors of [`Embedder::image_batch`].
    pub fn images(&self, images: &[ImageRef], crop: EvalCrop, progress: EmbedProgress<'_>) -> Result<Vec<f32>> {
        self.images_with(images, crop, progress, |_| {})
    }

    /// Embeds texts into a set. `ids` name the rows; `data` names their source.
    ///
    /// # Errors
    /// The errors of [`Embedder::texts`]; [`Error::Embeddings`] if there is not one id per text.
    pub fn text_set<S: AsRef<str> + Sync>(
        &self,
        ids: Vec<String>,
        texts: &[S],
        modality: Modality,
        data: &str,
        progress: EmbedProgress<'_>,
    ) -> Result<EmbeddingSet> {
        let points = self.texts(texts, progress)?;
        let mut hashes = self.fingerprint().to_owned();
        for input in self.text_inputs(texts)? {
            hashes += &sha256_hex(&input);
        }
        self.set(ids, modality, points, data, &hashes)
    }

    /// Embeds photographs into a set. `crop` selects the crop, `ids` name the rows, and `data` names their source.
    ///
    /// # Errors
    /// The errors of [`Embedder::images`]; [`Error::Embeddings`] if there is not one id per photograph.
    pub fn image_set(
        &self,
        ids: Vec<String>,
        images: &[ImageRef],
        crop: EvalCrop,
        modality: Modality,
        data: &str,
        progress: EmbedProgress<'_>,
    ) -> Result<EmbeddingSet> {
        let mut hashes = self.fingerprint().to_owned();
        let points = self.images_with(images, crop, progress, |pixels| hashes += &sha256_hex(pixels))?;
        self.set(ids, modality, points, data, &hashes)
    }

    /// Token ids of each text, truncated to the context of the text tower.
    ///
    /// # Errors
    /// If the tokenizer cannot encode a text.
    pub fn tokenize<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<u32>>> {
        let context = self.model.config().textual.reads().context;
        let encode = |text: &S| Ok(self.tokenizer.encode(text.as_ref(), context)?);
        texts.par_iter().map(encode).collect()
    }

    /// Passes the [`Embedder::image_input`] of every photograph to `seen` in order. The next batch is read while the
    /// current one is computed.
    fn images_with(
        &self,
        images: &[ImageRef],
        crop: EvalCrop,
        progress: EmbedProgress<'_>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<Vec<f32>> {
        let mut points = Vec::with_capacity(images.len() * self.spec.dim);
        let read = |image: &ImageRef| self.image_input(image, crop);
        let batches = images.chunks(self.batch).map(|chunk| -> Result<Vec<Vec<u8>>, Broken> {
            let rows: Vec<Result<Vec<u8>, Broken>> = chunk.par_iter().map(read).collect();
            rows.into_iter().collect()
        });
        prefetch(batches, |rows| {
            let rows = rows.map_err(|first| {
                let only = Error::Broken { count: 1, total: images.len(), first: first.to_string() };
                self.unreadable(images).unwrap_or(only)
            })?;
            rows.iter().for_each(|row| seen(row));
            points.extend(self.image_batch(&rows)?);
            progress(points.len() / self.spec.dim, images.len());
            Ok::<(), Error>(())
        })?;
        Ok(points)
    }

    /// An [`Error::Broken`] with the number of unreadable photographs among `images`; `None` if all can be read.
    pub fn unreadable(&self, images: &[ImageRef]) -> Option<Error> {
        let fault = |image: &ImageRef| match self.vector_width(Tower::Image) {
            Some(width) => image.vector(width).err(),
            None => image.open(&self.limits).err(),
        };
        let broken: Vec<Broken> = images.par_iter().filter_map(fault).collect();
        let first = broken.first()?.to_string();
        Some(Error::Broken { count: broken.len(), total: images.len(), first })
    }

    fn set(
        &self,
        ids: Vec<String>,
        modality: Modality,
        points: Vec<f32>,
        data: &str,
        hashes: &str,
    ) -> Result<EmbeddingSet> {
        let source = Provenance {
            model: self.name.clone(),
            data: data.to_owned(),
            hash: sha256_hex(hashes.as_bytes()),
            conifer: env!("CARGO_PKG_VERSION").to_owned(),
            weights: self.fingerprint().to_owned(),
        };
        let modalities = vec![modality; ids.len()];
        Ok(EmbeddingSet::new(self.spec.clone(), self.root()?, ids, modalities, points, source)?)
    }

    /// SHA-256 of the tokenizer's JSON, in hex; for a model that reads vectors, of the texts and their vectors.
    ///
    /// # Errors
    /// If the tokenizer cannot be serialised.
    pub fn tokenizer_fingerprint(&self) -> Result<String> {
        if let Some(texts) = self.tokenizer.text_vectors() {
            return Ok(texts.fingerprint().to_owned());
        }
        Ok(sha256_hex(self.tokenizer.to_json()?.as_bytes()))
    }

    /// SHA-256 over the weights and the ONNX files, in hex; computed once.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| {
            let digests = [self.model.visual.digest(), self.model.textual.digest()];
            let weights = fingerprint(&checkpoint::export(&self.model));
            match digests.iter().flatten().cloned().collect::<String>() {
                digests if digests.is_empty() => weights,
                digests => sha256_hex((weights + &digests).as_bytes()),
            }
        })
    }
}

/// The values of the points. A value that is not finite is an error, because comparisons with it are meaningless.
fn finite(points: Tensor<2>) -> Result<Vec<f32>> {
    let values: Vec<f32> = points.into_data().iter::<f32>().collect();
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(values),
        Some(value) => Err(Error::invalid("an embedding", value, "finite numbers (did training diverge?)")),
    }
}

fn fingerprint(weights: &Weights) -> String {
    let tensor =
        |(name, array): (&String, &checkpoint::WeightArray)| format!("{name}{}", sha256_hex(&array.to_le_bytes()));
    sha256_hex(weights.iter().map(tensor).collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests;
