//! Plain image-text shards in the WebDataset layout: `<key>.jpg` with the caption in `<key>.txt` or in `<key>.json`
//! (RedCaps).
//!
//! With the option `prefix_key`, a sample has each caption twice: plain, and prefixed with the words of a field of the
//! `.json` member (the subreddit in RedCaps).

use std::path::PathBuf;

use serde::Deserialize;

use super::caption_prefix::{CaptionPrefix, json_text};
use super::{SourceEntry, name_list};
use crate::error::{Error, Result};
use crate::sample::{Broken, Cause, Sample, View};
use crate::shard::{ShardRecord, Shards};
use crate::source::{Source, SourceSpec};

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "image_text_shards",
    summary: "plain WebDataset shards: photo and caption",
    inputs: "path: pattern of .tar shards; options: text (extensions of the members with one caption each, separated by commas, default txt), \
             json_key (caption field of the .json member, default \"caption\"; used if there is no text member), prefix_key (field of the \
             .json member whose words stand before half of the captions while training, for RedCaps \"subreddit\"), prefix_names \
             (table of name, tab, words for this field; other names are used with spaces for underscores)",
    read: |spec| Ok(Box::new(ImageTextShards::open(spec)?)),
};

/// Shards of photos and captions.
pub struct ImageTextShards {
    shards: Shards,
    options: ImageTextShardsOptions,
    prefix: Option<CaptionPrefix>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ImageTextShardsOptions {
    /// Extensions of members that contain one caption each. All members that exist are used, in this order.
    #[serde(deserialize_with = "name_list")]
    text: Vec<String>,
    /// Field of the `.json` member, used if there is no text member.
    json_key: String,
    /// Field of the `.json` member whose words are the prefix of half of the captions; empty for none.
    prefix_key: String,
    /// File that gives the words for each value of this field.
    prefix_names: Option<PathBuf>,
}

impl Default for ImageTextShardsOptions {
    fn default() -> Self {
        Self {
            text: vec!["txt".to_owned()],
            json_key: "caption".to_owned(),
            prefix_key: String::new(),
            prefix_names: None,
        }
    }
}

impl ImageTextShards {
    /// Indexes the shards.
    ///
    /// # Errors
    /// The errors of [`Shards::open`]; an option is invalid, a split is set, the options select no caption, or the file
    /// of prefixes cannot be read or has a line without words.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: ImageTextShardsOptions = spec.parse_options()?;
        if options.text.is_empty() && options.json_key.is_empty() {
            return Err(Error::invalid("text", "[], with an empty json_key", "a member with captions"));
        }
        spec.no_split()?;
        let prefix = CaptionPrefix::open(&options.prefix_key, options.prefix_names.as_deref())?;
        Ok(Self { shards: Shards::open(spec.need_path()?)?, options, prefix })
    }

    fn captions(&self, record: &ShardRecord) -> Result<Vec<String>, Broken> {
        let mut captions = Vec::new();
        for extension in &self.options.text {
            captions.extend(record.text(extension)?.map(|text| text.trim().to_owned()));
        }
        let key = &self.options.json_key;
        if captions.is_empty()
            && !key.is_empty()
            && let Some(json) = record.text("json")?
        {
            captions.push(json_text(record, &json, key)?);
        }
        if captions.is_empty() {
            let there: Vec<_> = record.extensions().collect();
            let wanted = self.options.text.join(", ");
            let detail = format!("members are {}; expected one of {wanted}, or json", there.join(", "));
            return Err(record.broken(Cause::NoCaption, detail));
        }
        if let Some(prefix) = &self.prefix {
            prefix.add(record, &mut captions)?;
        }
        Ok(captions)
    }
}

impl Source for ImageTextShards {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.shards.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let record = self.shards.record(index)?;
        let sample = Sample {
            image: Some(record.need_image("")?),
            captions: self.captions(&record)?,
            id: record.key,
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &[View::Pair]
    }

    fn fingerprint(&self) -> String {
        self.shards.fingerprint().to_owned()
    }
}
