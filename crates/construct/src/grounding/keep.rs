//! The keep stage: the best box of each phrase, if it reaches the threshold.

use super::calibration::{Calibration, ScorePairs};
use super::{GroundedPhoto, GroundedPhrase, GroundingPipeline, GroundingStage, PhotoBoxes, ScoredPhoto};
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
        let mut phrases = Vec::new();
        for (phrase, similarities) in row.photo.photo.phrases.iter().zip(&row.similarities) {
            report.entered += 1;
            let Some((bbox, score)) = best(&row.photo, similarities, weight) else {
                report.drop(DropCause::NoBox, &phrase.text);
                continue;
            };
            let (similarity, corners) = (similarities[bbox], row.photo.boxes[bbox]);
            let probability = calibration.as_ref().map(|it| it.probability(score) as f32);
            let reached = match threshold {
                KeepThreshold::Similarity(least) => similarity >= least,
                KeepThreshold::Probability(least) => probability.is_some_and(|it| it >= least),
            };
            if !reached {
                let shown = probability.map(|it| format!(", probability {it:.2}")).unwrap_or_default();
                report.drop(DropCause::BelowThreshold, &format!("{}: similarity {similarity:.3}{shown}", phrase.text));
                continue;
            }
            report.left += 1;
            let (text, spans) = (phrase.text.clone(), phrase.spans.clone());
            phrases.push(GroundedPhrase { text, spans, bbox: corners, similarity, probability });
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
        half.own.extend(row.similarities.iter().filter_map(score));
        half.foreign.extend(row.foreign.iter().filter_map(score));
    }
    let [fitted, checked] = &halves;
    Ok(Calibration::fit(fitted, checked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grounding::PhotoPhrases;

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
