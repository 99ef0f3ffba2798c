//! Parses request fields one by one, so that an error names the field, its value and what was expected.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use clap::ValueEnum as _;
use conifer_embeddings::Modality;
use conifer_learn::config::edits;
use serde_json::{Map, Value};

use super::body::parse;
use super::error::{HttpError, HttpResult};
use super::rows::digits;
use crate::arguments::ViewArg;
use crate::ranking::{NAMES, RankingArg};

/// A request that is parsed from fields.
pub(crate) trait Request: Sized {
    /// Names of all fields.
    const FIELDS: &'static [&'static str];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self>;
}

/// A type that the value of a field can have.
pub(crate) trait Field: Sized {
    /// True for whole numbers. In a URL query they arrive as text and are converted before [`Field::read`].
    const NUMBER: bool = false;

    fn expected() -> String;

    /// Parses a value. `None` means that the value has the wrong type; an error means that a nested value is wrong.
    fn read(value: &Value, path: FieldPath<'_>) -> HttpResult<Option<Self>>;
}

/// Path of a value in a request. It is formatted only for error messages.
#[derive(Clone, Copy)]
pub(crate) enum FieldPath<'a> {
    Top,
    Field(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
}

/// The fields that are not parsed yet. Unknown fields were already rejected.
pub(crate) struct RequestFields<'a> {
    path: FieldPath<'a>,
    object: Map<String, Value>,
    is_query: bool,
}

/// Extractor of the URL query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

/// Parses a body that is one JSON object.
pub(crate) fn object(bytes: &[u8]) -> HttpResult<Map<String, Value>> {
    match parse(bytes)? {
        Value::Object(object) => Ok(object),
        other => Err(HttpError::invalid(format!("the body is {}; expected an object", shown(&other)))),
    }
}

/// Parses a body that is one JSON object with the fields of `T`.
pub(crate) fn parse_request<T: Request>(bytes: &[u8]) -> HttpResult<T> {
    T::read(&mut RequestFields::new(FieldPath::Top, object(bytes)?, T::FIELDS)?)
}

impl<'a> RequestFields<'a> {
    /// # Errors
    /// A field is not one of the `known` fields.
    pub(crate) fn new(path: FieldPath<'a>, object: Map<String, Value>, known: &[&str]) -> HttpResult<Self> {
        if let Some(name) = object.keys().find(|it| !known.contains(&it.as_str())) {
            let name = clipped(name);
            let within = if let FieldPath::Top = path { String::new() } else { format!(" in `{path}`") };
            // Suggest the nearest name only if the edit distance is at most half the length, and from 1 to 3: a typo
            // keeps most letters.
            let (slips, near) = known.iter().map(|it| (edits(&name, it), *it)).min().unwrap_or_default();
            let suggestion =
                if slips <= (name.len() / 2).clamp(1, 3) { format!("did you mean `{near}`? ") } else { String::new() };
            let expected = one_of(known);
            return Err(HttpError::invalid(format!("unknown field `{name}`{within}; {suggestion}expected {expected}")));
        }
        Ok(Self { path, object, is_query: false })
    }

    /// Parses an optional field, which may be absent or `null`.
    pub(crate) fn take<T: Field>(&mut self, name: &str) -> HttpResult<Option<T>> {
        let Some(mut value) = self.object.shift_remove(name).filter(|it| !it.is_null()) else { return Ok(None) };
        if self.is_query
            && T::NUMBER
            && let Some(number) = value.as_str().and_then(digits)
        {
            value = number.into();
        }
        read(&value, FieldPath::Field(&self.path, name)).map(Some)
    }

    /// Parses a required field.
    pub(crate) fn need<T: Field>(&mut self, name: &str) -> HttpResult<T> {
        let found = self.take(name)?;
        let path = FieldPath::Field(&self.path, name);
        found.ok_or_else(|| HttpError::invalid(format!("missing field `{path}`; expected {}", T::expected())))
    }
}

