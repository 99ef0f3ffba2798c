//! Reads request bodies up to a size limit, and builds responses.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use serde::Serialize;

use crate::error::{HttpError, HttpResult};

/// Timeout for a whole request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout for the next chunk of a request body.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a JSON request body in bytes.
pub(crate) const MAX_JSON_BYTES: usize = 1 << 20;

/// Reads the whole body, at most `max` bytes. A body with a larger `Content-Length` is rejected unread; other bodies
/// are rejected when they exceed the limit. `reserve` is called with the size of each chunk before the chunk is stored;
/// an error of `reserve` is returned.
pub(crate) async fn gather(
    headers: &HeaderMap,
    body: Body,
    max: usize,
    mut reserve: impl FnMut(usize) -> HttpResult<()>,
) -> HttpResult<Vec<u8>> {
    let too_large = || HttpError::too_large(format!("the body is longer than the limit of {max} bytes"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()).and_then(|it| it.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > max as u64) {
        return Err(too_large());
    }
    let whole = async {
        let mut body = body;
        let mut bytes = Vec::new();
        while let Some(frame) =
            tokio::time::timeout(CHUNK_TIMEOUT, body.frame()).await.map_err(|_| late(CHUNK_TIMEOUT))?
        {
            let frame = frame
                .map_err(|error| HttpError::malformed(format!("the body ended before it was complete: {error}")))?;
            let data: Bytes = frame.into_data().unwrap_or_default();
            if bytes.len() + data.len() > max {
                return Err(too_large());
            }
            reserve(data.len())?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(BODY_TIMEOUT, whole).await.unwrap_or_else(|_| Err(late(BODY_TIMEOUT)))
}

fn late(limit: Duration) -> HttpError {
    let what = if limit == CHUNK_TIMEOUT { "no more data of the body arrived" } else { "the body was not complete" };
    HttpError::new(StatusCode::REQUEST_TIMEOUT, format!("{what} within the limit of {} s", limit.as_secs()))
}

pub(crate) fn json(value: &impl Serialize) -> HttpResult {
    let bytes = serde_json::to_vec(value).map_err(|error| HttpError::fault(error.to_string()))?;
    Ok(typed("application/json", bytes))
}

/// A response with the content type `kind`.
pub(crate) fn typed(kind: &'static str, bytes: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, kind)], bytes.into()).into_response()
}
