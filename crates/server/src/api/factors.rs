//! `GET /api/factors...`: the factors of a product space.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use conifer_embeddings::Modality;

use crate::Server;
use crate::api::extract::{QueryParams, digits};
use crate::api::replies::{FactorReply, FactorsReply, RowReply};
use crate::api::requests::NeighbourParams;
use crate::body::json;
use crate::error::{HttpError, HttpResult};

/// `GET /api/factors`.
pub(crate) async fn factors(State(server): State<Arc<Server>>) -> HttpResult {
    server
        .work(|server| {
            let (explorer, rows) = (&server.explorer, &server.state);
            json(&FactorsReply { factors: explorer.summary(rows) })
        })
        .await
}

/// `GET /api/factors/{i}`.
pub(crate) async fn factor(
    State(server): State<Arc<Server>>,
    factor: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<NeighbourParams>,
) -> HttpResult {
    let (k, modality) = (params.k()?, params.modality.map(Modality::from));
    let Path(factor) = factor.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
    let count = server.explorer.factors.count();
    let known: Option<usize> = digits(&factor).filter(|it| *it < count);
    let Some(factor) = known else {
        let expected = if count == 0 { "a set in a product space".to_owned() } else { format!("0 to {}", count - 1) };
        return Err(HttpError::absent(format!("no factor `{factor}`; expected {expected}")));
    };
    server
        .work(move |server| {
            let rows = &server.state;
            let passes = |row: usize| modality.is_none_or(|wanted| rows.modality[row] == wanted);
            let top = server.explorer.factors.top(rows.len(), |row| rows.flat.row(row), factor, k, passes);
            let hits: Vec<RowReply<'_>> =
                top.into_iter().map(|(row, depth)| RowReply::scored(server, row, depth)).collect();
            json(&FactorReply { hits })
        })
        .await
}
