//! The seeds stage: a model makes hierarchies with three instructions, each checked against all tiers below it.

use super::captions::is_standard;
use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{CaptionRow, Cause, Pipeline, Stage, TIERS};
use crate::Result;
use crate::entailment::Entailment as _;
use crate::llm::{LlmApi, SeedPrompt};

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    let captions = work.rows::<CaptionRow>(Stage::Captions)?.take(pipeline.settings.seed_captions);
    pipeline.for_items(captions, None, Stage::Seeds, work, |row| {
        let tiers = match tiers(pipeline, &row.caption)? {
            Ok(tiers) => tiers,
            Err(cause) => return Ok(Err((cause, row.caption))),
        };
        Ok(Ok(row.with_tiers(tiers, Stage::Seeds, pipeline.maker(), vec![0; 3])))
    })
}

fn tiers(pipeline: &Pipeline<'_>, caption: &str) -> Result<std::result::Result<[String; TIERS], Cause>> {
    let Some(llm) = &pipeline.llm else { return Ok(Err(Cause::EndpointDown)) };
    let begun = llm.api() == LlmApi::Completions;
    let mut tiers: [String; TIERS] = Default::default();
    caption.clone_into(&mut tiers[TIERS - 1]);
    for (tier, prompt) in [(2, SeedPrompt::Shorten), (1, SeedPrompt::FillBlank), (0, SeedPrompt::GeneralConcept)] {
        let answer = match llm.answer(&prompt.prompt(&tiers[tier + 1]), 0)? {
            Ok(answer) => answer,
            Err(cause) => return Ok(Err(cause)),
        };
        let Some(text) = prompt.quoted(&answer, begun) else { return Ok(Err(Cause::NoQuotes)) };
        if !is_standard(&text) {
            return Ok(Err(Cause::Characters));
        }
        tiers[tier] = text;
        for below in tier + 1..TIERS {
            if !pipeline.judge.is_more_general(&tiers[tier], &tiers[below])? {
                return Ok(Err(Cause::NotEntailed));
            }
        }
    }
    Ok(Ok(tiers))
}
