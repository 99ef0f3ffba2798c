use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use conifer_data::hierarchy::ClassGraph;
use conifer_data::printable::lines;
use conifer_data::{Broken, ImageRef, PixelLimits, Sample, Source};
use conifer_eval::benchmarks::find;
use conifer_eval::{Benchmark, Context, Options, Record, RequiredInput};
use conifer_model::checkpoint::run_folder::{CONFIG, latest_checkpoint};
use conifer_model::embed::Embedder;
use conifer_model::features::{FeatureStore, StorePurpose};
use conifer_train::config::Config;
use conifer_train::ranks::Ranks;
use conifer_train::trainer::{Event, ModelSnapshot, Observer, Outcome, Trainer};
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::json;

use super::eval::templates;
use crate::arguments::TrainArgs;
use crate::cache;
use crate::embedder::ModelEmbedder;
use crate::invocation::program;
use crate::job::Job;
use crate::output::{note, print, print_json};
use crate::progress::{self, FeatureBars};
use crate::signal;
use crate::triviality::warn_if_trivial;

pub(crate) fn run(args: TrainArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let job = Job::join("training")?;
    let result = train(&args, as_json, device, &job.ranks());
    job.finish(result)
}

fn train(args: &TrainArgs, as_json: bool, device: &Device, ranks: &Ranks) -> anyhow::Result<()> {
    if let (None, Some(path), None, true) = (&args.resume, &args.config, &args.out, args.smoke) {
        ranks.lead(|| {
            let out = smoke_folder(&Config::load(path, &args.set)?.smoke()?.train.out);
            clear_run(&out, "the earlier smoke run")
        })?;
    }
    let mut trainer = ranks.agree(set_up(args, device))?;
    trainer.join_ranks(ranks.clone());
    trainer.keep_features(feature_store(trainer.config()));
    let mut peak = None;
    let mut remember = |event: &Event<'_>| {
        if let Event::Step(record) = event {
            peak = record.peak_rss_mb.or(peak);
        }
    };
    let stop = ranks.agree(signal::stop_flag())?;
    if ranks.leads() && ranks.size() > 1 {
        announce(&trainer)?;
    }
    let (outcome, last_loss) = watch(&mut trainer, stop.as_ref(), &mut remember)?;
    if !ranks.leads() {
        return Ok(());
    }
    report_broken(&trainer);
    let out = &trainer.config().train.out;
    if as_json {
        let stopped = outcome == Outcome::Stopped;
        return print_json(&json!({
            "out": out, "step": trainer.step(), "loss": last_loss, "stopped": stopped, "peak_rss_mb": peak,
        }));
    }
    match outcome {
        Outcome::Finished if last_loss.is_nan() => {
            print(&format!("nothing to do: all {} steps of {} are done already\n", trainer.step(), out.display()))
        }
        Outcome::Finished => {
            let memory = peak.map_or_else(String::new, |it| format!(", at most {it:.0} MiB of memory"));
            print(&format!("finished: {} steps, loss {last_loss:.4}{memory}, {}\n", trainer.step(), out.display()))
        }
        Outcome::Stopped => print(&format!(
            "stopped at step {}; resume with: {} train --resume {}\n",
            trainer.step(),
            program(),
            out.display()
        )),
    }
}

/// The run that the arguments describe.
fn set_up(args: &TrainArgs, device: &Device) -> anyhow::Result<Trainer> {
    match (&args.resume, &args.config) {
        (Some(run), _) => {
            let config = Config::load(&latest_checkpoint(run)?.join(CONFIG), &[])?;
            Ok(Trainer::resume(run, open(&config)?, device)?)
        }
        (None, Some(path)) => {
            let mut config = Config::load(path, &args.set)?;
            if args.smoke {
                config = config.smoke()?;
                config.train.out = smoke_folder(&config.train.out);
            }
            if let Some(out) = &args.out {
                config.train.out = out.clone();
            }
            let source = open(&config)?;
            Ok(Trainer::new(config, source, device)?)
        }
        (None, None) => bail!("no experiment given; expected a config file, or --resume RUN"),
    }
}

/// Prints the number of ranks, and the command that resumes the run if a rank is lost. MPI then ends all ranks, so none
/// can print the command later.
fn announce(trainer: &Trainer) -> anyhow::Result<()> {
    let ranks = trainer.ranks().size();
    let resume = format!("mpirun -n {ranks} {} train --resume {}", program(), trainer.config().train.out.display());
    note(&format!("{ranks} ranks train together. If one is lost, all end; go on, with any number of ranks: {resume}"));
    signal::on_termination(format!(
        "SIGTERM: the run saves and ends after this step. If it is killed, go on with: {resume}"
    ))
}

/// Default folder of `--smoke`, beside the folder of the real run.
fn smoke_folder(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!("{name}-smoke"))
}

