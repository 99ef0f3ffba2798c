//! The negatives stage: four tiers that contradict those of a hierarchy, by rules or by a model.

use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{DropCause, HierarchyRow, Pipeline, RowProvenance, Stage, TIERS, by_generator};
use crate::Result;
use crate::llm::{LlmClient, ReadingDirection, Shots};
use crate::negatives::{is_negative, key_of};

/// Draws of a model for each negative tier (HierarCaps supplement, Sec. 2.1).
pub(super) const TRIES: u32 = 8;

/// Negative tiers with the number of the draw of each.
pub(super) type NegativeTiers = [(String, u32); TIERS];

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    if let Some(generator) = pipeline.generator(work)? {
        let by = generator.name();
        let report = StageReport::new(Stage::Negatives, by.clone());
        let rows = work.rows(Stage::Complete)?;
        return pipeline.for_chunks(rows, None, report, work, by_generator::ROWS, |rows: Vec<HierarchyRow>| {
            let made = by_generator::negatives(pipeline, generator, &rows)?;
            Ok(rows.into_iter().zip(made).map(|(row, made)| with_negatives(row, made, &by)).collect())
        });
    }
    let rules = pipeline.rule_negatives();
    let shots = match pipeline.completing_llm() {
        Some(_) => Some(Shots::read(work)?),
        None => None,
    };
    let by = pipeline.maker();
    pipeline.for_rows(Stage::Complete, Stage::Negatives, work, |row: HierarchyRow| {
        let made = match (pipeline.completing_llm(), &shots) {
            (Some(llm), Some(shots)) => by_model(pipeline, llm, shots, &row.positive)?,
            _ => rules.negatives(&row.positive, key_of(pipeline.settings.seed, &row.id), pipeline.judge())?,
        };
        Ok(with_negatives(row, made, &by))
    })
}

/// A hierarchy with negative tiers, or why it has none with its tiers.
fn with_negatives(
    mut row: HierarchyRow,
    made: std::result::Result<NegativeTiers, DropCause>,
    by: &str,
) -> std::result::Result<HierarchyRow, (DropCause, String)> {
    let negatives = match made {
        Ok(negatives) => negatives,
        Err(cause) => return Err((cause, row.positive.join(" => "))),
    };
    let draws = negatives.iter().map(|(_, draw)| *draw).collect();
    row.negative = Some(negatives.map(|(text, _)| text));
    row.provenance.push(RowProvenance { stage: Stage::Negatives, by: by.to_owned(), draws });
    Ok(row)
}

fn by_model(
    pipeline: &Pipeline<'_>,
    llm: &LlmClient,
    shots: &Shots,
    tiers: &[String; TIERS],
) -> Result<std::result::Result<NegativeTiers, DropCause>> {
    let mut negatives = NegativeTiers::default();
    for tier in 0..TIERS {
        let above: Vec<&str> = tiers[..tier].iter().map(String::as_str).collect();
        let prompt = shots.prompt(ReadingDirection::Forward, &above, pipeline.settings.seed, &tiers[TIERS - 1]);
        let mut found = None;
        for draw in 0..TRIES {
            let answer = match llm.line(&prompt, draw)? {
                Ok(answer) => answer,
                Err(cause) => return Ok(Err(cause)),
            };
            let Some(text) = ReadingDirection::Forward.split(&answer).into_iter().next() else { continue };
            if super::captions::is_standard(&text) && is_negative(tiers, tier, &text, pipeline.judge())? {
                found = Some((text, draw));
                break;
            }
        }
        match found {
            Some(found) => negatives[tier] = found,
            None => return Ok(Err(DropCause::NoNegative)),
        }
    }
    Ok(Ok(negatives))
}
