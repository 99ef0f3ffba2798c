//! `conifer quickstart`: trains on the toy world from built-in encoders, evaluates the model and writes a report.

mod curves;
mod measure;
mod report;
mod set;
mod suggest;
mod unseen;
mod walks;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use conifer_data::Source;
use conifer_model::embed::Embedder;
use conifer_toy::ToySplit;
use conifer_train::config::Config;
use conifer_train::trainer::{Event, Outcome, Trainer};

use self::curves::TrainingCurves;
use self::measure::{TitledRecord, measure, table};
use self::suggest::{Suggestion, suggest};
use self::unseen::TestData;
use super::towers;
use super::train::watch;
use crate::arguments::QuickstartArgs;
use crate::embedder::ModelEmbedder;
use crate::invocation::program;
use crate::output::{columns, note, print, print_json};
use crate::signal;

const CONFIG: &str = include_str!("../../../../configs/quickstart.toml");

pub(crate) fn run(args: QuickstartArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let started = Instant::now();
    let split = if args.validation { ToySplit::Val } else { ToySplit::Test };
    if let Some(checkpoint) = &args.measure {
        return measure_only(checkpoint, split, as_json, device);
    }
    let mut config = Config::parse("quickstart.toml", CONFIG, &[])?;
    config.train.out = args.out.clone();
    if let Some(steps) = args.steps {
        config.train.steps = steps as u64;
        config.optim.warmup_steps = config.optim.warmup_steps.min(config.train.steps / 5);
    }
    config.check()?;
    prepare_folder(&args)?;
    config.model.init = Some(towers::write(&args.out)?);
    let world: Arc<dyn Source> = conifer_datasets::open(&config.source())?.into();
    let mut trainer = Trainer::new(config, world, device)?;
    let unseen = TestData::new(trainer.config().model.visual.reads().image_size as u32, split)?;

    note("measuring the model before training");
    let embedder = Embedder::new("towers", trainer.model(), trainer.manifest(), trainer.tokenizer().clone())?;
    let embedder = ModelEmbedder::new(embedder);
    let mut before = measure(&embedder, &unseen)?;
    let walked = set::of_walks(&embedder, &unseen)?;
    before.extend(walks::measure(&unseen, &walked)?);
    drop((embedder, walked));

    let (mut curves, mut peak) = (TrainingCurves::default(), None);
    let (outcome, _) = watch(&mut trainer, signal::stop_flag()?.as_ref(), &mut |event| {
        if let Event::Step(record) = event {
            peak = record.peak_rss_mb.or(peak);
        }
        curves.add(event);
    })?;
    if outcome == Outcome::Stopped {
        bail!("stopped; resume with: {} train --resume {}", program(), args.out.display());
    }
    drop(trainer);

    let embedder = ModelEmbedder::open(&args.out, device)?;
    note("measuring the trained model");
    let mut after = measure(&embedder, &unseen)?;
    let folder = args.out.join("embeddings");
    let set = set::embed(&embedder, &unseen, &folder)?;
    after.extend(walks::measure(&unseen, &set)?);
    let suggestion = suggest(&embedder, &unseen, &set)?;

    let seconds = started.elapsed().as_secs_f64();
    let page = args.out.join("report.html");
    let results = report::QuickstartResults {
        unseen: &unseen,
        set: &set,
        before: &before,
        after: &after,
        curves: &curves,
        suggestion: &suggestion,
        seconds,
    };
    report::report(&results)?.write(&page)?;
    if as_json {
        return print_json(&serde_json::json!({
            "seconds": seconds,
            "peak_rss_mb": peak,
            "untrained": records(&before),
            "trained": records(&after),
            "suggested": suggestion,
            "report": page,
        }));
    }
    let memory = peak.map_or_else(String::new, |it| format!(", at most {it:.0} MiB of memory in training"));
    print(&format!(
        "{}\nreport      {}\ncheckpoint  {}\nembeddings  {}\n\n{seconds:.0} s{memory}. {}\n",
        columns(&table(&before, &after)),
        page.display(),
        embedder.inner().name(),
        folder.display(),
        invitation(&suggestion, &args.out),
    ))
}

/// The search command that the output suggests.
fn invitation(suggestion: &Suggestion, out: &Path) -> String {
    let Suggestion { text, right, of, .. } = suggestion;
    let right = if right == of { "all right".to_owned() } else { format!("{right} right") };
    let (program, out) = (program(), out.display());
    format!("Try (first {of} hits: {right}):\n  {program} search {out} --text \"{text}\" --modality image")
}

/// Only evaluates a checkpoint (`--measure`).
fn measure_only(checkpoint: &Path, split: ToySplit, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let embedder = ModelEmbedder::open(checkpoint, device)?;
    let unseen = TestData::new(embedder.inner().manifest().model.visual.reads().image_size as u32, split)?;
    let mut measured = measure(&embedder, &unseen)?;
    let set = set::of_walks(&embedder, &unseen)?;
    measured.extend(walks::measure(&unseen, &set)?);
    let suggestion = suggest(&embedder, &unseen, &set)?;
    if as_json {
        return print_json(&serde_json::json!({ "measured": records(&measured), "suggested": suggestion }));
    }
    let summary = format!("\"{}\" finds {} of {} right\n", suggestion.text, suggestion.right, suggestion.of);
    print(&format!("{}\n{summary}", columns(&table(&[], &measured))))
}

fn records(measured: &[TitledRecord]) -> Vec<serde_json::Value> {
    let mut rows = Vec::new();
    for TitledRecord { title, record } in measured {
        let mut row = serde_json::json!(record.without_outcomes());
        row["title"] = serde_json::json!(title);
        rows.push(row);
    }
    rows
}

/// Prefixes of the names of files in a quickstart folder.
const QUICKSTART_FILES: [&str; 7] =
    ["config.toml", "metrics.jsonl", "checkpoints", "embeddings", "report.html", "events.out.tfevents", towers::FOLDER];

/// Checks that the folder is absent or empty. Deletes an earlier quickstart with `--fresh`, but never any other
/// content.
fn prepare_folder(args: &QuickstartArgs) -> anyhow::Result<()> {
    let out = &args.out;
    let place = || out.display().to_string();
    if !out.exists() {
        return Ok(());
    }
    let entries = std::fs::read_dir(out).with_context(place)?.collect::<Result<Vec<_>, _>>().with_context(place)?;
    if entries.is_empty() {
        return Ok(());
    }
    if !args.fresh {
        bail!("{} is not empty; --fresh replaces an earlier quickstart, --out names another folder", place());
    }
    let names: Vec<String> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if let Some(other) = names.iter().find(|name| !QUICKSTART_FILES.iter().any(|known| name.starts_with(known))) {
        bail!("{} holds `{other}`, which no quickstart wrote; --fresh deletes only files of a quickstart", place());
    }
    // If there are encoders but no checkpoints, the quickstart was interrupted before its first checkpoint.
    if !out.join("checkpoints").is_dir() && !out.join(towers::FOLDER).join("weights.safetensors").is_file() {
        bail!("{} holds no conifer run; --fresh deletes only runs", place());
    }
    std::fs::remove_dir_all(out).with_context(place)
}
