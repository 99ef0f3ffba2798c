//! Training batches, read, augmented and tokenised ahead of the model by several threads. The result does not depend
//! on the number of threads.
//!
//! Every random draw is a function of (seed, epoch, sample), and the sample order is a function of (seed, epoch, number
//! of samples). A position in the run is an epoch and an offset in the epoch ([`LoaderState`]). A resumed loader
//! returns the same bytes as a loader that was not interrupted.

mod cache;
mod config;
mod edges;
mod eval;
mod ordered;
mod part;
mod regions;
mod report;
mod row;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use config::{CaptionChoice, ChainChoice, ChainSource, DataConfig, HardNegative, LoaderConfig, PixelCacheConfig};
pub use edges::EdgeChoice;
pub use eval::{EvalBatch, EvalBatches, eval_batches, eval_pixels};
pub use regions::{EDGE_PARTS, HashedRegion, PhotoRegion, RegionMode, RegionReader};
pub use report::BrokenReport;

use crate::batch::{Batch, ChainBatch, EdgeBatch, ImageBatch, TokenBatch};
use crate::error::{Error, Result};
use crate::hierarchy::Taxonomy;
use crate::sample::View;
use crate::sampler::Sampler;
use crate::source::Source;
use crate::sources::image_folder;
use crate::tokenizer::Tokenizer;
use cache::PixelCache;
use edges::{BoxKey, ClassBoxes, EdgeRow};
use ordered::OrderedParallelMap;
use part::{BatchPart, RowAttempt};
use row::{ChainTokens, ImageTextPair, LoaderRow, RowImage, RowMaker};

/// An iterator over the batches of one epoch after another. It ends only after an error.
pub struct Loader {
    maker: Arc<RowMaker>,
    sampler: Sampler,
    state: LoaderState,
    report: BrokenReport,
    /// The part of each batch that this loader reads.
    part: BatchPart,
    /// `None` before the first batch and after [`Loader::resume`].
    rows: Option<OrderedParallelMap<EpochPosition, RowAttempt>>,
    failed: bool,
}

/// A position in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// Number of completed epochs.
    pub epoch: u64,
    /// Number of positions of the current epoch that earlier batches have used.
    pub position: u64,
}

#[derive(Clone, Copy, Debug)]
struct EpochPosition {
    epoch: u64,
    position: u64,
}

impl Loader {
    /// Creates a loader. No photo is read before the first batch. If negative taxa or boxes of other photos are drawn
    /// (`chain.of = "taxon"`, `edges.cross`), the annotations of all samples are read here.
    ///
    /// # Errors
    /// A setting is out of its range, the source does not support a view, or there are too few samples for one batch.
    pub fn new(source: Arc<dyn Source>, tokenizer: Tokenizer, config: LoaderConfig) -> Result<Self> {
        config.check()?;
        if let Some(missing) = config.views.iter().find(|view| !view.is_in(source.views())) {
            let views: Vec<_> = source.views().iter().map(|view| view.name()).collect();
            let supported = if views.is_empty() { "none".to_owned() } else { views.join(", ") };
            let mut expected = format!("one of the views of source {}: {supported}", source.name());
            if *missing == View::Pair && source.name() == image_folder::ENTRY.kind {
                expected += " (photos in folders have no captions; the option `caption` makes captions from the folder names: \
                             caption=\"a photo of a {label}\")";
            }
            return Err(Error::invalid("view", missing.name(), expected));
        }
        // Fail here if `context` is too small for the start and end tokens.
        if tokenizer.text_vectors().is_none() {
            tokenizer.encode("", config.context)?;
        }
        let sampler = Sampler::new(source.len() as u64, config.batch_size as u64, config.data.drop_last, config.seed)?;
        let cache = config.data.cache_pixels.map(|cache| PixelCache::new(cache.bytes));
        let chain = &config.data.chain;
        let taxa = config.views.contains(&View::Chain) && chain.of == ChainSource::Taxon && chain.negatives;
        // Broken samples have no taxon here; the loader counts them when it reads them for a batch.
        let paths = || (0..source.len()).filter_map(|index| source.get(index).ok()).map(|sample| sample.ranked_taxon());
        let taxonomy = taxa.then(|| Taxonomy::new(paths()));
        let crossed = config.views.contains(&View::Edges) && config.data.edges.cross > 0;
        let classes =
            if crossed { ClassBoxes::of(source.as_ref(), &config.data.edges.rule) } else { ClassBoxes::default() };
        Ok(Self {
            maker: Arc::new(RowMaker { source, tokenizer, config, cache, taxonomy, classes, regions: None }),
            sampler,
            state: LoaderState::default(),
            report: BrokenReport::default(),
            part: BatchPart { number: 0, count: 1 },
            rows: None,
            failed: false,
        })
    }