/// Deletes an earlier run in this folder. `what` names it in messages.
///
/// # Errors
/// The folder holds a file that no run writes; then nothing is deleted. Or the operating system reports an error.
pub(crate) fn clear_run(out: &Path, what: &str) -> anyhow::Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let place = || format!("replacing {what} {}", out.display());
    for entry in fs::read_dir(out).with_context(place)? {
        let name = entry.with_context(place)?.file_name().to_string_lossy().into_owned();
        let known = RUN_FILES.iter().any(|it| *it == name) || name.starts_with("events.out.tfevents");
        if !known {
            bail!(
                "{}: it holds `{name}`; expected only files that a run writes; move it away, or choose another folder with --out",
                place()
            );
        }
    }
    fs::remove_dir_all(out).with_context(place)
}

/// Files in a run folder, except the TensorBoard events.
const RUN_FILES: [&str; 3] = [CONFIG, "metrics.jsonl", "checkpoints"];

/// The feature store in the folder that the config names, or else in the user's cache folder.
pub fn feature_store(config: &Config) -> FeatureStore {
    match &config.train.feature_store {
        Some(folder) => FeatureStore { purpose: StorePurpose::Named, ..FeatureStore::cache(Some(folder.clone())) },
        None => cache::feature_cache(),
    }
}

pub(crate) fn open(config: &Config) -> anyhow::Result<Arc<dyn Source>> {
    Ok(conifer_datasets::open(&config.source())?.into())
}

/// Runs the trainer with a progress bar and the config's evaluations, and passes every event to `also`. Returns the
/// outcome and the last loss.
///
/// # Errors
/// The data of `[eval]` cannot be opened, a step fails, or a file cannot be written.
pub fn watch(
    trainer: &mut Trainer,
    stop: &AtomicBool,
    also: &mut dyn FnMut(&Event<'_>),
) -> anyhow::Result<(Outcome, f64)> {
    let evaluation = trainer.ranks().agree(Evaluation::open(trainer.config(), trainer.ranks()))?;
    let mut observer = TrainingObserver {
        bar: None,
        features: FeatureBars::default(),
        last_loss: f64::NAN,
        evaluation,
        measured: Vec::new(),
        also,
    };
    let outcome = trainer.run(stop, &mut observer);
    let (measured, last_loss) = (observer.measured, observer.last_loss);
    if trainer.ranks().leads() {
        warn_if_trivial(&measured);
    }
    let out = trainer.config().train.out.clone();
    outcome.map(|it| (it, last_loss)).with_context(|| failure_message(&out))
}

struct TrainingObserver<'a> {
    bar: Option<ProgressBar>,
    /// Progress bars for collecting the features of frozen encoders.
    features: FeatureBars,
    last_loss: f64,
    evaluation: Option<Evaluation>,
    /// Records of the last evaluation.
    measured: Vec<Record>,
    also: &'a mut dyn FnMut(&Event<'_>),
}

impl Observer for TrainingObserver<'_> {
    fn on(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { step, steps, parameters, samples, batches_per_epoch } => {
                let it = progress::bar("training", usize::try_from(*steps).unwrap_or(usize::MAX));
                it.reset_eta();
                it.set_position(*step);
                say(
                    &it,
                    &format!(
                        "{parameters} parameters, {samples} samples, {batches_per_epoch} batches per epoch, from step {step}"
                    ),
                );
                self.bar = Some(it);
            }
            Event::Features { stage, done, total } => self.features.set(*stage, *done, *total),
            Event::Step(record) => {
                self.last_loss = record.loss;
                if let Some(bar) = &self.bar {
                    bar.set_position(record.step);
                    bar.set_message(format!("loss {:.3}  lr {:.1e}", record.loss, record.lr));
                }
                if self.bar.as_ref().is_none_or(ProgressBar::is_hidden) && record.step.is_multiple_of(50) {
                    note(&format!(
                        "step {} loss {:.4} lr {:.2e} {:.1} samples/s",
                        record.step, record.loss, record.lr, record.samples_per_second
                    ));
                }
            }
            Event::Checkpoint { step, path } => {
                if let Some(bar) = &self.bar {
                    say(bar, &format!("step {step}: saved {}", path.display()));
                }
            }
            Event::Finished { .. } | Event::Stopped { .. } => {
                if let Some(bar) = &self.bar {
                    bar.finish_and_clear();
                }
            }
        }
        (self.also)(event);
    }

    fn evaluate(&mut self, now: &ModelSnapshot<'_>) -> Result<Vec<(String, f64)>, Box<dyn Error + Send + Sync>> {
        let Some(evaluation) = &self.evaluation else { return Ok(Vec::new()) };
        self.measured = evaluation.measure(now)?;
        let name = |it: &Record| format!("{}/{}/{}", it.benchmark, it.split, it.metric);
        let found: Vec<_> = self.measured.iter().map(|it| (name(it), it.value)).collect();
        if let Some(bar) = &self.bar {
            let words: Vec<_> = found.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
            say(bar, &format!("step {}: {}", now.step, words.join("  ")));
        }
        Ok(found)
    }
}

