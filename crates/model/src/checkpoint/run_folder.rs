//! The folder of a training run: names of its files and checkpoints, and which checkpoint is the newest.

use std::fs;
use std::path::{Path, PathBuf};

use super::MANIFEST;
use crate::{Error, Result};

/// File with the progress of the run: the numbers of steps and samples, and the position in the data.
pub const STATE: &str = "state.json";
/// File with the moments of the optimiser.
pub const OPTIMIZER: &str = "optimizer.safetensors";
/// File with the momentum encoder and its queue, for methods that have one.
pub const MOMENTUM: &str = "momentum.safetensors";
/// File with the parameters in training, for a run that publishes their moving average (`train.ema`).
pub const TRAINED: &str = "trained.safetensors";
/// File with the config of the run, every default written out.
pub const CONFIG: &str = "config.toml";
/// Folder of the checkpoints in a run folder.
pub const CHECKPOINTS: &str = "checkpoints";

/// Text file that names the newest checkpoint.
const LATEST: &str = "latest";
const PREFIX: &str = "step_";

/// Folder of the checkpoint after `step` updates.
pub fn checkpoint_path(run: &Path, step: u64) -> PathBuf {
    run.join(CHECKPOINTS).join(format!("{PREFIX}{step:08}"))
}

/// The newest checkpoint of a run folder, or `path` itself if it is a checkpoint. If `latest` is absent or names no
/// complete checkpoint, the complete checkpoint with the highest step is used. If the replacement of a checkpoint was
/// interrupted, the folder to which the previous one was moved is returned ([`conifer_files::resolve`]).
///
/// # Errors
/// [`Error::Invalid`] if there is no checkpoint.
pub fn latest_checkpoint(path: &Path) -> Result<PathBuf> {
    let whole = conifer_files::resolve(path);
    if whole.join(MANIFEST).is_file() {
        return Ok(whole);
    }
    let folder = path.join(CHECKPOINTS);
    let named = fs::read_to_string(folder.join(LATEST)).ok().map(|name| folder.join(name.trim()));
    let newest = || steps(path).pop().map(|step| checkpoint_path(path, step));
    let found = named.filter(|path| is_complete(path)).or_else(newest).map(|path| conifer_files::resolve(&path));
    found.ok_or_else(|| {
        let expected = "a checkpoint folder, the folder of a run that has saved one, or a published model";
        Error::invalid("checkpoint", path.display(), expected)
    })
}

/// Marks `step` as the newest checkpoint of the run and removes all but the `keep` newest.
///
/// # Errors
/// If `latest` cannot be written or an old checkpoint cannot be removed. The other checkpoints stay usable.
pub fn publish_checkpoint(run: &Path, step: u64, keep: usize) -> Result<()> {
    let folder = run.join(CHECKPOINTS);
    let name = checkpoint_path(run, step).file_name().unwrap_or_default().to_string_lossy().into_owned();
    conifer_files::write_whole(&folder.join(LATEST), name.as_bytes())?;
    let steps = steps(run);
    for &old in steps.iter().filter(|&&old| old != step).rev().skip(keep.saturating_sub(1)) {
        let path = checkpoint_path(run, old);
        let path = conifer_files::resolve(&path);
        fs::remove_dir_all(&path).map_err(Error::io(&path))?;
    }
    Ok(())
}

/// Steps of the complete checkpoints of a run, ascending.
fn steps(run: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(run.join(CHECKPOINTS)) else {
        return Vec::new();
    };
    // After an interrupted replacement the previous checkpoint is in `.step_NNNNNNNN.previous`.
    let step = |name: String| {
        let name = name.strip_prefix('.').and_then(|it| it.split('.').next()).unwrap_or(&name);
        name.strip_prefix(PREFIX).and_then(|step| step.parse().ok())
    };
    let mut steps: Vec<u64> =
        entries.flatten().filter_map(|entry| step(entry.file_name().to_string_lossy().into_owned())).collect();
    steps.retain(|&step| is_complete(&checkpoint_path(run, step)));
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// True if the files that every checkpoint has are present. A new folder appears under its name only when it is
/// complete, but a folder that is being removed loses its files one by one.
fn is_complete(folder: &Path) -> bool {
    let folder = conifer_files::resolve(folder);
    [MANIFEST, super::WEIGHTS, OPTIMIZER, STATE, CONFIG].iter().all(|file| folder.join(file).is_file())
}
