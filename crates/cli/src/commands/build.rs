//! `conifer build`: makes training data.

mod distiller;
mod grounding;
mod judge;
mod report;
mod stage_tables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use burn::tensor::Device;
use conifer_construct::distil::{Distiller, TierGenerator};
use conifer_construct::llm::{LlmApi, LlmClient, LlmSettings};
use conifer_construct::pipeline::{
    OutputFormat, Pipeline, PipelineModels, PipelineSettings, Stage, WorkFolder, read_review, read_seeds, write_output,
};
use conifer_construct::{Hypernyms, WordNetNouns};

use crate::arguments::{BuildCommand, BuildStageArg, HierarchiesArgs, LlmApiArg};
use crate::output::{columns, note, print, print_json};
use crate::request::open_source;
use crate::signal::stop_flag;

use distiller::{DistilSettings, T5Distiller, T5TierGenerator};
use report::BuildReport;
use stage_tables::{stage_table, with_reuse};

pub(crate) fn run(command: BuildCommand, as_json: bool, device: &Device) -> anyhow::Result<()> {
    match command {
        BuildCommand::Hierarchies(args) => hierarchies(&args, as_json, device),
        BuildCommand::Grounding(args) => grounding::run(&args, as_json, device),
    }
}

fn hierarchies(args: &HierarchiesArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let outputs = outputs(args)?;
    let work = match (&args.work, outputs.first()) {
        (Some(work), _) => work.clone(),
        (None, Some((out, _))) => work_folder_of(out),
        (None, None) => bail!("no folder for the stages' files: expected --work DIR or --out FILE"),
    };
    let source = open_source(&args.data)?;
    let wordnet = args.wordnet.as_deref().map(WordNetNouns::read).transpose()?;
    let models = models(args, &work, device)?;
    let settings = PipelineSettings {
        work: work.clone(),
        seed: args.seed,
        min_words: args.min_words,
        hypernym_steps: usize::from(args.hypernym_steps),
        keep_other_languages: args.keep_other_languages,
        seed_hierarchies: args.seeds.as_deref().map(read_seeds).transpose()?,
        seed_captions: args.seed_captions,
        grow_count: args.grow,
        candidates: args.candidates,
        review: args.review.as_deref().map(read_review).transpose()?.unwrap_or_default(),
    };
    let stop = stop_flag()?;
    let pipeline = Pipeline::new(settings, Hypernyms::new(wordnet), models, &stop);
    if args.dry_run {
        let captions = pipeline.run(Stage::Captions, source.as_ref())?;
        return print_estimate(&pipeline, captions.left, as_json);
    }
    let stages = match args.stage {
        Some(BuildStageArg::Report) => Vec::new(),
        Some(stage) => vec![stage_of(stage)],
        None => pipeline.stages(),
    };
    let mut done = Vec::new();
    for stage in stages {
        done.push(pipeline.run(stage, source.as_ref())?);
    }
    let mut written = Vec::new();
    let ends = args.stage.is_none_or(|stage| stage == BuildStageArg::Report);
    if ends {
        let folder = WorkFolder::open(&work)?;
        for (path, format) in &outputs {
            let count =
                write_output(&folder, path, *format, args.seed).with_context(|| format!("--out {}", path.display()))?;
            written.push((path.clone(), count));
        }
        // The report covers all finished stages in the folder, including those of earlier commands.
        let order = pipeline.stages();
        let finished = folder.reports().into_iter().filter(|report| order.contains(&report.stage)).collect();
        done = with_reuse(finished, &done);
    }
    let report = BuildReport::new(done, &pipeline, ends)?;
    if ends {
        report.write(&work)?;
    }
    if as_json {
        print_json(&report)?;
    } else {
        print(&columns(&stage_table(&report.stages)))?;
        for (path, count) in &written {
            print(&format!("wrote {}: {count} hierarchies\n", path.display()))?;
        }
    }
    let without_answer: u64 = report.stages.iter().map(|it| it.without_answer()).sum();
    ensure!(
        without_answer == 0,
        "{without_answer} texts have no answer of the endpoint (see report.json in {}); repeat the command to ask for them",
        work.display()
    );
    Ok(())
}

