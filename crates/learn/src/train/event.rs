//! What a run tells the program around it.

use std::path::Path;

use conifer_data::tokenizer::Tokenizer;

use crate::checkpoint::Manifest;
use crate::log::StepRecord;
use crate::model::Model;

/// Something happened. The observer may print, draw or measure; it cannot change the run.
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
    /// Time to evaluate (`train.eval_every`).
    Evaluate {
        /// Updates made.
        step: u64,
        /// The model, with autodiff; an [`Embedder`](crate::embed::Embedder) takes it off.
        model: &'a Model,
        /// How it must be fed.
        manifest: &'a Manifest,
        /// How texts become tokens.
        tokenizer: &'a Tokenizer,
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
