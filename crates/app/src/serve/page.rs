//! `GET /`.

use axum::response::Response;

use super::body::typed;

/// What the page may load: itself, pictures of ours, nothing of others.
pub(crate) const POLICY: &str = "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; \
    object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("page.html");

pub(crate) async fn page() -> Response {
    typed("text/html; charset=utf-8", PAGE)
}
