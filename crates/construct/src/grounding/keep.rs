//! The keep stage: the best box of each noun chunk, if it reaches the threshold. An expression has the box of its
//! chunk, because it names the same thing.

use super::calibration::{Calibration, ScorePairs};
use super::{
    GroundedPhoto, GroundedPhrase, GroundingPipeline, GroundingStage, PhotoBoxes, PhraseKind, PhraseSpans, ScoredPhoto,
};
use crate::negatives::draw;
use crate::pipeline::{DropCause, StageReport, WorkFolder};
use crate::{Error, Result};

/// Minimum probability or similarity of the best box of a phrase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeepThreshold {
    /// Calibrated probability that the phrase belongs to the photo.
    Probability(f32),
    /// Similarity of the model, not calibrated.
    Similarity(f32),
}

pub(super) fn run(
    pipeline: &GroundingPipeline<'_>,
    work: &WorkFolder<GroundingStage>,
) -> Result<StageReport<GroundingStage>> {
    let weight = pipeline.settings.area_weight;
    let calibration = calibrate(work, weight, pipeline.settings.seed)?;
    let path = work.join("calibration.json");
    let bytes = serde_json::to_vec_pretty(&calibration)
        .map_err(|error| Error::invalid("calibration", error.to_string(), "finite numbers"))?;
    conifer_files::write_whole(&path, &bytes)?;
    let threshold = pipeline.settings.threshold;
    if calibration.is_none() && matches!(threshold, KeepThreshold::Probability(_)) {
        return Err(Error::invalid(
            "--min-probability",
            "too few phrases for a calibration",
            "more photos, or --min-similarity, which needs none",
        ));
    }
    let mut report = StageReport::new(GroundingStage::Keep, by(threshold));
    let mut file = work.create(GroundingStage::Keep)?;
    for row in work.rows::<ScoredPhoto>(GroundingStage::Rescore)? {
        pipeline.check_stop()?;
        let row = row?;
        let outcomes = chunk_outcomes(&row, weight, calibration.as_ref(), threshold);
        let mut phrases = Vec::new();
        for (number, phrase) in row.photo.photo.phrases.iter().enumerate() {
            report.enter_phrase(phrase.kind);
            match outcome_of(&row, number, phrase, &outcomes) {
                Ok(kept) => {
                    report.leave_phrase(phrase.kind);
                    phrases.push(kept);
                }
                Err((cause, example)) => report.drop(cause, &example),
            }
        }
        let photo = row.photo.photo;
        if phrases.is_empty() {
            report.leave_out(DropCause::PhotoWithoutPhrase, &photo.id);
            continue;
        }
        let (id, split, captions) = (photo.id, photo.split, photo.captions);
        file.write(&GroundedPhoto { id, photo: photo.photo, split, captions, phrases })?;
    }
    file.finish()?;
    Ok(report)
}

/// Number of the box of a noun chunk with its probability, or why it has none.
type ChunkOutcome = std::result::Result<(usize, Option<f32>), (DropCause, String)>;

/// The outcome of each noun chunk; `None` for expressions.
fn chunk_outcomes(
    row: &ScoredPhoto,
    weight: f32,
    calibration: Option<&Calibration>,
    threshold: KeepThreshold,
) -> Vec<Option<ChunkOutcome>> {
    let outcome = |(phrase, similarities): (&PhraseSpans, &Vec<f32>)| {
        if phrase.kind == PhraseKind::Expression {
            return None;
        }
        let Some((bbox, score)) = best(&row.photo, similarities, weight) else {
            return Some(Err((DropCause::NoBox, phrase.text.clone())));
        };
        let similarity = similarities[bbox];
        let probability = calibration.map(|it| it.probability(score) as f32);
        let reached = match threshold {
            KeepThreshold::Similarity(least) => similarity >= least,
            KeepThreshold::Probability(least) => probability.is_some_and(|it| it >= least),
        };
        if reached {
            return Some(Ok((bbox, probability)));
        }
        let shown = probability.map(|it| format!(", probability {it:.2}")).unwrap_or_default();
        let example = format!("{}: similarity {similarity:.3}{shown}", phrase.text);
        Some(Err((DropCause::BelowThreshold, example)))
    };
    row.photo.photo.phrases.iter().zip(&row.similarities).map(outcome).collect()
}

/// The phrase with the box of its noun chunk, or why it is dropped.
fn outcome_of(
    row: &ScoredPhoto,
    number: usize,
    phrase: &PhraseSpans,
    outcomes: &[Option<ChunkOutcome>],
) -> std::result::Result<GroundedPhrase, (DropCause, String)> {
    let chunk = outcomes.get(phrase.chunk.unwrap_or(number)).and_then(Option::as_ref);
    let without_box = || (DropCause::ChunkDropped, phrase.text.clone());
    let (bbox, probability) = match (chunk, phrase.kind) {
        (Some(Ok(found)), _) => *found,
        (Some(Err(cause)), PhraseKind::Chunk) => return Err(cause.clone()),
        _ => return Err(without_box()),
    };
    let similarity = row.similarities.get(number).and_then(|it| it.get(bbox));
    let (Some(&similarity), Some(&corners)) = (similarity, row.photo.boxes.get(bbox)) else {
        return Err(without_box());
    };
    let (text, spans) = (phrase.text.clone(), phrase.spans.clone());
    Ok(GroundedPhrase { text, kind: phrase.kind, spans, bbox: corners, similarity, probability })
}