    /// Lets all batches refer to regions of photos instead of holding their pixels. Call this method before the first
    /// batch.
    pub fn name_regions(&mut self, mode: RegionMode) {
        if let Some(maker) = Arc::get_mut(&mut self.maker) {
            maker.regions = Some(mode);
        } else {
            debug_assert!(false, "batches have been made before");
        }
    }

    /// Reads only part `number` of `count` of the rows of each batch. Use this if `count` processes with the same data
    /// and config share the work. [`Loader::next_joined`] then returns the batches. Call this method before the first
    /// batch.
    pub fn read_part(&mut self, number: usize, count: usize) {
        debug_assert!(number < count && self.rows.is_none(), "part {number} of {count}");
        self.part = BatchPart { number, count };
    }

    /// The next batch with the rows of all parts, but without the pixels that other processes have read
    /// ([`ImageBatch::held`]). Every process must call this method for every batch. `gather` sends the bytes of this
    /// part to all processes and returns the bytes of all parts, in order of their numbers.
    ///
    /// # Errors
    /// Too many samples are broken, counted over all parts; no candidate for a row is usable; or the bytes of another
    /// part cannot be parsed.
    pub fn next_joined(&mut self, gather: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>) -> Result<Batch> {
        let batch = self.next_batch(gather);
        self.failed = batch.is_err();
        batch
    }

    /// Sets the position in the run. The next batch is the batch that starts at this position.
    ///
    /// # Errors
    /// The position is not a batch boundary of this batch size and data set, or the epoch is above 2^32 - 1.
    pub fn resume(&mut self, state: LoaderState) -> Result<()> {
        let batch_size = self.maker.config.batch_size as u64;
        let between = state.position.is_multiple_of(batch_size);
        if !between || state.position / batch_size >= self.batches_per_epoch() {
            let last = (self.batches_per_epoch() - 1) * batch_size;
            let expected = format!("a multiple of batch_size {batch_size} from 0 to {last}");
            return Err(Error::invalid("loader state position", state.position.to_string(), expected));
        }
        if state.epoch > u64::from(u32::MAX) {
            return Err(Error::invalid("loader state epoch", state.epoch.to_string(), "at most 4294967295"));
        }
        self.state = state;
        self.rows = None;
        self.failed = false;
        Ok(())
    }

    /// The position after the last returned batch.
    pub fn state(&self) -> LoaderState {
        self.state
    }

