mod compare;
mod curves;
mod out;
mod suite;

use std::path::PathBuf;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::Source;
use conifer_data::transform::EvalCrop;
use conifer_eval::benchmarks::{find, prompts};
use conifer_eval::{
    Benchmark, Context, EmbeddingModel, Error, Options, PrecisionRecallCurve, Record, Score, TreeFile, measure,
    settings, table,
};
use serde_json::{Value, json};

use crate::arguments::{DataArgs, EvalCommand, EvalRunArgs, ScoreArg};
use crate::cache::{CachedEmbedder, feature_cache_in};
use crate::embedder::ModelEmbedder;
use crate::output::{columns, note, print, print_json};
use crate::request::{open_source, open_source_of};
use crate::set_embedder::SetEmbedder;
use crate::triviality::warn_if_trivial;

use curves::CurveFolder;
use out::ResultLog;

pub(crate) fn run(command: EvalCommand, as_json: bool, device: &Device) -> anyhow::Result<()> {
    match command {
        EvalCommand::Run(args) => benchmarks(*args, as_json, device),
        EvalCommand::Suite(args) => suite::run(&args, as_json, device),
        EvalCommand::Compare(args) => compare::run(&args.first, &args.second, args.seed, as_json),
    }
}

/// Runs the chosen benchmarks on one data set.
fn benchmarks(args: EvalRunArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let chosen = ChosenBenchmarks::of(&args)?;
    let curves = args.curves.as_deref().map(|folder| CurveFolder::create(folder, &chosen.0)).transpose()?;
    let data = EvaluationData::open(&args)?;
    // Open the output before the evaluation, so that an unwritable path fails early.
    let log = args.out.as_deref().map(ResultLog::open).transpose()?;
    let Measured { records, lines, failed, drawn } = measure_all(&args, &chosen, &data, device)?;
    if !records.is_empty() || failed.is_empty() {
        // Print the results even if the file cannot be written, so that the work is not lost.
        let saved = log.map_or(Ok(()), |log| log.append(&lines));
        if as_json {
            print_json(&records.iter().map(Record::without_outcomes).collect::<Vec<_>>())?;
        } else {
            print(&columns(&table(&records)))?;
        }
        warn_if_trivial(&records);
        let written = match &curves {
            Some(folder) if !drawn.is_empty() => folder.write(&drawn),
            _ => Ok(Vec::new()),
        };
        if saved.is_err() {
            failed.iter().for_each(|(_, error)| note(&error.to_string()));
        }
        saved?;
        written?.iter().for_each(|file| note(&file.display().to_string()));
    }
    verdict(failed, chosen.0.len())
}

/// Runs the chosen benchmarks and returns the lines of a result file.
///
/// # Errors
/// An argument is invalid, the data or the model cannot be opened, or a benchmark fails.
pub(crate) fn result_lines(args: &EvalRunArgs, device: &Device) -> anyhow::Result<String> {
    let chosen = ChosenBenchmarks::of(args)?;
    let measured = measure_all(args, &chosen, &EvaluationData::open(args)?, device)?;
    verdict(measured.failed, chosen.0.len())?;
    Ok(measured.lines)
}

