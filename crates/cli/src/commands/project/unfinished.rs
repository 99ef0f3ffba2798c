//! Keeps the state of an unfinished projection in the folder `.NAME.unfinished` beside its output folder `NAME`.
//!
//! The folder has the settings of the projection and one file per stage. A state file is a sha256 and the bytes of a
//! [`FitState`]; it is replaced atomically. The folder is created when the first state is written, so a projection that
//! ends early leaves nothing behind.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use conifer_embeddings::{SettingDifference, first_difference};
use conifer_files::{Lock, operation};
use conifer_viz::projection::{FitProgress, FitState};
use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};

use crate::output::note;
use crate::{progress, signal};

const SETTINGS: &str = "settings.json";
const LOCK: &str = "lock";
/// Length of a sha256.
const DIGEST: usize = 32;

/// Receives the name, the finished and all steps of a stage.
type MapStageReport<'a> = dyn Fn(&str, usize, usize) + 'a;

/// The states of one projection.
pub(in crate::commands) struct UnfinishedMap<'a> {
    /// `None`: no state is written.
    home: Option<PathBuf>,
    settings: BTreeMap<String, String>,
    /// Time between two states.
    every: Duration,
    /// Set by Ctrl-C. Created by the first stage: a projection without stages ends at Ctrl-C, as any command does.
    stop: OnceCell<Arc<AtomicBool>>,
    /// Held from the first state on.
    lock: RefCell<Option<Lock>>,
    /// Receives the progress instead of the terminal.
    report: Option<&'a MapStageReport<'a>>,
}

impl<'a> UnfinishedMap<'a> {
    /// Finds the states of an earlier run with the same settings. `restart` discards them instead.
    pub(in crate::commands) fn open(
        out: &Path,
        settings: BTreeMap<String, String>,
        every: Duration,
        restart: bool,
    ) -> anyhow::Result<Self> {
        let home = conifer_files::sibling(out, ".unfinished")?;
        let found = UnfinishedMap { home: Some(home.clone()), every, ..Self::unsaved(settings) };
        if !home.exists() {
            return Ok(found);
        }
        found.take_lock(&home)?;
        let (path, shown) = (home.join(SETTINGS), home.display());
        if restart || !path.exists() {
            remove_states(&home)?;
            return Ok(found);
        }
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let before: BTreeMap<String, String> = serde_json::from_slice(&bytes)
            .with_context(|| format!("{}: damaged; use --restart to start again", path.display()))?;
        if let Some(SettingDifference { name, before, after }) = first_difference(&before, &found.settings) {
            bail!(
                "{shown} holds an unfinished map with {name} `{before}`; expected `{after}`, the value of this command. Repeat the earlier \
                 command to continue it, or use --restart to start again"
            );
        }
        Ok(found)
    }

    /// A projection whose states are not written.
    pub(in crate::commands) fn unsaved(settings: BTreeMap<String, String>) -> Self {
        UnfinishedMap {
            home: None,
            settings,
            every: Duration::MAX,
            stop: OnceCell::new(),
            lock: RefCell::new(None),
            report: None,
        }
    }

    /// Sends the progress to `report` instead of the terminal. The projection stops when `stop` is set, and no longer
    /// at a signal.
    #[cfg(feature = "serve")]
    pub(in crate::commands) fn in_background(self, stop: Arc<AtomicBool>, report: &'a MapStageReport<'a>) -> Self {
        UnfinishedMap { stop: OnceCell::from(stop), report: Some(report), ..self }
    }

    /// Runs one stage with a progress bar, from its last state. `what` names the steps.
    pub(super) fn stage<T>(
        &self,
        stage: &'static str,
        what: &'static str,
        work: impl FnOnce(&mut dyn FitProgress) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if self.stop.get().is_none() {
            _ = self.stop.set(signal::stop_flag()?);
        }
        if self.is_stopped() {
            return Err(conifer_viz::Error::Stopped.into());
        }
        let now = Instant::now();
        let bar = if self.report.is_some() { ProgressBar::hidden() } else { progress::bar(what, 0) };
        let mut progress =
            StageProgress { map: self, stage, what, bar, begun: now, saved: now, first: None, error: None };
        let found = work(&mut progress);
        progress.bar.finish_and_clear();
        match progress.error {
            // The stage was stopped because of this error.
            Some(error) => Err(error),
            None => found,
        }
    }