    /// Number of batches in one epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        self.sampler.batches()
    }

    /// Broken samples in the batches returned since the loader was created.
    pub fn report(&self) -> &BrokenReport {
        &self.report
    }

    /// Positions of batch `index`, counted across all epochs.
    fn positions(sampler: &Sampler, index: u64) -> impl Iterator<Item = EpochPosition> + use<> {
        let (epoch, batch) = (index / sampler.batches(), index % sampler.batches());
        sampler.positions(batch).map(move |position| EpochPosition { epoch, position })
    }

    fn start(&self, index: u64) -> OrderedParallelMap<EpochPosition, RowAttempt> {
        let sampler = self.sampler.clone();
        let part = self.part;
        let positions = (index..).flat_map(move |index| {
            let rows = part.of(Self::positions(&sampler, index).count());
            Self::positions(&sampler, index).skip(rows.start).take(rows.len())
        });
        let (sampler, maker) = (self.sampler.clone(), self.maker.clone());
        let config = &self.maker.config;
        let ahead = config.data.prefetch * part.of(config.batch_size).len().max(1);
        OrderedParallelMap::new(positions, config.data.workers, ahead, move |at| first_usable_row(&sampler, &maker, at))
    }

    fn next_batch(&mut self, gather: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>) -> Result<Batch> {
        let index =
            self.state.epoch * self.batches_per_epoch() + self.state.position / self.maker.config.batch_size as u64;
        let expected = Self::positions(&self.sampler, index).count();
        let mut rows = match self.rows.take() {
            Some(rows) => rows,
            None => self.start(index),
        };
        let mut attempts: Vec<_> = rows.by_ref().take(self.part.of(expected).len()).collect();
        self.rows = Some(rows);
        if self.part.count > 1 {
            attempts = self.part.exchange(attempts, gather)?;
        }
        let allowed = self.maker.config.data.max_broken_share;
        let mut batch = Vec::with_capacity(expected);
        for RowAttempt { broken, row } in attempts {
            self.report.seen += broken.len() as u64 + u64::from(row.is_some());
            broken.into_iter().for_each(|broken| self.report.add(broken));
            self.report.check(allowed)?;
            match row {
                Some(row) => {
                    self.report.add_missing_ranks(&row.missing_ranks);
                    batch.push(row);
                }
                None => return Err(self.report.error(allowed)),
            }
        }
        self.state = match (index + 1) % self.batches_per_epoch() {
            0 => LoaderState { epoch: self.state.epoch + 1, position: 0 },
            batch => LoaderState { position: batch * self.maker.config.batch_size as u64, ..self.state },
        };
        Ok(self.join(index, batch))
    }

    fn join(&self, index: u64, rows: Vec<LoaderRow>) -> Batch {
        let mut ids = Vec::with_capacity(rows.len());
        let (mut photos, mut boxes, mut chains, mut edges) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut alone = Vec::new();
        for row in rows {
            ids.push(row.id);
            photos.extend(row.photo);
            alone.extend(row.photo_alone);
            boxes.extend(row.boxed);
            chains.extend(row.chain);
            edges.extend(row.edges);
        }
        let views = &self.maker.config.views;
        let reads = |some: &[View]| some.iter().any(|view| views.contains(view));
        let join = |requested: bool, pairs: &[ImageTextPair]| match requested {
            true => self.join_pairs(pairs),
            false => JoinedPairs::default(),
        };
        let JoinedPairs { images, regions, texts } = match reads(&[View::Photo]) && !reads(&[View::Pair, View::Boxes]) {
            true => {
                let (images, regions) = self.join_images(alone.iter());
                JoinedPairs { images, regions, texts: None }
            }
            false => join(reads(&[View::Pair, View::Boxes]), &photos),
        };
        let JoinedPairs { images: box_images, regions: box_regions, texts: box_texts } =
            join(reads(&[View::Boxes]), &boxes);
        let chains = reads(&[View::Chain]).then(|| self.join_chains(&chains));
        let edges = reads(&[View::Edges]).then(|| self.join_edges(edges));
        Batch { index, ids, images, regions, texts, box_images, box_regions, box_texts, chains, edges }
    }

    /// Concatenates the crops of all rows. A photo or box gets the same id in all rows.
    fn join_edges(&self, rows: Vec<EdgeRow>) -> EdgeBatch {
        let mut numbers: HashMap<BoxKey, u32> = HashMap::new();
        let mut number = |key: BoxKey| {
            let next = numbers.len() as u32;
            *numbers.entry(key).or_insert(next)
        };
        let (mut crops, mut things, mut parts) = (Vec::new(), Vec::new(), BTreeSet::new());
        for EdgeRow { crops: images, parts: relations } in rows {
            for (key, image) in images {
                things.push(number(key));
                crops.push(image);
            }
            parts.extend(relations.into_iter().map(|(whole, part)| [number(whole), number(part)]));
        }
        let (images, regions) = self.join_images(crops.iter());
        EdgeBatch { images, regions, things, parts: parts.into_iter().collect() }
    }

    /// Orders texts by tier, then by sample. A shorter chain repeats its last text.
    fn join_chains(&self, chains: &[ChainTokens]) -> ChainBatch {
        let negatives = self.maker.config.data.chain.negatives;
        let lengths: Vec<usize> = chains.iter().map(|chain| chain.positive.len()).collect();
        // Training methods require at least two texts per chain.
        let tiers = lengths.iter().copied().max().unwrap_or(0).max(2);
        let mut texts = links_in_order(chains, tiers, |chain| &chain.positive);
        if negatives {
            texts.extend(links_in_order(chains, tiers, |chain| &chain.negative));
        }
        let texts = TokenBatch::from_rows(&texts, self.maker.tokenizer.end_of_text());
        let complete = lengths.iter().all(|length| *length == tiers);
        ChainBatch { texts, tiers, negatives, lengths: if complete { Vec::new() } else { lengths } }
    }

    fn join_pairs(&self, pairs: &[ImageTextPair]) -> JoinedPairs {
        let texts: Vec<_> = pairs.iter().map(|pair| &pair.text).collect();
        let texts = Some(TokenBatch::from_rows(&texts, self.maker.tokenizer.end_of_text()));
        let (images, regions) = self.join_images(pairs.iter().map(|pair| &pair.image));
        JoinedPairs { images, regions, texts }
    }

    /// The pixels of a batch, or its regions if [`Loader::name_regions`] was called.
    fn join_images<'a>(
        &self,
        images: impl Iterator<Item = &'a RowImage>,
    ) -> (Option<ImageBatch>, Option<Vec<PhotoRegion>>) {
        let (mut pixels, mut regions, mut rows, mut first) = (Vec::new(), Vec::new(), 0, 0);
        for image in images {
            match image {
                RowImage::Pixels(row) if row.is_empty() => first += usize::from(pixels.is_empty()),
                RowImage::Pixels(row) => pixels.push(row),
                RowImage::Region(region) => regions.push(*region),
            }
            rows += 1;
        }
        match self.maker.regions.is_some() {
            true => (None, Some(regions)),
            false => {
                // The rows of a process are consecutive.
                let held = first..first + pixels.len();
                let images = ImageBatch::from_rows(&pixels, self.maker.config.image_size);
                (Some(ImageBatch { n: rows, held, ..images }), None)
            }
        }
    }
}

