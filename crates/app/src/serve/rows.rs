//! `GET /api/rows...`: rows by number and by id, and what lies around one.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use conifer_index::{Direction, Filter, Ranking};
use conifer_space::Modality;
use serde::{Deserialize, Serialize};

use super::Server;
use super::body::json;
use super::error::{Answer, Refusal};
use super::hits::Hit;
use super::query::Passing;
use super::search::{MOST_HITS, best};

/// Most rows that are told of one id.
pub(crate) const MOST_ROWS: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ById {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Around {
    k: Option<usize>,
    pub(crate) modality: Option<Modality>,
}

impl Around {
    /// How many rows on each side.
    pub(crate) fn k(&self) -> Answer<usize> {
        let k = self.k.unwrap_or(10);
        if !(1..=MOST_HITS).contains(&k) {
            return Err(Refusal::invalid(format!("`k` is {k}; expected 1 to {MOST_HITS}")));
        }
        Ok(k)
    }
}

#[derive(Serialize)]
struct Neighbours<'a> {
    row: Hit<'a>,
    broader: Vec<Hit<'a>>,
    narrower: Vec<Hit<'a>>,
    near: Vec<Hit<'a>>,
}

/// The number of a row, as it stands in a path.
pub(crate) struct Number(pub(crate) usize);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = found.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
        let number = digits(&text).map(Number);
        number.ok_or_else(|| Refusal::invalid(format!("`{text}` is no number of a row; expected digits")))
    }
}

/// A number that is written in digits alone: Rust would take `+1`, too.
pub(crate) fn digits(text: &str) -> Option<usize> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The settings behind the question mark, once they are what they must be.
pub(crate) fn settings<T>(found: Result<Query<T>, axum::extract::rejection::QueryRejection>) -> Answer<T> {
    found.map(|Query(it)| it).map_err(|error| Refusal::invalid(error.body_text()))
}

pub(crate) async fn one(State(server): State<Arc<Server>>, Number(row): Number) -> Answer {
    server.state.check_row(row)?;
    json(&Hit::of(&server, row))
}

pub(crate) async fn by_id(
    State(server): State<Arc<Server>>,
    query: Result<Query<ById>, axum::extract::rejection::QueryRejection>,
) -> Answer {
    let ById { id } = settings(query)?;
    let rows: Vec<Hit<'_>> = server.state.rows_of(&id).take(MOST_ROWS).map(|row| Hit::of(&server, row)).collect();
    json(&rows)
}

pub(crate) async fn neighbours(
    State(server): State<Arc<Server>>,
    Number(row): Number,
    query: Result<Query<Around>, axum::extract::rejection::QueryRejection>,
) -> Answer {
    let around = settings(query)?;
    let (k, modality) = (around.k()?, around.modality);
    server.state.check_row(row)?;
    server
        .work(move |server| {
            let state = &server.state;
            let point = state.flat.row(row);
            let (other, wanted) = (|it: usize| it != row, modality.as_slice());
            let mut filters = vec![Filter::Rows(&other)];
            filters.extend(modality.is_some().then_some(Filter::Modality(wanted)));
            let passing = Passing::Rows(state.flat.passing(&Filter::And(&filters))?);
            let by = |ranking| -> Answer<Vec<Hit<'_>>> {
                let found = best(server, &point, ranking, k, 0, &passing)?;
                Ok(found.into_iter().map(|hit| Hit::found(server, hit, &point)).collect())
            };
            json(&Neighbours {
                row: Hit::of(server, row),
                broader: by(Ranking::Angle(Direction::Up))?,
                narrower: by(Ranking::Angle(Direction::Down))?,
                near: by(Ranking::Distance)?,
            })
        })
        .await
}
