//! `conifer build grounding`: phrases of captions with boxes in their photos.

mod detector;
mod page;
mod scorer;

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use burn::tensor::Device;
use conifer_construct::grounding::{
    AbstractNouns, BoxProposer, ChunkTable, Chunker, DenseWindows, GroundingPipeline, GroundingSettings,
    GroundingStage, KeepThreshold, ProposalFile, RegionScorer, write_grounded,
};
use conifer_construct::pipeline::{StageReport, WorkFolder};
use conifer_data::PixelLimits;

use super::stage_tables::{stage_table, with_reuse};
use super::{check_out, work_folder_of};
use crate::arguments::{GroundingArgs, GroundingStageArg};
use crate::embedder::ModelEmbedder;
use crate::output::{columns, print, print_json};
use crate::request::open_source;
use crate::signal::stop_flag;

use detector::DetectorBoxes;
use page::GroundingReport;
use scorer::ModelScorer;

pub(super) fn run(args: &GroundingArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let ends = args.stage.is_none_or(|stage| stage == GroundingStageArg::Report);
    let work = match (&args.work, &args.out) {
        (Some(work), _) => work.clone(),
        (None, Some(out)) => work_folder_of(out),
        (None, None) => bail!("no folder for the stages' files: expected --work DIR or --out FILE"),
    };
    if let Some(out) = &args.out {
        ensure!(
            out.extension().is_some_and(|it| it == "jsonl"),
            "--out {}: unknown format; expected a .jsonl file",
            out.display()
        );
        check_out(out, args.overwrite || !ends)?;
    }
    ensure!(!ends || args.out.is_some(), "no file for the grounded phrases: expected --out FILE.jsonl");
    let stages = match args.stage {
        Some(GroundingStageArg::Report) => Vec::new(),
        Some(GroundingStageArg::Phrases) => vec![GroundingStage::Phrases],
        Some(GroundingStageArg::Boxes) => vec![GroundingStage::Boxes],
        Some(GroundingStageArg::Rescore) => vec![GroundingStage::Rescore],
        Some(GroundingStageArg::Keep) => vec![GroundingStage::Keep],
        None => GroundingStage::ALL.to_vec(),
    };
    let source = open_source(&args.data)?;
    let stop = stop_flag()?;
    let scorer = match stages.contains(&GroundingStage::Rescore) {
        true => Some(open_scorer(args, device)?),
        false => None,
    };
    let settings = GroundingSettings {
        work: work.clone(),
        seed: args.seed,
        keep_other_languages: args.keep_other_languages,
        expressions: !args.no_expressions,
        min_box: args.min_box,
        area_weight: args.area_weight,
        threshold: match args.min_similarity {
            Some(least) => KeepThreshold::Similarity(least),
            None => KeepThreshold::Probability(args.min_probability),
        },
        limits: PixelLimits::default(),
    };
    let chunker = match &args.chunks {
        Some(path) => Chunker::Table(ChunkTable::read(path)?),
        None => Chunker::Rules(Arc::default()),
    };
    let abstract_nouns = match &args.abstract_nouns {
        Some(path) => AbstractNouns::read(path)?,
        None => AbstractNouns::default(),
    };
    let proposer: Box<dyn BoxProposer> = match (&args.proposals, &args.detector.detector) {
        (Some(path), _) => Box::new(ProposalFile::read(path)?),
        // Only the boxes stage needs ONNX Runtime and the file.
        (None, Some(path)) if stages.contains(&GroundingStage::Boxes) => {
            Box::new(DetectorBoxes::open(path, &args.detector)?)
        }
        (None, _) => Box::new(DenseWindows),
    };
    let pipeline = GroundingPipeline::new(settings, chunker, abstract_nouns, proposer, scorer, &stop);
    let mut done: Vec<StageReport<GroundingStage>> = Vec::new();
    for stage in stages {
        done.push(pipeline.run(stage, source.as_ref())?);
    }
    let mut written = None;
    if let Some(out) = args.out.as_ref().filter(|_| ends) {
        let folder = WorkFolder::open(&work)?;
        // The report covers all finished stages in the folder, including those of earlier commands.
        done = with_reuse(folder.reports(), &done);
        let counts = write_grounded(&folder, &done, out).with_context(|| format!("--out {}", out.display()))?;
        written = Some((out, counts));
    }
    let report = GroundingReport::new(done, &work, ends)?;
    if ends {
        report.write(&work)?;
    }
    if as_json {
        return print_json(&report);
    }
    print(&columns(&stage_table(&report.stages)))?;
    if let Some(line) = report.calibration_line() {
        print(&(line + "\n"))?;
    }
    if let Some((out, (photos, phrases))) = written {
        print(&format!("wrote {}: {phrases} phrases in {photos} photos\n", out.display()))?;
    }
    Ok(())
}

fn open_scorer(args: &GroundingArgs, device: &Device) -> anyhow::Result<Box<dyn RegionScorer>> {
    let Some(checkpoint) = &args.checkpoint else {
        bail!("no model that compares phrases with boxes; expected --checkpoint MODEL");
    };
    let embedder = ModelEmbedder::open(checkpoint, device)?.with_batch(args.batch_size);
    Ok(Box::new(ModelScorer::new(embedder, args.crop)?))
}
