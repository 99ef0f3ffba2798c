//! Lists every key of a config, and suggests a known key for an unknown one. Keys, types and descriptions come from the
//! structs of the sections (`config/mod.rs`) and their doc comments.

use std::collections::BTreeSet;
use std::slice;

use conifer_model::encoders::{ENCODERS, OnnxImageConfig, OnnxTextConfig, TextualConfig, VisualConfig};
use conifer_model::head::Tower;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::Config;
use crate::methods::METHODS;

/// A key of the configuration, for listings.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KeyRow {
    /// Dotted path; settings of one method are `method.<key> (<method>)`.
    pub key: String,
    /// Type, or the accepted words.
    pub expected: String,
    /// The default, as TOML; empty if there is none.
    pub default: String,
    /// Purpose of the key, with unit and range.
    pub meaning: String,
}

/// Every key: those of the sections in their order, then those of the encoders and of the methods.
pub fn schema() -> Vec<KeyRow> {
    let defaults = Table::try_from(Config::default()).unwrap_or_default();
    let mut rows: Vec<KeyRow> = fields::<Config>("");
    for row in &mut rows {
        row.default = lookup(&defaults, &row.key).map(Value::to_string).unwrap_or_default();
    }
    for (section, tower) in [("model.visual", Tower::Image), ("model.textual", Tower::Text)] {
        let presets = ENCODERS.iter().filter(|entry| entry.tower == tower).flat_map(|entry| (entry.presets)());
        let presets: Vec<_> = presets.collect();
        rows.push(KeyRow {
            key: format!("{section}.init"),
            expected: "string, optional".to_owned(),
            default: String::new(),
            meaning: "Take the encoder from this file, folder or name on the hub.".to_owned(),
        });
        rows.push(KeyRow {
            key: format!("{section}.preset"),
            expected: format!("one of {}", presets.join(", ")),
            default: String::new(),
            meaning: "A named architecture; other keys override its values.".to_owned(),
        });
        for (key, value) in leaves(lookup(&defaults, section)) {
            rows.push(KeyRow {
                key: format!("{section}.{key}"),
                expected: value.type_str().to_owned(),
                default: value.to_string(),
                meaning: "See the encoder's documentation.".to_owned(),
            });
        }
    }
    for mut row in onnx_fields() {
        if rows.iter().all(|it| it.key != row.key) {
            row.expected.push_str(" (kind = \"onnx\")");
            rows.push(row);
        }
    }
    for entry in &METHODS {
        for (key, value) in leaves((entry.resolve)(&Table::new()).ok().map(Value::Table).as_ref()) {
            rows.push(KeyRow {
                key: format!("method.{key} ({})", entry.name),
                expected: value.type_str().to_owned(),
                default: value.to_string(),
                meaning: format!("See docs/methods/{}.md.", entry.name),
            });
        }
    }
    rows
}

/// Checks that every key of `table` is known. The message names the first unknown key and the nearest known one.
pub(super) fn check(table: &Table) -> Result<(), String> {
    let known = known();
    for (key, _) in leaves(Some(&Value::Table(table.clone()))) {
        let is_source_option = SOURCE_OPTIONS.iter().any(|prefix| key.starts_with(prefix));
        if !is_source_option && !known.contains(&key) {
            return Err(format!("unknown key `{key}`; {}", nearest(&key, &known)));
        }
    }
    Ok(())
}

/// Prefixes of keys that the data source checks.
const SOURCE_OPTIONS: &[&str] = &["data.options.", "eval.options."];

/// The keys of all sections, encoders and methods. Tables are included, because a table may be empty.
fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> =
        fields::<Config>("").into_iter().chain(onnx_fields()).map(|row| row.key).collect();
    known.extend(["model.visual.init", "model.textual.init"].map(str::to_owned));
    for entry in ENCODERS {
        for preset in (entry.presets)() {
            let (section, table) = match entry.tower {
                Tower::Image => {
                    ("model.visual", VisualConfig::preset(preset).ok().and_then(|it| Value::try_from(it).ok()))
                }
                Tower::Text => {
                    ("model.textual", TextualConfig::preset(preset).ok().and_then(|it| Value::try_from(it).ok()))
                }
            };
            known.insert(format!("{section}.preset"));
            known.extend(leaves(table.as_ref()).into_iter().map(|(key, _)| format!("{section}.{key}")));
        }
    }
    for entry in &METHODS {
        let settings = (entry.resolve)(&Table::new()).ok().map(Value::Table);
        known.extend(leaves(settings.as_ref()).into_iter().map(|(key, _)| format!("method.{key}")));
    }
    let sections: Vec<String> =
        known.iter().flat_map(|key| key.match_indices('.').map(|(dot, _)| key[..dot].to_owned())).collect();
    known.extend(sections);
    known
}

