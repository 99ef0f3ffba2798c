//! Error responses: a status and a one-sentence message.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};

use crate::api::replies::{ErrorDetail, ErrorReply};

/// Value of `Retry-After` in seconds, of responses with status 429 or 503.
pub(crate) const RETRY_SECONDS: &str = "1";

/// An error response. Its body is `{"error":{"status":422,"message":"..."}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

pub(crate) type HttpResult<T = Response> = Result<T, HttpError>;

impl HttpError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// 400: the request cannot be parsed.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 422: the request can be parsed, but it is not valid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// 429: the server is at a limit.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 500: an internal error.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let error = ErrorDetail { status: self.status.as_u16(), message: self.message.into() };
        let is_temporary = matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry = is_temporary.then_some([(RETRY_AFTER, RETRY_SECONDS)]);
        (self.status, retry, Json(ErrorReply { error })).into_response()
    }
}

impl From<conifer_index::Error> for HttpError {
    fn from(error: conifer_index::Error) -> Self {
        Self::invalid(error.to_string())
    }
}
