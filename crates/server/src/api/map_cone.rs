//! `GET /api/map/cone/{row}`: the rows inside the cone of a row, for every layer of the map.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;

use crate::Server;
use crate::api::extract::RowNumber;
use crate::api::map_points::{PointArrays, binary};
use crate::api::query::PassingRows;
use crate::api::requests::{PointQuery, RowFilter};
use crate::api::search::MIN_RADIUS;
use crate::error::HttpResult;

/// The JSON header of a response.
#[derive(Serialize)]
struct ConeHeader {
    row: usize,
    /// Half-aperture of the cone in radians.
    aperture: f32,
    /// Number of rows inside.
    points: usize,
    arrays: PointArrays,
}

/// `GET /api/map/cone/{row}`. The cone is that of the whole space, with the condition of the filter `inside`.
pub(crate) async fn cone(State(server): State<Arc<Server>>, RowNumber(row): RowNumber) -> HttpResult {
    server.state.check_row(row)?;
    let query = PointQuery::of_row(row);
    let resolved = RowFilter::inside(&query).resolve(&server).await?;
    server
        .work(move |server| {
            let state = &server.state;
            let rows = match resolved.passing(state)? {
                PassingRows::All(count) => (0..count).collect(),
                PassingRows::Rows(rows) => rows,
            };
            let aperture = state.space().half_aperture(&state.flat.row(row), MIN_RADIUS, state.root());
            let mut arrays = PointArrays::default();
            // An index has fewer than 2^32 rows.
            arrays.put("row", "u32", rows.iter().map(|row| (*row as u32).to_le_bytes()));
            let bytes = arrays.take_bytes();
            binary(&ConeHeader { row, aperture, points: rows.len(), arrays }, bytes)
        })
        .await
}
