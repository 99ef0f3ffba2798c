//! The phrases stage: noun chunks and referring expressions of the captions of each photo, without abstract nouns.

use std::ops::Range;

use conifer_data::{ImageRef, Sample, Source};
use rayon::prelude::*;

use super::{CaptionChunk, GroundingPipeline, GroundingStage, PhotoPhrases, PhraseKind, PhraseSpans};
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
            sample.found.iter().for_each(|kind| report.enter_phrase(*kind));
            for (cause, example) in &sample.dropped {
                report.drop(*cause, example);
            }
            for (cause, example) in &sample.left_out {
                report.leave_out(*cause, example);
            }
            if let Some(row) = sample.row {
                row.phrases.iter().for_each(|phrase| report.leave_phrase(phrase.kind));
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
    found: Vec<PhraseKind>,
    dropped: Vec<(DropCause, String)>,
    left_out: Vec<(DropCause, String)>,
    row: Option<PhotoPhrases>,
}

impl SamplePhrases {
    /// Adds a phrase, or its place to an earlier phrase with the same words, and returns the index.
    fn add(&mut self, phrases: &mut Vec<PhraseSpans>, phrase: PhraseSpans) -> usize {
        let earlier = phrases.iter().position(|it| it.text.eq_ignore_ascii_case(&phrase.text));
        let Some(index) = earlier else {
            phrases.push(phrase);
            return phrases.len() - 1;
        };
        let earlier = &mut phrases[index];
        earlier.spans.extend(phrase.spans);
        // A box is assigned to a chunk. Expressions get the box of their chunk.
        if phrase.kind == PhraseKind::Chunk {
            (earlier.kind, earlier.chunk) = (PhraseKind::Chunk, None);
        }
        self.dropped.push((DropCause::RepeatedPhrase, phrase.text));
        index
    }
}

/// The text of a range of characters of a caption, and its place.
fn cut(caption: &str, number: usize, range: &Range<usize>) -> (String, [usize; 3]) {
    (caption.chars().skip(range.start).take(range.len()).collect(), [number, range.start, range.end])
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
        for CaptionChunk { range, expression } in chunks {
            let expression = expression.filter(|_| pipeline.settings.expressions);
            let (text, span) = cut(caption, number, &range);
            made.found.push(PhraseKind::Chunk);
            if pipeline.abstract_nouns.contains(&text, &pipeline.nouns) {
                made.dropped.push((DropCause::AbstractNoun, text));
                if let Some(range) = expression {
                    made.found.push(PhraseKind::Expression);
                    made.dropped.push((DropCause::AbstractNoun, cut(caption, number, &range).0));
                }
                continue;
            }
            let chunk =
                made.add(&mut phrases, PhraseSpans { text, kind: PhraseKind::Chunk, chunk: None, spans: vec![span] });
            if let Some(range) = expression {
                let (text, span) = cut(caption, number, &range);
                made.found.push(PhraseKind::Expression);
                let (kind, chunk) = (PhraseKind::Expression, Some(chunk));
                made.add(&mut phrases, PhraseSpans { text, kind, chunk, spans: vec![span] });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str, chunk: Option<usize>, start: usize) -> PhraseSpans {
        let kind = if chunk.is_some() { PhraseKind::Expression } else { PhraseKind::Chunk };
        PhraseSpans { text: text.to_owned(), kind, chunk, spans: vec![[0, start, start + 1]] }
    }

    #[test]
    fn equal_phrases_share_a_row() {
        let (mut made, mut phrases) = (SamplePhrases::default(), Vec::new());
        assert_eq!(made.add(&mut phrases, phrase("a dog", None, 0)), 0);
        assert_eq!(made.add(&mut phrases, phrase("a dog in a park", Some(0), 0)), 1);
        assert_eq!(made.add(&mut phrases, phrase("A dog", None, 5)), 0);
        assert_eq!(made.add(&mut phrases, phrase("A dog in a park", Some(0), 5)), 1);
        assert_eq!((phrases[0].spans.len(), phrases[1].spans.len(), phrases.len()), (2, 2, 2));
        assert_eq!((phrases[1].kind, phrases[1].chunk), (PhraseKind::Expression, Some(0)));
        // Another chunker result: the whole text is a chunk.
        assert_eq!(made.add(&mut phrases, phrase("a dog in a park", None, 9)), 1);
        assert_eq!((phrases[1].kind, phrases[1].chunk), (PhraseKind::Chunk, None));
        assert_eq!(made.dropped.len(), 3);
    }
}
