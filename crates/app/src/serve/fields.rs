//! The fields of a request, read one by one, so that what refuses one names it, says what it is and what was expected.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use clap::ValueEnum as _;
use conifer_learn::config::edits;
use conifer_space::Modality;
use serde_json::{Map, Value};

use super::body::parse;
use super::error::{Answer, Refusal};
use super::rows::digits;
use crate::cli::ViewArg;
use crate::ranking::{By, NAMES};

/// What is made of fields.
pub(crate) trait Request: Sized {
    /// The names of all of them.
    const FIELDS: &'static [&'static str];

    fn read(fields: &mut Fields<'_>) -> Answer<Self>;
}

/// What a field may be.
pub(crate) trait Field: Sized {
    /// Whether it is a number, which stands as text behind a question mark.
    const NUMBER: bool = false;

    fn expected() -> String;

    /// Nothing, if the value is something else altogether; a refusal, if a part of it is.
    fn read(value: &Value, place: Place<'_>) -> Answer<Option<Self>>;
}

/// Where a value stands. It is written only when it is refused.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Top,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

/// Fields that are still to be read. Those that nobody knows were refused.
pub(crate) struct Fields<'a> {
    place: Place<'a>,
    object: Map<String, Value>,
    is_query: bool,
}

/// The settings behind the question mark.
pub(crate) struct Settings<T>(pub(crate) T);

/// A body that is one object.
pub(crate) fn object(bytes: &[u8]) -> Answer<Map<String, Value>> {
    match parse(bytes)? {
        Value::Object(object) => Ok(object),
        other => Err(Refusal::invalid(format!("the body is {}; expected an object", shown(&other)))),
    }
}

/// A body that is one object of these fields.
pub(crate) fn whole<T: Request>(bytes: &[u8]) -> Answer<T> {
    T::read(&mut Fields::new(Place::Top, object(bytes)?, T::FIELDS)?)
}

impl<'a> Fields<'a> {
    /// # Errors
    /// A field that is none of the `known` ones.
    pub(crate) fn new(place: Place<'a>, object: Map<String, Value>, known: &[&str]) -> Answer<Self> {
        if let Some(name) = object.keys().find(|it| !known.contains(&it.as_str())) {
            let name = clipped(name);
            let within = if let Place::Top = place { String::new() } else { format!(" in `{place}`") };
            // A slip of the pen leaves most letters.
            let (slips, near) = known.iter().map(|it| (edits(&name, it), *it)).min().unwrap_or_default();
            let meant =
                if slips <= (name.len() / 2).clamp(1, 3) { format!("did you mean `{near}`? ") } else { String::new() };
            let expected = one_of(known);
            return Err(Refusal::invalid(format!("unknown field `{name}`{within}; {meant}expected {expected}")));
        }
        Ok(Self { place, object, is_query: false })
    }

    /// A field that may be left out, or be `null`.
    pub(crate) fn take<T: Field>(&mut self, name: &str) -> Answer<Option<T>> {
        let Some(mut value) = self.object.shift_remove(name).filter(|it| !it.is_null()) else { return Ok(None) };
        if self.is_query
            && T::NUMBER
            && let Some(number) = value.as_str().and_then(digits)
        {
            value = number.into();
        }
        read(&value, Place::Field(&self.place, name)).map(Some)
    }

    /// A field that must be there.
    pub(crate) fn need<T: Field>(&mut self, name: &str) -> Answer<T> {
        let found = self.take(name)?;
        let place = Place::Field(&self.place, name);
        found.ok_or_else(|| Refusal::invalid(format!("missing field `{place}`; expected {}", T::expected())))
    }
}

fn read<T: Field>(value: &Value, place: Place<'_>) -> Answer<T> {
    T::read(value, place)?
        .ok_or_else(|| Refusal::invalid(format!("`{place}` is {}; expected {}", shown(value), T::expected())))
}

impl Field for usize {
    const NUMBER: bool = true;

