//! The table of a source of vectors: CSV, TSV or JSONL.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result, in_one_line};
use crate::files::open_regular;

/// Columns besides the ranks.
const COLUMNS: [&str; 8] = ["image", "text", "caption", "label", "split", "tiers", "box", "phrase"];

/// A row of the table. Absent fields are empty.
pub(super) struct FeatureRecord {
    /// Number of the line, from 1.
    pub(super) line: u64,
    pub(super) image: String,
    pub(super) text: String,
    pub(super) caption: String,
    pub(super) label: String,
    pub(super) split: String,
    pub(super) tiers: String,
    pub(super) bbox: String,
    pub(super) phrase: String,
    ranks: Vec<String>,
}

impl FeatureRecord {
    /// `field` returns the value of a column, trimmed.
    fn new(line: u64, ranks: &[String], field: impl Fn(&str) -> String) -> Self {
        let [image, text, caption, label, split, tiers, bbox, phrase] = COLUMNS.map(&field);
        let ranks = ranks.iter().map(|rank| field(rank)).collect();
        Self { line, image, text, caption, label, split, tiers, bbox, phrase, ranks }
    }

    /// Names the row in messages.
    pub(super) fn place(&self, path: &Path) -> String {
        format!("line {} of `{}`", self.line, path.display())
    }

    /// The names of the ranks up to the first empty one.
    pub(super) fn taxon(&self) -> Vec<String> {
        self.ranks.iter().take_while(|name| !name.is_empty()).cloned().collect()
    }

    pub(super) fn hash(&self, hash: &mut Sha256) {
        let Self { line: _, image, text, caption, label, split, tiers, bbox, phrase, ranks } = self;
        for field in [image, text, caption, label, split, tiers, bbox, phrase].into_iter().chain(ranks) {
            hash.update(field);
            hash.update([0]);
        }
        hash.update(b"\n");
    }
}

/// Reads all rows.
///
/// # Errors
/// The file cannot be read, has rows of different lengths, or lacks a rank.
pub(super) fn read_table(path: &Path, ranks: &[String], delimiter: Option<char>) -> Result<Vec<FeatureRecord>> {
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    let file = open_regular(path).map_err(Error::io("read", path))?;
    match extension.as_str() {
        "jsonl" => read_lines(path, ranks, BufReader::new(file)),
        _ => {
            let usual = if extension == "tsv" { '\t' } else { ',' };
            read_delimited(path, ranks, delimiter.unwrap_or(usual), file)
        }
    }
}

fn read_delimited(
    path: &Path,
    ranks: &[String],
    delimiter: char,
    file: impl std::io::Read,
) -> Result<Vec<FeatureRecord>> {
    let delimiter = u8::try_from(delimiter)
        .ok()
        .filter(u8::is_ascii)
        .ok_or_else(|| Error::config("delimiter", format!("{delimiter:?}"), "an ASCII character"))?;
    let broken = |error: csv::Error| {
        let expected = "a table in UTF-8 whose rows have as many fields as its header";
        Error::format(format!("`{}`", path.display()), error.to_string(), expected)
    };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(file);
    let header = reader.headers().map_err(broken)?.iter();
    let header: Vec<String> = header.map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
    let fault =
        |found: String, expected: String| Error::format(format!("header of `{}`", path.display()), found, expected);
    if !["image", "text", "tiers"].iter().any(|name| header.iter().any(|column| column == name)) {
        let expected = format!("image, text or tiers (columns with a meaning: {})", COLUMNS.join(", "));
        return Err(fault(format!("columns {}", header.join(", ")), expected));
    }
    if let Some(rank) = ranks.iter().find(|rank| !header.contains(rank)) {
        return Err(fault(format!("no column `{rank}`"), format!("one of {}", header.join(", "))));
    }
    let mut records = Vec::new();
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(broken)? {
        let field = |name: &str| {
            let column = header.iter().position(|column| column == name);
            column.and_then(|column| row.get(column)).unwrap_or_default().trim().to_owned()
        };
        let line = row.position().map_or(0, csv::Position::line);
        records.push(FeatureRecord::new(line, ranks, field));
    }
    Ok(records)
}

fn read_lines(path: &Path, ranks: &[String], file: impl BufRead) -> Result<Vec<FeatureRecord>> {
    let mut records = Vec::new();
    for (line, text) in (1..).zip(file.lines()) {
        let text = text.map_err(Error::io("read", path))?;
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            continue;
        }
        let place = || format!("line {line} of `{}`", path.display());
        let object: serde_json::Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| Error::format(place(), in_one_line(&error), "one JSON object per line"))?;
        let is_read = |name: &String| COLUMNS.contains(&name.as_str()) || ranks.contains(name);
        if let Some((name, value)) = object.iter().find(|(name, value)| is_read(name) && !is_field(value)) {
            return Err(Error::format(place(), format!("`{name}` is {value}"), "a number, a string or a list of them"));
        }
        let field = |name: &str| {
            let separator = if name == "tiers" { ">" } else { ";" };
            object.get(name).map(|value| shown(value, separator)).unwrap_or_default().trim().to_owned()
        };
        records.push(FeatureRecord::new(line, ranks, field));
    }
    Ok(records)
}

fn is_field(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| !item.is_array() && !item.is_object()),
        other => !other.is_object(),
    }
}

/// A value as the field of a CSV table.
fn shown(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| shown(item, separator)).collect::<Vec<_>>().join(separator),
        other => other.to_string(),
    }
}
