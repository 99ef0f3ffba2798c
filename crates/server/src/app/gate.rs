//! Middleware in front of all routes: access checks, request body, concurrency limit, request timeout and response
//! headers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::page;
use crate::auth::AccessPolicy;
use crate::body::{MAX_JSON_BYTES, gather};
use crate::error::{HttpError, HttpResult};
use crate::limits::activity::{AmbiguousHead, ConnectionActivity, RequestGuard};
use crate::limits::response_buffer::ResponseBudget;
use crate::log::{REQUESTS, RequestLog};
use crate::metrics::{GaugeGuard, Metrics};

/// Configuration and shared state of the middleware.
pub(crate) struct RequestGate {
    pub(crate) access: AccessPolicy,
    /// Permits for requests in progress.
    pub(crate) work: Semaphore,
    pub(crate) max_requests: usize,
    pub(crate) timeout: Duration,
    /// Maximum size of a photo in bytes.
    pub(crate) max_upload: usize,
    /// One permit per byte of photos in memory, including unfinished uploads. A chunk takes its permits when it
    /// arrives; an announced `Content-Length` takes none.
    pub(crate) photos: Semaphore,
    pub(crate) responses: ResponseBudget,
    pub(crate) metrics: Arc<Metrics>,
    /// Kept until the end of the process, because dropping it flushes the last lines of the log.
    pub(crate) _log: Option<RequestLog>,
}

pub(crate) async fn pass(
    State(gate): State<Arc<RequestGate>>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let route = route.map_or_else(|| "other".to_owned(), |it| it.as_str().to_owned());
    let method = request.method().clone();
    let mut response = gate.answer(&route, request, next).await.into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, page::POLICY),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let (status, took) = (response.status(), started.elapsed());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    gate.metrics.count(&route, status.as_u16(), took);
    let (status, took_ms) = (status.as_u16(), took.as_secs_f64() * 1e3);
    tracing::info!(target: REQUESTS, method = method.as_str(), route, status, took_ms);
    response
}

impl RequestGate {
    async fn answer(&self, route: &str, request: Request, next: Next) -> HttpResult {
        if request.extensions().get::<AmbiguousHead>().is_some() {
            // hyper closes the connection after this response.
            let message = "the request has both `Content-Length` and `Transfer-Encoding`; expected one of them";
            return Err(HttpError::malformed(message));
        }
        self.access.admit(route, request.headers())?;
        let activity = request.extensions().get::<Arc<ConnectionActivity>>().cloned();
        // The body is read before the concurrency permit is taken, so a slow upload holds no permit.
        let mut held = None;
        let request = self.read_body(route, request, &mut held).await?;
        let _guard: Option<RequestGuard> = activity.map(ConnectionActivity::at_work);
        let _in_flight = GaugeGuard::new(&self.metrics.in_flight);
        // Health and metrics requests bypass the concurrency limit.
        if route == "/health" || route == "/metrics" {
            return Ok(next.run(request).await);
        }
        let _permit = self.work.try_acquire().map_err(|_| {
            HttpError::busy(format!("too many requests in progress (limit {}); retry later", self.max_requests))
        })?;
        let response = tokio::time::timeout(self.timeout, next.run(request)).await.map_err(|_| {
            let limit = self.timeout.as_secs_f64();
            HttpError::unavailable(format!("the request took longer than the limit of {limit} s"))
        })?;
        self.responses.send(response)
    }

    /// Reads the body of a request into memory. `held` receives the permits for the bytes of a photo.
    async fn read_body<'a>(
        &'a self,
        route: &str,
        request: Request,
        held: &mut Option<SemaphorePermit<'a>>,
    ) -> HttpResult<Request> {
        // Do not read the body of a request that no route accepts.
        if request.method() != Method::POST || route == "other" {
            return Ok(request);
        }
        let (head, body) = request.into_parts();
        let bytes = if route == "/api/photos" {
            let reserve = |bytes: usize| {
                let more = u32::try_from(bytes).ok().and_then(|it| self.photos.try_acquire_many(it).ok());
                let more = more.ok_or_else(|| HttpError::busy("the upload buffer is full; retry later"))?;
                match held {
                    Some(held) => held.merge(more),
                    None => *held = Some(more),
                }
                Ok(())
            };
            gather(&head.headers, body, self.max_upload, reserve).await?
        } else {
            gather(&head.headers, body, MAX_JSON_BYTES, |_| Ok(())).await?
        };
        Ok(Request::from_parts(head, Body::from(bytes)))
    }
}
