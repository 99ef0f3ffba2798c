//! The training state of a checkpoint: everything besides the model that an exact resume needs.
//!
//! `state.json` holds the position of the run, `optimizer.safetensors` the moments, `config.toml` the whole experiment.
//! `momentum.safetensors` is written by [`MomentumEncoder`](super::momentum::MomentumEncoder). With `train.ema`, the
//! weights of the checkpoint are the average, and `trained.safetensors` holds the parameters in training.
//! No state of a random generator is stored. The schedule is a function of the step, draws of the loader of (seed, epoch,
//! sample, stream), and dropout masks of (seed, step, batch).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use conifer_data::loader::LoaderState;
use conifer_model::checkpoint::run_folder::{CONFIG, OPTIMIZER, STATE};
use conifer_model::checkpoint::{load_weights, save_weights};
use conifer_model::weight_array::Weights;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::{Error, Result};

/// Progress of a run and the fingerprint of its data, stored in each checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainState {
    /// Version of this file, [`TrainState::FORMAT`].
    pub(super) format: u32,
    /// Number of updates made.
    pub(super) step: u64,
    /// Number of samples seen.
    pub(super) samples: u64,
    /// Number of broken samples met and replaced.
    pub(super) broken: u64,
    /// Number of samples whose taxon lacks a rank, by the name of the rank.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) missing_ranks: BTreeMap<String, u64>,
    /// Position in the data after the last batch.
    pub(super) data: LoaderState,
    /// Fingerprint of the data. A run cannot resume on other data.
    pub(super) fingerprint: String,
}

impl TrainState {
    /// The version this build reads and writes.
    pub(super) const FORMAT: u32 = 1;
}

/// Writes state, moments and config into the existing `folder`.
///
/// # Errors
/// [`Error::Io`] with the file.
pub(super) fn write_state(folder: &Path, state: &TrainState, moments: &Weights, config: &Config) -> Result<()> {
    let path = folder.join(STATE);
    let json = serde_json::to_string_pretty(state).map_err(|error| Error::format(&path, error.to_string()))?;
    fs::write(&path, json + "\n").map_err(Error::io(&path))?;
    let path = folder.join(CONFIG);
    fs::write(&path, config.to_toml()).map_err(Error::io(&path))?;
    Ok(save_weights(moments, &folder.join(OPTIMIZER))?)
}

/// Reads the files of [`write_state`].
///
/// # Errors
/// [`Error::Io`]; [`Error::Format`] for a damaged file or another version.
pub(super) fn read_state(folder: &Path) -> Result<(TrainState, Weights, Config)> {
    let path = folder.join(STATE);
    let json = fs::read(&path).map_err(Error::io(&path))?;
    let state: TrainState = serde_json::from_slice(&json).map_err(|error| Error::format(&path, error.to_string()))?;
    if state.format != TrainState::FORMAT {
        return Err(Error::format(&path, format!("`format` is {}; expected {}", state.format, TrainState::FORMAT)));
    }
    let moments = load_weights(&folder.join(OPTIMIZER))?;
    let config = Config::load(&folder.join(CONFIG), &[])?;
    Ok((state, moments, config))
}
