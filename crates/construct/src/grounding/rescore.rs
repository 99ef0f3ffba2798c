//! The rescore stage: compares every box of a photo with every phrase of the photo, and with the noun chunks of the
//! previous photo.

use conifer_data::{BBox, Broken, ImageRef, Picture};
use rayon::prelude::*;

use super::boxes::photo_cause;
use super::partial::PartialFile;
use super::{GroundingPipeline, GroundingStage, PhotoBoxes, PhraseKind, PhraseSpans, ScoredPhoto};
use crate::Result;
use crate::pipeline::{StageReport, WorkFolder};

/// Number of photos whose crops are embedded together.
const PHOTOS: usize = 8;
/// Similarities are rounded to multiples of 1 / `DIGITS` in the file.
const DIGITS: f32 = 1e5;

/// A model that compares parts of photos with texts.
pub trait RegionScorer: Send + Sync {
    /// Name in reports.
    fn name(&self) -> String;

    /// Text that differs for models that may give different similarities. The rescore stage is repeated if it changes.
    fn identity(&self) -> String;

    /// The similarity of each phrase and box of each photo, `[phrases][boxes]`; larger is more similar.
    ///
    /// # Errors
    /// The model fails.
    fn similarities(&self, photos: &[RegionRequest<'_>]) -> Result<Vec<Vec<Vec<f32>>>>;
}

/// A photo with boxes and texts.
pub struct RegionRequest<'a> {
    /// The decoded photo.
    pub picture: &'a Picture,
    /// Boxes as fractions of the photo.
    pub boxes: Vec<BBox>,
    /// Phrases that are compared with every box.
    pub phrases: Vec<&'a str>,
}

pub(super) fn run(
    pipeline: &GroundingPipeline<'_>,
    work: &WorkFolder<GroundingStage>,
    key: &str,
) -> Result<StageReport<GroundingStage>> {
    let scorer = pipeline.scorer()?;
    let mut partial = PartialFile::open(&work.join("rescore.unfinished.jsonl"), key, PHOTOS)?;
    let mut rows = work.rows::<PhotoBoxes>(GroundingStage::Boxes)?.skip(partial.rows.saturating_sub(1));
    // The last finished photo, whose phrases are compared with the next one.
    let mut before = if partial.rows > 0 { rows.next().transpose()? } else { None };
    loop {
        pipeline.check_stop()?;
        let chunk = rows.by_ref().take(PHOTOS).collect::<Result<Vec<_>>>()?;
        if chunk.is_empty() {
            break;
        }
        let scored = score(pipeline, scorer, before.as_ref(), &chunk)?;
        before = chunk.into_iter().next_back();
        partial.write(&scored)?;
    }
    finish(work, partial, scorer.name())
}

/// Copies the rows to the stage's file and counts them.
fn finish(
    work: &WorkFolder<GroundingStage>,
    partial: PartialFile<ScoredPhoto>,
    by: String,
) -> Result<StageReport<GroundingStage>> {
    let mut report = StageReport::new(GroundingStage::Rescore, by);
    let mut file = work.create(GroundingStage::Rescore)?;
    for row in partial.rows()? {
        let row = row?;
        let phrases = &row.photo.photo.phrases;
        phrases.iter().for_each(|it| report.enter_phrase(it.kind));
        let Some((cause, fault)) = &row.fault else {
            phrases.iter().for_each(|it| report.leave_phrase(it.kind));
            file.write(&row)?;
            continue;
        };
        report.leave_out(*cause, fault);
        phrases.iter().for_each(|it| report.drop(*cause, &it.text));
    }
    file.finish()?;
    partial.remove()?;
    Ok(report)
}

fn score(
    pipeline: &GroundingPipeline<'_>,
    scorer: &dyn RegionScorer,
    before: Option<&PhotoBoxes>,
    photos: &[PhotoBoxes],
) -> Result<Vec<ScoredPhoto>> {
    let open = |it: &PhotoBoxes| ImageRef::File(it.photo.photo.clone()).open(&pipeline.settings.limits);
    let pictures: Vec<std::result::Result<Picture, Broken>> = photos.par_iter().map(open).collect();
    let mut requests = Vec::new();
    for (at, picture) in pictures.iter().enumerate() {
        let Ok(picture) = picture else { continue };
        let foreign = at.checked_sub(1).map_or(before, |at| photos.get(at));
        let own = photos[at].photo.phrases.iter();
        let foreign = foreign.into_iter().flat_map(|it| &it.photo.phrases).filter(|it| it.kind == PhraseKind::Chunk);
        let phrases = own.chain(foreign).map(|it: &PhraseSpans| it.text.as_str()).collect();
        let boxes = photos[at].boxes.iter().map(|&[x1, y1, x2, y2]| BBox { x1, y1, x2, y2 }).collect();
        requests.push(RegionRequest { picture, boxes, phrases });
    }
    let mut found = scorer.similarities(&requests)?.into_iter();
    let mut scored = Vec::with_capacity(photos.len());
    for (photo, picture) in photos.iter().zip(&pictures) {
        let (similarities, fault) = match picture {
            Ok(_) => (found.next().unwrap_or_default(), None),
            Err(broken) => (Vec::new(), Some((photo_cause(broken), broken.to_string()))),
        };
        let mut similarities: Vec<Vec<f32>> =
            similarities.into_iter().map(|row| row.into_iter().map(rounded).collect()).collect();
        let foreign = similarities.split_off(photo.photo.phrases.len().min(similarities.len()));
        scored.push(ScoredPhoto { photo: photo.clone(), similarities, foreign, fault });
    }
    Ok(scored)
}

fn rounded(similarity: f32) -> f32 {
    (similarity * DIGITS).round() / DIGITS
}
