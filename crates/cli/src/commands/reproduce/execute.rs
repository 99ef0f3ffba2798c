//! Trains the runs and makes the measurements whose files are missing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use clap::Parser as _;
use conifer_model::checkpoint::run_folder::{STATE, latest_checkpoint};
use conifer_train::config::Config;
use conifer_train::trainer::{Outcome, Trainer};

use super::plan::{PlannedMeasurement, ReproductionPlan, job_count};
use crate::arguments::{Cli, Command, EvalCommand};
use crate::commands::{eval, train};
use crate::output::note;

/// Causes of failed runs (by key) and of failed measurements (by file).
#[derive(Default)]
pub(super) struct FailedJobs {
    pub(super) runs: BTreeMap<String, String>,
    pub(super) measurements: BTreeMap<PathBuf, String>,
}

/// Trains every run and makes every measurement of the plan whose files are missing. A failure is recorded, and the
/// other jobs continue.
///
/// # Errors
/// The program received a stop signal.
pub(super) fn execute(plan: &ReproductionPlan, stop: &AtomicBool, device: &Device) -> anyhow::Result<FailedJobs> {
    let (runs, measurements) = job_count(plan);
    let mut jobs = JobProgress { total: runs + measurements, at: 0, worked: 0, spent: Duration::ZERO };
    let mut failed = FailedJobs::default();
    for run in &plan.runs {
        let cause = run.init.as_ref().and_then(|init| failed.runs.get(init));
        let trained = match cause {
            Some(cause) => Err(anyhow::anyhow!("its initial model was not trained: {cause}")),
            None => run.config.as_ref().map_or(Ok(()), |config| {
                jobs.job(is_finished(config), &format!("train {}", run.key), || train_run(config, stop, device))
            }),
        };
        if stop.load(Ordering::Relaxed) {
            bail!("stopped; repeat the command to go on: finished runs are not trained again");
        }
        if let Err(error) = trained {
            let cause = format!("{error:#}");
            note(&format!("{} failed: {cause}", run.key));
            failed.runs.insert(run.key.clone(), cause);
            continue;
        }
        for measurement in &run.measurements {
            let what = format!("measure {} of {}", measurement.benchmark, run.key);
            let done = jobs.job(measurement.file.is_file(), &what, || measure(measurement, device));
            if stop.load(Ordering::Relaxed) {
                bail!("stopped; repeat the command to go on: finished runs are not trained again");
            }
            if let Err(error) = done {
                let cause = format!("{error:#}");
                note(&format!("{what} failed: {cause}"));
                failed.measurements.insert(measurement.file.clone(), cause);
            }
        }
    }
    Ok(failed)
}

/// Counts jobs and estimates the remaining time from those that were not cached.
struct JobProgress {
    total: usize,
    at: usize,
    worked: usize,
    spent: Duration,
}

impl JobProgress {
    /// Runs a job unless it is `done`.
    fn job(&mut self, done: bool, what: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.at += 1;
        if done {
            return Ok(());
        }
        let left = match self.worked {
            0 => String::new(),
            worked => {
                let minutes = self.spent.as_secs_f64() / worked as f64 * (self.total + 1 - self.at) as f64 / 60.0;
                format!(", at most {minutes:.0} min left")
            }
        };
        note(&format!("[{}/{}] {what}{left}", self.at, self.total));
        let started = Instant::now();
        let result = work();
        self.worked += 1;
        self.spent += started.elapsed();
        result
    }
}

/// True if the newest checkpoint of the run has all its steps.
fn is_finished(config: &Config) -> bool {
    let step = || -> Option<u64> {
        let state = latest_checkpoint(&config.train.out).ok()?.join(STATE);
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(state).ok()?).ok()?["step"].as_u64()
    };
    step().is_some_and(|step| step >= config.train.steps)
}

/// Trains a run, or resumes it from its newest checkpoint.
fn train_run(config: &Config, stop: &AtomicBool, device: &Device) -> anyhow::Result<()> {
    let out = &config.train.out;
    let mut trainer = if latest_checkpoint(out).is_ok() {
        Trainer::resume(out, train::open(&Config::of_run(out)?)?, device)?
    } else {
        // The folder may hold a run that was killed before its first checkpoint.
        train::clear_run(out, "the unfinished run")?;
        Trainer::new(config.clone(), train::open(config)?, device)?
    };
    trainer.keep_features(train::feature_store(trainer.config()));
    match train::watch(&mut trainer, stop, &mut |_| {})? {
        (Outcome::Finished, _) => Ok(()),
        (Outcome::Stopped, _) => bail!("stopped at step {}", trainer.step()),
    }
}

/// Makes a measurement and writes its file atomically.
fn measure(measurement: &PlannedMeasurement, device: &Device) -> anyhow::Result<()> {
    let words = std::iter::once("conifer").chain(measurement.words.iter().map(String::as_str));
    let Command::Eval(EvalCommand::Run(args)) = Cli::try_parse_from(words)?.command else {
        bail!("internal: `{}` is no evaluation", measurement.command());
    };
    let lines = eval::result_lines(&args, device)?;
    let file = &measurement.file;
    let place = || format!("writing {}", file.display());
    conifer_files::create_parent(file).with_context(place)?;
    conifer_files::write_whole(file, lines.as_bytes()).with_context(place)
}
