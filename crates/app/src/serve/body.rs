//! Bodies of requests, read no further than they may be long, and of answers.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::error::{Answer, Refusal};
use super::unique::Unique;

/// How long a client may take for a body.
const BODY: Duration = Duration::from_secs(20);
/// How long for the next piece of it.
const STALL: Duration = Duration::from_secs(5);
/// Most bytes of a body of JSON: 8 queries of 8,192 numbers fit in.
pub(crate) const JSON_BYTES: usize = 1 << 20;

/// The whole body, at most `most` bytes. The gate has read it already; it is in memory.
pub(crate) async fn read(headers: &HeaderMap, body: Body, most: usize) -> Answer<Vec<u8>> {
    gather(headers, body, most, |_| Ok(())).await
}

/// The whole body, at most `most` bytes: one that says that it is longer is not read at all, one that turns out to be is read no
/// further. `room` is asked before bytes are kept.
pub(crate) async fn gather(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    mut room: impl FnMut(usize) -> Answer<()>,
) -> Answer<Vec<u8>> {
    let too_large = || Refusal::too_large(format!("the body is longer than {most} bytes, the limit"));
    let told = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()).and_then(|it| it.parse::<u64>().ok());
    if told.is_some_and(|told| told > most as u64) {
        return Err(too_large());
    }
    let whole = async {
        let mut body = body;
        let mut bytes = Vec::new();
        while let Some(frame) = tokio::time::timeout(STALL, body.frame()).await.map_err(|_| late(STALL))? {
            let frame = frame.map_err(|error| Refusal::malformed(format!("the body ends too early: {error}")))?;
            let data: Bytes = frame.into_data().unwrap_or_default();
            if bytes.len() + data.len() > most {
                return Err(too_large());
            }
            room(data.len())?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(BODY, whole).await.unwrap_or_else(|_| Err(late(BODY)))
}

fn late(limit: Duration) -> Refusal {
    let what = if limit == STALL { "nothing more of the body came" } else { "the body was not there" };
    Refusal::new(StatusCode::REQUEST_TIMEOUT, format!("{what} within {} s, the limit", limit.as_secs()))
}

/// A body of JSON as `T`: 400 for what is no JSON, 422 for JSON that says something else, or something twice.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    let parsed = serde_json::from_slice::<Unique>(bytes).and_then(|_| serde_json::from_slice(bytes));
    parsed.map_err(|error| refused(&error))
}

fn refused(error: &serde_json::Error) -> Refusal {
    let message = format!("the body: {error}");
    match error.classify() {
        // A number that no float holds is JSON.
        Category::Data => Refusal::invalid(message),
        Category::Syntax if message.contains("number out of range") => Refusal::invalid(message),
        _ => Refusal::malformed(message),
    }
}

/// An answer of JSON.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(value).map_err(|error| Refusal::fault(error.to_string()))?;
    Ok(typed("application/json", bytes))
}

/// An answer of some type.
pub(crate) fn typed(kind: &'static str, bytes: impl Into<Body>) -> axum::response::Response {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
