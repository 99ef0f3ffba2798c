//! The trainer: runs the training loop, writes logs and checkpoints, and resumes from a checkpoint.
//!
//! A run is a folder:
//!
//! ```text
//! config.toml  metrics.jsonl  events.out.tfevents...
//! checkpoints/latest  checkpoints/step_00001000/ ...          see `checkpoint`
//! ```
//!
//! Every number is a function of the config and the step: initial weights and augmentation depend on the seed, the data
//! order on (seed, epoch), the learning rate on the step. A run that was stopped or killed and then resumed therefore
//! ends with the same bits as an uninterrupted one, for any number of threads.

mod event;
mod key_queue;
mod micro_batch;
mod momentum;
mod start;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod tower_schedules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use conifer_data::Source;
use conifer_data::batch::TokenBatch;
use conifer_data::loader::Loader;
use conifer_data::tokenizer::Tokenizer;
use conifer_files::Lock;
use conifer_model::adapter::DropoutNoise;
use conifer_model::apex::Apex;
use conifer_model::checkpoint::run_folder::{
    CHECKPOINTS, CONFIG, OPTIMIZER, checkpoint_path, latest_checkpoint, publish_checkpoint,
};
use conifer_model::checkpoint::{self, FrozenTowers, ImageFeed, Manifest, TextFeed, replace_folder};
use conifer_model::features::{FeatureBank, FeatureStore, image_identity, text_identity};
use conifer_model::model::{Model, ModelConfig};
use conifer_model::params::{ParamInfo, ParamKind, ParamVisitor, visit_params};

pub(crate) use start::begin;

pub use event::{Event, ModelSnapshot, Observer, Outcome};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::frozen_features::run_features;
use crate::log::{RunLog, StepRecord};
use crate::memory::peak_rss_mb;
use crate::methods::Method;
use crate::optim::{AdamW, GradientSet, Update, clip_factor};
use crate::root::RootKind;
use crate::schedule::Schedule;
use momentum::MomentumEncoder;
use state::{TrainState, read_state, write_state};
use tower_schedules::TowerSchedules;

/// A training run.
pub struct Trainer {
    config: Config,
    device: Device,
    source: Arc<dyn Source>,
    tokenizer: Tokenizer,
    loader: Loader,
    method: Box<dyn Method>,
    /// The model before its first step, for a method that compares with it.
    frozen: Option<Model>,
    /// The moving average of the model and the queue of its points, for a method that reads them.
    momentum: Option<MomentumEncoder>,
    /// The text whose embedding, recomputed in each step, is the root.
    root_text: Option<TokenBatch>,
    /// The root as recorded in the manifest, if it is not a stored point.
    apex: Option<Apex>,
    schedule: Schedule,
    schedules: TowerSchedules,
    model: Model,
    optimiser: AdamW,
    state: TrainState,
    /// Broken samples counted before this process started; the loader counts the later ones.
    broken_before: u64,
    /// Missing ranks counted before this process started.
    missing_ranks_before: BTreeMap<String, u64>,
    /// Where features of frozen towers are kept between runs.
    store: FeatureStore,
    /// Features of frozen towers, collected when the run starts.
    features: Option<FeatureBank>,
    frozen_towers: FrozenTowers,
}

impl Trainer {
    /// Sets up a new run of `config` on the samples of `source`. With `tokenizer.kind = "train"` a tokenizer is trained
    /// on their texts first. `device` is a plain device; autodiff is added to it.
    ///
    /// # Errors
    /// If the config is invalid, the source lacks a view of the method, or the folder already holds a run.
    pub fn new(config: Config, source: Arc<dyn Source>, device: &Device) -> Result<Self> {
        let config = config.resolve()?.with_vector_widths(source.as_ref())?;
        config.check()?;
        config.check_samples(source.len())?;
        let out = &config.train.out;
        if let Ok(found) = latest_checkpoint(out) {
            let found = format!("`{}`, which holds the checkpoint {}", out.display(), found.display());
            return Err(Error::invalid(
                "train.out",
                found,
                "a folder without a run (resume that run, or choose another folder)",
            ));
        }
        if out.join(CONFIG).exists() {
            let found = format!("`{}`, which holds a {CONFIG} and no checkpoint", out.display());
            return Err(Error::invalid(
                "train.out",
                found,
                "another folder, because the run writes its own config.toml there",
            ));
        }
        let device = training_device(&config, device);
        let (config, tokenizer, mut model) = start::begin(config, source.as_ref(), &device)?;
        let kind = config.root_kind()?;
        let root = start::stored_root(&config, kind, &model, &tokenizer, source.as_ref())?;
        model.head = model.head.with_root(root.as_deref(), kind == RootKind::Learned, &device)?;
        let state = TrainState {
            format: TrainState::FORMAT,
            step: 0,
            samples: 0,
            broken: 0,
            missing_ranks: Default::default(),
            data: Default::default(),
            fingerprint: source.fingerprint(),
        };
        Self::assemble(config, source, device, tokenizer, model, state)
    }

