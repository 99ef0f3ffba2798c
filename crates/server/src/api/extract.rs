//! Extractors of JSON bodies, URL queries and row numbers. An error names the field, the value found and what was
//! expected.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path as FieldPath, Segment};

use crate::error::{HttpError, HttpResult};

/// Extractor of a JSON body. Invalid JSON is a 400, JSON of another structure a 422.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// Extractor of the URL query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The number of a row in a URL path.
pub(crate) struct RowNumber(pub(crate) usize);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, state: &S) -> HttpResult<Self> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
        parse_json(&bytes).map(JsonBody)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> HttpResult<Self> {
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let from = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query));
        serde_path_to_error::deserialize(from).map(QueryParams).map_err(|error| {
            let name = error.path().to_string();
            let value = form_urlencoded::parse(query).find(|(key, _)| *key == name).map(|(_, value)| value.into());
            HttpError::invalid(describe(error.path(), value.as_ref(), &error.inner().to_string()))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RowNumber {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> HttpResult<Self> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = found.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
        let number = digits(&text).map(RowNumber);
        number.ok_or_else(|| HttpError::invalid(format!("`{text}` is not a row number; expected digits")))
    }
}

/// Parses a number that consists of digits only. `str::parse` alone would also accept `+1`.
pub(crate) fn digits(text: &str) -> Option<usize> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?
}

fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> HttpResult<T> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut from);
    let rest = from.end();
    match (parsed, rest) {
        (Ok(parsed), Ok(())) => Ok(parsed),
        (parsed, _) => Err(match (serde_json::from_slice::<Value>(bytes), parsed.err()) {
            (Ok(value), Some(error)) => {
                let message = error.inner().to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                HttpError::invalid(describe(error.path(), value_at(&value, error.path()), message))
            }
            // A number that is out of the range of `f64` is still valid JSON, so the status is 422 and not 400.
            (Err(error), _) if error.to_string().contains("out of range") => {
                HttpError::invalid(format!("the body: {error}"))
            }
            (Err(error), _) => HttpError::malformed(format!("the body: {error}")),
            (Ok(_), None) => HttpError::fault("the body was parsed twice with different results"),
        }),
    }
}

fn value_at<'a>(value: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

/// Translates an error message of serde to the terms of the API.
fn describe(path: &FieldPath, value: Option<&Value>, message: &str) -> String {
    let path = path.to_string();
    // The name between the first pair of backticks of serde's message.
    let name = || clipped(message.split('`').nth(1).unwrap_or_default());
    let above = || path.rsplit_once('.').map(|(above, _)| above).filter(|it| !it.is_empty());
    if message.starts_with("unknown field") {
        let name = name();
        let within = above().map_or_else(String::new, |above| format!(" in `{}`", clipped(above)));
        let known: Vec<&str> =
            message.split("expected ").nth(1).unwrap_or_default().split('`').skip(1).step_by(2).collect();
        // Suggest the nearest name only if the edit distance is at most half the length of the unknown name (but at
        // least 1 and at most 3), because a typo keeps most letters.
        let near = known.iter().map(|it| (strsim::levenshtein(&name, it), it)).min();
        let near = near.filter(|(edits, _)| *edits <= (name.len() / 2).clamp(1, 3));
        let suggestion = near.map_or_else(String::new, |(_, it)| format!("did you mean `{it}`? "));
        let known: Vec<String> = known.iter().map(|it| format!("`{it}`")).collect();
        let one_of = if known.len() > 1 { "one of " } else { "" };
        return format!("unknown field `{name}`{within}; {suggestion}expected {one_of}{}", known.join(", "));
    }
    if message.starts_with("duplicate field") {
        return format!("`{}` is given twice; expected it once", name());
    }
    if message.starts_with("missing field") {
        return format!("missing field `{}`", name());
    }
    let expected = match message.split_once("expected ") {
        Some((_, expected)) if expected != "value" => expected_words(expected),
        _ => match message {
            "number out of range" => "a finite number".to_owned(),
            "provided string was not `true` or `false`" => "true or false".to_owned(),
            _ if message.contains("digit") || message.contains("integer") || message.contains("number") => {
                "a whole number".to_owned()
            }
            // The value of an enum is not a string.
            _ => "a name".to_owned(),
        },
    };
    let shown = value.map_or_else(|| "not valid".to_owned(), |it| clipped(&it.to_string()));
    match path.as_str() {
        "." => format!("the body is {shown}; expected {expected}"),
        _ => format!("`{}` is {shown}; expected {expected}", clipped(&path)),
    }
}

