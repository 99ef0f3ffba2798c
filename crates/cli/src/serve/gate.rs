//! Middleware in front of all routes: access checks, concurrency limit, request timeout and response headers.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::activity::{AmbiguousHead, ConnectionActivity, RequestGuard};
use super::body::{MAX_JSON_BYTES, gather};
use super::error::{HttpError, HttpResult};
use super::log::{REQUESTS, RequestLog};
use super::metrics::{GaugeGuard, Metrics};
use super::page;
use super::response_buffer::ResponseBudget;

/// Configuration and shared state of the middleware.
pub(crate) struct RequestGate {
    /// The host name given with `--host`, if the server listens only on loopback. The `Host` header must then name this
    /// machine. This prevents DNS rebinding, in which a site makes its own host name resolve to this machine.
    pub(crate) local_name: Option<String>,
    pub(crate) token: Option<String>,
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
    /// Kept until the end of the process, because dropping it writes the last lines.
    pub(crate) log: Option<RequestLog>,
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
    let ambiguous = request.extensions().get::<AmbiguousHead>().is_some();
    let admitted = if ambiguous {
        // hyper closes the connection after this response.
        let message = "the request has both `Content-Length` and `Transfer-Encoding`; expected one of them";
        Err(HttpError::malformed(message))
    } else {
        gate.admit(&route, request.headers())
    };
    let mut response = match admitted {
        Ok(()) => gate.answer(&route, request, next).await,
        Err(error) => error.into_response(),
    };
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
    fn admit(&self, route: &str, headers: &HeaderMap) -> Result<(), HttpError> {
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(HttpError::malformed("the header `Host` occurs more than once; expected it once"));
        }
        if let Some(name) = &self.local_name
            && !headers.get(HOST).is_some_and(|host| names_this_machine(host, name))
        {
            let message = "the header `Host` does not name this machine; expected localhost, 127.0.0.1 or [::1]";
            return Err(HttpError::new(StatusCode::FORBIDDEN, message));
        }
        // Links from other sites to the page are allowed.
        if route != "/" && is_cross_site(headers) {
            let message = "cross-site request (`Origin`, `Sec-Fetch-Site`); expected the explorer or a client that is not a browser";
            return Err(HttpError::new(StatusCode::FORBIDDEN, message));
        }
        // The page contains no data of the set. It asks the user for the token and sends it with each API request.
        let open = route == "/health" || route == "/" || route.starts_with("/assets/");
        let Some(token) = self.token.as_deref().filter(|_| !open) else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok()).and_then(bearer);
        if given.is_some_and(|given| given.as_bytes().ct_eq(token.as_bytes()).into()) {
            return Ok(());
        }
        Err(HttpError::new(
            StatusCode::UNAUTHORIZED,
            "missing or wrong token; expected the header `Authorization: Bearer TOKEN` with the server's token",
        ))
    }

    async fn answer(&self, route: &str, request: Request, next: Next) -> Response {
        let activity = request.extensions().get::<Arc<ConnectionActivity>>().cloned();
        // The body is read before the concurrency permit is taken, so a slow upload holds no permit.
        let mut held = None;
        let request = match self.read_body(route, request, &mut held).await {
            Ok(request) => request,
            Err(error) => return error.into_response(),
        };
        let _guard: Option<RequestGuard> = activity.map(ConnectionActivity::at_work);
        let _in_flight = GaugeGuard::new(&self.metrics.in_flight);
        // Health and metrics requests bypass the concurrency limit.
        if route == "/health" || route == "/metrics" {
            return next.run(request).await;
        }
        let Ok(_permit) = self.work.try_acquire() else {
            return HttpError::busy(format!(
                "too many requests in progress (limit {}); retry later",
                self.max_requests
            ))
            .into_response();
        };
        match tokio::time::timeout(self.timeout, next.run(request)).await {
            Ok(response) => self.responses.send(response),
            Err(_) => HttpError::unavailable(format!(
                "the request took longer than the limit of {} s",
                self.timeout.as_secs_f64()
            ))
            .into_response(),
        }
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

/// Returns the token of an `Authorization` header. The scheme name is case-insensitive (RFC 9110, 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns true if a browser marks the request as cross-site. A page of another site cannot read the response, but its
/// requests could overload the server.
fn is_cross_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = origin.to_str().ok().and_then(|it| it.split_once("://")).map(|(_, host)| host);
    let ours = headers.get(HOST).and_then(|it| it.to_str().ok());
    !host.zip(ours).is_some_and(|(host, ours)| host.eq_ignore_ascii_case(ours))
}

/// Returns true if `host`, with or without a port, is `name`, `localhost` or a loopback address.
fn names_this_machine(host: &HeaderValue, name: &str) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
        _ => host,
    };
    let v4 = host.parse().is_ok_and(|it: Ipv4Addr| it.is_loopback());
    let v6 = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).and_then(|it| it.parse::<Ipv6Addr>().ok());
    v4 || v6.is_some_and(|it| it.is_loopback()) || ["localhost", name].iter().any(|it| host.eq_ignore_ascii_case(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_header_must_name_this_machine() {
        for (host, ours) in [
            ("localhost", true),
            ("LOCALHOST:7878", true),
            ("127.0.0.1:1", true),
            ("[::1]", true),
            ("[::1]:7878", true),
            ("evil.example", false),
            ("localhost.evil.example:80", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.2:7878", true),
            ("[0:0::1]:7878", true),
            ("my-machine:7878", true),
            ("192.168.0.1", false),
            ("[::2]:7878", false),
            ("", false),
        ] {
            assert_eq!(names_this_machine(&HeaderValue::from_static(host), "My-Machine"), ours, "{host}");
        }
    }

    #[test]
    fn cross_site_requests_are_detected() {
        for (site, origin, foreign) in [
            ("", "", false),
            ("", "http://localhost:7878", false),
            ("", "http://LOCALHOST:7878", false),
            ("", "http://localhost:3000", true),
            ("", "https://evil.example", true),
            ("", "null", true),
            ("none", "", false),
            // Behind a reverse proxy with another host name.
            ("same-origin", "https://search.example", false),
            ("same-site", "http://localhost:3000", true),
            ("cross-site", "", true),
        ] {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:7878"))]);
            for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
                if !value.is_empty() {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(is_cross_site(&headers), foreign, "{site} {origin}");
        }
    }
}
