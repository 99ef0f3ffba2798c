//! GRIT as prepared by HyCoCLIP: shards of `<key>.child.jpg` and `<key>.child.txt` (the photo and its caption),
//! `<key>.numparents.txt`, and `<key>.parent000.jpg`, `<key>.parent000.txt`, ... (cropped boxes and their phrases; they
//! are called "parent" because a box is more general than its photo). [`crate::export`] writes the same layout.
//!
//! The same layout is used for RedCaps with boxes, which has the subreddit in `<key>.json`. With the option
//! `prefix_key`, a sample has each caption twice: plain, and prefixed with the words of that field. Phrases have no
//! prefix.

use std::path::PathBuf;

use serde::Deserialize;

use super::SourceEntry;
use super::caption_prefix::CaptionPrefix;
use crate::error::Result;
use crate::sample::{Broken, Cause, Phrase, Sample, View};
use crate::shard::{ShardRecord, Shards};
use crate::source::{Source, SourceSpec};

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "grit_processed",
    summary: "GRIT shards as prepared by HyCoCLIP (child, parentNNN)",
    inputs: "path: pattern of .tar shards; options: prefix_key and prefix_names, as in image_text_shards (the field is in `<key>.json`)",
    read: |spec| Ok(Box::new(GritProcessed::open(spec)?)),
};

/// GRIT shards as prepared by HyCoCLIP.
pub struct GritProcessed {
    shards: Shards,
    prefix: Option<CaptionPrefix>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GritProcessedOptions {
    /// Field of the `.json` member whose words are the prefix of half of the captions; empty for none.
    prefix_key: String,
    /// File that gives the words for each value of this field.
    prefix_names: Option<PathBuf>,
}

impl GritProcessed {
    /// Indexes the shards.
    ///
    /// # Errors
    /// The errors of [`Shards::open`]; an option is invalid, a split is set, or the file of prefixes cannot be read or
    /// has a line without words.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: GritProcessedOptions = spec.parse_options()?;
        spec.no_split()?;
        let prefix = CaptionPrefix::open(&options.prefix_key, options.prefix_names.as_deref())?;
        Ok(Self { shards: Shards::open(spec.need_path()?)?, prefix })
    }
}

impl Source for GritProcessed {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.shards.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let record = self.shards.record(index)?;
        let count = count(&record)?;
        let phrases = (0..count)
            .map(|k| {
                Ok(Phrase {
                    text: record.need_text(&format!("parent{k:03}.txt"))?.trim().to_owned(),
                    crop: Some(record.need_image(&format!("parent{k:03}."))?),
                    ..Phrase::default()
                })
            })
            .collect::<Result<_, Broken>>()?;
        let mut captions = vec![record.need_text("child.txt")?.trim().to_owned()];
        if let Some(prefix) = &self.prefix {
            prefix.add(&record, &mut captions)?;
        }
        let sample = Sample {
            image: Some(record.need_image("child.")?),
            captions,
            id: record.key,
            phrases,
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &[View::Pair, View::Boxes]
    }

    fn fingerprint(&self) -> String {
        self.shards.fingerprint().to_owned()
    }
}

/// The number of boxes. It must equal the number of texts; otherwise a member is missing.
fn count(record: &ShardRecord) -> Result<usize, Broken> {
    let there = record.extensions().filter(|e| e.starts_with("parent") && e.ends_with(".txt")).count();
    let text = record.need_text("numparents.txt")?;
    match text.trim().parse() {
        Ok(count) if count == there => Ok(count),
        _ => {
            let detail =
                format!("`.numparents.txt` is {:?}; expected {there}, the number of `.parentNNN.txt`", text.trim());
            Err(record.broken(Cause::BadRecord, detail))
        }
    }
}
