//! The table of a source of vectors: CSV, TSV, JSONL or Parquet.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result, in_one_line};
use crate::files::open_regular;
use crate::vectors::read_rows;

/// The column with the row ids in a Parquet file of vectors.
const ID: &str = "id";
/// Names of the columns, except those of the ranks.
const COLUMNS: [&str; 8] = ["image", "text", "caption", "label", "split", "tiers", "box", "phrase"];

/// A row of the table. Fields that the table does not have are empty.
pub(super) struct FeatureRecord {
    /// Name of the row in messages: `line 3`, counted from 1, or `row 3` of a Parquet file, counted from 0.
    pub(super) number: String,
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
    fn new(number: String, ranks: &[String], field: impl Fn(&str) -> String) -> Self {
        let [image, text, caption, label, split, tiers, bbox, phrase] = COLUMNS.map(&field);
        let ranks = ranks.iter().map(|rank| field(rank)).collect();
        Self { number, image, text, caption, label, split, tiers, bbox, phrase, ranks }
    }

    /// Names the row in messages.
    pub(super) fn place(&self, path: &Path) -> String {
        format!("{} of `{}`", self.number, path.display())
    }

    /// The names of the ranks up to the first empty one.
    pub(super) fn taxon(&self) -> Vec<String> {
        self.ranks.iter().take_while(|name| !name.is_empty()).cloned().collect()
    }

    pub(super) fn hash(&self, hash: &mut Sha256) {
        let Self { number: _, image, text, caption, label, split, tiers, bbox, phrase, ranks } = self;
        for field in [image, text, caption, label, split, tiers, bbox, phrase].into_iter().chain(ranks) {
            hash.update(field);
            hash.update([0]);
        }
        hash.update(b"\n");
    }
}

/// Which vectors are in the Parquet table itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnVectors {
    pub(super) images: bool,
    pub(super) texts: bool,
}

/// Reads all rows. In a Parquet table that holds the vectors `own`, the column `id` replaces the columns `image` and
/// `text` if these are absent.
///
/// # Errors
/// The file cannot be read, has rows of different lengths, or lacks a rank.
pub(super) fn read_table(
    path: &Path,
    ranks: &[String],
    delimiter: Option<char>,
    own: OwnVectors,
) -> Result<Vec<FeatureRecord>> {
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    let file = open_regular(path).map_err(Error::io("read", path))?;
    match extension.as_str() {
        "jsonl" => read_lines(path, ranks, BufReader::new(file)),
        "parquet" => read_columns(path, ranks, own),
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
        .ok_or_else(|| Error::invalid("delimiter", format!("{delimiter:?}"), "an ASCII character"))?;
    let broken = |error: csv::Error| {
        let expected = "a table in UTF-8 whose rows have as many fields as its header";
        Error::format(format!("`{}`", path.display()), error.to_string(), expected)
    };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(file);
    let header = reader.headers().map_err(broken)?.iter();
    let header: Vec<String> = header.map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
    check_header(path, ranks, &header, &header)?;
    let mut records = Vec::new();
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(broken)? {
        let field = |name: &str| {
            let column = header.iter().position(|column| column == name);
            column.and_then(|column| row.get(column)).unwrap_or_default().trim().to_owned()
        };
        let line = row.position().map_or(0, csv::Position::line);
        records.push(FeatureRecord::new(format!("line {line}"), ranks, field));
    }
    Ok(records)
}

/// `used` are the columns that are read, and `all` are the columns of the file.
fn check_header(path: &Path, ranks: &[String], used: &[String], all: &[String]) -> Result<()> {
    let fault = |found: String, expected: String| {
        Err(Error::format(format!("header of `{}`", path.display()), found, expected))
    };
    if !["image", "text", "tiers"].iter().any(|name| used.iter().any(|column| column == name)) {
        let expected = format!("image, text or tiers (columns with a meaning: {})", COLUMNS.join(", "));
        return fault(format!("columns {}", all.join(", ")), expected);
    }
    if let Some(rank) = ranks.iter().find(|rank| !used.contains(rank)) {
        return fault(format!("no column `{rank}`"), format!("one of {}", all.join(", ")));
    }
    Ok(())
}

fn read_columns(path: &Path, ranks: &[String], own: OwnVectors) -> Result<Vec<FeatureRecord>> {
    let names: Vec<&str> = COLUMNS.into_iter().chain(ranks.iter().map(String::as_str)).chain([ID]).collect();
    let (mut found, rows) = read_rows(path, &names)?;
    let has = |name: &str| found.iter().any(|column| column == name);
    let [image, text] = [("image", own.images), ("text", own.texts)].map(|(name, own)| own && has(ID) && !has(name));
    found.extend(image.then(|| "image".to_owned()));
    found.extend(text.then(|| "text".to_owned()));
    check_header(path, ranks, &found, &found)?;
    let record = |(row, object): (usize, Map<String, Value>)| {
        let number = format!("row {row}");
        check_fields(&object, ranks, || format!("{number} of `{}`", path.display()))?;
        let field = |name: &str| {
            let from_id = (name == "image" && image) || (name == "text" && text);
            field_of(&object, if from_id { ID } else { name }, name)
        };
        Ok(FeatureRecord::new(number.clone(), ranks, field))
    };
    rows.into_iter().enumerate().map(record).collect()
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
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| Error::format(place(), in_one_line(&error), "one JSON object per line"))?;
        check_fields(&object, ranks, place)?;
        records.push(FeatureRecord::new(format!("line {line}"), ranks, |name| field_of(&object, name, name)));
    }
    Ok(records)
}

fn check_fields(object: &Map<String, Value>, ranks: &[String], place: impl Fn() -> String) -> Result<()> {
    let is_read = |name: &String| COLUMNS.contains(&name.as_str()) || ranks.contains(name);
    match object.iter().find(|(name, value)| is_read(name) && !is_field(value)) {
        None => Ok(()),
        Some((name, value)) => {
            Err(Error::format(place(), format!("`{name}` is {value}"), "a number, a string or a list of them"))
        }
    }
}

/// The value of `column`, formatted like the field `name` of a CSV table.
fn field_of(object: &Map<String, Value>, column: &str, name: &str) -> String {
    let separator = if name == "tiers" { ">" } else { ";" };
    object.get(column).map(|value| shown(value, separator)).unwrap_or_default().trim().to_owned()
}

fn is_field(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| !item.is_array() && !item.is_object()),
        other => !other.is_object(),
    }
}

/// A JSON value formatted like a field of a CSV table. List items are joined by `separator`.
fn shown(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| shown(item, separator)).collect::<Vec<_>>().join(separator),
        other => other.to_string(),
    }
}
