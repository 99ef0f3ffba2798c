//! `GET /` and `GET /assets/{name}`: the files of the explorer.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;

use super::assets::{Asset, asset};
use super::body::typed;
use super::error::{Answer, Refusal};

/// Content security policy of the page. It may load only files and pictures of this server; `blob:` is for pictures
/// that it fetched with a token. The page has no inline scripts or styles.
pub(crate) const POLICY: &str = "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn page() -> Answer {
    file("index.html")
}

pub(crate) async fn part(name: Result<Path<String>, PathRejection>) -> Answer {
    let Path(name) = name.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    file(&name)
}

fn file(name: &str) -> Answer {
    let Asset { media_type, content, .. } =
        asset(name).ok_or_else(|| Refusal::absent(format!("the explorer has no file `{name}`")))?;
    Ok(typed(media_type, *content))
}
