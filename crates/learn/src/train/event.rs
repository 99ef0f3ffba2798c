//! What a run tells the program around it.

use std::error::Error;
use std::path::Path;

use conifer_data::tokenizer::Tokenizer;

use crate::checkpoint::Manifest;
use crate::log::StepRecord;
use crate::model::Model;

/// What watches a run: it may print, draw and measure, but not change the run. A closure over events is one that never measures.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, event: &Event<'_>);

    /// Measures the model as it is now (`eval.every`): numbers by name, for the logs.
    ///
    /// # Errors
    /// Whatever kept it from measuring; the run ends with it, after a checkpoint.
    fn evaluate(&mut self, _now: &Snapshot<'_>) -> Result<Vec<(String, f64)>, Box<dyn Error + Send + Sync>> {
        Ok(Vec::new())
    }
}

impl<F: FnMut(&Event<'_>)> Observer for F {
    fn on(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// A model in the middle of its training.
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// Updates made.
    pub step: u64,
    /// The model, with autodiff; an [`Embedder`](crate::embed::Embedder) takes it off.
    pub model: &'a Model,
    /// How it must be fed.
    pub manifest: Manifest,
    /// How texts become tokens.
    pub tokenizer: &'a Tokenizer,
}

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The first step is about to be taken.
    Started {
        /// Updates already made; more than 0 when resumed.
        step: u64,
        /// Updates of the whole run.
        steps: u64,
        /// Trainable numbers in the model.
        parameters: usize,
        /// Samples in the source, broken ones included.
        samples: usize,
        /// Batches in one pass over them.
        batches_per_epoch: u64,
    },
    /// A step was taken.
    Step(&'a StepRecord),
    /// A checkpoint is complete on the disk.
    Checkpoint {
        /// Updates made.
        step: u64,
        /// Its folder.
        path: &'a Path,
    },
    /// The stop flag was raised; everything is saved.
    Stopped {
        /// Updates made.
        step: u64,
        /// The checkpoint to go on from.
        path: &'a Path,
    },
    /// All steps are taken and saved.
    Finished {
        /// Updates made.
        step: u64,
        /// The last checkpoint.
        path: &'a Path,
    },
}

/// How a run ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are taken.
    Finished,
    /// The stop flag was raised before.
    Stopped,
}
