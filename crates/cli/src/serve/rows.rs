//! `GET /api/rows...`: rows by number or id, and the neighbours of a row.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use conifer_index::{Direction, Filter, Ranking};
use conifer_space::Modality;
use serde::Serialize;

use super::Server;
use super::body::json;
use super::error::{HttpError, HttpResult};
use super::fields::{QueryParams, Request, RequestFields};
use super::hits::RowReply;
use super::query::PassingRows;
use super::search::{MAX_HITS, best};

/// Maximum number of rows that are returned for one id, or read for the boxes of one photo.
pub(crate) const MAX_ROWS: usize = 1000;

pub(crate) struct RowIdParams {
    id: String,
}

impl Request for RowIdParams {
    const FIELDS: &'static [&'static str] = &["id"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
        Ok(Self { id: fields.need("id")? })
    }
}

/// Query parameters of a neighbour search: number of rows in each list, and their modality.
pub(crate) struct NeighbourParams {
    pub(crate) k: usize,
    pub(crate) modality: Option<Modality>,
}

impl Request for NeighbourParams {
    const FIELDS: &'static [&'static str] = &["k", "modality"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
        let (k, modality) = (fields.take("k")?.unwrap_or(10), fields.take("modality")?);
        if !(1..=MAX_HITS).contains(&k) {
            return Err(HttpError::invalid(format!("`k` is {k}; expected 1 to {MAX_HITS}")));
        }
        Ok(Self { k, modality })
    }
}

#[derive(Serialize)]
struct NeighboursReply<'a> {
    row: RowReply<'a>,
    broader: Vec<RowReply<'a>>,
    narrower: Vec<RowReply<'a>>,
    near: Vec<RowReply<'a>>,
}

/// The number of a row in a URL path.
pub(crate) struct RowNumber(pub(crate) usize);

impl<S: Send + Sync> FromRequestParts<S> for RowNumber {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> HttpResult<Self> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = found.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
        let number = digits(&text).map(RowNumber);
        number.ok_or_else(|| HttpError::invalid(format!("`{text}` is not a row number; expected digits")))
    }
}

/// Parses a number that consists of digits only. `str::parse` alone would also accept `+1`.
pub(crate) fn digits(text: &str) -> Option<usize> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?
}

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

pub(crate) async fn neighbours(
    State(server): State<Arc<Server>>,
    RowNumber(row): RowNumber,
    QueryParams(NeighbourParams { k, modality }): QueryParams<NeighbourParams>,
) -> HttpResult {
    server.state.check_row(row)?;
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
