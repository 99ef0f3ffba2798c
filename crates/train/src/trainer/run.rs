//! The loop of a run: steps, evaluations, logs and checkpoints.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use conifer_files::Lock;
use conifer_model::checkpoint::run_folder::{CHECKPOINTS, CONFIG, TRAINED, checkpoint_path, publish_checkpoint};
use conifer_model::checkpoint::{self, FrozenTowers, replace_folder, save_weights};
use conifer_model::features::{FeatureBank, image_identity, text_identity};
use conifer_model::model::ModelConfig;

use super::clock::Clock;
use super::event::{EvaluationError, Event, ModelSnapshot, Observer, Outcome};
use super::flat_params::flat_params;
use super::state::write_state;
use super::{Trainer, trainable};
use crate::error::{Error, Result};
use crate::frozen_features::run_features;
use crate::log::{RunLog, StepRecord};

impl Trainer {
    /// Trains until all steps are done or `stop` is set (checked between steps). Both end with a checkpoint. A
    /// checkpoint is also written before the first step, so a run can be resumed at any time.
    ///
    /// With several ranks, rank 0 alone writes files and passes events to the observer; every rank calls
    /// [`Observer::evaluate`] at the same steps; `stop` on any rank stops all.
    ///
    /// # Errors
    /// If a loss or gradient is not finite, too many samples are broken, an evaluation fails, a file cannot be written,
    /// or the ranks differ ([`Error::Ranks`]). Earlier checkpoints stay usable.
    pub fn run(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Outcome> {
        let ranks = self.ranks.clone();
        let mut silent = SilentObserver(&mut *observer);
        let observer: &mut dyn Observer = if ranks.leads() { silent.0 } else { &mut silent };
        let steps = self.config.train.steps;
        let out = self.config.train.out.clone();
        self.check_ranks()?;
        let _lock = ranks.lead(|| {
            fs::create_dir_all(out.join(CHECKPOINTS)).map_err(Error::io(&out))?;
            lock_run(&out)
        })?;
        let collected = self.collect_features(stop, observer)?;
        let mut clock = Clock::start(&self.state);
        let mut log = ranks.lead(|| {
            let log = RunLog::open(&out, self.state.step)?;
            observer.on(&Event::Started {
                step: self.state.step,
                steps,
                parameters: trainable(&self.model),
                samples: self.source.len(),
                batches_per_epoch: self.loader.batches_per_epoch(),
            });
            if self.state.step == 0 {
                self.save(observer)?;
            }
            let path = out.join(CONFIG);
            fs::write(&path, self.config.to_toml()).map_err(Error::io(&path))?;
            Ok::<_, Error>(log)
        })?;
        let mut saved = true;
        while self.state.step < steps {
            if ranks.any(stop.load(Ordering::Relaxed) || !collected) {
                let path = self.save_unless(saved, observer)?;
                observer.on(&Event::Stopped { step: self.state.step, path: &path });
                return Ok(Outcome::Stopped);
            }
            let mut record = ranks.agree(self.take_step())?;
            clock.fill(&mut record, steps);
            if self.is_due(self.config.eval.every) {
                match ranks.agree(self.evaluate(observer)) {
                    Ok(found) => record.eval = found,
                    Err(error) => {
                        ranks.lead(|| self.save(observer))?;
                        return Err(error);
                    }
                }
            }
            saved = self.is_due(self.config.train.checkpoint_every);
            ranks.lead(|| self.finish_step(&record, log.as_mut(), &mut clock, observer))?;
        }
        let path = self.save_unless(saved, observer)?;
        observer.on(&Event::Finished { step: self.state.step, path: &path });
        Ok(Outcome::Finished)
    }

    /// True if an action that runs every `every` steps is due after this step. 0: never.
    fn is_due(&self, every: u64) -> bool {
        every > 0 && self.state.step.is_multiple_of(every)
    }

    /// Logs, reports and saves after a step, each if it is due.
    fn finish_step(
        &self,
        record: &StepRecord,
        log: Option<&mut RunLog>,
        clock: &mut Clock,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        // Log before the checkpoint. If the process is killed between the two, the resumed run repeats this step and
        // its record.
        let is_last = record.step == self.config.train.steps;
        if self.is_due(self.config.train.log_every) || !record.eval.is_empty() || is_last {
            if let Some(log) = log {
                log.write(record)?;
            }
            clock.restart(record);
        }
        observer.on(&Event::Step(record));
        if self.is_due(self.config.train.checkpoint_every) {
            self.save(observer)?;
        }
        Ok(())
    }

    /// Returns an error if the ranks would train different models.
    fn check_ranks(&self) -> Result<()> {
        if self.ranks.size() == 1 {
            return Ok(());
        }
        let same = |what: &str, value: &str, hint: &str| self.ranks.same(what, value, hint);
        same("program", program_checksum(), "start the same binary on all machines")?;
        let config = checksum(self.config.to_toml().as_bytes());
        same("config", &config, "start all ranks with the same config and the same overrides")?;
        same("data", &self.state.fingerprint, "give all ranks the same data")?;
        let start = format!("{} updates", self.state.step);
        same("checkpoint", &start, "give all ranks the same folder of the run, on storage that they share")?;
        let mut weights = 0;
        for array in flat_params(&self.model, "").values() {
            let bytes = bytemuck::cast_slice(array.floats().unwrap_or_default());
            weights = crc32c::crc32c_append(weights, bytes);
        }
        same("weights", &format!("{weights:08x}"), "start all ranks with the same model files")
    }

    /// Computes the features of the frozen towers, unless this run trains on pixels and tokens. Returns false if `stop`
    /// was set meanwhile.
    pub(super) fn collect_features(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<bool> {
        if !self.config.uses_features() || self.features.is_some() {
            return Ok(true);
        }
        let (source, tokenizer) = (self.source.clone(), self.tokenizer.clone());
        let request = run_features(&self.config, self.method.views(), source, tokenizer);
        let mut progress = |stage, done, total| observer.on(&Event::Features { stage, done, total });
        let mut collect = || -> Result<Option<FeatureBank>> {
            Ok(FeatureBank::collect(&self.model, &request, &self.store, stop, &mut progress)?)
        };
        // Rank 0 first: other ranks that share its store then find the features there.
        let first = self.ranks.lead(&mut collect)?;
        let found = match first {
            Some(found) => Ok(found),
            None => collect(),
        };
        let bank = self.ranks.agree(found)?;
        if self.ranks.any(bank.is_none()) {
            return Ok(false);
        }
        let Some(bank) = bank else { return Ok(false) };
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
                if let Some(average) = &mut self.average {
                    average.set_feature_statistics(statistics.clone(), &device);
                }
            }
            // The initial model scales its features in the same way.
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
        let now = ModelSnapshot { step, model: self.model(), manifest, tokenizer: &self.tokenizer };
        let found = observer.evaluate(&now).map_err(|source| Error::Evaluation { step, source })?;
        Ok(found.into_iter().map(|(name, value)| (name, value.into())).collect())
    }

    /// Writes the checkpoint of this step and marks it as the newest.
    fn save(&self, observer: &mut dyn Observer) -> Result<()> {
        let out = &self.config.train.out;
        let path = checkpoint_path(out, self.state.step);
        replace_folder(&path, |folder| {
            checkpoint::write(folder, self.model(), &self.manifest(), Some(&self.tokenizer))?;
            if self.average.is_some() {
                save_weights(&flat_params(&self.model, ""), &folder.join(TRAINED))?;
            }
            if let Some(momentum) = &self.momentum {
                momentum.write(folder)?;
            }
            write_state(folder, &self.state, &self.optimiser.state(), &self.config)
        })?;
        publish_checkpoint(out, self.state.step, self.config.train.keep)?;
        observer.on(&Event::Checkpoint { step: self.state.step, path: &path });
        Ok(())
    }

    /// Returns the checkpoint of this step, and writes it unless it is `saved`.
    fn save_unless(&self, saved: bool, observer: &mut dyn Observer) -> Result<PathBuf> {
        if !saved {
            self.ranks.lead(|| self.save(observer))?;
        }
        Ok(checkpoint_path(&self.config.train.out, self.state.step))
    }
}

/// Wraps the observer of a rank other than 0: it evaluates, but receives no events.
struct SilentObserver<'a>(&'a mut dyn Observer);

impl Observer for SilentObserver<'_> {
    fn on(&mut self, _: &Event<'_>) {}

    fn evaluate(&mut self, now: &ModelSnapshot<'_>) -> std::result::Result<Vec<(String, f64)>, EvaluationError> {
        self.0.evaluate(now)
    }
}

/// The checksum of the running program, or the error that prevents reading it.
fn program_checksum() -> &'static str {
    static CHECKSUM: OnceLock<String> = OnceLock::new();
    CHECKSUM.get_or_init(|| {
        let program = std::env::current_exe().and_then(fs::read);
        program.map_or_else(|error| error.to_string(), |bytes| checksum(&bytes))
    })
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}

/// Locks the folder of a run until the returned value is dropped, because two runs in one folder would overwrite each
/// other's checkpoints.
fn lock_run(run: &Path) -> Result<Lock> {
    let path = run.join(CHECKPOINTS).join(".lock");
    let file = fs::File::create(&path).map_err(Error::io(&path))?;
    Lock::take(file).map_err(Error::io(&path))?.ok_or_else(|| {
        let found = format!("`{}`, in which another process is training", run.display());
        Error::invalid("train.out", found, "another folder")
    })
}