    fn expected() -> String {
        "a whole number".to_owned()
    }

    fn read(value: &Value, _: Place<'_>) -> Answer<Option<Self>> {
        Ok(value.as_u64().and_then(|it| it.try_into().ok()))
    }
}

impl Field for f32 {
    fn expected() -> String {
        "a number".to_owned()
    }

    fn read(value: &Value, _: Place<'_>) -> Answer<Option<Self>> {
        Ok(value.as_f64().map(|it| it as f32))
    }
}

impl Field for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(value: &Value, _: Place<'_>) -> Answer<Option<Self>> {
        Ok(value.as_bool())
    }
}

impl Field for String {
    fn expected() -> String {
        "a text".to_owned()
    }

    fn read(value: &Value, _: Place<'_>) -> Answer<Option<Self>> {
        Ok(value.as_str().map(str::to_owned))
    }
}

impl Field for By {
    fn expected() -> String {
        one_of(&NAMES)
    }

    fn read(value: &Value, _: Place<'_>) -> Answer<Option<Self>> {
        Ok(value.as_str().and_then(|it| By::from_str(it, false).ok()))
    }
}

impl Field for Modality {
    fn expected() -> String {
        one_of(&[Modality::Image, Modality::Text, Modality::BoxImage, Modality::BoxText].map(Modality::name))
    }

    fn read(value: &Value, _: Place<'_>) -> Answer<Option<Self>> {
        Ok(value.as_str().and_then(|it| ViewArg::from_str(it, false).ok()).map(Modality::from))
    }
}

impl<T: Field> Field for Vec<T> {
    fn expected() -> String {
        format!("a list, each item {}", T::expected())
    }

    fn read(value: &Value, place: Place<'_>) -> Answer<Option<Self>> {
        let Some(items) = value.as_array() else { return Ok(None) };
        let all = items.iter().enumerate().map(|(i, it)| read(it, Place::Item(&place, i)));
        all.collect::<Answer<_>>().map(Some)
    }
}

/// The least and the largest of something.
impl Field for [f32; 2] {
    fn expected() -> String {
        "a list of two numbers, the smaller one first".to_owned()
    }

    fn read(value: &Value, place: Place<'_>) -> Answer<Option<Self>> {
        Ok(Vec::read(value, place)?.and_then(|it| it.try_into().ok()))
    }
}

/// Lists by name.
impl Field for BTreeMap<String, Vec<String>> {
    fn expected() -> String {
        "an object with a list of texts for each column".to_owned()
    }

    fn read(value: &Value, place: Place<'_>) -> Answer<Option<Self>> {
        let Some(object) = value.as_object() else { return Ok(None) };
        let all = object.iter().map(|(name, it)| Ok((name.clone(), read(it, Place::Field(&place, name))?)));
        all.collect::<Answer<_>>().map(Some)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Top => Ok(()),
            Place::Field(Place::Top, name) => to.write_str(&clipped(name)),
            Place::Field(above, name) => write!(to, "{above}.{}", clipped(name)),
            Place::Item(above, i) => write!(to, "{above}[{i}]"),
        }
    }
}

impl<S: Send + Sync, T: Request> FromRequestParts<S> for Settings<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(pairs) = pairs.map_err(|error| Refusal::invalid(error.body_text()))?;
        let mut object = Map::new();
        for (name, value) in pairs {
            if object.contains_key(&name) {
                return Err(Refusal::invalid(format!("`{}` is there twice; expected it once", clipped(&name))));
            }
            object.insert(name, Value::String(value));
        }
        let fields = Fields::new(Place::Top, object, T::FIELDS)?;
        T::read(&mut Fields { is_query: true, ..fields }).map(Settings)
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [one] => format!("`{one}`"),
        _ => format!("one of {}", names.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// A value as it was sent, no longer than a line.
fn shown(value: &Value) -> String {
    clipped(&value.to_string())
}

fn clipped(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
