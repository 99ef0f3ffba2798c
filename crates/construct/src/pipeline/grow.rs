//! The grow stage: a model continues lists of up to ten seeds with one more hierarchy.

use super::captions::is_standard;
use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{DropCause, HierarchyRow, Pipeline, RowProvenance, Stage, TIERS};
use crate::Result;
use crate::llm::{ReadingDirection, Shots};

/// Maximum number of draws per requested hierarchy.
const DRAWS: usize = 4;

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    let shots = Shots::of_stage(work, Stage::Seeds)?;
    let wanted = pipeline.settings.grow_count;
    let draws = (0..wanted * DRAWS).map(Ok);
    pipeline.for_items(draws, Some(wanted as u64), Stage::Grow, work, |number: usize| {
        let Some(llm) = &pipeline.models.llm else { return Ok(Err((DropCause::EndpointDown, String::new()))) };
        let prompt = shots.prompt(ReadingDirection::Forward, &[], pipeline.settings.seed, &format!("grow {number}"));
        // With few seeds some prompts are equal, so the number of the hierarchy is used as the number of the draw.
        let draw = u32::try_from(number).unwrap_or(u32::MAX);
        let line = match llm.line(&prompt, draw)? {
            Ok(line) => line,
            Err(cause) => return Ok(Err((cause, String::new()))),
        };
        let tiers: Vec<String> = ReadingDirection::Forward.split(&line);
        let Ok(positive) = <[String; TIERS]>::try_from(tiers) else {
            return Ok(Err((DropCause::NotFourTiers, line)));
        };
        if !positive.iter().all(|tier| is_standard(tier)) {
            return Ok(Err((DropCause::Characters, line)));
        }
        Ok(Ok(HierarchyRow {
            id: format!("grow{number}"),
            photo: None,
            split: None,
            positive,
            negative: None,
            provenance: vec![RowProvenance { stage: Stage::Grow, by: pipeline.maker(), draws: vec![draw] }],
            other_language: false,
        }))
    })
}
