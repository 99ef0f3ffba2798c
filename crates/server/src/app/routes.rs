//! The routes of a server.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Router, middleware};

use crate::Server;
use crate::api::{
    boxes, factors, hierarchy, info, map, map_cone, map_labels, map_links, map_page, map_points, openapi, page, photos,
    predict, rows, search, thumbnails, traverse, tree,
};
use crate::app::gate::{RequestGate, pass};
use crate::body::typed;
use crate::embedding_queue::EmbeddingQueue;
use crate::error::{HttpError, HttpResult};

/// A route: its method in the spelling of OpenAPI, its path and its handler.
type ServerRoute = (&'static str, &'static str, MethodRouter<Arc<Server>>);

/// All routes of a server. [`crate::api::openapi`] describes each of them.
pub(crate) fn routes() -> Vec<ServerRoute> {
    vec![
        ("get", "/", get(page::page)),
        ("get", "/assets/{name}", get(page::page_asset)),
        ("get", "/health", get(info::health)),
        ("get", "/metrics", get(metrics)),
        ("get", "/api/openapi.json", get(openapi::openapi)),
        ("get", "/api/info", get(info::info)),
        ("post", "/api/search", post(search::search)),
        ("post", "/api/point", post(search::point)),
        ("post", "/api/photos", post(photos::upload)),
        ("post", "/api/predict", post(predict::predict)),
        ("post", "/api/traverse", post(traverse::traverse)),
        ("post", "/api/hierarchy", post(hierarchy::hierarchy)),
        ("get", "/api/rows", get(rows::by_id)),
        ("post", "/api/rows/list", post(rows::list)),
        ("get", "/api/rows/{row}", get(rows::one)),
        ("get", "/api/rows/{row}/neighbours", get(rows::neighbours)),
        ("get", "/api/rows/{row}/boxes", get(boxes::boxes)),
        ("get", "/api/rows/{row}/thumbnail", get(thumbnails::thumbnail)),
        ("get", "/api/map", get(map::map)),
        ("get", "/api/map/row/{row}", get(map::map_row)),
        ("get", "/api/map/layers", get(map::layers)),
        ("post", "/api/map/layers", post(map::new_layer)),
        ("delete", "/api/map/layers/{name}", delete(map::cancel_layer)),
        ("get", "/api/map/points", get(map_points::points)),
        ("get", "/api/map/labels", get(map_labels::labels)),
        ("get", "/api/map/cone/{row}", get(map_cone::cone)),
        ("get", "/api/map/links", get(map_links::links)),
        ("post", "/api/map/page", post(map_page::page)),
        ("get", "/api/factors", get(factors::factors)),
        ("get", "/api/factors/{factor}", get(factors::factor)),
        ("get", "/api/tree", get(tree::tree)),
    ]
}

pub(crate) fn router(server: Arc<Server>, gate: Arc<RequestGate>) -> Router {
    let all = routes().into_iter().fold(Router::new(), |all, (_, path, handler)| all.route(path, handler));
    let shard = server.info.shard_identity();
    let add_headers = middleware::map_response(move |mut response: Response| {
        shard.add_to(response.headers_mut());
        std::future::ready(response)
    });
    behind(all.with_state(server), gate).layer(add_headers)
}

/// Adds JSON errors for unknown paths and methods, and puts the gate in front of all routes.
pub(crate) fn behind(routes: Router, gate: Arc<RequestGate>) -> Router {
    routes
        .fallback(|request: Request| async move {
            HttpError::absent(format!("unknown path `{}`; see /api/openapi.json for all paths", request.uri().path()))
        })
        .method_not_allowed_fallback(|request: Request| async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let message = format!("`{path}` does not accept {method}; see /api/openapi.json for its methods");
            HttpError::new(StatusCode::METHOD_NOT_ALLOWED, message)
        })
        // The gate limits the size of request bodies.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(gate, pass))
}

async fn metrics(State(server): State<Arc<Server>>) -> HttpResult {
    let waiting = server.model.as_ref().map_or(0, EmbeddingQueue::waiting);
    let text = server.metrics.text(&[
        ("conifer_model_waiting", "Texts and photos that wait for the model.", waiting),
        ("conifer_rows", "Number of rows.", server.state.len()),
    ])?;
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", text))
}
