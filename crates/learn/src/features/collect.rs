//! Collects the features of a run: reads them from the store and computes the missing ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use conifer_data::batch::{ImageBatch, TokenBatch};
use conifer_data::loader::{HashedRegion, LoaderConfig, PhotoRegion, RegionMode, RegionReader};
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, Cause, Source, View};
use conifer_space::points::sha256_hex;
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::given::{image_vectors, text_vectors};
use super::{ContentKey, FeatureBank, FeatureRows, FeatureStore, ImageFeatures, TextFeatures, VectorFile};
use crate::checkpoint::{WeightArray, module_weights};
use crate::embed::{by_length, prefetch};
use crate::model::{Model, pixels, tokens};
use crate::{Error, Result};

/// Part of the work of [`FeatureBank::collect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureStage {
    /// Photos and boxes are read and compared with the store; counted in samples.
    Reading,
    /// Photos and boxes are encoded; counted in regions.
    Photos,
    /// Texts are encoded; counted in texts.
    Texts,
}

/// Called with the stage, the number of finished items and their total.
pub type FeatureProgress<'a> = &'a mut dyn FnMut(FeatureStage, usize, usize);

/// The data of a run and the features to collect from it.
#[derive(Clone)]
pub struct FeatureRequest {
    /// The samples.
    pub source: Arc<dyn Source>,
    /// Views, crops of boxes, limits and augmentation of the batches.
    pub loader: LoaderConfig,
    /// The tokenizer of the text encoder.
    pub tokenizer: Tokenizer,
    /// Crop of photos if there are no augmented copies.
    pub crop: EvalCrop,
    /// Augmented copies of each photo and box; 0: one row with the crop of an evaluation.
    pub copies: u32,
    /// Collect features of photos.
    pub images: bool,
    /// Collect features of texts.
    pub texts: bool,
}

/// Photos or texts in a batch.
const BATCH: usize = 64;
/// Rows computed between two writes to the store. A killed run loses at most this many.
const WRITE: usize = 512;

impl FeatureBank {
    /// Features of everything that `request` names, by the towers of `model`. Rows that are in the store are not
    /// computed again. Returns `None` if `stop` was set; the rows that were computed until then are in the store.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be opened or written; the errors of the towers.
    pub fn collect(
        model: &Model,
        request: &FeatureRequest,
        store: &FeatureStore,
        stop: &AtomicBool,
        progress: FeatureProgress<'_>,
    ) -> Result<Option<Self>> {
        let model = model.valid();
        let given = model.config().visual.vector_width();
        // A method that reads only chains of texts needs no vectors of photos, and its samples may have none.
        let reads_images = request.loader.views.iter().any(|view| matches!(view, View::Pair | View::Boxes));
        let images = match (request.images, given) {
            (true, Some(width)) if reads_images => match image_vectors(width, request, stop, progress) {
                Some(images) => Some(images),
                None => return Ok(None),
            },
            (true, None) => match image_features(&model, request, store, stop, progress)? {
                Some(images) => Some(images),
                None => return Ok(None),
            },
            _ => None,
        };
        let texts = match request.texts {
            true => match text_features(&model, request, store, stop, progress)? {
                Some(texts) => Some(texts),
                None => return Ok(None),
            },
            false => None,
        };
        Ok(Some(Self { images, texts }))
    }
}

