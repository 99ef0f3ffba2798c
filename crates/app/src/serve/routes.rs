//! Which path is answered by whom.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::routing::{get, post};
use axum::{Router, middleware};

use super::body::typed;
use super::error::{Answer, Refusal};
use super::gate::{Gate, pass};
use super::{Server, explore, info, page, photos, rows, search, thumbnails, traverse};

/// The routes of a server. Every one of them stands in [`super::openapi`], which a test holds to this list.
pub(crate) fn router(server: Arc<Server>, gate: Arc<Gate>) -> Router {
    let routes = Router::new()
        .route("/", get(page::page))
        .route("/assets/{name}", get(page::part))
        .route("/health", get(info::health))
        .route("/metrics", get(metrics))
        .route("/api/info", get(info::info))
        .route("/api/search", post(search::search))
        .route("/api/photos", post(photos::upload))
        .route("/api/traverse", post(traverse::traverse))
        .route("/api/rows", get(rows::by_id))
        .route("/api/rows/{row}", get(rows::one))
        .route("/api/rows/{row}/neighbours", get(rows::neighbours))
        .route("/api/rows/{row}/thumbnail", get(thumbnails::thumbnail))
        .route("/api/map", get(explore::map))
        .route("/api/map/row/{row}", get(explore::map_row))
        .route("/api/factors", get(explore::factors))
        .route("/api/factors/{factor}", get(explore::factor))
        .route("/api/tree", get(explore::tree));
    behind(routes.with_state(server), gate)
}

/// Refusals in our words for what no route takes, and the gate before it all.
pub(crate) fn behind(routes: Router, gate: Arc<Gate>) -> Router {
    routes
        .fallback(|request: Request| async move {
            Refusal::absent(format!("nothing is at `{}`; /api/openapi.json says what there is", request.uri().path()))
        })
        .method_not_allowed_fallback(|request: Request| async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
            Refusal::new(status, format!("`{path}` does not take {method}; /api/openapi.json says what it takes"))
        })
        .layer(middleware::from_fn_with_state(gate, pass))
}

async fn metrics(State(server): State<Arc<Server>>) -> Answer {
    let waiting = server.model.as_ref().map_or(0, super::batch::Queue::waiting);
    let text = server.metrics.text(&[
        ("conifer_model_waiting", "Texts and photos that wait for the model.", waiting),
        ("conifer_rows", "Rows.", server.state.len()),
    ]);
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", text))
}