fn print_estimate(pipeline: &Pipeline<'_>, captions: u64, as_json: bool) -> anyhow::Result<()> {
    let estimate = pipeline.estimate(captions);
    if as_json {
        return print_json(&estimate);
    }
    let mut rows =
        vec![["stage", "fewest prompts", "most prompts", "tokens of the fewest"].map(str::to_owned).to_vec()];
    rows.extend(
        estimate.iter().map(|it| {
            vec![it.stage.name().to_owned(), it.fewest.to_string(), it.most.to_string(), it.tokens.to_string()]
        }),
    );
    print(&columns(&rows))?;
    note(&format!("--dry-run: {captions} captions; nothing was asked"));
    Ok(())
}

/// The files of --out with their formats.
fn outputs(args: &HierarchiesArgs) -> anyhow::Result<Vec<(PathBuf, OutputFormat)>> {
    let needed = !args.dry_run && args.stage.is_none_or(|stage| stage == BuildStageArg::Report);
    ensure!(
        !needed || !args.out.is_empty(),
        "no file for the hierarchies: expected --out FILE.jsonl or --out FILE.csv"
    );
    let of = |path: &PathBuf| {
        let format = match path.extension().and_then(|it| it.to_str()) {
            Some("jsonl") => OutputFormat::Jsonl,
            Some("csv") => OutputFormat::Csv,
            _ => bail!("--out {}: unknown format; expected a .jsonl or .csv file", path.display()),
        };
        check_out(path, args.overwrite || !needed)?;
        Ok((path.clone(), format))
    };
    args.out.iter().map(of).collect()
}

/// Checks that --out can be written.
fn check_out(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    ensure!(!path.is_dir(), "--out {} is a folder; expected a file", path.display());
    ensure!(
        overwrite || !path.exists(),
        "--out {} exists; name another file, or replace it with --overwrite",
        path.display()
    );
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    ensure!(
        folder.is_none_or(Path::is_dir),
        "--out {}: its folder does not exist; expected an existing folder",
        path.display()
    );
    Ok(())
}

fn work_folder_of(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".work");
    out.with_file_name(name)
}

fn models(args: &HierarchiesArgs, work: &Path, device: &Device) -> anyhow::Result<PipelineModels> {
    let settings =
        DistilSettings { epochs: args.distil_epochs as usize, batch: args.distil_batch as usize, lr: args.distil_lr };
    let distiller = match &args.distil {
        Some(model) => Some(Box::new(T5Distiller::new(model, settings, device)?) as Box<dyn Distiller>),
        None => None,
    };
    let generator = match &args.distilled {
        Some(folder) => {
            let name = folder.display().to_string();
            let opened = T5TierGenerator::open(folder, name, device);
            let opened = opened.with_context(|| format!("--distilled {}", folder.display()))?;
            Some(Box::new(opened) as Box<dyn TierGenerator>)
        }
        None => None,
    };
    Ok(PipelineModels { llm: llm(args, work)?, distiller, generator, judge: judge::open(&args.judge, device)? })
}

fn llm(args: &HierarchiesArgs, work: &Path) -> anyhow::Result<Option<LlmClient>> {
    let (Some(url), Some(model)) = (&args.llm, &args.llm_model) else { return Ok(None) };
    let key = args.llm_key_env.as_deref().map(|name| {
        std::env::var(name).with_context(|| {
            format!("--llm-key-env {name}: expected an environment variable with the key of the endpoint")
        })
    });
    let settings = LlmSettings {
        url: url.clone(),
        model: model.clone(),
        key: key.transpose()?,
        api: match args.llm_api {
            LlmApiArg::Completions => LlmApi::Completions,
            LlmApiArg::Chat => LlmApi::Chat,
        },
        concurrency: usize::from(args.llm_concurrency),
        timeout: Duration::from_secs(u64::from(args.llm_timeout)),
        retries: args.llm_retries,
        per_minute: args.llm_per_minute,
        max_tokens: args.llm_max_tokens,
        seed: args.seed,
    };
    Ok(Some(LlmClient::open(settings, &work.join("answers.jsonl"))?))
}

fn stage_of(stage: BuildStageArg) -> Stage {
    match stage {
        BuildStageArg::Captions => Stage::Captions,
        BuildStageArg::Seeds => Stage::Seeds,
        BuildStageArg::Grow => Stage::Grow,
        BuildStageArg::Distil => Stage::Distil,
        BuildStageArg::Complete => Stage::Complete,
        BuildStageArg::Negatives | BuildStageArg::Report => Stage::Negatives,
    }
}
