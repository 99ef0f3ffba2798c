//! Collects the features of a run: finds them in the store and computes the missing ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use conifer_data::batch::{ImageBatch, TokenBatch};
use conifer_data::loader::{HashedRegion, PhotoRegion, RegionMode, RegionReader};
use conifer_data::{Broken, Cause, View};
use rayon::prelude::*;

use super::collector::{EncodedBatch, RowCollector};
use super::given::{image_vectors, text_vectors};
use super::identity::text_key;
use super::{
    ContentKey, FeatureBank, FeatureRequest, FeatureRows, FeatureStore, ImageFeatures, TextFeatures, image_identity,
    text_identity,
};
use crate::embed::by_length;
use crate::head::Tower;
use crate::model::{Model, pixels, tokens};
use crate::{Error, Result};

/// Part of the work of [`FeatureBank::collect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureStage {
    /// Photos and boxes are read and compared with the store. Items are samples.
    Reading,
    /// Photos and boxes are encoded. Items are regions.
    Photos,
    /// Texts are encoded. Items are texts.
    Texts,
}

/// Called with the stage, the number of finished items and their total.
pub type FeatureProgress<'a> = &'a mut dyn FnMut(FeatureStage, usize, usize);

/// Counts and faults of [`FeatureBank::collect`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureReport {
    /// Counts of photos and boxes; all are 0 for photos that are vectors.
    pub images: FeatureCounts,
    /// Counts of texts; all are 0 for texts that are vectors.
    pub texts: FeatureCounts,
    /// Samples without features, with the reason.
    pub broken: Arc<BTreeMap<u64, Broken>>,
    /// Messages about damaged or locked files of the store.
    pub notes: Vec<String>,
}

/// Rows of one encoder, counted by content: equal photos and texts count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureCounts {
    /// Number of rows that were computed.
    pub encoded: usize,
    /// Number of rows that were in the store.
    pub reused: usize,
    /// Size in bytes of all stored features of this encoder, including features of other data sets.
    pub bytes: u64,
}

/// Number of photos or texts in a batch.
const BATCH: usize = 64;

impl FeatureBank {
    /// Collects the features of everything that `request` names from the store, and computes the missing ones with the
    /// towers of `model`. Returns `None` if `stop` was set; the rows that were computed until then are in the store.
    ///
    /// Batches are formed of all rows, stored or not. A run that continues after a kill therefore computes the same
    /// bits as an uninterrupted run.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be opened or written; [`Error::Invalid`] if its
    /// [`StorePurpose`](super::StorePurpose) excludes the folder, a feature is not finite, or a text has no vector; the
    /// errors of the towers.
    pub fn collect(
        model: &Model,
        request: &FeatureRequest,
        store: &FeatureStore,
        stop: &AtomicBool,
        progress: FeatureProgress<'_>,
    ) -> Result<Option<Self>> {
        let model = model.valid();
        let given = model.config().visual.vector_width();
        let mut report = FeatureReport::default();
        // Open the stores of both towers first, so that a store of another encoder is reported before anything is
        // encoded.
        let image_rows = (request.images && given.is_none())
            .then(|| RowCollector::open(store, Tower::Image, &image_identity(&model), model.visual.width()))
            .transpose()?;
        let text_rows = (request.texts && request.tokenizer.text_vectors().is_none())
            .then(|| RowCollector::open(store, Tower::Text, &text_identity(&model), model.textual.width()))
            .transpose()?;
        let images = match (image_rows, given) {
            (Some(rows), _) => match image_features(&model, request, rows, stop, progress, &mut report)? {
                Some(images) => Some(images),
                None => return Ok(None),
            },
            (None, Some(width)) if request.images => match image_vectors(width, request, stop, progress) {
                Some(images) => Some(images),
                None => return Ok(None),
            },
            _ => None,
        };
        let texts = match (text_rows, request.tokenizer.text_vectors()) {
            (Some(rows), _) => match text_features(&model, request, rows, stop, progress, &mut report)? {
                Some(texts) => Some(texts),
                None => return Ok(None),
            },
            (None, Some(given)) if request.texts => Some(text_vectors(given, &distinct(&texts_of(request)))?),
            _ => None,
        };
        if let Some(images) = &images {
            report.broken = images.mode.broken.clone();
        }
        Ok(Some(Self { images, texts, report }))
    }
}

