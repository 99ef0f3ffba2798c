//! Access checks: `Host` header, cross-site requests and the token.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use subtle::ConstantTimeEq as _;

use crate::error::{HttpError, HttpResult};
use crate::start_error::{Error, Result};

/// Minimum length of a token in characters. 16 random base64 characters have 96 bits.
const MIN_TOKEN_LENGTH: usize = 16;

/// Rules for the requests that are accepted.
pub(crate) struct AccessPolicy {
    /// The host name given with `--host`, if the server listens only on loopback. The `Host` header must then name this
    /// machine. This prevents DNS rebinding, in which a site makes its own host name resolve to this machine.
    pub(crate) local_name: Option<String>,
    pub(crate) token: Option<String>,
}

impl AccessPolicy {
    /// # Errors
    /// 400, 401 or 403.
    pub(crate) fn admit(&self, route: &str, headers: &HeaderMap) -> HttpResult<()> {
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
}

/// Reads an access token from a file.
///
/// # Errors
/// The file cannot be read, or does not have one line of at least 16 visible ASCII characters.
pub fn read_token(file: &Path) -> Result<String> {
    let option = format!("--token-file {}", file.display());
    let token = std::fs::read_to_string(file).map_err(Error::option(&option))?.trim().to_owned();
    if token.len() < MIN_TOKEN_LENGTH || !token.bytes().all(|it| it.is_ascii_graphic()) {
        let expected = format!("one line of at least {MIN_TOKEN_LENGTH} visible ASCII characters");
        return Err(Error::invalid(option, "another text", expected));
    }
    Ok(token)
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
            // A page behind a reverse proxy with another host name.
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