/// The API's name for what serde expects.
fn expected_words(expected: &str) -> String {
    match expected {
        "usize" | "u64" | "u32" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "an array of length 2" => "a list of two numbers, the smaller one first",
        // Omit the spellings with `-`, because they are aliases.
        _ => {
            let names = expected.split(", ").filter(|it| !it.contains('-') || !it.contains('`'));
            let names: Vec<&str> = names.collect();
            let names = names.join(", ");
            return if expected.starts_with("one of ") && !names.starts_with("one of ") {
                format!("one of {names}")
            } else {
                names
            };
        }
    }
    .to_owned()
}

fn clipped(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::api::requests::{NeighbourParams, SearchRequest, ThumbnailParams};

    #[test]
    fn wrong_bodies_name_field_value_and_expectation() {
        let error = |body: &str| parse_json::<SearchRequest>(body.as_bytes()).unwrap_err();
        for (body, status, message) in [
            ("", 400, "the body: EOF"),
            (r#"{"query":{"row":0}} x"#, 400, "the body: trailing characters"),
            (r#"{"query":{"point":[1e400]}}"#, 422, "out of range"),
            ("[]", 422, "the body is []; expected an object"),
            (r#"{"query":{"point":[1e39]}}"#, 422, "`query.point[0]` is 1e+39; expected a finite number"),
            (r#"{"query":{"row":1,"row":2}}"#, 422, "`row` is given twice; expected it once"),
            (r#"{"query":{"row":1},"columns":{"a":[],"a":[]}}"#, 422, "`a` is given twice; expected it once"),
            (r#"{"query":{"row":1},"by":5}"#, 422, "`by` is 5; expected a name"),
            (
                r#"{"query":{"row":1},"modality":["sound"]}"#,
                422,
                "`modality[0]` is \"sound\"; expected one of `image`, `text`, `box_image`, `box_text`",
            ),
            (
                r#"{"query":{"rov":1}}"#,
                422,
                "unknown field `rov` in `query`; did you mean `row`? expected one of `text`, ",
            ),
            (r#"{"query":{"row":1},"depth":[1]}"#, 422, "`depth` is [1]; expected a list of two numbers"),
            (r#"{"k":1}"#, 422, "missing field `query`"),
        ] {
            let error = error(body);
            assert_eq!(error.status, status, "{body}: {}", error.message);
            assert!(error.message.contains(message), "{body}: {}", error.message);
        }
        let null = r#"{"query":{"row":1},"k":null,"columns":null,"inside":null,"by":null}"#;
        assert_eq!(parse_json::<SearchRequest>(null.as_bytes()).unwrap().k(), 10);
    }

    #[test]
    fn wrong_url_queries_name_field_value_and_expectation() {
        fn error<T: DeserializeOwned>(query: &str) -> String {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (mut parts, ()) =
                axum::http::Request::builder().uri(format!("/a?{query}")).body(()).unwrap().into_parts();
            let found = runtime.block_on(QueryParams::<T>::from_request_parts(&mut parts, &()));
            found.map(|_| "no error".to_owned()).unwrap_or_else(|error| error.message)
        }
        assert_eq!(error::<NeighbourParams>("k=abc"), r#"`k` is "abc"; expected a whole number"#);
        assert_eq!(error::<NeighbourParams>("k=1&k=2"), "`k` is given twice; expected it once");
        assert_eq!(
            error::<NeighbourParams>("l=1"),
            "unknown field `l`; did you mean `k`? expected one of `k`, `modality`"
        );
        assert_eq!(error::<NeighbourParams>("k=1&modality=box-image"), "no error");
        assert_eq!(error::<ThumbnailParams>("whole=yes"), r#"`whole` is "yes"; expected true or false"#);
    }
}
