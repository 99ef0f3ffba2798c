//! `GET /` and `GET /assets/{name}`: the files of the explorer.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;

use crate::api::assets::{Asset, asset};
use crate::body::typed;
use crate::error::{HttpError, HttpResult};

/// Content security policy of the page. It may load only files and pictures of this server; `blob:` is for pictures
/// that it fetched with a token. The page has no inline scripts or styles.
pub(crate) const POLICY: &str = "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn page() -> HttpResult {
    file("index.html")
}

pub(crate) async fn page_asset(name: Result<Path<String>, PathRejection>) -> HttpResult {
    let Path(name) = name.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
    file(&name)
}

fn file(name: &str) -> HttpResult {
    let Asset { media_type, content, .. } =
        asset(name).ok_or_else(|| HttpError::absent(format!("the explorer has no file `{name}`")))?;
    Ok(typed(media_type, *content))
}