fn image_features(
    model: &Model,
    request: &FeatureRequest,
    store: &FeatureStore,
    stop: &AtomicBool,
    progress: FeatureProgress<'_>,
) -> Result<Option<ImageFeatures>> {
    let reader = RegionReader::new(request.source.clone(), request.loader.clone(), request.crop, request.copies);
    let mut listed: Vec<HashedRegion> = Vec::new();
    let mut broken: BTreeMap<u64, Broken> = BTreeMap::new();
    let samples: Vec<u64> = (0..reader.samples()).collect();
    for chunk in samples.chunks(256) {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let found: Vec<_> = chunk.par_iter().map(|&sample| (sample, reader.regions(sample))).collect();
        for (sample, regions) in found {
            match regions {
                Ok(regions) => listed.extend(regions),
                Err(error) => _ = broken.insert(sample, error),
            }
        }
        progress(FeatureStage::Reading, chunk.last().map_or(0, |last| *last as usize + 1), samples.len());
    }

    let device = model.devices().into_iter().next().unwrap_or_default();
    let width = model.visual.width();
    let mut cache = RowCache::open(store, &image_identity(model), width)?;
    let keys: Vec<ContentKey> = listed.iter().map(|it| it.key).collect();
    cache.read(&keys)?;
    // Regions that are missing in the store, grouped by sample, so that each photo is decoded once.
    let mut seen = HashSet::new();
    let missing: Vec<HashedRegion> =
        listed.iter().filter(|it| !cache.rows.contains_key(&it.key) && seen.insert(it.key)).copied().collect();
    let groups: Vec<&[HashedRegion]> = missing.chunk_by(|a, b| a.region.sample == b.region.sample).collect();
    let mut batches: Vec<Vec<&[HashedRegion]>> = Vec::new();
    let mut rows = BATCH;
    for group in groups {
        match batches.last_mut().filter(|_| rows + group.len() <= BATCH) {
            Some(batch) => batch.push(group),
            None => {
                batches.push(vec![group]);
                rows = 0;
            }
        }
        rows += group.len();
    }
    let size = model.config().visual.reads().image_size;
    let (total, mut done) = (missing.len(), 0);
    type Decoded = Vec<(u64, Vec<ContentKey>, Result<Vec<Vec<u8>>, Broken>)>;
    let decoded = batches.into_iter().map(|batch| -> Decoded {
        let read = |group: &&[HashedRegion]| {
            let sample = group[0].region.sample;
            (sample, group.iter().map(|it| it.key).collect(), reader.pixels(sample, group))
        };
        batch.par_iter().map(read).collect()
    });
    let mut stopped = false;
    prefetch(decoded, |groups: Decoded| {
        if stop.load(Ordering::Relaxed) {
            stopped = true;
            return Err(None);
        }
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        for (sample, group, pixels) in groups {
            done += group.len();
            match pixels {
                Ok(pixels) => {
                    keys.extend(group);
                    rows.extend(pixels);
                }
                Err(error) => _ = broken.insert(sample, error),
            }
        }
        for (keys, rows) in keys.chunks(BATCH).zip(rows.chunks(BATCH)) {
            let batch = ImageBatch::from_rows(rows, size);
            let features = model.image_features(pixels(&batch, &device)).map_err(Some)?;
            cache.add(keys, &finite(features).map_err(Some)?).map_err(Some)?;
        }
        progress(FeatureStage::Photos, done, total);
        Ok(())
    })
    .or_else(|error: Option<Error>| error.map_or(Ok(()), Err))?;
    cache.flush()?;
    if stopped {
        return Ok(None);
    }

    let mut positions: HashMap<PhotoRegion, u32> = HashMap::new();
    let (rows, by_key) = cache.into_rows(keys.iter().copied());
    for HashedRegion { region, key } in &listed {
        match by_key.get(key) {
            Some(&position) => _ = positions.insert(*region, position),
            // A copy of a photo that cannot be decoded: only the first one was tried.
            None => {
                let detail = "its photo or box cannot be decoded, like an equal one before it";
                let sample = || format!("{}[{}]", request.source.name(), region.sample);
                broken.entry(region.sample).or_insert_with(|| Broken::new(sample(), Cause::UndecodableImage, detail));
            }
        }
    }
    let mode = RegionMode { copies: request.copies.max(1), broken: Arc::new(broken) };
    Ok(Some(ImageFeatures { rows, positions, mode }))
}

