//! What every request passes: who may ask, how much at a time, for how long; and what every answer carries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use tokio::sync::Semaphore;

use super::error::Refusal;
use super::metrics::{Metrics, Raised};
use super::page;
use crate::output::print_json;

/// The settings of a door.
pub(crate) struct Gate {
    /// Only names of this machine in `Host`: a page of another site that has its name point here (DNS rebinding) is not answered.
    pub(crate) local_only: bool,
    pub(crate) token: Option<String>,
    /// Requests that are worked on at a time.
    pub(crate) work: Semaphore,
    pub(crate) most: usize,
    pub(crate) limit: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// A line of JSON on stdout for every request.
    pub(crate) log: bool,
}

pub(crate) async fn pass(
    State(gate): State<Arc<Gate>>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let route = route.map_or_else(|| "other".to_owned(), |it| it.as_str().to_owned());
    let method = request.method().clone();
    let raised = Raised::new(&gate.metrics.in_flight);
    let mut response = match gate.admit(&route, request.headers()) {
        Ok(()) => gate.answer(&route, request, next).await,
        Err(refusal) => refusal.into_response(),
    };
    drop(raised);
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, page::POLICY),
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
    if gate.log {
        let took_ms = took.as_secs_f64() * 1e3;
        // A log that nobody reads any more is no reason to stop.
        _ = print_json(
            &json!({ "method": method.as_str(), "route": route, "status": status.as_u16(), "took_ms": took_ms }),
        );
    }
    response
}

impl Gate {
    fn admit(&self, route: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.local_only && !headers.get(HOST).is_some_and(names_this_machine) {
            let message = "the header `Host` names no address of this machine; expected localhost, 127.0.0.1 or [::1]";
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        // The page holds nothing of the data; it asks for the token and sends it with what it asks.
        let open = route == "/health" || route == "/" || route.starts_with("/assets/");
        let Some(token) = self.token.as_deref().filter(|_| !open) else { return Ok(()) };
        let given =
            headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok()).and_then(|it| it.strip_prefix("Bearer "));
        if given.is_some_and(|given| same(given.trim().as_bytes(), token.as_bytes())) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "expected the header `Authorization: Bearer TOKEN` with the server's token",
        ))
    }

    async fn answer(&self, route: &str, request: Request, next: Next) -> Response {
        // Who watches has to be answered when nobody else is.
        if route == "/health" || route == "/metrics" {
            return next.run(request).await;
        }
        let Ok(_turn) = self.work.try_acquire() else {
            return Refusal::busy(format!("{} requests are being worked on, the limit", self.most)).into_response();
        };
        match tokio::time::timeout(self.limit, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Refusal::unavailable(format!("no answer within {} s, the limit", self.limit.as_secs_f64()))
                .into_response(),
        }
    }
}

fn names_this_machine(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether two secrets are the same, in a time that tells nothing but their lengths.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine() {
        for (host, ours) in [
            ("localhost", true),
            ("LOCALHOST:7878", true),
            ("127.0.0.1:1", true),
            ("[::1]", true),
            ("[::1]:7878", true),
            ("evil.example", false),
            ("localhost.evil.example:80", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(names_this_machine(&HeaderValue::from_static(host)), ours, "{host}");
        }
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab") && !same(b"", b"a"));
    }
}