/// The held-out data and benchmarks of `[eval]`. They are opened before the first step, so that errors show
/// immediately.
struct Evaluation {
    source: Box<dyn Source>,
    classes: Option<ClassGraph>,
    benchmarks: Vec<&'static dyn Benchmark>,
    options: Options,
    features: FeatureStore,
    ranks: Ranks,
}

impl Evaluation {
    fn open(config: &Config, ranks: &Ranks) -> anyhow::Result<Option<Self>> {
        if config.eval.every == 0 {
            return Ok(None);
        }
        let names = &config.eval.benchmarks;
        let benchmarks =
            names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>().context("eval.benchmarks")?;
        let source = conifer_datasets::open(&config.eval_source()).context("the data of [eval]")?;
        let classes = config.eval.tree.as_deref().map(ClassGraph::read_edges).transpose().context("eval.tree")?;
        let classes = classes.or_else(|| source.class_tree().as_ref().map(ClassGraph::from));
        if let Some(it) =
            benchmarks.iter().find(|it| classes.is_none() && it.needs().contains(&RequiredInput::ClassTree))
        {
            bail!(
                "eval.benchmarks contains {}, which needs a class tree, but the data has no ranks; expected eval.tree, a file of `parent child` edges",
                it.name()
            );
        }
        check(source.as_ref(), ranks).context("the data of [eval]")?;
        let templates = templates(&config.eval.prompts).context("eval.prompts")?;
        let options = Options {
            prompts: config.eval.prompts.clone(),
            templates,
            crop: config.eval.crop.or(config.model.crop).unwrap_or_default(),
            seed: config.seed,
            ..Options::default()
        };
        let features = FeatureStore { purpose: StorePurpose::Cache, ..feature_store(config) };
        Ok(Some(Self { source, classes, benchmarks, options, features, ranks: ranks.clone() }))
    }

    fn measure(&self, now: &ModelSnapshot<'_>) -> anyhow::Result<Vec<Record>> {
        let name = format!("step {}", now.step);
        let embedder = Embedder::new(&name, now.model, now.manifest.clone(), now.tokenizer.clone())?;
        let embedder = ModelEmbedder::new(embedder).with_features(&self.features).on_ranks(self.ranks.clone());
        let embedder = embedder.with_text_vectors(self.source.as_ref())?;
        let context = Context::new(&embedder, self.source.as_ref(), self.classes.as_ref(), &self.options);
        let mut found = Vec::new();
        for benchmark in &self.benchmarks {
            found.extend(conifer_eval::measure(*benchmark, &context)?);
        }
        Ok(found)
    }
}

/// Checks that every sample can be read. Each rank reads a part of the samples. A benchmark fails on a broken sample,
/// which would end a run after hours of training.
fn check(source: &dyn Source, ranks: &Ranks) -> anyhow::Result<()> {
    let own = ranks.share(source.len());
    let bar = progress::bar("checking", own.len());
    let broken: Vec<_> = own
        .into_par_iter()
        .filter_map(|index| {
            bar.inc(1);
            source.get(index).and_then(|sample| readable(&sample)).err()
        })
        .collect();
    bar.finish_and_clear();
    match broken.first() {
        None => Ok(()),
        Some(first) => bail!("{} of {} samples are broken; expected none. First: {first}", broken.len(), source.len()),
    }
}

/// Decodes the photo of a sample, if it is not a vector.
fn readable(sample: &Sample) -> Result<(), Broken> {
    match sample.image {
        Some(ImageRef::Vector(_)) => Ok(()),
        _ => sample.photo(&PixelLimits::default()).map(drop),
    }
}

/// Prints a line above the progress bar, or to stderr if the bar is hidden.
fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { note(line) } else { bar.println(lines(line)) }
}

/// The message for a failed run: the checkpoint to resume from, if there is one.
fn failure_message(out: &Path) -> String {
    match latest_checkpoint(out) {
        Ok(path) => format!(
            "training failed; the checkpoint {} is complete, resume from it with: conifer train --resume {}",
            path.display(),
            out.display()
        ),
        Err(_) => "training failed before the first checkpoint".into(),
    }
}

/// Prints the number of broken samples by cause, and of samples that lack a rank.
fn report_broken(trainer: &Trainer) {
    let report = trainer.broken();
    if report.broken() > 0 {
        note(&report.to_string());
    }
    if !report.missing_ranks.is_empty() {
        let ranks = report.missing_ranks.iter().map(|(rank, count)| format!("{} {count}", rank.name));
        note(&format!("samples without a rank, used with shorter chains: {}", ranks.collect::<Vec<_>>().join(", ")));
    }
}
