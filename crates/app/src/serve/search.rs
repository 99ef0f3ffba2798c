//! `POST /api/search` and `POST /api/point`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_index::{Effort, Hit as Found, Query as Points, Ranking};
use serde::Serialize;

use super::Server;
use super::body::{JSON_BYTES, json, read};
use super::error::{Answer, Refusal};
use super::fields::{Fields, Request, object, whole};
use super::hits::Hit;
use super::query::{Asked, Passing, split};
use crate::ranking::By;

/// Maximum number of hits in a response.
pub(crate) const MOST_HITS: usize = 1000;
/// Maximum number of hits that a request may skip.
pub(crate) const MOST_OFFSET: usize = 1_000_000;
/// Constant K of the cone half-aperture in responses, as in MERU.
pub(crate) const MIN_RADIUS: f32 = 0.1;

/// Body of `POST /api/search` without its filter.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) query: Asked,
    pub(crate) by: By,
    pub(crate) k: usize,
    pub(crate) angle: Option<f32>,
    pub(crate) within: Option<f32>,
    pub(crate) offset: usize,
}

impl Request for Search {
    const FIELDS: &'static [&'static str] = &["query", "by", "k", "angle", "within", "offset"];

    fn read(fields: &mut Fields<'_>) -> Answer<Self> {
        Ok(Self {
            query: fields.need("query")?,
            by: fields.take("by")?.unwrap_or_default(),
            k: fields.take("k")?.unwrap_or(10),
            angle: fields.take("angle")?,
            within: fields.take("within")?,
            offset: fields.take("offset")?.unwrap_or(0),
        })
    }
}

#[derive(Serialize)]
struct Reply<'a> {
    query: About,
    hits: Vec<Hit<'a>>,
    rows_passing: usize,
    took_ms: f64,
}

/// Information about the query in a response.
#[derive(Serialize)]
pub(crate) struct About {
    depth: f32,
    aperture: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    factors: Option<Vec<f32>>,
}

impl Search {
    /// # Errors
    /// A number is out of range, or a limit does not fit the ranking.
    pub(crate) fn check(&self) -> Answer<Ranking> {
        if !(1..=MOST_HITS).contains(&self.k) {
            return Err(Refusal::invalid(format!("`k` is {}; expected 1 to {MOST_HITS}", self.k)));
        }
        if self.offset > MOST_OFFSET {
            return Err(Refusal::invalid(format!("`offset` is {}; expected at most {MOST_OFFSET}", self.offset)));
        }
        self.by.ranking(self.angle, self.within, "").map_err(Refusal::invalid)
    }
}

pub(crate) async fn search(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Answer {
    let started = Instant::now();
    let bytes = read(&headers, body, JSON_BYTES).await?;
    let (search, wanted): (Search, _) = split(object(&bytes)?)?;
    let ranking = search.check()?;
    wanted.check(search.query.check()?)?;
    let point = search.query.point(&server).await?;
    let meant = wanted.meant(&server).await?;
    server
        .work(move |server| {
            let passing = meant.passing(&server.state)?;
            let found = best(server, &point, ranking, search.k, search.offset, &passing)?;
            json(&Reply {
                query: About::new(server, &point),
                hits: found.into_iter().map(|hit| Hit::found(server, hit, &point)).collect(),
                rows_passing: passing.len(),
                took_ms: started.elapsed().as_secs_f64() * 1e3,
            })
        })
        .await
}

/// The body of `POST /api/point`.
pub(crate) struct PointOf {
    pub(crate) query: Asked,
}

impl Request for PointOf {
    const FIELDS: &'static [&'static str] = &["query"];

    fn read(fields: &mut Fields<'_>) -> Answer<Self> {
        Ok(Self { query: fields.need("query")? })
    }
}

/// `POST /api/point`: resolves a query to a point. A front resolves a query on one shard and sends the point to all
/// shards.
pub(crate) async fn point(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Answer {
    #[derive(Serialize)]
    struct Point {
        point: Vec<f32>,
    }
    let PointOf { query } = whole(&read(&headers, body, JSON_BYTES).await?)?;
    query.check()?;
    json(&Point { point: query.point(&server).await? })
}

/// The `k` best rows after the first `offset` rows.
pub(crate) fn best(
    server: &Server,
    point: &[f32],
    ranking: Ranking,
    k: usize,
    offset: usize,
    passing: &Passing,
) -> Answer<Vec<Found>> {
    let state = &server.state;
    let (query, filter) = (Points::new(state.spec(), point), passing.filter());
    let mut hits = match &state.cells {
        None => state.flat.top_k(&query, ranking, k + offset, &filter)?.concat(),
        Some(cells) => {
            let found = cells.top_k(&query, ranking, k + offset, &filter, Effort::Exact)?;
            found.into_iter().flat_map(|it| it.hits).collect()
        }
    };
    hits.drain(..offset.min(hits.len()));
    Ok(hits)
}

impl About {
    fn new(server: &Server, point: &[f32]) -> Self {
        let state = &server.state;
        let (space, root) = (state.space(), state.root());
        About {
            depth: space.depth(point, root),
            aperture: space.half_aperture(point, MIN_RADIUS, root),
            factors: server.explorer.activation(point),
        }
    }
}