    /// True after Ctrl-C during a stage.
    fn is_stopped(&self) -> bool {
        self.stop.get().is_some_and(|it| it.load(Ordering::Relaxed))
    }

    /// Returns true if a later command can continue.
    pub(super) fn is_saved(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.join(SETTINGS).exists())
    }

    /// Removes the states after the map was written, or when it is not continued.
    pub(in crate::commands) fn finish(mut self) -> anyhow::Result<()> {
        let (home, lock) = (self.home.take(), self.lock.take());
        let (Some(home), Some(lock)) = (home, lock) else {
            // This process wrote no state. A folder that exists meanwhile belongs to another one.
            return Ok(());
        };
        drop(lock);
        Ok(operation::remove_dir_all(&home)?)
    }

    fn take_lock(&self, home: &Path) -> anyhow::Result<()> {
        if self.lock.borrow().is_none() {
            let file = operation::create_file(&home.join(LOCK))?;
            let lock = Lock::take(file).with_context(|| format!("locking {}", home.display()))?;
            ensure!(lock.is_some(), "another process is writing the map of {}; wait until it ends", home.display());
            *self.lock.borrow_mut() = lock;
        }
        Ok(())
    }

    fn load(&self, stage: &str) -> anyhow::Result<Option<FitState>> {
        let Some(home) = &self.home else { return Ok(None) };
        let path = state_path(home, stage);
        // Without the lock, the folder appeared after `open` and belongs to another process.
        if self.lock.borrow().is_none() || !path.exists() {
            return Ok(None);
        }
        let damaged = || format!("{}: damaged; use --restart to start again", path.display());
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let (digest, state) = bytes.split_at_checked(DIGEST).with_context(damaged)?;
        ensure!(digest == Sha256::digest(state).as_slice(), damaged());
        FitState::from_bytes(state).map(Some).with_context(damaged)
    }

    fn save(&self, stage: &str, state: &dyn Fn() -> FitState) -> anyhow::Result<()> {
        let Some(home) = &self.home else { return Ok(()) };
        let state = state();
        let settings = home.join(SETTINGS);
        if self.lock.borrow().is_none() {
            operation::create_dir_all(home)?;
            self.take_lock(home)?;
            ensure!(
                !settings.exists(),
                "{} holds an unfinished map that another command began meanwhile; expected no such folder. Use another \
                 --out, or --restart to discard that map",
                home.display()
            );
        }
        if !settings.exists() {
            conifer_files::write_whole(&settings, &serde_json::to_vec_pretty(&self.settings)?)?;
        }
        let path = state_path(home, stage);
        conifer_files::remove_abandoned(&path);
        let mut bytes = vec![0; DIGEST];
        state.append_to(&mut bytes);
        // A list of neighbours can take hundreds of megabytes.
        drop(state);
        let digest = Sha256::digest(&bytes[DIGEST..]);
        bytes[..DIGEST].copy_from_slice(&digest);
        Ok(conifer_files::write_whole(&path, &bytes)?)
    }
}

fn state_path(home: &Path, stage: &str) -> PathBuf {
    home.join(format!("{stage}.state"))
}

/// Removes all files of the folder except the lock, which is held.
fn remove_states(home: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(home).with_context(|| format!("reading {}", home.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name != LOCK) {
            operation::remove(&path)?;
        }
    }
    Ok(())
}

/// Progress of one stage: shows it, and writes a state from time to time.
struct StageProgress<'a> {
    map: &'a UnfinishedMap<'a>,
    stage: &'static str,
    what: &'static str,
    bar: ProgressBar,
    begun: Instant,
    saved: Instant,
    /// Steps that were finished before this run.
    first: Option<usize>,
    error: Option<anyhow::Error>,
}

impl StageProgress<'_> {
    fn save(&mut self, state: &dyn Fn() -> FitState) -> bool {
        match self.map.save(self.stage, state) {
            Ok(()) => self.saved = Instant::now(),
            Err(error) => self.error = Some(error.context("saving the state of the unfinished map")),
        }
        self.error.is_none()
    }

    /// The time left, from the speed of this run; empty before its first step.
    fn left(&self, done: usize, total: usize) -> String {
        let here = done - self.first.unwrap_or(0).min(done);
        if here == 0 {
            return String::new();
        }
        let seconds = self.begun.elapsed().as_secs_f64() * (total - done) as f64 / here as f64;
        if seconds < 120.0 {
            format!(", about {seconds:.0} s left")
        } else {
            format!(", about {:.0} min left", seconds / 60.0)
        }
    }
}

