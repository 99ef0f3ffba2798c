//! The complete stage: three tiers above each caption, by rules or by a model, checked by the judge.

use std::collections::HashMap;

use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{CaptionRow, Cause, Decision, Pipeline, ReviewRow, Stage, TIERS};
use crate::completer::{FEWER_CHARS, FEWER_WORDS};
use crate::entailment::Entailment;
use crate::llm::{Direction, Shots};
use crate::text::word_count;
use crate::{Result, RuleCompleter};

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    let reviewed: HashMap<&str, &ReviewRow> =
        pipeline.settings.review.iter().map(|row| (row.id.as_str(), row)).collect();
    let completer = pipeline.completer();
    let shots = match &pipeline.llm {
        Some(_) => Some(Shots::read(work)?),
        None => None,
    };
    let by = pipeline.maker();
    pipeline.for_rows(Stage::Captions, Stage::Complete, work, |row: CaptionRow| {
        let review = reviewed.get(row.id.as_str()).map(|row| (&row.decision, &row.tiers));
        let (tiers, by, draw) = match review {
            Some((Decision::Reject, _)) => return Ok(Err((Cause::Rejected, row.caption))),
            Some((Decision::Accept | Decision::Edit, tiers)) => (tiers.clone(), "review".to_owned(), 0),
            None => {
                let made = match (&pipeline.llm, &shots) {
                    (Some(_), Some(shots)) => by_model(pipeline, shots, &row.caption)?,
                    _ => by_rules(pipeline, &completer, &row.caption)?.map(|tiers| (tiers, 0)),
                };
                match made {
                    Ok((tiers, draw)) => (tiers, by.clone(), draw),
                    Err(cause) => return Ok(Err((cause, row.caption))),
                }
            }
        };
        Ok(Ok(row.with_tiers(tiers, Stage::Complete, by, vec![draw])))
    })
}

fn by_rules(
    pipeline: &Pipeline<'_>,
    completer: &RuleCompleter,
    caption: &str,
) -> Result<std::result::Result<[String; TIERS], Cause>> {
    let [first, second, third] = match completer.complete(caption) {
        Ok(tiers) => tiers,
        Err(cause) => return Ok(Err(cause)),
    };
    let tiers = [first, second, third, caption.to_owned()];
    Ok(match is_hierarchy(&tiers, &pipeline.judge)? {
        true => Ok(tiers),
        false => Err(Cause::NotEntailed),
    })
}

/// Draws candidates of a model until one is a valid hierarchy.
fn by_model(
    pipeline: &Pipeline<'_>,
    shots: &Shots,
    caption: &str,
) -> Result<std::result::Result<([String; TIERS], u32), Cause>> {
    let Some(llm) = &pipeline.llm else { return Ok(Err(Cause::EndpointDown)) };
    let mut last = Cause::NotFourTiers;
    for draw in 0..pipeline.settings.candidates {
        let prompt = shots.prompt(Direction::Backward, &[caption], pipeline.settings.seed, caption);
        let answer = match llm.line(&prompt, draw)? {
            Ok(answer) => answer,
            Err(cause) => return Ok(Err(cause)),
        };
        let parts = Direction::Backward.split(&answer);
        let [third, second, first] = &parts[..] else { continue };
        let tiers = [first.clone(), second.clone(), third.clone(), caption.to_owned()];
        if is_hierarchy(&tiers, &pipeline.judge)? {
            return Ok(Ok((tiers, draw)));
        }
        last = Cause::NotEntailed;
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
