//! The phrases stage: noun chunks of the captions of each photo, without abstract nouns.

use conifer_data::{ImageRef, Sample, Source};
use rayon::prelude::*;

use super::{GroundingPipeline, GroundingStage, PhotoPhrases, PhraseSpans};
use crate::Result;
use crate::pipeline::captions::fault;
use crate::pipeline::{DropCause, StageReport, WorkFolder};
use crate::text::word_count;

/// Number of samples that are read at a time.
const CHUNK: usize = 4096;
/// Minimum number of words of a caption whose language can be recognised.
const LANGUAGE_WORDS: usize = 8;

pub(super) fn run(
    pipeline: &GroundingPipeline<'_>,
    source: &dyn Source,
    work: &WorkFolder<GroundingStage>,
) -> Result<StageReport<GroundingStage>> {
    let mut report = StageReport::new(GroundingStage::Phrases, pipeline.chunker.name());
    let mut file = work.create(GroundingStage::Phrases)?;
    for start in (0..source.len()).step_by(CHUNK) {
        pipeline.check_stop()?;
        let range = start..source.len().min(start + CHUNK);
        let samples: Vec<_> = range.into_par_iter().map(|index| source.get(index)).collect();
        let treated: Vec<_> = samples
            .into_par_iter()
            .map(|sample| match sample {
                Ok(sample) => phrases_of(pipeline, sample),
                Err(broken) => {
                    let cause = match broken.cause {
                        conifer_data::Cause::NoCaption => DropCause::EmptyCaption,
                        conifer_data::Cause::CaptionTooLong => DropCause::TooLong,
                        _ => DropCause::BrokenSample,
                    };
                    SamplePhrases { left_out: vec![(cause, broken.to_string())], ..SamplePhrases::default() }
                }
            })
            .collect();
        for sample in treated {
            report.entered += sample.chunks;
            for (cause, example) in &sample.dropped {
                report.drop(*cause, example);
            }
            for (cause, example) in &sample.left_out {
                report.leave_out(*cause, example);
            }
            if let Some(row) = sample.row {
                report.left += row.phrases.len() as u64;
                file.write(&row)?;
            }
        }
    }
    file.finish()?;
    Ok(report)
}

/// The phrases of a sample, and counts of what was left out.
#[derive(Default)]
struct SamplePhrases {
    chunks: u64,
    dropped: Vec<(DropCause, String)>,
    left_out: Vec<(DropCause, String)>,
    row: Option<PhotoPhrases>,
}

fn phrases_of(pipeline: &GroundingPipeline<'_>, sample: Sample) -> SamplePhrases {
    let mut made = SamplePhrases::default();
    let photo = match &sample.image {
        Some(ImageRef::File(path)) => path.clone(),
        other => {
            let cause = if other.is_some() { DropCause::NoPhotoFile } else { DropCause::NoPhoto };
            made.left_out.push((cause, sample.id));
            return made;
        }
    };
    if sample.captions.is_empty() {
        made.left_out.push((DropCause::EmptyCaption, sample.id));
        return made;
    }
    let mut phrases: Vec<PhraseSpans> = Vec::new();
    for (number, caption) in sample.captions.iter().enumerate() {
        let unused = fault(caption, 1).filter(|cause| {
            *cause != DropCause::NotEnglish
                || word_count(caption) >= LANGUAGE_WORDS && !pipeline.settings.keep_other_languages
        });
        if let Some(cause) = unused {
            made.left_out.push((cause, caption.clone()));
            continue;
        }
        let chunks = pipeline.chunker.chunks(caption).unwrap_or_default();
        if chunks.is_empty() {
            made.left_out.push((DropCause::NoPhrase, caption.clone()));
        }
        for chunk in chunks {
            made.chunks += 1;
            let text: String = caption.chars().skip(chunk.start).take(chunk.len()).collect();
            let span = [number, chunk.start, chunk.end];
            if pipeline.abstract_nouns.contains(&text, &pipeline.nouns) {
                made.dropped.push((DropCause::AbstractNoun, text));
            } else if let Some(earlier) = phrases.iter_mut().find(|it| it.text.eq_ignore_ascii_case(&text)) {
                earlier.spans.push(span);
                made.dropped.push((DropCause::RepeatedPhrase, text));
            } else {
                phrases.push(PhraseSpans { text, spans: vec![span] });
            }
        }
    }
    if phrases.is_empty() {
        made.left_out.push((DropCause::PhotoWithoutPhrase, sample.id));
        return made;
    }
    let Sample { id, split, captions, .. } = sample;
    made.row = Some(PhotoPhrases { id, photo, split, captions, phrases });
    made
}