fn image_features(
    model: &Model,
    request: &FeatureRequest,
    mut rows: RowCollector,
    stop: &AtomicBool,
    progress: FeatureProgress<'_>,
    report: &mut FeatureReport,
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

    let batches = missing_regions(&listed, |key| rows.is_stored(key));
    let total = batches.iter().map(Vec::len).sum();
    let mut seen = HashSet::new();
    let reused = listed.iter().filter(|it| rows.is_stored(&it.key) && seen.insert(it.key)).count();
    let device = model.devices().into_iter().next().unwrap_or_default();
    let size = model.config().visual.reads().image_size;
    type Decoded = Vec<(u64, Vec<ContentKey>, Result<Vec<Vec<u8>>, Broken>)>;
    // All missing regions of a sample are decoded together.
    let decoded = batches.iter().map(|batch| -> Decoded {
        let groups: Vec<&[HashedRegion]> = batch.chunk_by(|a, b| a.region.sample == b.region.sample).collect();
        let read = |group: &&[HashedRegion]| {
            let sample = group[0].region.sample;
            (sample, group.iter().map(|it| it.key).collect(), reader.pixels(sample, group))
        };
        groups.par_iter().map(read).collect()
    });
    let encode = |groups: Decoded| -> Result<EncodedBatch> {
        let items = groups.iter().map(|(_, keys, _)| keys.len()).sum();
        let (mut keys, mut photos) = (Vec::new(), Vec::new());
        for (sample, group, pixels) in groups {
            match pixels {
                Ok(pixels) => {
                    keys.extend(group);
                    photos.extend(pixels);
                }
                Err(error) => _ = broken.insert(sample, error),
            }
        }
        let mut values = Vec::with_capacity(photos.len() * model.visual.width());
        for photos in photos.chunks(BATCH) {
            values.extend(finite(model.image_features(pixels(&ImageBatch::from_rows(photos, size), &device))?)?);
        }
        Ok(EncodedBatch { keys, values, items })
    };
    if !rows.encode(decoded, stop, encode, |done| progress(FeatureStage::Photos, done, total))? {
        return Ok(None);
    }

    report.images = counts(&rows, reused, report);
    let (rows, numbers) = rows.finish(listed.iter().map(|it| it.key))?;
    let mut positions: HashMap<PhotoRegion, u32> = HashMap::new();
    for HashedRegion { region, key } in &listed {
        match numbers.get(key) {
            Some(&number) => _ = positions.insert(*region, number),
            // The region equals one that cannot be decoded. Of equal regions only the first was tried.
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

/// The batches of distinct regions, without those that are stored. The regions of a sample share a batch. The batch of
/// a region does not depend on which regions are stored.
fn missing_regions(listed: &[HashedRegion], is_stored: impl Fn(&ContentKey) -> bool) -> Vec<Vec<HashedRegion>> {
    let mut seen = HashSet::new();
    let distinct: Vec<HashedRegion> = listed.iter().filter(|it| seen.insert(it.key)).copied().collect();
    let mut batches: Vec<Vec<HashedRegion>> = Vec::new();
    let mut rows = BATCH;
    for group in distinct.chunk_by(|a, b| a.region.sample == b.region.sample) {
        if rows + group.len() > BATCH {
            batches.push(Vec::new());
            rows = 0;
        }
        rows += group.len();
        if let Some(batch) = batches.last_mut() {
            batch.extend(group.iter().filter(|it| !is_stored(&it.key)));
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

fn text_features(
    model: &Model,
    request: &FeatureRequest,
    mut rows: RowCollector,
    stop: &AtomicBool,
    progress: FeatureProgress<'_>,
    report: &mut FeatureReport,
) -> Result<Option<TextFeatures>> {
    let listed = texts_of(request);
    let distinct = distinct(&listed);
    let keys: Vec<ContentKey> = distinct.iter().map(|row| text_key(row)).collect();
    type Texts<'a> = Vec<(&'a [u32], ContentKey)>;
    let texts: Texts<'_> = distinct.iter().copied().zip(keys.iter().copied()).collect();
    let batches: Vec<Texts<'_>> = texts
        .chunks(BATCH)
        .map(|batch| batch.iter().filter(|(_, key)| !rows.is_stored(key)).copied().collect())
        .filter(|batch: &Texts<'_>| !batch.is_empty())
        .collect();
    let total = batches.iter().map(Vec::len).sum();
    let reused = texts.len() - total;
    let device = model.devices().into_iter().next().unwrap_or_default();
    let encode = |batch: Texts<'_>| -> Result<EncodedBatch> {
        let (texts, keys): (Vec<&[u32]>, Vec<ContentKey>) = batch.into_iter().unzip();
        let values = encode_texts(model, &texts, request.tokenizer.end_of_text(), &device)?.values;
        Ok(EncodedBatch { items: keys.len(), keys, values })
    };
    if !rows.encode(batches.into_iter(), stop, encode, |done| progress(FeatureStage::Texts, done, total))? {
        return Ok(None);
    }
    report.texts = counts(&rows, reused, report);
    let (rows, numbers) = rows.finish(keys.iter().copied())?;
    let positions = texts.iter().map(|(row, key)| (row.to_vec(), numbers[key])).collect();
    Ok(Some(TextFeatures::Encoded { rows, positions }))
}

/// Token ids of the texts of all samples that the views of the request read: captions, phrases of boxes, and for chains
/// tiers and taxa.
fn texts_of(request: &FeatureRequest) -> Vec<Vec<u32>> {
    let context = request.loader.context;
    let reads = |view| request.loader.views.contains(&view);
    let (boxes, chains) = (reads(View::Boxes), reads(View::Chain));
    let captions = boxes || reads(View::Pair);
    let samples: Vec<usize> = (0..request.source.len()).collect();
    let encode = |text: &String| request.tokenizer.encode(text, context).ok();
    let of_sample = |&index: &usize| -> Vec<Vec<u32>> {
        // The loader counts broken samples when it reads them for a batch.
        let Ok(sample) = request.source.get(index) else { return Vec::new() };
        let mut texts = Vec::new();
        if captions {
            texts.extend(sample.captions.iter().cloned());
        }
        if boxes {
            texts.extend(sample.phrases.iter().map(|phrase| phrase.text.clone()));
        }
        if chains {
            texts.extend(sample.tiers.iter().flat_map(|tiers| tiers.positive.iter().chain(&tiers.negative)).cloned());
            texts.extend(sample.taxon_texts());
        }
        texts.iter().filter_map(encode).collect()
    };
    samples.par_iter().flat_map_iter(of_sample).collect()
}

/// The texts without repetition, shortest first.
fn distinct(texts: &[Vec<u32>]) -> Vec<&[u32]> {
    by_length(texts).into_iter().map(|(row, _)| row).collect()
}

/// The counts of one encoder. Adds its notes to `report`.
fn counts(rows: &RowCollector, reused: usize, report: &mut FeatureReport) -> FeatureCounts {
    let (bytes, notes) = rows.stored();
    report.notes.extend_from_slice(notes);
    FeatureCounts { encoded: rows.encoded(), reused, bytes }
}

/// Features of texts, given as token ids, by the text tower of a model without autodiff.
///
/// # Errors
/// If a feature is not finite, or a text is longer than the context.
pub fn encode_texts(model: &Model, rows: &[&[u32]], end_of_text: u32, device: &Device) -> Result<FeatureRows> {
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
        Some(value) => Err(Error::invalid("a feature of the encoder", value, "finite numbers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `parts` regions of each sample, with distinct keys.
    fn listed(samples: u8, parts: u8) -> Vec<HashedRegion> {
        let region = |sample: u8, part: u8| HashedRegion {
            region: PhotoRegion { sample: u64::from(sample), part: u32::from(part), copy: 0 },
            key: [sample * parts + part; 32],
        };
        (0..samples).flat_map(|sample| (0..parts).map(move |part| region(sample, part))).collect()
    }

    #[test]
    fn batches_do_not_depend_on_what_is_stored() {
        let regions = [listed(50, 5), listed(3, 5)].concat();
        let all = missing_regions(&regions, |_| false);
        // 12 samples of five regions fit in a batch; the repeated ones are left out.
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [60, 60, 60, 60, 10]);
        // The first batch is stored except for a photo that could not be encoded, and a part of the third is.
        let stored = |key: &ContentKey| (key[0] < 60 && key[0] >= 5) || (130..150).contains(&key[0]);
        let rest = missing_regions(&regions, stored);
        assert_eq!(rest.iter().map(Vec::len).collect::<Vec<_>>(), [5, 60, 40, 60, 10]);
        assert_eq!((&rest[1], &rest[3], &rest[4]), (&all[1], &all[3], &all[4]));
        assert!(missing_regions(&regions, |_| true).is_empty());
    }
}