fn by(threshold: KeepThreshold) -> String {
    match threshold {
        KeepThreshold::Probability(least) => format!("probability >= {least}"),
        KeepThreshold::Similarity(least) => format!("similarity >= {least}"),
    }
}

/// The box with the largest `similarity + weight * ln(area)`, and this score; the area is a share of the photo. Ties go
/// to the first box.
fn best(photo: &PhotoBoxes, similarities: &[f32], weight: f32) -> Option<(usize, f32)> {
    let mut best: Option<(usize, f32)> = None;
    for (number, (&similarity, [x1, y1, x2, y2])) in similarities.iter().zip(&photo.boxes).enumerate() {
        let score = similarity + weight * ((x2 - x1) * (y2 - y1)).ln();
        if best.is_none_or(|(_, highest)| score > highest) {
            best = Some((number, score));
        }
    }
    best
}

/// Fits on one half of the photos and checks on the other. The seed and the id of a photo determine its half.
fn calibrate(work: &WorkFolder<GroundingStage>, weight: f32, seed: u64) -> Result<Option<Calibration>> {
    let mut halves: [ScorePairs; 2] = Default::default();
    for row in work.rows::<ScoredPhoto>(GroundingStage::Rescore)? {
        let row = row?;
        let half = &mut halves[draw(seed, &row.photo.photo.id, 2)];
        let score = |similarities: &Vec<f32>| best(&row.photo, similarities, weight).map(|(_, score)| score);
        let own = row.photo.photo.phrases.iter().zip(&row.similarities);
        half.own.extend(own.filter(|(it, _)| it.kind == PhraseKind::Chunk).filter_map(|(_, it)| score(it)));
        half.foreign.extend(row.foreign.iter().filter_map(score));
    }
    let [fitted, checked] = &halves;
    Ok(Calibration::fit(fitted, checked))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grounding::PhotoPhrases;

    #[test]
    fn expressions_have_the_box_of_their_chunk() {
        let phrase = |text: &str, chunk: Option<usize>| {
            let kind = if chunk.is_some() { PhraseKind::Expression } else { PhraseKind::Chunk };
            PhraseSpans { text: text.to_owned(), kind, chunk, spans: Vec::new() }
        };
        let phrases = vec![
            phrase("a dog", None),
            phrase("a dog in a park", Some(0)),
            phrase("a cat", None),
            phrase("a cat here", Some(2)),
        ];
        let photo = PhotoPhrases { phrases, ..PhotoPhrases::default() };
        let boxes = vec![[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0]];
        let row = ScoredPhoto {
            photo: PhotoBoxes { photo, width: 10, height: 10, boxes },
            // The expression is more similar to the second box, but its chunk to the first.
            similarities: vec![vec![0.9, 0.1], vec![0.2, 0.8], vec![0.3, 0.2], vec![0.9, 0.9]],
            foreign: Vec::new(),
            fault: None,
        };
        let outcomes = chunk_outcomes(&row, 0.0, None, KeepThreshold::Similarity(0.5));
        let all = row.photo.photo.phrases.iter().enumerate();
        let found: Vec<_> = all.map(|(number, phrase)| outcome_of(&row, number, phrase, &outcomes)).collect();
        let (dog, expression) = (found[0].as_ref().unwrap(), found[1].as_ref().unwrap());
        assert_eq!((dog.bbox, dog.similarity), ([0.0, 0.0, 0.5, 0.5], 0.9));
        assert_eq!((expression.bbox, expression.similarity), ([0.0, 0.0, 0.5, 0.5], 0.2));
        assert_eq!(expression.kind, PhraseKind::Expression);
        assert!(matches!(&found[2], Err((DropCause::BelowThreshold, _))), "{found:?}");
        assert_eq!(found[3], Err((DropCause::ChunkDropped, "a cat here".to_owned())));
    }

    #[test]
    fn larger_boxes_win_by_their_weight() {
        let photo = PhotoPhrases::default();
        let boxes = vec![[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]];
        let photo = PhotoBoxes { photo, width: 10, height: 10, boxes };
        assert_eq!(best(&photo, &[0.3, 0.2, 0.2], 0.0), Some((0, 0.3)));
        // ln(1/4) = -1.386: .3 - .139 < .2.
        assert_eq!(best(&photo, &[0.3, 0.2, 0.2], 0.1), Some((1, 0.2)));
        assert_eq!(best(&photo, &[], 0.1), None);
    }
}