fn text_features(
    model: &Model,
    request: &FeatureRequest,
    store: &FeatureStore,
    stop: &AtomicBool,
    progress: FeatureProgress<'_>,
) -> Result<Option<TextFeatures>> {
    let context = request.loader.context;
    let chains = request.loader.views.contains(&View::Chain);
    let samples: Vec<usize> = (0..request.source.len()).collect();
    let encode = |text: &String| request.tokenizer.encode(text, context).ok();
    let of_sample = |&index: &usize| -> Vec<Vec<u32>> {
        // The loader counts broken samples when it reads them for a batch.
        let Ok(sample) = request.source.get(index) else { return Vec::new() };
        let mut texts = sample.captions.clone();
        texts.extend(sample.phrases.iter().map(|phrase| phrase.text.clone()));
        if chains {
            texts.extend(sample.tiers.iter().flat_map(|tiers| tiers.positive.iter().chain(&tiers.negative)).cloned());
            texts.extend(sample.taxon_texts());
        }
        texts.iter().filter_map(encode).collect()
    };
    let listed: Vec<Vec<u32>> = samples.par_iter().flat_map_iter(of_sample).collect();
    let distinct = by_length(&listed);
    if let Some(texts) = request.tokenizer.text_vectors() {
        let rows: Vec<&[u32]> = distinct.iter().map(|(row, _)| *row).collect();
        return text_vectors(texts, &rows).map(Some);
    }
    let device = model.devices().into_iter().next().unwrap_or_default();
    let mut cache = RowCache::open(store, &text_identity(model), model.textual.width())?;
    let keys: Vec<ContentKey> = distinct.iter().map(|(row, _)| text_key(row)).collect();
    cache.read(&keys)?;
    let missing: Vec<(&[u32], ContentKey)> = distinct
        .iter()
        .map(|(row, _)| *row)
        .zip(keys.iter().copied())
        .filter(|(_, key)| !cache.rows.contains_key(key))
        .collect();
    let (total, mut done) = (missing.len(), 0);
    for chunk in missing.chunks(BATCH) {
        if stop.load(Ordering::Relaxed) {
            cache.flush()?;
            return Ok(None);
        }
        let rows: Vec<&[u32]> = chunk.iter().map(|(row, _)| *row).collect();
        let keys: Vec<ContentKey> = chunk.iter().map(|(_, key)| *key).collect();
        let features = encode_texts(model, &rows, request.tokenizer.end_of_text(), &device)?;
        cache.add(&keys, &features.values)?;
        done += chunk.len();
        progress(FeatureStage::Texts, done, total);
    }
    cache.flush()?;
    let (rows, by_key) = cache.into_rows(keys.iter().copied());
    let positions = distinct.iter().zip(&keys).map(|((row, _), key)| (row.to_vec(), by_key[key])).collect();
    Ok(Some(TextFeatures { rows, positions, given: None }))
}

/// Features of texts, given as token ids, by the text tower of a model without autodiff.
///
/// # Errors
/// If a feature is not finite, or a text is longer than the context.
pub(crate) fn encode_texts(model: &Model, rows: &[&[u32]], end_of_text: u32, device: &Device) -> Result<FeatureRows> {
    let mut values = Vec::new();
    for rows in rows.chunks(BATCH) {
        let batch = TokenBatch::from_rows(rows, end_of_text);
        values.extend(finite(model.text_features(tokens(&batch, device))?)?);
    }
    Ok(FeatureRows { width: model.textual.width(), values })
}

fn finite(features: Tensor<2>) -> Result<Vec<f32>> {
    let values: Vec<f32> = features.cast(burn::tensor::DType::F32).into_data().iter::<f32>().collect();
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(values),
        Some(value) => Err(Error::setting("a feature of the encoder", value, "finite numbers")),
    }
}

pub(crate) fn text_key(row: &[u32]) -> ContentKey {
    let mut hash = Sha256::new();
    row.iter().for_each(|id| hash.update(id.to_le_bytes()));
    hash.finalize().into()
}

