//! Caption prefixes: in training, half of the captions of a sample begin with the words of a metadata field, such as
//! the subreddit of a RedCaps photo.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::sample::{Broken, Cause};
use crate::shard::ShardRecord;

/// Adds a second copy of each caption, prefixed with the words of a field of the `.json` member: `cat pictures : my
/// cat`. The loader draws one caption each time it reads a sample, so half of the drawn captions have the prefix, as in
/// MERU's training on RedCaps (the field is `subreddit`).
pub(super) struct CaptionPrefix {
    /// Name of the field.
    key: String,
    /// The prefix for each known value of the field; the keys are in lower case. Any other value is its own prefix,
    /// with spaces for underscores.
    words: HashMap<String, String>,
}

impl CaptionPrefix {
    /// Reads the options `prefix_key` (empty for no prefix) and `prefix_names`, a file that gives the prefix for each
    /// value of the field.
    ///
    /// # Errors
    /// `prefix_names` is set without `prefix_key`, the file cannot be read, or one of its lines has no words.
    pub(super) fn open(key: &str, names: Option<&Path>) -> Result<Option<Self>> {
        match (key, names) {
            ("", None) => Ok(None),
            ("", Some(names)) => {
                let found = format!("`{}`, without prefix_key", names.display());
                Err(Error::invalid("prefix_names", found, "prefix_key, the field that the names stand in"))
            }
            (key, names) => {
                let words = names.map(read_words).transpose()?.unwrap_or_default();
                Ok(Some(Self { key: key.to_owned(), words }))
            }
        }
    }

    /// Appends a copy of each caption of `record` with the prefix.
    ///
    /// # Errors
    /// The record has no `.json` member, or that member has no text in the field.
    pub(super) fn add(&self, record: &ShardRecord, captions: &mut Vec<String>) -> Result<(), Broken> {
        let json = record.text("json")?.ok_or_else(|| {
            let detail = format!("no `.json` member; expected one with a text in `{}`", self.key);
            record.broken(Cause::BadRecord, detail)
        })?;
        let name = json_text(record, &json, &self.key)?;
        let words = self.words.get(&name.to_lowercase()).cloned().unwrap_or_else(|| name.replace('_', " "));
        let prefixed: Vec<_> = captions.iter().map(|caption| format!("{words} : {caption}")).collect();
        captions.extend(prefixed);
        Ok(())
    }
}

/// The text of a field of a `.json` member.
pub(super) fn json_text(record: &ShardRecord, json: &str, key: &str) -> Result<String, Broken> {
    let fault = |found: String| {
        record.broken(Cause::BadRecord, format!("`.json`: {found}; expected an object with a text in `{key}`"))
    };
    let fields: Map<String, Value> = serde_json::from_str(json).map_err(|error| fault(error.to_string()))?;
    match fields.get(key) {
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        other => Err(fault(other.map_or("no such field".to_owned(), Value::to_string))),
    }
}

/// Reads lines of a value, a tab and the words for that value.
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