    /// Resumes the run in folder `run` from its newest checkpoint, in the same folder. `source` must be the data of
    /// that run.
    ///
    /// # Errors
    /// If there is no checkpoint, the checkpoint is damaged, or `source` is other data.
    pub fn resume(run: &Path, source: Arc<dyn Source>, device: &Device) -> Result<Self> {
        let folder = latest_checkpoint(run)?;
        let (state, moments, mut config) = read_state(&folder)?;
        config.train.out = run.to_owned();
        if source.fingerprint() != state.fingerprint {
            let found = format!("other data than that of the run (fingerprint {})", source.fingerprint());
            return Err(Error::invalid("data", found, state.fingerprint));
        }
        let device = training_device(&config, device);
        let (mut model, manifest) = checkpoint::load(&folder, &device)?;
        let tokenizer = match manifest.model.textual.vector_width() {
            Some(_) => start::tokenizer_of_vectors(source.as_ref())?,
            None => checkpoint::load_tokenizer(&folder, &manifest)?,
        };
        manifest.check_tokenizer(&tokenizer)?;
        // A run that started from a checkpoint with one temperature keeps it, although its method may have three.
        config.head = manifest.head;
        let root = model.head.root();
        model.head = model.head.with_root(root.as_deref(), config.root_kind()? == RootKind::Learned, &device)?;
        let step = state.step;
        let mut trainer = Self::assemble(config, source, device, tokenizer, model, state)?;
        trainer.optimiser.load_state(step, moments, &trainer.device)?;
        trainer.check_moments(&folder)?;
        if let Some(momentum) = &mut trainer.momentum {
            momentum.read(&folder, &trainer.device)?;
        }
        trainer.loader.resume(trainer.state.data)?;
        Ok(trainer)
    }

    fn assemble(
        config: Config,
        source: Arc<dyn Source>,
        device: Device,
        tokenizer: Tokenizer,
        model: Model,
        state: TrainState,
    ) -> Result<Self> {
        let method = config.method()?;
        let loader = Loader::new(source.clone(), tokenizer.clone(), config.loader(method.views()))?;
        let frozen = method.reads_frozen().then(|| start::frozen(&config, &device)).transpose()?;
        let apex = config.apex()?;
        let root_text = match config.root_kind()? {
            RootKind::Text => Some(start::root_tokens(&config, &tokenizer)?),
            _ => None,
        };
        let model = model.freeze(&config.train.freeze);
        let schedules = TowerSchedules::new(&config, &model);
        let model = schedules.unfreeze(model, state.step);
        Ok(Self {
            schedules,
            frozen,
            momentum: method.momentum().map(|settings| MomentumEncoder::new(settings, &model)),
            root_text,
            apex,
            schedule: config.schedule()?,
            optimiser: AdamW::new(config.optim.betas, config.optim.eps),
            broken_before: state.broken,
            missing_ranks_before: state.missing_ranks.clone(),
            store: FeatureStore::default(),
            features: None,
            frozen_towers: FrozenTowers::default(),
            config,
            device,
            source,
            tokenizer,
            loader,
            method,
            model,
            state,
        })
    }

    /// The config, with every default written out.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The current model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The manifest of the current model.
    pub fn manifest(&self) -> Manifest {
        let texts = TextFeed {
            tokenizer: self.tokenizer.text_vectors().is_none().then(|| checkpoint::TOKENIZER.to_owned()),
            end_of_text: self.tokenizer.end_of_text(),
            padding: 0,
        };
        let manifest = Manifest::new(&self.model, &self.config.head, &self.config.method.kind, texts);
        let images = ImageFeed { crop: self.config.model.crop.unwrap_or_default() };
        Manifest { apex: self.apex.clone(), images, frozen: self.frozen_towers.clone(), ..manifest }
    }

    /// Keeps the features of frozen towers in this store, where other runs find them. Default: in memory only.
    pub fn keep_features(&mut self, store: FeatureStore) {
        self.store = store;
    }

