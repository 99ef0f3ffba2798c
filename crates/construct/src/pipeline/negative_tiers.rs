//! The negatives stage: four tiers that contradict those of a hierarchy, by rules or by a model.

use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{Cause, HierarchyRow, Pipeline, Provenance, Stage, TIERS};
use crate::Result;
use crate::llm::{Direction, Shots};
use crate::negatives::{is_negative, key_of};

/// Draws of a model for each negative tier (HierarCaps supplement, Sec. 2.1).
const TRIES: u32 = 8;

/// Negative tiers with the number of the draw of each.
type NegativeTiers = [(String, u32); TIERS];

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    let rules = pipeline.rule_negatives();
    let shots = match &pipeline.llm {
        Some(_) => Some(Shots::read(work)?),
        None => None,
    };
    let by = pipeline.maker();
    pipeline.for_rows(Stage::Complete, Stage::Negatives, work, |mut row: HierarchyRow| {
        let key = key_of(pipeline.settings.seed, &row.id);
        let made = match &shots {
            Some(shots) => by_model(pipeline, shots, &row.positive)?,
            None => rules.negatives(&row.positive, key, &pipeline.judge)?,
        };
        let negatives = match made {
            Ok(negatives) => negatives,
            Err(cause) => return Ok(Err((cause, row.positive.join(" => ")))),
        };
        let draws = negatives.iter().map(|(_, draw)| *draw).collect();
        row.negative = Some(negatives.map(|(text, _)| text));
        row.provenance.push(Provenance { stage: Stage::Negatives, by: by.clone(), draws });
        Ok(Ok(row))
    })
}

fn by_model(
    pipeline: &Pipeline<'_>,
    shots: &Shots,
    tiers: &[String; TIERS],
) -> Result<std::result::Result<NegativeTiers, Cause>> {
    let Some(llm) = &pipeline.llm else { return Ok(Err(Cause::EndpointDown)) };
    let mut negatives = NegativeTiers::default();
    for tier in 0..TIERS {
        let above: Vec<&str> = tiers[..tier].iter().map(String::as_str).collect();
        let prompt = shots.prompt(Direction::Forward, &above, pipeline.settings.seed, &tiers[TIERS - 1]);
        let mut found = None;
        for draw in 0..TRIES {
            let answer = match llm.line(&prompt, draw)? {
                Ok(answer) => answer,
                Err(cause) => return Ok(Err(cause)),
            };
            let Some(text) = Direction::Forward.split(&answer).into_iter().next() else { continue };
            if super::captions::is_standard(&text) && is_negative(tiers, tier, &text, &pipeline.judge)? {
                found = Some((text, draw));
                break;
            }
        }
        match found {
            Some(found) => negatives[tier] = found,
            None => return Ok(Err(Cause::NoNegative)),
        }
    }
    Ok(Ok(negatives))
}