/// Suggests the known key with the smallest edit distance, or else lists the keys of the same section.
fn nearest(key: &str, known: &BTreeSet<String>) -> String {
    let leaf = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let section = |key: &str| key.rsplit_once('.').map_or(String::new(), |(section, _)| section.to_owned());
    // A wrong section costs as much as a typo of one character.
    let cost = |candidate: &String| {
        let is_moved = section(key) != section(candidate);
        let moved = strsim::levenshtein(&leaf(key), &leaf(candidate)) + usize::from(is_moved);
        strsim::levenshtein(key, candidate).min(moved)
    };
    if let Some(best) = known.iter().min_by_key(|candidate| cost(candidate))
        && cost(best) <= 2.max(leaf(key).len() / 3)
    {
        return format!("did you mean `{best}`?");
    }
    let mut parent = section(key);
    while !parent.is_empty() && !known.contains(&parent) {
        parent = section(&parent);
    }
    let siblings: Vec<String> = known.iter().filter(|it| section(it) == parent).map(|it| leaf(it)).collect();
    let location = if parent.is_empty() { "at the top level".to_owned() } else { format!("in `{parent}`") };
    format!("known {location}: {}", siblings.join(", "))
}

/// The dotted paths of all values that are not tables, and of empty tables.
fn leaves(value: Option<&Value>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    if let Some(Value::Table(table)) = value {
        for (key, value) in table {
            let below = leaves(Some(value));
            if below.is_empty() {
                found.push((key.clone(), value.clone()));
            }
            found.extend(below.into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
        }
    }
    found
}

fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = table.get(first)?;
    match rest {
        None => Some(value),
        Some(rest) => lookup(value.as_table()?, rest),
    }
}

/// The keys of the encoders of kind `onnx`.
fn onnx_fields() -> impl Iterator<Item = KeyRow> {
    fields::<OnnxImageConfig>("model.visual").into_iter().chain(fields::<OnnxTextConfig>("model.textual"))
}

/// The keys of `T` below `prefix`, without defaults.
fn fields<T: JsonSchema>(prefix: &str) -> Vec<KeyRow> {
    let settings = SchemaSettings::default().with(|it| it.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut rows = Vec::new();
    add_fields(prefix, "", &[schema.as_value()], &mut rows);
    rows
}

/// Adds the fields of `schemas`, which are the alternatives of one value. The tag of an enum has no doc comment, so it
/// is described by `about`, the description of the value.
fn add_fields(prefix: &str, about: &str, schemas: &[&Json], rows: &mut Vec<KeyRow>) {
    // The variants of an enum may share a field.
    let mut found: Vec<(&str, Vec<&Json>)> = Vec::new();
    for (key, field) in schemas.iter().filter_map(|it| it["properties"].as_object()).flatten() {
        match found.iter_mut().find(|(known, _)| known == key) {
            Some((_, fields)) => fields.push(field),
            None => found.push((key, vec![field])),
        }
    }
    for (key, fields) in found {
        let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        let alternatives: Vec<&Json> = fields.iter().flat_map(|it| alternatives(it)).collect();
        let meanings = fields.iter().filter_map(|it| it["description"].as_str());
        let mut meanings: Vec<String> =
            meanings.map(|it| it.split("\n\n").next().unwrap_or_default().replace('\n', " ")).collect();
        meanings.dedup();
        let meaning = if meanings.is_empty() { about.to_owned() } else { meanings.join(" ") };
        if alternatives.iter().any(|it| it.get("properties").is_some()) {
            add_fields(&path, &meaning, &alternatives, rows);
        } else {
            rows.push(KeyRow { key: path, expected: type_name(&alternatives), default: String::new(), meaning });
        }
    }
}

/// The alternatives of `schema`, or `schema` itself.
fn alternatives(schema: &Json) -> Vec<&Json> {
    match schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        Some(parts) => parts.iter().flat_map(alternatives).collect(),
        None => vec![schema],
    }
}

/// Types and words that any of `schemas` accepts.
fn type_name(schemas: &[&Json]) -> String {
    let mut names: Vec<String> = Vec::new();
    for schema in schemas {
        let words: Vec<&Json> =
            schema.get("const").into_iter().chain(schema["enum"].as_array().into_iter().flatten()).collect();
        if !words.is_empty() {
            names.extend(words.into_iter().map(|it| it.as_str().unwrap_or("null").to_owned()));
            continue;
        }
        let types = schema["type"].as_array().map_or(slice::from_ref(&schema["type"]), Vec::as_slice);
        names.extend(types.iter().filter_map(Json::as_str).map(|name| match name {
            "array" => {
                let length = schema["minItems"].as_u64().map(|it| format!("{it} ")).unwrap_or_default();
                let items = type_name(&alternatives(&schema["items"]));
                let plural = if ["integer", "number", "string"].contains(&items.as_str()) { "s" } else { "" };
                format!("list of {length}{items}{plural}")
            }
            "object" => "table".to_owned(),
            name => name.to_owned(),
        }));
    }
    let count = names.len();
    names.retain(|name| name != "null");
    let optional = if names.len() < count { ", optional" } else { "" };
    names.dedup();
    match names.split_last() {
        Some((last, [])) => format!("{last}{optional}"),
        Some((last, rest)) => format!("{} or {last}{optional}", rest.join(", ")),
        None => String::new(),
    }
}
