//! Events of a run, for the program that runs the trainer.

use std::error::Error;
use std::path::Path;

use conifer_data::tokenizer::Tokenizer;
use conifer_model::checkpoint::Manifest;
use conifer_model::features::FeatureStage;
use conifer_model::model::Model;

use crate::log::StepRecord;

/// Watches a run. An observer may print, draw and measure, but cannot change the run. A closure over events is an
/// observer that evaluates nothing.
pub trait Observer {
    /// Handles an event.
    fn on(&mut self, event: &Event<'_>);

    /// Measures the current model (every `eval.every` steps). Returns numbers by name, for the logs. With several
    /// ranks, every rank calls it, so they can share the work.
    ///
    /// # Errors
    /// Any failure of the measurement. The trainer then writes a checkpoint and ends the run.
    fn evaluate(&mut self, _now: &ModelSnapshot<'_>) -> Result<Vec<(String, f64)>, EvaluationError> {
        Ok(Vec::new())
    }
}

impl<F: FnMut(&Event<'_>)> Observer for F {
    fn on(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// Any failure of a measurement.
pub type EvaluationError = Box<dyn Error + Send + Sync>;

/// The state of a model during training.
#[derive(Debug)]
pub struct ModelSnapshot<'a> {
    /// Number of updates made.
    pub step: u64,
    /// The model, or with `train.ema` the average of its weights. An [`Embedder`](conifer_model::embed::Embedder)
    /// converts it to a device without autodiff.
    pub model: &'a Model,
    /// The manifest of the model.
    pub manifest: Manifest,
    /// The tokenizer of the run.
    pub tokenizer: &'a Tokenizer,
}

/// An event of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run is set up, and its first step follows.
    Started {
        /// Updates already made; more than 0 if the run was resumed.
        step: u64,
        /// Updates of the whole run.
        steps: u64,
        /// Number of trainable values in the model.
        parameters: usize,
        /// Samples in the source, including broken ones.
        samples: usize,
        /// Batches per epoch.
        batches_per_epoch: u64,
    },
    /// Features of frozen towers are being computed, before the first step.
    Features {
        /// The stage of the computation.
        stage: FeatureStage,
        /// Items done.
        done: usize,
        /// Items in this stage.
        total: usize,
    },
    /// A step is done.
    Step(&'a StepRecord),
    /// A checkpoint is complete on disk.
    Checkpoint {
        /// Number of updates made.
        step: u64,
        /// Folder of the checkpoint.
        path: &'a Path,
    },
    /// The stop flag was set; everything is saved.
    Stopped {
        /// Number of updates made.
        step: u64,
        /// The checkpoint to resume from.
        path: &'a Path,
    },
    /// All steps are done and saved.
    Finished {
        /// Number of updates made.
        step: u64,
        /// The last checkpoint.
        path: &'a Path,
    },
}

/// How a run ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Finished,
    /// The stop flag was set before the last step.
    Stopped,
}
