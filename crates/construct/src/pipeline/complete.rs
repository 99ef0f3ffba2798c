//! The complete stage: three tiers above each caption, by rules, a language model or a distilled model, checked by the
//! judge.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{CaptionRow, Decision, DropCause, HierarchyRow, Pipeline, ReviewRow, Stage, TIERS, by_generator};
use crate::completer::{FEWER_CHARS, FEWER_WORDS};
use crate::distil::TierGenerator;
use crate::entailment::Entailment;
use crate::llm::{LlmClient, ReadingDirection, Shots};
use crate::text::word_count;
use crate::{Result, RuleCompleter};

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    let reviewed: HashMap<&str, &ReviewRow> =
        pipeline.settings.review.iter().map(|row| (row.id.as_str(), row)).collect();
    if let Some(generator) = pipeline.generator(work)? {
        return run_generator(pipeline, work, generator, &reviewed);
    }
    let completer = pipeline.completer();
    let shots = match pipeline.completing_llm() {
        Some(_) => Some(Shots::read(work)?),
        None => None,
    };
    let by = pipeline.maker();
    pipeline.for_rows(Stage::Captions, Stage::Complete, work, |row: CaptionRow| {
        let row = match decided(row, &reviewed) {
            ControlFlow::Break(done) => return Ok(done),
            ControlFlow::Continue(row) => row,
        };
        let made = match (pipeline.completing_llm(), &shots) {
            (Some(llm), Some(shots)) => by_model(pipeline, llm, shots, &row.caption)?,
            _ => by_rules(pipeline, &completer, &row.caption)?.map(|tiers| (tiers, 0)),
        };
        Ok(completed(row, made, &by))
    })
}

fn run_generator(
    pipeline: &Pipeline<'_>,
    work: &WorkFolder,
    generator: &dyn TierGenerator,
    reviewed: &HashMap<&str, &ReviewRow>,
) -> Result<StageReport> {
    let by = generator.name();
    let report = StageReport::new(Stage::Complete, by.clone());
    let rows = work.rows(Stage::Captions)?;
    pipeline.for_chunks(rows, None, report, work, by_generator::ROWS, |rows: Vec<CaptionRow>| {
        let rows: Vec<_> = rows.into_iter().map(|row| decided(row, reviewed)).collect();
        let open: Vec<&CaptionRow> = rows
            .iter()
            .filter_map(|row| match row {
                ControlFlow::Continue(row) => Some(row),
                ControlFlow::Break(_) => None,
            })
            .collect();
        let mut made = by_generator::complete(pipeline, generator, &open)?.into_iter();
        let treated = rows.into_iter().filter_map(|row| match row {
            ControlFlow::Break(done) => Some(done),
            ControlFlow::Continue(row) => made.next().map(|made| completed(row, made, &by)),
        });
        Ok(treated.collect())
    })
}

/// A hierarchy, or why a caption has none with the caption.
type CompletedRow = std::result::Result<HierarchyRow, (DropCause, String)>;

/// The result of a caption that a person decided on.
fn decided(row: CaptionRow, reviewed: &HashMap<&str, &ReviewRow>) -> ControlFlow<CompletedRow, CaptionRow> {
    match reviewed.get(row.id.as_str()).map(|row| (&row.decision, &row.tiers)) {
        None => ControlFlow::Continue(row),
        Some((Decision::Reject, _)) => ControlFlow::Break(Err((DropCause::Rejected, row.caption))),
        Some((Decision::Accept | Decision::Edit, tiers)) => {
            ControlFlow::Break(Ok(row.with_tiers(tiers.clone(), Stage::Complete, "review".to_owned(), vec![0])))
        }
    }
}

fn completed(row: CaptionRow, made: std::result::Result<([String; TIERS], u32), DropCause>, by: &str) -> CompletedRow {
    match made {
        Ok((tiers, draw)) => Ok(row.with_tiers(tiers, Stage::Complete, by.to_owned(), vec![draw])),
        Err(cause) => Err((cause, row.caption)),
    }
}

fn by_rules(
    pipeline: &Pipeline<'_>,
    completer: &RuleCompleter,
    caption: &str,
) -> Result<std::result::Result<[String; TIERS], DropCause>> {
    let [first, second, third] = match completer.complete(caption) {
        Ok(tiers) => tiers,
        Err(cause) => return Ok(Err(cause)),
    };
    let tiers = [first, second, third, caption.to_owned()];
    Ok(match is_hierarchy(&tiers, pipeline.judge())? {
        true => Ok(tiers),
        false => Err(DropCause::NotEntailed),
    })
}

/// Draws candidates of a model until one is a valid hierarchy.
fn by_model(
    pipeline: &Pipeline<'_>,
    llm: &LlmClient,
    shots: &Shots,
    caption: &str,
) -> Result<std::result::Result<([String; TIERS], u32), DropCause>> {
    let mut last = DropCause::NotFourTiers;
    for draw in 0..pipeline.settings.candidates {
        let prompt = shots.prompt(ReadingDirection::Backward, &[caption], pipeline.settings.seed, caption);
        let answer = match llm.line(&prompt, draw)? {
            Ok(answer) => answer,
            Err(cause) => return Ok(Err(cause)),
        };
        let parts = ReadingDirection::Backward.split(&answer);
        let [third, second, first] = &parts[..] else { continue };
        let tiers = [first.clone(), second.clone(), third.clone(), caption.to_owned()];
        if is_hierarchy(&tiers, pipeline.judge())? {
            return Ok(Ok((tiers, draw)));
        }
        last = DropCause::NotEntailed;
    }
    Ok(Err(last))
}

/// The conditions of HierarCaps on a hierarchy (supplement, Sec. 2.1).
///
/// # Errors
/// Returns the errors of the judge.
pub(super) fn is_hierarchy(tiers: &[String; TIERS], judge: &dyn Entailment) -> Result<bool> {
    let [_, _, third, caption] = tiers;
    let shorter = word_count(third) + FEWER_WORDS <= word_count(caption)
        && third.chars().count() + FEWER_CHARS <= caption.chars().count();
    let empty = tiers.iter().any(|tier| !super::captions::is_standard(tier));
    if empty || !shorter || tiers.windows(2).any(|pair| pair[0] == pair[1]) {
        return Ok(false);
    }
    for pair in tiers.windows(2) {
        if !judge.is_more_general(&pair[0], &pair[1])? {
            return Ok(false);
        }
    }
    Ok(true)
}