    /// The tokenizer of the run.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Report of the broken samples that this process has met.
    pub fn broken(&self) -> &conifer_data::loader::BrokenReport {
        self.loader.report()
    }

    /// Number of updates made so far.
    pub fn step(&self) -> u64 {
        self.state.step
    }

    /// Trains until all steps are done or `stop` is set (checked between steps). Both end with a checkpoint. A
    /// checkpoint is also written before the first step, so that a run can be resumed from the very beginning.
    ///
    /// # Errors
    /// If a loss or gradient is not finite, too many samples are broken, an evaluation fails, or a file cannot be
    /// written. Earlier checkpoints stay usable.
    pub fn run(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Outcome> {
        let steps = self.config.train.steps;
        let out = self.config.train.out.clone();
        fs::create_dir_all(out.join(CHECKPOINTS)).map_err(Error::io(&out))?;
        let _lock = lock_run(&out)?;
        let collected = self.collect_features(stop, observer)?;
        let mut log = RunLog::open(&out, self.state.step)?;
        let mut clock = Clock::start(&self.state);
        observer.on(&Event::Started {
            step: self.state.step,
            steps,
            parameters: trainable(&self.model),
            samples: self.source.len(),
            batches_per_epoch: self.loader.batches_per_epoch(),
        });
        let mut saved = (self.state.step > 0).then(|| checkpoint_path(&out, self.state.step));
        if saved.is_none() {
            saved = Some(self.save(observer)?);
        }
        let path = out.join(CONFIG);
        fs::write(&path, self.config.to_toml()).map_err(Error::io(&path))?;
        while self.state.step < steps {
            if stop.load(Ordering::Relaxed) || !collected {
                let path = self.save_unless(saved, observer)?;
                observer.on(&Event::Stopped { step: self.state.step, path: &path });
                return Ok(Outcome::Stopped);
            }
            let mut record = self.take_step()?;
            clock.fill(&mut record, steps);
            let step = record.step;
            let due = |every: u64| every > 0 && step.is_multiple_of(every);
            if due(self.config.eval.every) {
                match self.evaluate(observer) {
                    Ok(found) => record.eval = found,
                    Err(error) => {
                        self.save(observer)?;
                        return Err(error);
                    }
                }
            }
            // Log before the checkpoint. A run that is killed between log and checkpoint repeats this step and its
            // record; a run that is killed later has both.
            if due(self.config.train.log_every) || !record.eval.is_empty() || step == steps {
                log.write(&record)?;
                clock.restart(&record);
            }
            observer.on(&Event::Step(&record));
            saved = match due(self.config.train.checkpoint_every) {
                true => Some(self.save(observer)?),
                false => None,
            };
        }
        let path = self.save_unless(saved, observer)?;
        observer.on(&Event::Finished { step: self.state.step, path: &path });
        Ok(Outcome::Finished)
    }

    /// Computes the features of the frozen towers, unless this run trains on pixels and tokens. Returns false if `stop`
    /// was set meanwhile.
    fn collect_features(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<bool> {
        if !self.config.uses_features() || self.features.is_some() {
            return Ok(true);
        }
        let (source, tokenizer) = (self.source.clone(), self.tokenizer.clone());
        let request = run_features(&self.config, self.method.views(), source, tokenizer);
        let mut progress = |stage, done, total| observer.on(&Event::Features { stage, done, total });
        let Some(bank) = FeatureBank::collect(&self.model, &request, &self.store, stop, &mut progress)? else {
            return Ok(false);
        };
        if let Some(mode) = bank.region_mode() {
            self.loader.name_regions(mode);
        }
        // A tower that only reads vectors has no encoder, so it computes no features that other runs could reuse.
        let ModelConfig { visual, textual, .. } = self.model.config();
        self.frozen_towers = FrozenTowers {
            visual: (request.images && visual.vector_width().is_none()).then(|| image_identity(&self.model)),
            textual: (request.texts && textual.vector_width().is_none()).then(|| text_identity(&self.model)),
        };
        // A model that starts from a checkpoint keeps the feature scaling with which its adapters were trained.
        if self.config.model.init.is_none() {
            let (device, statistics) = (self.device.clone(), bank.statistics());
            if self.state.step == 0 {
                self.model = self.model.clone().with_feature_statistics(statistics.clone(), &device);
                if let Some(momentum) = &mut self.momentum {
                    momentum.set_feature_statistics(statistics.clone(), &device);
                }
            }
            // The model before its first step scales its features in the same way.
            let plain = device.without_autodiff();
            self.frozen = self.frozen.take().map(|frozen| frozen.with_feature_statistics(statistics, &plain));
        }
        self.features = Some(bank);
        Ok(true)
    }

    /// Results of the observer's evaluation of the current model.
    fn evaluate(&self, observer: &mut dyn Observer) -> Result<serde_json::Map<String, serde_json::Value>> {
        let step = self.state.step;
        let manifest = self.manifest();
        let now = ModelSnapshot { step, model: &self.model, manifest, tokenizer: &self.tokenizer };
        let found = observer.evaluate(&now).map_err(|source| Error::Evaluation { step, source })?;
        Ok(found.into_iter().map(|(name, value)| (name, value.into())).collect())
    }

    /// Makes one update. The caller adds times, memory and evaluation to the record.
    fn take_step(&mut self) -> Result<StepRecord> {
        let next = self.state.step + 1;
        if self.schedules.changes_at(self.state.step) {
            self.model = self.schedules.unfreeze(self.model.clone(), self.state.step);
        }
        let batches = self.config.optim.accumulate;
        let fraction = 1.0 / batches as f64;
        let mut record = StepRecord {
            step: next,
            lr: self.schedule.lr(self.state.step),
            beta1: self.schedule.beta1(self.state.step),
            scalars: scalars(&self.model),
            epoch: self.loader.state().epoch,
            ..StepRecord::default()
        };
        let mut gradients = GradientSet::default();
        let mut terms: Vec<(&'static str, f64)> = Vec::new();
        for number in 0..batches {
            let batch =
                self.loader.next().ok_or_else(|| Error::invalid("data", "exhausted", "an endless loader"))??;
            self.state.samples += batch.ids.len() as u64;
            let mut inputs = step::PassInputs {
                method: self.method.as_ref(),
                frozen: self.frozen.as_ref(),
                momentum: self.momentum.as_mut(),
                root: self.root_text.as_ref(),
                features: self.features.as_mut(),
                noise: DropoutNoise::new(self.config.seed, next, number as u64),
                end_of_text: self.tokenizer.end_of_text(),
                micro_batch: self.config.train.micro_batch,
                device: &self.device,
            };
            let pass = step::pass(&self.model, &batch, &mut inputs, next)?;
            gradients.add(pass.gradients);
            record.loss += fraction * pass.loss;
            for (name, value) in pass.terms {
                match terms.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += fraction * value,
                    None => terms.push((name, fraction * value)),
                }
            }
        }
        record.terms = terms.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        record.gradient_norm = fraction * gradients.norm();
        if !record.gradient_norm.is_finite() {
            let parameter = gradients.first_non_finite().unwrap_or("all parameters together").to_owned();
            let what = format!("the gradient of `{parameter}`");
            return Err(Error::Diverged { step: next, what, value: record.gradient_norm });
        }
        let optim = &self.config.optim;
        let clip = if optim.clip_norm > 0.0 { clip_factor(record.gradient_norm, optim.clip_norm) } else { 1.0 };
        let update = Update {
            lr: record.lr,
            beta1: record.beta1,
            gradient_scale: fraction * clip,
            decay: &|param, elements| {
                if decays(param.kind, elements, optim.reference) { optim.weight_decay } else { 0.0 }
            },
            schedule: &|param| self.schedules.of(param.name),
        };
        self.model = self.optimiser.step(self.model.clone(), gradients, update);
        self.model.head = self.model.head.clone().project();
        if let Some(momentum) = &mut self.momentum {
            momentum.follow(&self.model);
        }
        self.state.step = next;
        self.state.data = self.loader.state();
        self.state.broken = self.broken_before + self.loader.report().broken();
        self.state.missing_ranks.clone_from(&self.missing_ranks_before);
        for (rank, count) in &self.loader.report().missing_ranks {
            *self.state.missing_ranks.entry(rank.name.clone()).or_default() += count;
        }
        record.samples = self.state.samples;
        record.broken = self.state.broken;
        let ranks = self.state.missing_ranks.iter();
        record.missing_ranks = ranks.map(|(rank, count)| (rank.clone(), (*count).into())).collect();
        Ok(record)
    }

    /// Writes the checkpoint of this step and marks it as the newest.
    fn save(&self, observer: &mut dyn Observer) -> Result<PathBuf> {
        let out = &self.config.train.out;
        let path = checkpoint_path(out, self.state.step);
        replace_folder(&path, |folder| {
            checkpoint::write(folder, &self.model, &self.manifest(), Some(&self.tokenizer))?;
            if let Some(momentum) = &self.momentum {
                momentum.write(folder)?;
            }
            write_state(folder, &self.state, &self.optimiser.state(), &self.config)
        })?;
        publish_checkpoint(out, self.state.step, self.config.train.keep)?;
        observer.on(&Event::Checkpoint { step: self.state.step, path: &path });
        Ok(path)
    }

    /// Returns the checkpoint of this step, and writes it if `saved` is `None`.
    fn save_unless(&self, saved: Option<PathBuf>, observer: &mut dyn Observer) -> Result<PathBuf> {
        match saved {
            Some(path) => Ok(path),
            None => self.save(observer),
        }
    }

    /// Checks that every stored moment belongs to a parameter of the model.
    fn check_moments(&self, folder: &Path) -> Result<()> {
        let mut sizes = ParamSizes::default();
        visit_params(&self.model, &mut sizes);
        for (name, length) in self.optimiser.lengths() {
            match sizes.0.iter().find(|(known, ..)| known == name) {
                Some(&(_, size, _)) if size == length => {}
                found => {
                    let expected = found.map_or("no such parameter".to_owned(), |(_, size, _)| size.to_string());
                    let path = folder.join(OPTIMIZER);
                    return Err(Error::format(
                        path,
                        format!("`{name}` has {length} elements; the model has {expected}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Locks the folder of a run until the returned value is dropped, because two runs in one folder would destroy each
/// other's checkpoints.
fn lock_run(run: &Path) -> Result<Lock> {
    let path = run.join(CHECKPOINTS).join(".lock");
    let file = fs::File::create(&path).map_err(Error::io(&path))?;
    Lock::take(file).map_err(Error::io(&path))?.ok_or_else(|| {
        let found = format!("`{}`, in which another process is training", run.display());
        Error::invalid("train.out", found, "another folder")
    })
}

/// True if weight decay applies to a parameter. The papers decay weights only. The released code (`reference`) also
/// decays norms and biases, and the per-factor scalars of PHyCLIP, because its rule that excludes scalars does not
/// match their names (DEVIATIONS.md).
fn decays(kind: ParamKind, elements: usize, reference: bool) -> bool {
    match kind {
        ParamKind::Weight => true,
        ParamKind::Bias | ParamKind::Norm => reference,
        ParamKind::Scalar => reference && elements > 1,
        ParamKind::Fixed => false,
    }
}

fn training_device(config: &Config, device: &Device) -> Device {
    let device = device.clone().autodiff();
    if config.model.gradient_checkpointing { device.gradient_checkpointing() } else { device }
}

/// The values of the learnable scalars by name: one number, or a list with one per factor.
fn scalars(model: &Model) -> serde_json::Map<String, serde_json::Value> {
    let entry = |scalar: &conifer_model::scalars::BoundedScalar| {
        let first = scalar.names()[0].as_str();
        match first.strip_suffix(".0") {
            Some(list) => (list.to_owned(), scalar.values().into()),
            None => (first.to_owned(), scalar.values()[0].into()),
        }
    };
    model.head.scalars().into_iter().map(entry).collect()
}

fn trainable(model: &Model) -> usize {
    let mut sizes = ParamSizes::default();
    visit_params(model, &mut sizes);
    sizes.0.iter().filter(|(.., trained)| *trained).map(|(_, size, _)| size).sum()
}

/// Name, number of elements and trainability of every parameter.
#[derive(Default)]
struct ParamSizes(Vec<(String, usize, bool)>);

impl ParamVisitor for ParamSizes {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        self.0.push((param.name.to_owned(), value.shape().num_elements(), value.is_require_grad()));
    }
}

/// Computes throughput since the last record and remaining time, and reads the peak memory.
struct Clock {
    started: Instant,
    first_step: u64,
    since: Instant,
    samples: u64,
}

impl Clock {
    fn start(state: &TrainState) -> Self {
        let now = Instant::now();
        Self { started: now, first_step: state.step, since: now, samples: state.samples }
    }

    fn fill(&self, record: &mut StepRecord, steps: u64) {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        record.samples_per_second = (record.samples - self.samples) as f64 / seconds;
        record.peak_rss_mb = peak_rss_mb();
        let taken = record.step - self.first_step;
        record.eta_seconds = self.started.elapsed().as_secs_f64() / taken as f64 * (steps - record.step) as f64;
    }

    fn restart(&mut self, record: &StepRecord) {
        self.since = Instant::now();
        self.samples = record.samples;
    }
}