fn read<T: Field>(value: &Value, path: FieldPath<'_>) -> HttpResult<T> {
    T::read(value, path)?
        .ok_or_else(|| HttpError::invalid(format!("`{path}` is {}; expected {}", shown(value), T::expected())))
}

impl Field for usize {
    const NUMBER: bool = true;

    fn expected() -> String {
        "a whole number".to_owned()
    }

    fn read(value: &Value, _: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(value.as_u64().and_then(|it| it.try_into().ok()))
    }
}

impl Field for f32 {
    fn expected() -> String {
        "a number".to_owned()
    }

    fn read(value: &Value, _: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(value.as_f64().map(|it| it as f32))
    }
}

impl Field for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(value: &Value, _: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(value.as_bool())
    }
}

impl Field for String {
    fn expected() -> String {
        "a text".to_owned()
    }

    fn read(value: &Value, _: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(value.as_str().map(str::to_owned))
    }
}

impl Field for RankingArg {
    fn expected() -> String {
        one_of(&NAMES)
    }

    fn read(value: &Value, _: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(value.as_str().and_then(|it| RankingArg::from_str(it, false).ok()))
    }
}

impl Field for Modality {
    fn expected() -> String {
        one_of(&[Modality::Image, Modality::Text, Modality::BoxImage, Modality::BoxText].map(Modality::name))
    }

    fn read(value: &Value, _: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(value.as_str().and_then(|it| ViewArg::from_str(it, false).ok()).map(Modality::from))
    }
}

impl<T: Field> Field for Vec<T> {
    fn expected() -> String {
        format!("a list, each item {}", T::expected())
    }

    fn read(value: &Value, path: FieldPath<'_>) -> HttpResult<Option<Self>> {
        let Some(items) = value.as_array() else { return Ok(None) };
        let all = items.iter().enumerate().map(|(i, it)| read(it, FieldPath::Item(&path, i)));
        all.collect::<HttpResult<_>>().map(Some)
    }
}

/// A range: minimum, then maximum.
impl Field for [f32; 2] {
    fn expected() -> String {
        "a list of two numbers, the smaller one first".to_owned()
    }

    fn read(value: &Value, path: FieldPath<'_>) -> HttpResult<Option<Self>> {
        Ok(Vec::read(value, path)?.and_then(|it| it.try_into().ok()))
    }
}

/// Lists of texts by column name.
impl Field for BTreeMap<String, Vec<String>> {
    fn expected() -> String {
        "an object with a list of texts for each column".to_owned()
    }

    fn read(value: &Value, path: FieldPath<'_>) -> HttpResult<Option<Self>> {
        let Some(object) = value.as_object() else { return Ok(None) };
        let all = object.iter().map(|(name, it)| Ok((name.clone(), read(it, FieldPath::Field(&path, name))?)));
        all.collect::<HttpResult<_>>().map(Some)
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Top => Ok(()),
            FieldPath::Field(FieldPath::Top, name) => to.write_str(&clipped(name)),
            FieldPath::Field(above, name) => write!(to, "{above}.{}", clipped(name)),
            FieldPath::Item(above, i) => write!(to, "{above}[{i}]"),
        }
    }
}

impl<S: Send + Sync, T: Request> FromRequestParts<S> for QueryParams<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> HttpResult<Self> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(pairs) = pairs.map_err(|error| HttpError::invalid(error.body_text()))?;
        let mut object = Map::new();
        for (name, value) in pairs {
            if object.contains_key(&name) {
                return Err(HttpError::invalid(format!("`{}` is given twice; expected it once", clipped(&name))));
            }
            object.insert(name, Value::String(value));
        }
        let fields = RequestFields::new(FieldPath::Top, object, T::FIELDS)?;
        T::read(&mut RequestFields { is_query: true, ..fields }).map(QueryParams)
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [one] => format!("`{one}`"),
        _ => format!("one of {}", names.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// The JSON of a value, clipped to 80 characters.
fn shown(value: &Value) -> String {
    clipped(&value.to_string())
}

fn clipped(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