impl FitProgress for StageProgress<'_> {
    fn restored(&mut self) -> Option<FitState> {
        match self.map.load(self.stage) {
            Ok(state) => state,
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn step(&mut self, done: usize, total: usize, state: &dyn Fn() -> FitState) -> bool {
        if self.error.is_some() {
            return false;
        }
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        if let Some(report) = self.map.report {
            report(self.what, done, total);
        }
        if self.first.is_none() {
            self.first = Some(done);
            if done > 0 && done < total {
                note(&format!("{}: continuing after {done} of {total}", self.what));
            }
            // After the position is set: the steps of earlier runs say nothing about the speed of this one.
            self.bar.reset_eta();
        }
        if self.map.is_stopped() {
            self.save(state);
            return false;
        }
        if self.saved.elapsed() < self.map.every {
            return true;
        }
        let is_saved = self.save(state);
        if is_saved && self.bar.is_hidden() && self.map.report.is_none() && done < total {
            note(&format!("{}: {done} of {total}{}", self.what, self.left(done, total)));
        }
        is_saved
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settings(seed: u32) -> BTreeMap<String, String> {
        BTreeMap::from([("--seed".to_owned(), seed.to_string())])
    }

    /// Counts to ten and stops after `until` steps. Returns the number of steps in this run.
    fn count(map: &UnfinishedMap<'_>, until: usize) -> anyhow::Result<usize> {
        map.stage("count", "numbers", |progress| {
            let mut done = progress.restored().map_or(0, |it| it.integers[0]);
            let mut steps = 0;
            while done < 10 {
                let state = || FitState { integers: vec![done], numbers: vec![0.5] };
                if !progress.step(done as usize, 10, &state) || steps == until {
                    bail!("stopped");
                }
                (done, steps) = (done + 1, steps + 1);
            }
            Ok(steps)
        })
    }

    #[test]
    fn states_survive_and_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("map");
        let home = folder.path().join(".map.unfinished");
        let open = |seed: u32, restart: bool| UnfinishedMap::open(&out, settings(seed), Duration::ZERO, restart);
        // A stage that writes no state leaves nothing behind.
        let slow = UnfinishedMap::open(&out, settings(1), Duration::from_secs(1000), false).unwrap();
        assert!(count(&slow, 4).is_err() && !slow.is_saved() && !home.exists());
        let map = open(1, false).unwrap();
        assert!(count(&map, 4).is_err() && map.is_saved());
        // Only one process at a time.
        assert!(open(1, false).err().unwrap().to_string().contains("another process"));
        drop(map);
        let other = open(2, false).err().unwrap().to_string();
        assert!(other.contains("--seed `1`; expected `2`") && other.contains("--restart"), "{other}");
        let map = open(1, false).unwrap();
        // Six of ten steps are left.
        assert_eq!(count(&map, 100).unwrap(), 6);
        drop(map);
        let path = home.join("count.state");
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        for bad in [&bytes[..], &bytes[..40], &bytes[..10], &[]] {
            fs::write(&path, bad).unwrap();
            let error = count(&open(1, false).unwrap(), 100).unwrap_err().to_string();
            assert!(error.contains("count.state: damaged") && error.contains("--restart"), "{error}");
        }
        // A folder that another command made after `open` is neither read, overwritten nor removed.
        fs::remove_dir_all(&home).unwrap();
        let early = open(1, false).unwrap();
        assert!(count(&open(2, false).unwrap(), 4).is_err());
        let error = format!("{:#}", count(&early, 100).unwrap_err());
        assert!(error.contains("another command began meanwhile"), "{error}");
        drop(early);
        assert_eq!(count(&open(2, false).unwrap(), 100).unwrap(), 6);
        let idle = UnfinishedMap::open(&folder.path().join("free"), settings(1), Duration::ZERO, false).unwrap();
        idle.finish().unwrap();
        let map = open(2, true).unwrap();
        assert_eq!(count(&map, 100).unwrap(), 10);
        map.finish().unwrap();
        assert!(!home.exists());
    }
}
