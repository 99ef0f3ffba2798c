//! `GET /api/rows`, `GET /api/rows/{row}`, `GET /api/rows/{row}/neighbours` and `POST /api/rows/list`.

use std::sync::Arc;

use axum::extract::State;
use conifer_embeddings::Modality;
use conifer_index::{Direction, Filter, Ranking};

use crate::Server;
use crate::api::extract::{JsonBody, QueryParams, RowNumber};
use crate::api::query::PassingRows;
use crate::api::replies::{NeighboursReply, RowReply};
use crate::api::requests::{NeighbourParams, RowIdParams, RowListRequest};
use crate::api::search::best;
use crate::body::json;
use crate::error::HttpResult;

/// Maximum number of rows that are returned for one id, or read for the boxes of one photo.
pub(crate) const MAX_ROWS: usize = 1000;

pub(crate) async fn one(State(server): State<Arc<Server>>, RowNumber(row): RowNumber) -> HttpResult {
    server.state.check_row(row)?;
    json(&RowReply::of(&server, row))
}

pub(crate) async fn by_id(
    State(server): State<Arc<Server>>,
    QueryParams(RowIdParams { id }): QueryParams<RowIdParams>,
) -> HttpResult {
    let rows: Vec<RowReply<'_>> =
        server.state.rows_of(&id).take(MAX_ROWS).map(|row| RowReply::of(&server, row)).collect();
    json(&rows)
}

/// `POST /api/rows/list`.
pub(crate) async fn list(State(server): State<Arc<Server>>, JsonBody(request): JsonBody<RowListRequest>) -> HttpResult {
    request.check()?;
    request.rows.iter().try_for_each(|row| server.state.check_row(*row))?;
    let rows: Vec<RowReply<'_>> = request.rows.iter().map(|row| RowReply::of(&server, *row)).collect();
    json(&rows)
}

pub(crate) async fn neighbours(
    State(server): State<Arc<Server>>,
    RowNumber(row): RowNumber,
    QueryParams(params): QueryParams<NeighbourParams>,
) -> HttpResult {
    server.state.check_row(row)?;
    let (k, modality) = (params.k()?, params.modality.map(Modality::from));
    server
        .work(move |server| {
            let state = &server.state;
            let point = state.flat.row(row);
            let (other, wanted) = (|it: usize| it != row, modality.as_slice());
            let mut filters = vec![Filter::Rows(&other)];
            filters.extend(modality.is_some().then_some(Filter::Modality(wanted)));
            let passing = PassingRows::Rows(state.flat.passing(&Filter::And(&filters))?);
            let by = |ranking| -> HttpResult<Vec<RowReply<'_>>> {
                let found = best(server, &point, ranking, k, &passing)?;
                Ok(found.into_iter().map(|hit| RowReply::found(server, hit, &point)).collect())
            };
            json(&NeighboursReply {
                row: RowReply::of(server, row),
                broader: by(Ranking::Angle(Direction::Up))?,
                narrower: by(Ranking::Angle(Direction::Down))?,
                near: by(Ranking::Distance)?,
            })
        })
        .await
}
