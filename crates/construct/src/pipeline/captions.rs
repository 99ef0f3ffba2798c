//! The captions stage: selects captions that are suitable for a hierarchy.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use conifer_data::{ImageRef, Source};
use rayon::prelude::*;

use super::{CaptionRow, DropCause, MAX_WORDS, Pipeline, Stage, StageReport, WorkFolder};
use crate::lexicon::words;
use crate::text::{is_word, split};
use crate::{Error, Result};

/// Number of samples that are read at a time.
const CHUNK: usize = 4096;
/// Minimum share of English function words in a caption. The median over Flickr8k's captions is 0.5.
const ENGLISH: f32 = 0.15;
/// Frequent function words of other languages with Latin letters that are not English words.
const OTHER_LANGUAGES: &[&str] = &[
    "der", "das", "und", "ein", "eine", "einem", "einen", "mit", "auf", "ist", "sind", "le", "les", "une", "dans",
    "avec", "est", "sur", "el", "los", "las", "una", "con", "del", "por", "il", "della", "sono", "een", "het", "van",
    "op", "uma", "com", "em", "na", "que", "di", "och", "som", "och", "ett",
];

pub(super) fn run(pipeline: &Pipeline<'_>, source: &dyn Source, work: &WorkFolder) -> Result<StageReport> {
    let mut report = StageReport::new(Stage::Captions, "rules");
    let mut file = work.create(Stage::Captions)?;
    let mut seen = HashSet::new();
    for start in (0..source.len()).step_by(CHUNK) {
        if pipeline.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let range = start..source.len().min(start + CHUNK);
        let samples: Vec<_> = range.into_par_iter().map(|index| source.get(index)).collect();
        for sample in samples {
            let sample = match sample {
                Ok(sample) => sample,
                Err(broken) => {
                    report.entered += 1;
                    report.drop(DropCause::BrokenSample, &broken.to_string());
                    continue;
                }
            };
            let photo = match &sample.image {
                Some(ImageRef::File(path)) => Some(path.clone()),
                _ => None,
            };
            let several = sample.captions.len() > 1;
            for (number, caption) in sample.captions.iter().enumerate() {
                report.entered += 1;
                let caption = caption.split_whitespace().collect::<Vec<_>>().join(" ");
                let fault = fault(&caption, pipeline.settings.min_words);
                let other_language = fault == Some(DropCause::NotEnglish) && pipeline.settings.keep_other_languages;
                if let Some(cause) = fault.filter(|_| !other_language) {
                    report.drop(cause, &caption);
                    continue;
                }
                if !seen.insert(fingerprint(&caption)) {
                    report.drop(DropCause::Duplicate, &caption);
                    continue;
                }
                let id = if several { format!("{}#{number}", sample.id) } else { sample.id.clone() };
                let split = sample.split.clone();
                file.write(&CaptionRow { id, photo: photo.clone(), split, caption, other_language })?;
                report.left += 1;
            }
        }
    }
    file.finish()?;
    Ok(report)
}

/// Why a caption is dropped; `None` if it is kept.
pub(crate) fn fault(caption: &str, min_words: usize) -> Option<DropCause> {
    let parts = split(caption);
    let count = parts.iter().filter(|part| is_word(part)).count();
    if !is_standard(caption) {
        Some(DropCause::Characters)
    } else if count < min_words {
        Some(DropCause::TooShort)
    } else if count > MAX_WORDS {
        Some(DropCause::TooLong)
    } else if !is_english(&parts) {
        Some(DropCause::NotEnglish)
    } else {
        None
    }
}

/// True if a text has an ASCII letter or digit, but no control or replacement character and no `=>`, which separates
/// the tiers in HierarCaps' tables.
pub(super) fn is_standard(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_alphanumeric())
        && !text.chars().any(char::is_control)
        && !text.contains("=>")
        && !text.contains('\u{fffd}')
}

fn is_english(parts: &[&str]) -> bool {
    let lower: Vec<String> = parts.iter().filter(|part| is_word(part)).map(|part| part.to_lowercase()).collect();
    let share = |count: usize| count as f32 / lower.len().max(1) as f32;
    let english = share(lower.iter().filter(|word| words().is("english", word)).count());
    let other = share(lower.iter().filter(|word| OTHER_LANGUAGES.contains(&word.as_str())).count());
    let ascii = share(lower.iter().filter(|word| word.is_ascii()).count());
    english >= ENGLISH && english > other && ascii > 0.8
}

/// A hash that is equal for captions that differ only in case and punctuation.
fn fingerprint(caption: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    split(caption).into_iter().filter(|part| is_word(part)).for_each(|part| part.to_lowercase().hash(&mut hash));
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_are_selected_by_cause() {
        let long = "a dog in a park ".repeat(30);
        for (caption, expected) in [
            ("A dog is running through the deep snow near a fence .", None),
            ("A dog in snow .", Some(DropCause::TooShort)),
            (&*long, Some(DropCause::TooLong)),
            ("\u{72d7}\u{5728}\u{96ea}\u{5730}", Some(DropCause::Characters)),
            ("a dog => a cat => a bird => a fish in the lake", Some(DropCause::Characters)),
            ("Ein Hund rennt mit einem Ball auf der Wiese und ist sehr schnell .", Some(DropCause::NotEnglish)),
            ("Un chien court dans la neige avec une balle sur les rochers", Some(DropCause::NotEnglish)),
            ("sale shoes cheap boots discount free shipping leather outlet store online", Some(DropCause::NotEnglish)),
        ] {
            assert_eq!(fault(caption, 10), expected, "{caption}");
        }
        assert_eq!(fingerprint("A dog , runs ."), fingerprint("a dog runs"));
    }
}
