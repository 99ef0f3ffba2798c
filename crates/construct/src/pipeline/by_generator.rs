//! The stages complete and negatives with a model that draws continuations of many hierarchies at a time.

use rayon::prelude::*;

use super::captions::is_standard;
use super::complete::is_hierarchy;
use super::negative_tiers::{NegativeTiers, TRIES};
use super::{CaptionRow, DropCause, HierarchyRow, Pipeline, TIERS};
use crate::distil::{TierGenerator, TierRequest};
use crate::llm::ReadingDirection;
use crate::negatives::{is_negative, key_of};
use crate::{Error, Result};

/// Number of rows whose draws are made together.
pub(super) const ROWS: usize = 64;
/// Number of draws of each row before they are judged. The first valid draw is used, so with a larger number more draws
/// would be made that are not needed.
const ROUND: u32 = 8;

/// Completed tiers and the number of the accepted draw, or why no draw is valid, for each row.
type Completed = Vec<std::result::Result<([String; TIERS], u32), DropCause>>;

/// Completes captions: the first draw that is a valid hierarchy.
pub(super) fn complete(
    pipeline: &Pipeline<'_>,
    generator: &dyn TierGenerator,
    rows: &[&CaptionRow],
) -> Result<Completed> {
    let mut made: Completed = vec![Err(DropCause::NotFourTiers); rows.len()];
    let mut start = 0;
    while start < pipeline.settings.candidates {
        let open: Vec<usize> = (0..rows.len()).filter(|&row| made[row].is_err()).collect();
        let draws = start..pipeline.settings.candidates.min(start + ROUND);
        start = draws.end;
        let request = |row: &CaptionRow, draw: u32| TierRequest {
            direction: ReadingDirection::Backward,
            given: vec![row.caption.clone()],
            next_only: false,
            seed: key_of(pipeline.settings.seed, &format!("complete {draw} {}", row.id)),
        };
        let judged = round(
            pipeline,
            generator,
            &open,
            draws,
            |row, draw| request(rows[row], draw),
            |row, tiers| {
                let [third, second, first] = tiers else { return Ok(Err(DropCause::NotFourTiers)) };
                let tiers = [first.clone(), second.clone(), third.clone(), rows[row].caption.clone()];
                Ok(if is_hierarchy(&tiers, pipeline.judge())? { Ok(tiers) } else { Err(DropCause::NotEntailed) })
            },
        )?;
        for (row, found) in open.into_iter().zip(judged) {
            match found {
                // An earlier round may have set a more specific cause.
                Err(DropCause::NotFourTiers) => {}
                found => made[row] = found,
            }
        }
    }
    Ok(made)
}

/// Negative tiers of hierarchies: for each tier, the first draw that is one.
pub(super) fn negatives(
    pipeline: &Pipeline<'_>,
    generator: &dyn TierGenerator,
    rows: &[HierarchyRow],
) -> Result<Vec<std::result::Result<NegativeTiers, DropCause>>> {
    let mut made = vec![Ok(NegativeTiers::default()); rows.len()];
    for tier in 0..TIERS {
        let open: Vec<usize> = (0..rows.len()).filter(|&row| made[row].is_ok()).collect();
        let request = |row: &HierarchyRow, draw: u32| TierRequest {
            direction: ReadingDirection::Forward,
            given: row.positive[..tier].to_vec(),
            next_only: true,
            seed: key_of(pipeline.settings.seed, &format!("negative {tier} {draw} {}", row.id)),
        };
        let judged = round(
            pipeline,
            generator,
            &open,
            0..TRIES,
            |row, draw| request(&rows[row], draw),
            |row, tiers| {
                let Some(text) = tiers.first() else { return Ok(Err(DropCause::NoNegative)) };
                let valid = is_standard(text) && is_negative(&rows[row].positive, tier, text, pipeline.judge())?;
                Ok(if valid { Ok(text.clone()) } else { Err(DropCause::NoNegative) })
            },
        )?;
        for (row, found) in open.into_iter().zip(judged) {
            match (found, &mut made[row]) {
                (Ok(found), Ok(tiers)) => tiers[tier] = found,
                (Err(cause), made) => *made = Err(cause),
                (Ok(_), Err(_)) => {}
            }
        }
    }
    Ok(made)
}

