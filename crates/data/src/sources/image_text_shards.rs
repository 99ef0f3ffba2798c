//! Plain image-text shards in the WebDataset layout: `<key>.jpg` with the caption in `<key>.txt` or in `<key>.json`
//! (RedCaps).
//!
//! With `prefix_key` a sample has each caption twice: plain, and after the words of a field, `cat pictures : my cat`. The
//! loader draws one caption each time it reads a sample, so half of the captions have the prefix, as in MERU's training
//! on RedCaps (the field is the subreddit).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

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
             json_key (caption field of the .json member, default \"caption\"; used if there is no text member), prefix_key (field of the \
             .json member whose words stand before half of the captions while training, for RedCaps \"subreddit\"), prefix_names \
             (table of name, tab, words for this field; other names are used with spaces for underscores)",
    read: |spec| Ok(Box::new(ImageTextShards::open(spec)?)),
};

/// Shards of photos and captions.
pub struct ImageTextShards {
    shards: Shards,
    options: ImageTextShardsOptions,
    /// Words of the values of the prefix field, by value in lower case.
    prefix_words: HashMap<String, String>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ImageTextShardsOptions {
    /// Extensions of members that contain one caption each. All members that exist are used, in this order.
    #[serde(deserialize_with = "name_list")]
    text: Vec<String>,
    /// Field of the `.json` member, used if there is no text member.
    json_key: String,
    /// Field of the `.json` member whose words precede half of the captions; empty for none.
    prefix_key: String,
    /// Table of the values of this field and their words.
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
    /// See [`Shards::open`]; also if the options select no caption, or the table of prefixes has a row without words.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: ImageTextShardsOptions = spec.parse_options()?;
        if options.text.is_empty() && options.json_key.is_empty() {
            return Err(Error::config("text", "[], with an empty json_key", "a member with captions"));
        }
        if options.prefix_key.is_empty()
            && let Some(names) = &options.prefix_names
        {
            let found = format!("`{}`, without prefix_key", names.display());
            return Err(Error::config("prefix_names", found, "prefix_key, the field that the names stand in"));
        }
        spec.no_split()?;
        let prefix_words = options.prefix_names.as_deref().map(read_words).transpose()?.unwrap_or_default();
        Ok(Self { shards: Shards::open(spec.need_path()?)?, options, prefix_words })
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
            captions.push(field(record, &json, key)?);
        }
        if captions.is_empty() {
            let there: Vec<_> = record.extensions().collect();
            let wanted = self.options.text.join(", ");
            let detail = format!("members are {}; expected one of {wanted}, or json", there.join(", "));
            return Err(record.broken(Cause::NoCaption, detail));
        }
        if let Some(prefix) = self.prefix(record)? {
            let prefixed: Vec<_> = captions.iter().map(|caption| format!("{prefix} : {caption}")).collect();
            captions.extend(prefixed);
        }
        Ok(captions)
    }

    /// The words that precede half of the captions.
    fn prefix(&self, record: &ShardRecord) -> Result<Option<String>, Broken> {
        let key = &self.options.prefix_key;
        if key.is_empty() {
            return Ok(None);
        }
        let json = record.text("json")?.ok_or_else(|| {
            let detail = format!("no `.json` member; expected one with a text in `{key}`");
            record.broken(Cause::BadRecord, detail)
        })?;
        let name = field(record, &json, key)?;
        let words = self.prefix_words.get(&name.to_lowercase()).cloned();
        Ok(Some(words.unwrap_or_else(|| name.replace('_', " "))))
    }
}

/// The text of a field of a `.json` member.
fn field(record: &ShardRecord, json: &str, key: &str) -> Result<String, Broken> {
    let fault = |found: String| {
        record.broken(Cause::BadRecord, format!("`.json`: {found}; expected an object with a text in `{key}`"))
    };
    let fields: Map<String, Value> = serde_json::from_str(json).map_err(|error| fault(error.to_string()))?;
    match fields.get(key) {
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        other => Err(fault(other.map_or("no such field".to_owned(), Value::to_string))),
    }
}

/// Reads rows of a name, a tab and its words.
fn read_words(path: &Path) -> Result<HashMap<String, String>> {
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let mut words = HashMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = line.split_once('\t').map(|(name, words)| (name.trim(), words.trim()));
        let Some((name, named)) = row.filter(|(name, words)| !name.is_empty() && !words.is_empty()) else {
            let place = format!("line {} of `{}`", number + 1, path.display());
            return Err(Error::format(place, format!("{line:?}"), "a name, a tab and its words"));
        };
        words.insert(name.to_lowercase(), named.to_owned());
    }
    Ok(words)
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