/// The chosen benchmarks of a command, after a check that its options apply to them.
struct ChosenBenchmarks(Vec<&'static dyn Benchmark>);

impl ChosenBenchmarks {
    fn of(args: &EvalRunArgs) -> anyhow::Result<Self> {
        let right = (0.0..=std::f64::consts::PI).contains(&args.gate);
        anyhow::ensure!(right, "--gate is {}; expected an angle in radians, 0 to 3.1416", args.gate);
        let benchmarks = args.benchmarks.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
        if let Some(candidates) = &args.candidates {
            anyhow::ensure!(
                benchmarks.iter().any(|it| it.name() == "hierarcaps"),
                "--candidates is {candidates}, but no chosen benchmark reads it; expected --benchmark hierarcaps"
            );
        }
        if let Some(queries) = args.queries {
            let names = || benchmarks.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
            anyhow::ensure!(
                benchmarks.iter().any(|it| it.draws_queries()),
                "--queries {queries}: {} draws no queries; expected a benchmark that does, such as part_retrieval",
                names()
            );
            anyhow::ensure!(queries > 0, "--queries is 0; expected at least 1");
        }
        Ok(Self(benchmarks))
    }
}

/// The opened data of an evaluation.
struct EvaluationData {
    source: Box<dyn Source>,
    tree: Option<TreeFile>,
    chain_candidates: Option<Box<dyn Source>>,
    all_splits: Option<Box<dyn Source>>,
}

impl EvaluationData {
    fn open(args: &EvalRunArgs) -> anyhow::Result<Self> {
        let data = DataArgs {
            data: args.data.clone(),
            split: args.split.clone(),
            data_options: args.data_options.clone(),
            roots: args.roots.clone(),
        };
        let tree = args.tree.as_deref().map(TreeFile::read).transpose()?;
        let source = open_source(&data)?;
        let chain_candidates = args.candidates.as_ref().map(|it| open_candidates(it, &args.roots)).transpose()?;
        let all_splits = match args.all_classes {
            true => Some(open_source(&DataArgs { split: None, ..data })?),
            false => None,
        };
        let tree = tree.or_else(|| source.class_tree().as_ref().map(TreeFile::of_ranks));
        Ok(Self { source, tree, chain_candidates, all_splits })
    }
}

/// Results of some benchmarks.
struct Measured {
    records: Vec<Record>,
    /// The records as lines of a result file.
    lines: String,
    failed: Vec<(&'static dyn Benchmark, Error)>,
    drawn: Vec<PrecisionRecallCurve>,
}

fn measure_all(
    args: &EvalRunArgs,
    chosen: &ChosenBenchmarks,
    data: &EvaluationData,
    device: &Device,
) -> anyhow::Result<Measured> {
    let EvaluationData { source, tree, chain_candidates, all_splits } = data;
    let EvaluatedModel { embedder, name, weights, crop } = EvaluatedModel::open(args, source.as_ref(), device)?;
    let options = Options {
        prompts: args.prompts.clone(),
        templates: templates(&args.prompts)?,
        score: match args.score {
            ScoreArg::Similarity => Score::Similarity,
            ScoreArg::Inner => Score::Inner,
        },
        crop,
        gate: args.gate,
        steps: args.steps.clone(),
        queries: args.queries,
        partial: args.partial,
        seed: args.seed,
    };
    let context = Context::new(embedder.as_ref(), source.as_ref(), tree.as_ref().map(|it| &it.graph), &options)
        .with_candidates(all_splits.as_deref())
        .with_chain_candidates(chain_candidates.as_deref());
    let mut all = Measured { records: Vec::new(), lines: String::new(), failed: Vec::new(), drawn: Vec::new() };
    for &benchmark in &chosen.0 {
        match measure(benchmark, &context) {
            Ok(measured) => {
                let settings = settings(benchmark, &options, tree.as_ref(), args.root_text.as_deref());
                let candidates = chain_candidates.as_deref();
                let by = produced_by(args, (&name, &weights), source.as_ref(), candidates, &settings);
                for record in &measured {
                    let mut line = serde_json::to_value(record)?;
                    line["produced_by"] = by.clone();
                    all.lines += &format!("{line}\n");
                }
                all.records.extend(measured);
                all.drawn.extend(context.take_curves());
            }
            Err(error) => all.failed.push((benchmark, error)),
        }
    }
    Ok(all)
}

/// The model of an evaluation, or a set with its points.
struct EvaluatedModel {
    embedder: Box<dyn EmbeddingModel>,
    /// The path that was read.
    name: String,
    /// sha256 of the weights; empty if unknown.
    weights: String,
    crop: EvalCrop,
}

impl EvaluatedModel {
    fn open(args: &EvalRunArgs, source: &dyn Source, device: &Device) -> anyhow::Result<Self> {
        let root_text = args.root_text.as_deref();
        if SetEmbedder::is_set(&args.checkpoint) {
            let set = SetEmbedder::open(&args.checkpoint, root_text)?;
            let (name, weights) = (set.name().to_owned(), set.weights().to_owned());
            let crop = args.crop.map_or(EvalCrop::Center, EvalCrop::from);
            return Ok(Self { embedder: Box::new(set), name, weights, crop });
        }
        let model = ModelEmbedder::open(&args.checkpoint, device)?.with_root_text(root_text);
        let model = model.with_text_vectors(source)?;
        let cache = args.cache.folder();
        let model = model.with_features(&feature_cache_in(cache.clone()));
        let (name, weights) = (model.inner().name().to_owned(), model.inner().fingerprint().to_owned());
        let crop = model.crop(args.crop);
        Ok(Self { embedder: Box::new(CachedEmbedder::new(model, cache.as_deref())), name, weights, crop })
    }
}

/// Opens the data set of `--candidates`.
fn open_candidates(data: &str, roots: &[PathBuf]) -> anyhow::Result<Box<dyn Source>> {
    let data = DataArgs { data: data.to_owned(), split: None, data_options: Vec::new(), roots: roots.to_vec() };
    open_source_of("--candidates", &data)
}

/// An error that lists the failed benchmarks, if any.
fn verdict(mut failed: Vec<(&dyn Benchmark, Error)>, count: usize) -> anyhow::Result<()> {
    if count == 1 {
        return failed.pop().map_or(Ok(()), |(_, error)| Err(error.into()));
    }
    let said = failed.iter().map(|(benchmark, error)| match error.to_string() {
        said if said.starts_with(benchmark.name()) => said,
        said => format!("{}: {said}", benchmark.name()),
    });
    let said = said.collect::<Vec<_>>().join("; ");
    anyhow::ensure!(failed.is_empty(), "{} of {count} benchmarks failed: {said}", failed.len());
    Ok(())
}

/// The prompt templates of a named set or of a file.
pub(crate) fn templates(name: &str) -> anyhow::Result<Vec<String>> {
    if let Some((_, set)) = prompts::SETS.iter().find(|(known, _)| *known == name) {
        return Ok(set.iter().map(|&it| it.into()).collect());
    }
    if let Some((family, data_set)) = name.split_once(':')
        && let Some(&family) = prompts::PromptFamily::ALL.iter().find(|it| it.name() == family)
    {
        let templates = prompts::for_data_set(family, data_set).with_context(|| {
            let known = conifer_datasets::DATA_SETS.iter().map(|set| set.name);
            let known: Vec<_> = known.filter(|set| prompts::for_data_set(family, set).is_some()).collect();
            format!(
                "--prompts {name}: no prompts exist for data set `{data_set}`; expected one of {}",
                known.join(", ")
            )
        })?;
        return Ok(templates.iter().map(|&it| it.into()).collect());
    }
    let text = std::fs::read_to_string(name).with_context(|| {
        let known = prompts::SETS.iter().map(|(known, _)| (*known).to_owned());
        let families = prompts::PromptFamily::ALL.into_iter().map(|family| format!("{}:SET", family.name()));
        let known: Vec<_> = known.chain(families).collect();
        format!("--prompts {name}: unknown name; expected one of {}, or a readable file", known.join(", "))
    })?;
    let templates: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    anyhow::ensure!(
        !templates.is_empty(),
        "--prompts {name}: no template in this file; expected one per line, with {{}} in place of the class"
    );
    Ok(templates)
}

/// The provenance of a record: model (its name and the sha256 of its weights), data, settings and program version.
fn produced_by(
    args: &EvalRunArgs,
    (name, weights): (&str, &str),
    source: &dyn Source,
    candidates: Option<&dyn Source>,
    settings: &Value,
) -> Value {
    json!({
        "conifer": env!("CARGO_PKG_VERSION"),
        "checkpoint": name,
        "root_text": args.root_text,
        "weights_sha256": weights,
        "data": args.data,
        "split": args.split,
        "all_classes": args.all_classes,
        "data_sha256": source.fingerprint(),
        "candidates": args.candidates,
        "candidates_sha256": candidates.map(|it| it.fingerprint()),
        "settings": settings,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn invalid_templates_are_rejected() {
        let said = |name: &str| format!("{:#}", templates(name).unwrap_err());
        assert_eq!(templates("photo").unwrap().len(), 1);
        assert_eq!(templates("openai:eurosat").unwrap().len(), 3);
        let message = said("openai:eurosatt");
        assert!(
            message.contains("`eurosatt`") && message.contains("eurosat,") && message.contains("imagenet"),
            "{message}"
        );
        let message = said("nope");
        assert!(
            message.contains("imagenet7") && message.contains("openai:SET") && message.contains("meru:SET"),
            "{message}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.txt");
        std::fs::write(&path, "\n \n").unwrap();
        let message = said(path.to_str().unwrap());
        assert!(message.contains("empty.txt") && message.contains("no template"), "{message}");
    }
}