/// Makes the draws of the rows `open` together and judges those of a row in their order. Returns the first valid one
/// with its number, or the cause of the last.
fn round<T: Send>(
    pipeline: &Pipeline<'_>,
    generator: &dyn TierGenerator,
    open: &[usize],
    draws: std::ops::Range<u32>,
    request: impl Fn(usize, u32) -> TierRequest,
    judge: impl Fn(usize, &[String]) -> Result<std::result::Result<T, DropCause>> + Sync,
) -> Result<Vec<std::result::Result<(T, u32), DropCause>>> {
    if pipeline.stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::Stopped);
    }
    let requests: Vec<TierRequest> =
        open.iter().flat_map(|&row| draws.clone().map(|draw| request(row, draw)).collect::<Vec<_>>()).collect();
    let answers = generator.generate(&requests)?;
    let first = |(&row, answers): (&usize, &[Vec<String>])| -> Result<std::result::Result<(T, u32), DropCause>> {
        let mut last = DropCause::NotFourTiers;
        for (tiers, draw) in answers.iter().zip(draws.clone()) {
            match judge(row, tiers)? {
                Ok(found) => return Ok(Ok((found, draw))),
                Err(DropCause::NotFourTiers) => {}
                Err(cause) => last = cause,
            }
        }
        Ok(Err(last))
    };
    open.par_iter().zip(answers.par_chunks(draws.len().max(1))).map(first).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::super::{PipelineModels, PipelineSettings};
    use super::*;
    use crate::Hypernyms;

    /// Answers a request by a function of the request and of the number of earlier requests with the same tiers.
    struct FakeGenerator<F> {
        answer: F,
        received: Mutex<Vec<TierRequest>>,
    }

    impl<F: Fn(&TierRequest, usize) -> &'static [&'static str] + Send + Sync> TierGenerator for FakeGenerator<F> {
        fn name(&self) -> String {
            "fake".to_owned()
        }

        fn identity(&self) -> String {
            "fake".to_owned()
        }

        fn generate(&self, requests: &[TierRequest]) -> Result<Vec<Vec<String>>> {
            let mut received = self.received.lock().unwrap();
            let answers = requests.iter().map(|request| {
                let earlier = received.iter().filter(|it| it.given == request.given).count();
                received.push(request.clone());
                (self.answer)(request, earlier).iter().map(|tier| (*tier).to_owned()).collect()
            });
            Ok(answers.collect())
        }
    }

    fn with_pipeline<R>(candidates: u32, test: impl FnOnce(&Pipeline<'_>) -> R) -> R {
        let stop = AtomicBool::new(false);
        let settings = PipelineSettings {
            work: std::path::PathBuf::new(),
            seed: 0,
            min_words: 10,
            hypernym_steps: 1,
            keep_other_languages: false,
            seed_hierarchies: None,
            seed_captions: 0,
            grow_count: 0,
            candidates,
            review: Vec::new(),
        };
        test(&Pipeline::new(settings, Hypernyms::default(), PipelineModels::default(), &stop))
    }

    fn caption(id: &str, caption: &str) -> CaptionRow {
        CaptionRow { id: id.to_owned(), photo: None, split: None, caption: caption.to_owned(), other_language: false }
    }

    const DOG: &str = "A black dog is running through the snow near a fence .";
    const TIERS_OF_DOG: &[&str] = &["dog running through the snow", "dog", "animal"];

    #[test]
    fn the_first_valid_draw_completes_a_caption() {
        let rows = [caption("1", DOG), caption("2", "Two men are riding bikes"), caption("3", "A dog in the park")];
        let rows: Vec<&CaptionRow> = rows.iter().collect();
        let answer = |request: &TierRequest, earlier: usize| -> &'static [&'static str] {
            match (request.given[0].as_str(), earlier) {
                (DOG, 0) => &["dog", "animal"],
                (DOG, 1) => &["cat running through the snow", "cat", "animal"],
                (DOG, _) => TIERS_OF_DOG,
                ("A dog in the park", 9) => TIERS_OF_DOG,
                ("A dog in the park", _) => &[],
                _ => &["", "", ""],
            }
        };
        let generator = FakeGenerator { answer, received: Mutex::default() };
        let made = with_pipeline(10, |pipeline| complete(pipeline, &generator, &rows).unwrap());
        let (tiers, draw) = made[0].clone().unwrap();
        assert_eq!(
            (tiers[0].as_str(), tiers[2].as_str(), tiers[3].as_str(), draw),
            ("animal", TIERS_OF_DOG[0], DOG, 2)
        );
        // The only draw with three tiers is longer than the caption allows.
        assert_eq!((&made[1], &made[2]), (&Err(DropCause::NotEntailed), &Err(DropCause::NotEntailed)));
        let received = generator.received.into_inner().unwrap();
        // Eight draws of each caption, then two more of those that are not complete.
        assert_eq!(received.len(), 3 * 8 + 2 * 2);
        let seeds: std::collections::BTreeSet<_> = received.iter().map(|it| it.seed).collect();
        assert_eq!(seeds.len(), received.len(), "every draw has its own seed");
        assert!(received.iter().all(|it| it.direction == ReadingDirection::Backward && !it.next_only));
    }

    #[test]
    fn negative_tiers_continue_the_tiers_above() {
        let tiers = ["animal", "dog", TIERS_OF_DOG[0], DOG].map(str::to_owned);
        let row = |id: &str| {
            caption(id, DOG).with_tiers(tiers.clone(), super::super::Stage::Complete, String::new(), vec![0])
        };
        let answer = |request: &TierRequest, earlier: usize| -> &'static [&'static str] {
            match (request.given.len(), earlier) {
                (0, 0) => &["animal"],
                (0, _) => &["vehicle"],
                (1, _) => &["cat"],
                (2, _) => &["dog sleeping on a couch"],
                _ => &["A white dog is running through the snow ."],
            }
        };
        let generator = FakeGenerator { answer, received: Mutex::default() };
        let made = with_pipeline(1, |pipeline| negatives(pipeline, &generator, &[row("1")]).unwrap());
        let found = made[0].clone().unwrap();
        assert_eq!(
            found.each_ref().map(|(text, _)| text.as_str()),
            ["vehicle", "cat", "dog sleeping on a couch", "A white dog is running through the snow ."]
        );
        assert_eq!(found.map(|(_, draw)| draw), [1, 0, 0, 0]);
        let same = FakeGenerator {
            answer: |_: &TierRequest, _: usize| -> &'static [&'static str] { &["animal"] },
            received: Mutex::default(),
        };
        let made = with_pipeline(1, |pipeline| negatives(pipeline, &same, &[row("1")]).unwrap());
        assert_eq!(made, [Err(DropCause::NoNegative)]);
        assert_eq!(
            same.received.into_inner().unwrap().len(),
            8,
            "later tiers are not drawn for a row without negative"
        );
    }
}