/// The first text of all chains, then the second, and so on. A shorter chain repeats its last text.
fn links_in_order<'a>(
    chains: &'a [ChainTokens],
    tiers: usize,
    of: fn(&'a ChainTokens) -> &'a [Vec<u32>],
) -> Vec<&'a Vec<u32>> {
    let mut links = Vec::with_capacity(tiers * chains.len());
    for link in 0..tiers {
        for texts in chains.iter().map(of) {
            links.push(&texts[link.min(texts.len() - 1)]);
        }
    }
    links
}

/// Images and texts of the pairs of a batch.
#[derive(Default)]
struct JoinedPairs {
    images: Option<ImageBatch>,
    regions: Option<Vec<PhotoRegion>>,
    texts: Option<TokenBatch>,
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        debug_assert_eq!(self.part.count, 1, "the other parts are missing");
        Some(self.next_joined(&mut |mine| vec![mine.to_vec()]))
    }
}

/// Maximum number of candidates tried for one position. If all of them are broken, the loader returns an error.
const MAX_TRIES: usize = 1000;

fn first_usable_row(sampler: &Sampler, maker: &RowMaker, at: EpochPosition) -> RowAttempt {
    let mut broken = Vec::new();
    for index in sampler.epoch(at.epoch).candidates(at.position).take(MAX_TRIES) {
        match maker.row(at.epoch, index) {
            Ok(row) => return RowAttempt { broken, row: Some(row) },
            Err(error) => broken.push(error),
        }
    }
    RowAttempt { broken, row: None }
}

#[cfg(test)]
mod tests;
