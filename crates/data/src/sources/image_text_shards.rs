//! Plain image-text shards in the WebDataset layout: `<key>.jpg` with the caption in `<key>.txt` or in `<key>.json`
//! (RedCaps).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{SourceEntry, name_list};
use crate::error::{Error, Result};
use crate::sample::{Broken, Cause, Sample, View};
use crate::shard::{ShardRecord, Shards};
use crate::source::{Source, SourceSpec};

/// The entry of this kind of source.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "image_text_shards",
    summary: "plain WebDataset shards: photo and caption",
    inputs: "path: pattern of .tar shards; options: text (extensions of the members with one caption each, separated by commas, default txt), \
             json_key (caption field of the .json member, default \"caption\"; used if there is no text member)",
    read: |spec| Ok(Box::new(ImageTextShards::open(spec)?)),
};

/// Shards of photos and captions.
pub struct ImageTextShards {
    shards: Shards,
    options: ImageTextShardsOptions,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ImageTextShardsOptions {
    /// Extensions of members that contain one caption each. All members that exist are used, in this order.
    #[serde(deserialize_with = "name_list")]
    text: Vec<String>,
    /// Field of the `.json` member, used if there is no text member.
    json_key: String,
}

impl Default for ImageTextShardsOptions {
    fn default() -> Self {
        Self { text: vec!["txt".to_owned()], json_key: "caption".to_owned() }
    }
}

impl ImageTextShards {
    /// Indexes the shards.
    ///
    /// # Errors
    /// See [`Shards::open`]; also if the options select no caption.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: ImageTextShardsOptions = spec.parse_options()?;
        if options.text.is_empty() && options.json_key.is_empty() {
            return Err(Error::config("text", "[], with an empty json_key", "a member with captions"));
        }
        spec.no_split()?;
        Ok(Self { shards: Shards::open(spec.need_path()?)?, options })
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
            let expected = format!("an object with a text in `{key}`");
            let fault =
                |found: String| record.broken(Cause::BadRecord, format!("`.json`: {found}; expected {expected}"));
            let fields: Map<String, Value> = serde_json::from_str(&json).map_err(|e| fault(e.to_string()))?;
            match fields.get(key) {
                Some(Value::String(caption)) => captions.push(caption.trim().to_owned()),
                other => return Err(fault(other.map_or("no such field".to_owned(), Value::to_string))),
            }
        }
        if captions.is_empty() {
            let there: Vec<_> = record.extensions().collect();
            let wanted = self.options.text.join(", ");
            let detail = format!("members are {}; expected one of {wanted}, or json", there.join(", "));
            return Err(record.broken(Cause::NoCaption, detail));
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
