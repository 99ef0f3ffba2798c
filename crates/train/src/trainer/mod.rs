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

mod averaged_model;
mod clock;
mod event;
mod flat_params;
mod key_queue;
mod micro_batch;
mod momentum;
mod run;
mod start;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod tower_schedules;
mod update;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use conifer_data::Source;
use conifer_data::batch::TokenBatch;
use conifer_data::loader::Loader;
use conifer_data::tokenizer::Tokenizer;
use conifer_model::apex::Apex;
use conifer_model::checkpoint::run_folder::{CONFIG, OPTIMIZER, TRAINED, latest_checkpoint};
use conifer_model::checkpoint::{self, FrozenTowers, ImageFeed, Manifest, TextFeed, load_weights};
use conifer_model::features::{FeatureBank, FeatureStore};
use conifer_model::model::Model;
use conifer_model::params::{ParamInfo, ParamVisitor, visit_params};

pub(crate) use start::begin;

pub use event::{EvaluationError, Event, ModelSnapshot, Observer, Outcome};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::methods::Method;
use crate::optim::AdamW;
use crate::ranks::Ranks;
use crate::root::RootKind;
use crate::schedule::Schedule;
use averaged_model::AveragedModel;
use flat_params::with_flat_params;
use momentum::MomentumEncoder;
use state::{TrainState, read_state};
use tower_schedules::TowerSchedules;

/// A training run.
pub struct Trainer {
    config: Config,
    device: Device,
    source: Arc<dyn Source>,
    tokenizer: Tokenizer,
    loader: Loader,
    method: Box<dyn Method>,
    /// The model before its first step, for a method that compares points with it.
    frozen: Option<Model>,
    /// The momentum encoder and its queue, for a method that reads them.
    momentum: Option<MomentumEncoder>,
    /// The moving average of the weights (`train.ema`). It is evaluated and published instead of `model`.
    average: Option<AveragedModel>,
    /// The text whose embedding, recomputed in each step, is the root.
    root_text: Option<TokenBatch>,
    /// The root as recorded in the manifest, if it is not a stored point.
    apex: Option<Apex>,
    schedule: Schedule,
    schedules: TowerSchedules,
    model: Model,
    optimiser: AdamW,
    state: TrainState,
    /// Number of broken samples before this process started; the loader counts the later ones.
    broken_before: u64,
    /// Numbers of missing ranks before this process started.
    missing_ranks_before: BTreeMap<String, u64>,
    /// Store in which features of frozen towers are shared between runs.
    store: FeatureStore,
    /// Features of frozen towers, collected when the run starts.
    features: Option<FeatureBank>,
    frozen_towers: FrozenTowers,
    /// The processes that train the model together.
    ranks: Ranks,
}

impl Trainer {
    /// Sets up a new run of `config` on the samples of `source`. With `tokenizer.kind = "train"` a tokenizer is trained
    /// on their texts first. `device` has no autodiff; the trainer adds it.
    ///
    /// # Errors
    /// If the config is invalid, the source lacks a view of the method or has too few samples, a checkpoint or
    /// tokenizer cannot be read, or the folder already holds a run.
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

    /// Resumes the run in folder `run` from its newest checkpoint, in the same folder. `source` must contain the same
    /// data.
    ///
    /// # Errors
    /// If there is no checkpoint, the checkpoint is damaged, or the fingerprint of `source` differs from that of the
    /// run.
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
        // A run that started from a checkpoint with one temperature keeps one, although its method may have three.
        config.head = manifest.head;
        let root = model.head.root();
        model.head = model.head.with_root(root.as_deref(), config.root_kind()? == RootKind::Learned, &device)?;
        let average = config.train.ema.map(|_| AveragedModel::new(&model));
        if average.is_some() {
            model = read_trained(model, &folder)?;
        }
        let step = state.step;
        let mut trainer = Self::assemble(config, source, device, tokenizer, model, state)?;
        trainer.optimiser.load_state(step, moments, &trainer.device)?;
        trainer.check_moments(&folder)?;
        if let Some(momentum) = &mut trainer.momentum {
            momentum.read(&folder, &trainer.device)?;
        }
        trainer.average = average;
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
            average: config.train.ema.map(|_| AveragedModel::new(&model)),
            root_text,
            apex,
            schedule: config.schedule()?,
            optimiser: AdamW::new(config.optim.betas, config.optim.eps),
            broken_before: state.broken,
            missing_ranks_before: state.missing_ranks.clone(),
            store: FeatureStore::default(),
            features: None,
            frozen_towers: FrozenTowers::default(),
            ranks: Ranks::default(),
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

    /// The current model: with `train.ema` the average, without autodiff, else the model in training.
    pub fn model(&self) -> &Model {
        self.average.as_ref().map_or(&self.model, AveragedModel::model)
    }

    /// The manifest of [`Trainer::model`].
    pub fn manifest(&self) -> Manifest {
        let texts = TextFeed {
            tokenizer: self.tokenizer.text_vectors().is_none().then(|| checkpoint::TOKENIZER.to_owned()),
            end_of_text: self.tokenizer.end_of_text(),
            padding: 0,
        };
        let manifest = Manifest::new(self.model(), &self.config.head, &self.config.method.kind, texts);
        let images = ImageFeed { crop: self.config.model.crop.unwrap_or_default() };
        Manifest { apex: self.apex.clone(), images, frozen: self.frozen_towers.clone(), ..manifest }
    }

    /// Sets the store that shares features of frozen towers with other runs. By default features are only in memory.
    pub fn keep_features(&mut self, store: FeatureStore) {
        self.store = store;
    }

    /// Trains on these ranks. Every rank sets up a trainer with the same config, data and checkpoint. [`Trainer::run`]
    /// may only be called after every rank has set up its trainer.
    pub fn join_ranks(&mut self, ranks: Ranks) {
        self.loader.read_part(ranks.rank(), ranks.size());
        self.ranks = ranks;
    }

    /// The ranks set by [`Trainer::join_ranks`]; by default a single process.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// The tokenizer of the run.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The broken samples that this process has found.
    pub fn broken(&self) -> &conifer_data::loader::BrokenReport {
        self.loader.report()
    }

    /// Number of updates made so far.
    pub fn step(&self) -> u64 {
        self.state.step
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

/// Returns `model`, which holds the average of a run with `train.ema`, with the parameters in training instead.
fn read_trained(model: Model, folder: &Path) -> Result<Model> {
    let path = folder.join(TRAINED);
    if !path.is_file() {
        return Err(Error::format(path, "missing; expected the parameters in training (train.ema)"));
    }
    with_flat_params(model, load_weights(&path)?, "", &path)
}

fn training_device(config: &Config, device: &Device) -> Device {
    let device = device.clone().autodiff();
    if config.model.gradient_checkpointing { device.gradient_checkpointing() } else { device }
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
