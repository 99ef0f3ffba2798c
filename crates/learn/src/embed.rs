//! A trained model at work: photographs and texts to points, and to an [`EmbeddingSet`] that carries its space.

mod ahead;
mod rows;

use std::path::Path;
use std::sync::OnceLock;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use conifer_data::batch::ImageBatch;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::{EvalCrop, evaluate};
use conifer_data::{Broken, ImageRef, PixelLimits};
use conifer_space::points::sha256_hex;
use conifer_space::{EmbeddingSet, ManifoldSpec, Modality, Root, Source};
use rayon::prelude::*;

pub use rows::by_length;

use crate::checkpoint::published::ImportOptions;
use crate::checkpoint::{self, Manifest, Weights};
use crate::model::{Model, pixels};
use crate::root::Apex;
use crate::{Error, Result};

/// Called with the number of rows done and their total, after every batch.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// A model without autodiff, its tokenizer and what it must be fed.
///
/// The points of a row do not depend on the rows beside it, except for the last bits: matrix products of other sizes add in another
/// order.
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
}

impl Embedder {
    /// `name` is what embeddings will say they come from. A model on a device with autodiff is taken to the plain device.
    ///
    /// # Errors
    /// [`Error::Setting`] if the tokenizer is not the model's: it has ids the model has no rows for, or ends texts with another id.
    pub fn new(name: impl Into<String>, model: &Model, manifest: Manifest, tokenizer: Tokenizer) -> Result<Self> {
        manifest.check_tokenizer(&tokenizer)?;
        let model = model.valid();
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
        })
    }

    /// Opens whatever [`checkpoint::open`] takes; embeddings will name the file or folder that it was read from.
    ///
    /// # Errors
    /// As [`checkpoint::open`] and [`Embedder::new`]; [`Error::Setting`] for a model without a tokenizer.
    pub fn open(reference: &Path, device: &Device) -> Result<Self> {
        let device = device.clone().without_autodiff();
        let opened = checkpoint::open(reference, &ImportOptions::default(), &device)?;
        let tokenizer = opened.need_tokenizer()?;
        Self::new(opened.path.display().to_string(), &opened.model, opened.manifest, tokenizer)
    }

    /// What embeddings say they come from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same with `rows` photographs or texts at a time (32 unless said): memory against speed.
    #[must_use]
    pub fn with_batch(mut self, rows: usize) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// The space of all points, with its learned curvatures.
    pub fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    /// How the model must be fed.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The apex of the cones: the root of the checkpoint if it has one (on a sphere normalised), else the apex that its manifest names; else
    /// on a sphere the embedding of the empty text, and in any other space the origin.
    ///
    /// # Errors
    /// If the text cannot be embedded.
    pub fn root(&self) -> Result<Root> {
        if let Some(root) = self.root.get() {
            return Ok(root.clone());
        }
        let root = self.find_root()?;
        Ok(self.root.get_or_init(|| root).clone())
    }

    /// The same, with the embedding of `text` as apex: for a published model that does not tell the text it was trained with.
    #[must_use]
    pub fn with_root_text(mut self, text: &str) -> Self {
        self.manifest.root = None;
        self.manifest.apex = Some(Apex::Text(text.to_owned()));
        self.root = OnceLock::new();
        self
    }

    fn find_root(&self) -> Result<Root> {
        let sphere = self.spec.kind == "sphere";
        let embed = |text: &str| -> Result<Vec<f64>> {
            Ok(self.texts(&[text], &mut |_, _| {})?.into_iter().map(f64::from).collect())
        };
        let point = match (&self.manifest.root, &self.manifest.apex) {
            (Some(root), _) => root.clone(),
            (None, Some(Apex::Text(text))) => embed(text)?,
            (None, None) if sphere => embed("")?,
            (None, _) => return Ok(Root::Origin),
        };
        if !sphere {
            return Ok(Root::Point(point));
        }
        let norm = point.iter().map(|x| x * x).sum::<f64>().sqrt();
        Ok(Root::Point(point.into_iter().map(|x| x / norm).collect()))
    }

    /// Points of `texts`, row-major `[N, dim]`, in their order. Equal texts are embedded once, texts of similar length together.
    ///
    /// # Errors
    /// If the tokenizer or the model fails; every text has a point, an empty one too.
    pub fn texts<S: AsRef<str> + Sync>(&self, texts: &[S], progress: Progress<'_>) -> Result<Vec<f32>> {
        let rows = self.tokenize(texts)?;
        let dim = self.spec.dim;
        let mut points = vec![0.0; texts.len() * dim];
        let mut done = 0;
        for chunk in by_length(&rows).chunks(self.batch) {
            let rows: Vec<&[u32]> = chunk.iter().map(|(row, _)| *row).collect();
            let embedded = self.token_batch(&rows)?;
            for ((_, places), point) in chunk.iter().zip(embedded.chunks_exact(dim)) {
                for &place in places {
                    points[place * dim..][..dim].copy_from_slice(point);
                }
                done += places.len();
            }
            progress(done, texts.len());
        }
        Ok(points)
    }

    /// Points of `images`, row-major `[N, dim]`, in their order.
    ///
    /// # Errors
    /// [`Error::Broken`] if a photograph cannot be read: nothing is dropped.
    pub fn images(&self, images: &[ImageRef], crop: EvalCrop, progress: Progress<'_>) -> Result<Vec<f32>> {
        self.images_with(images, crop, progress, |_| {})
    }

    /// A set of texts: `ids` name the rows, `data` says where they come from.
    ///
    /// # Errors
    /// As [`Embedder::texts`]; [`Error::Space`] if there is not one id per text.
    pub fn text_set<S: AsRef<str> + Sync>(
        &self,
        ids: Vec<String>,
        texts: &[S],
        modality: Modality,
        data: &str,
        progress: Progress<'_>,
    ) -> Result<EmbeddingSet> {
        let points = self.texts(texts, progress)?;
        let mut hashes = self.fingerprint().to_owned();
        for row in self.tokenize(texts)? {
            let bytes: Vec<u8> = row.iter().flat_map(|id| id.to_le_bytes()).collect();
            hashes += &sha256_hex(&bytes);
        }
        self.set(ids, modality, points, data, &hashes)
    }

    /// A set of photographs, cropped as `crop` says: `ids` name the rows, `data` says where they come from.
    ///
    /// # Errors
    /// As [`Embedder::images`]; [`Error::Space`] if there is not one id per photograph.
    pub fn image_set(
        &self,
        ids: Vec<String>,
        images: &[ImageRef],
        crop: EvalCrop,
        modality: Modality,
        data: &str,
        progress: Progress<'_>,
    ) -> Result<EmbeddingSet> {
        let mut hashes = self.fingerprint().to_owned();
        let points = self.images_with(images, crop, progress, |pixels| hashes += &sha256_hex(pixels))?;
        self.set(ids, modality, points, data, &hashes)
    }

    /// What the text tower reads of each text: token ids up to its context.
    ///
    /// # Errors
    /// A text that the tokenizer cannot read.
    pub fn tokenize<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<u32>>> {
        let context = self.model.config().textual.reads().context;
        let encode = |text: &S| Ok(self.tokenizer.encode(text.as_ref(), context)?);
        texts.par_iter().map(encode).collect()
    }

    /// Shows the pixels of every photograph, `[3, size, size]`, to `seen`, in order. A batch is read while the one before is computed.
    fn images_with(
        &self,
        images: &[ImageRef],
        crop: EvalCrop,
        progress: Progress<'_>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<Vec<f32>> {
        let size = self.model.config().visual.reads().image_size;
        let mut points = Vec::with_capacity(images.len() * self.spec.dim);
        let read = |image: &ImageRef| Ok(evaluate(&image.open(&self.limits)?, size as u32, crop));
        let batches = images.chunks(self.batch).map(|chunk| -> Result<Vec<Vec<u8>>, Broken> {
            let rows: Vec<Result<Vec<u8>, Broken>> = chunk.par_iter().map(read).collect();
            rows.into_iter().collect()
        });
        ahead::ahead(batches, |rows| {
            let rows = rows.map_err(|first| {
                let only = Error::Broken { count: 1, total: images.len(), first: first.to_string() };
                self.unreadable(images).unwrap_or(only)
            })?;
            rows.iter().for_each(|row| seen(row));
            let batch = ImageBatch::from_rows(&rows, size);
            drop(rows);
            points.extend(finite(self.model.embed_images(pixels(&batch, &self.device))?)?);
            progress(points.len() / self.spec.dim, images.len());
            Ok::<(), Error>(())
        })?;
        Ok(points)
    }

    /// [`Error::Broken`] of those of `images` that cannot be read, counted over all of them; `None` if all can be.
    pub fn unreadable(&self, images: &[ImageRef]) -> Option<Error> {
        let broken: Vec<Broken> = images.par_iter().filter_map(|image| image.open(&self.limits).err()).collect();
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
        let source = Source {
            model: self.name.clone(),
            data: data.to_owned(),
            hash: sha256_hex(hashes.as_bytes()),
            conifer: env!("CARGO_PKG_VERSION").to_owned(),
            weights: self.fingerprint().to_owned(),
        };
        let modalities = vec![modality; ids.len()];
        Ok(EmbeddingSet::new(self.spec.clone(), self.root()?, ids, modalities, points, source)?)
    }

    /// sha256 of the tokenizer.
    ///
    /// # Errors
    /// A tokenizer that cannot be written down.
    pub fn tokenizer_fingerprint(&self) -> Result<String> {
        Ok(sha256_hex(self.tokenizer.to_json()?.as_bytes()))
    }

    /// sha256 over the weights, computed once.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| fingerprint(&checkpoint::export(&self.model)))
    }
}

/// The numbers of points; one that is none would win or lose every comparison in silence.
fn finite(points: Tensor<2>) -> Result<Vec<f32>> {
    let values: Vec<f32> = points.into_data().iter::<f32>().collect();
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(values),
        Some(value) => Err(Error::setting("an embedding", value, "finite numbers (did training run away?)")),
    }
}

fn fingerprint(weights: &Weights) -> String {
    let tensor = |(name, array): (&String, &checkpoint::Array)| format!("{name}{}", sha256_hex(&array.to_le_bytes()));
    sha256_hex(weights.iter().map(tensor).collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests;