/// Identifies everything besides the content that determines the features of photos: architecture, pixel statistics and
/// weights of the image encoder.
pub fn image_identity(model: &Model) -> String {
    let config = model.config();
    let visual = encoder_settings(&config.visual, model.visual.digest());
    let settings = serde_json::json!({ "visual": visual, "pixels": config.pixels });
    identity(&settings.to_string(), module_weights(&model.visual))
}

/// As [`image_identity`], for texts. The token ids are part of the content.
pub fn text_identity(model: &Model) -> String {
    let textual = encoder_settings(&model.config().textual, model.textual.digest());
    let settings = serde_json::json!({ "textual": textual });
    identity(&settings.to_string(), module_weights(&model.textual))
}

/// The config of an encoder, or its digest. The config of an ONNX encoder has a path, which may change.
fn encoder_settings(config: &impl Serialize, digest: Option<String>) -> serde_json::Value {
    digest.map_or_else(|| serde_json::json!(config), serde_json::Value::String)
}

fn identity(settings: &str, weights: impl IntoIterator<Item = (String, WeightArray)>) -> String {
    let tensors: Vec<(String, WeightArray)> = weights.into_iter().collect();
    let hashes: Vec<String> =
        tensors.par_iter().map(|(name, array)| format!("{name} {}\n", sha256_hex(&array.to_le_bytes()))).collect();
    sha256_hex(format!("{settings}\n{}", hashes.concat()).as_bytes())
}

/// Rows by content: those of this run in memory, and all of them in a file.
struct RowCache {
    width: usize,
    rows: HashMap<ContentKey, u32>,
    values: Vec<f32>,
    file: Option<VectorFile>,
    unwritten: Vec<(ContentKey, Vec<f32>)>,
}

impl RowCache {
    fn open(store: &FeatureStore, identity: &str, width: usize) -> Result<Self> {
        let file = store.open(identity, width)?;
        Ok(Self { width, rows: HashMap::new(), values: Vec::new(), file, unwritten: Vec::new() })
    }

    /// Reads the rows with these keys from the file, as far as it has them.
    fn read(&mut self, keys: &[ContentKey]) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let found = file.find(keys).map_err(Error::io(file.path()))?;
        // In the order of the keys, so that the bank does not depend on the order of the file.
        for key in keys {
            if let Some(row) = found.get(key)
                && !self.rows.contains_key(key)
            {
                self.rows.insert(*key, self.rows.len() as u32);
                self.values.extend_from_slice(row);
            }
        }
        Ok(())
    }

    fn add(&mut self, keys: &[ContentKey], values: &[f32]) -> Result<()> {
        for (key, row) in keys.iter().zip(values.chunks_exact(self.width)) {
            self.rows.insert(*key, self.rows.len() as u32);
            self.values.extend_from_slice(row);
            if self.file.is_some() {
                self.unwritten.push((*key, row.to_vec()));
            }
        }
        if self.unwritten.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.unwritten);
        match &mut self.file {
            Some(file) if !rows.is_empty() => file.add(&rows).map_err(Error::io(file.path())),
            _ => Ok(()),
        }
    }

    /// The rows with these keys, in the order of their first appearance, so that the result does not depend on what the
    /// file held. Keys without a row are skipped.
    fn into_rows(self, keys: impl Iterator<Item = ContentKey>) -> (FeatureRows, HashMap<ContentKey, u32>) {
        let (mut values, mut positions) = (Vec::with_capacity(self.values.len()), HashMap::new());
        for key in keys {
            if let Some(&row) = self.rows.get(&key)
                && !positions.contains_key(&key)
            {
                positions.insert(key, positions.len() as u32);
                values.extend_from_slice(&self.values[row as usize * self.width..][..self.width]);
            }
        }
        (FeatureRows { width: self.width, values }, positions)
    }
}
