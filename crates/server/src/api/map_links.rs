//! `GET /api/map/links`: which rows of the second set are rows of the served set.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;

use crate::Server;
use crate::api::map_points::{PointArrays, binary};
use crate::error::HttpResult;

/// The JSON header of a response.
#[derive(Serialize)]
struct LinksHeader {
    /// Number of linked rows.
    points: usize,
    arrays: PointArrays,
}

/// `GET /api/map/links`.
pub(crate) async fn links(State(server): State<Arc<Server>>) -> HttpResult {
    let links = &server.second()?.links;
    let mut arrays = PointArrays::default();
    arrays.put("row", "u32", links.iter().map(|[row, _]| row.to_le_bytes()));
    arrays.put("beside", "u32", links.iter().map(|[_, row]| row.to_le_bytes()));
    let bytes = arrays.take_bytes();
    binary(&LinksHeader { points: links.len(), arrays }, bytes)
}
