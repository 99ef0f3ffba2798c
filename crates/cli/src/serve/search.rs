//! `POST /api/search` and `POST /api/point`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_index::{Effort, Hit, Query as Points, Ranking};
use serde::Serialize;

use super::Server;
use super::body::{MAX_JSON_BYTES, json, read};
use super::error::{HttpError, HttpResult};
use super::fields::{Request, RequestFields, object, parse_request};
use super::hits::RowReply;
use super::query::{PassingRows, PointQuery, split};
use crate::ranking::RankingArg;

/// Maximum number of hits in a response.
pub(crate) const MAX_HITS: usize = 1000;
/// Maximum number of hits that a request may skip.
pub(crate) const MAX_OFFSET: usize = 1_000_000;
/// Constant K of the cone half-aperture in responses, as in MERU.
pub(crate) const MIN_RADIUS: f32 = 0.1;

/// Body of `POST /api/search` without its filter.
#[derive(Clone, Debug)]
pub(crate) struct SearchRequest {
    pub(crate) query: PointQuery,
    pub(crate) by: RankingArg,
    pub(crate) k: usize,
    pub(crate) angle: Option<f32>,
    pub(crate) within: Option<f32>,
    pub(crate) offset: usize,
}

impl Request for SearchRequest {
    const FIELDS: &'static [&'static str] = &["query", "by", "k", "angle", "within", "offset"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
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
struct SearchReply<'a> {
    query: QueryInfo,
    hits: Vec<RowReply<'a>>,
    rows_passing: usize,
    took_ms: f64,
}

/// Information about the query in a response.
#[derive(Serialize)]
pub(crate) struct QueryInfo {
    depth: f32,
    aperture: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    factors: Option<Vec<f32>>,
}

impl SearchRequest {
    /// # Errors
    /// A number is out of range, or a limit does not fit the ranking.
    pub(crate) fn check(&self) -> HttpResult<Ranking> {
        if !(1..=MAX_HITS).contains(&self.k) {
            return Err(HttpError::invalid(format!("`k` is {}; expected 1 to {MAX_HITS}", self.k)));
        }
        if self.offset > MAX_OFFSET {
            return Err(HttpError::invalid(format!("`offset` is {}; expected at most {MAX_OFFSET}", self.offset)));
        }
        self.by.ranking(self.angle, self.within, "").map_err(HttpError::invalid)
    }
}

pub(crate) async fn search(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> HttpResult {
    let started = Instant::now();
    let bytes = read(&headers, body, MAX_JSON_BYTES).await?;
    let (search, filter): (SearchRequest, _) = split(object(&bytes)?)?;
    let ranking = search.check()?;
    filter.check(search.query.check()?)?;
    let point = search.query.point(&server).await?;
    let resolved = filter.resolve(&server).await?;
    server
        .work(move |server| {
            let passing = resolved.passing(&server.state)?;
            let found = best(server, &point, ranking, search.k, search.offset, &passing)?;
            json(&SearchReply {
                query: QueryInfo::new(server, &point),
                hits: found.into_iter().map(|hit| RowReply::found(server, hit, &point)).collect(),
                rows_passing: passing.len(),
                took_ms: started.elapsed().as_secs_f64() * 1e3,
            })
        })
        .await
}

/// The body of `POST /api/point`.
pub(crate) struct PointRequest {
    pub(crate) query: PointQuery,
}

impl Request for PointRequest {
    const FIELDS: &'static [&'static str] = &["query"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
        Ok(Self { query: fields.need("query")? })
    }
}

/// `POST /api/point`: resolves a query to a point. A front resolves a query on one shard and sends the point to all
/// shards.
pub(crate) async fn point(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> HttpResult {
    #[derive(Serialize)]
    struct PointReply {
        point: Vec<f32>,
    }
    let PointRequest { query } = parse_request(&read(&headers, body, MAX_JSON_BYTES).await?)?;
    query.check()?;
    json(&PointReply { point: query.point(&server).await? })
}

/// The `k` best rows after the first `offset` rows.
pub(crate) fn best(
    server: &Server,
    point: &[f32],
    ranking: Ranking,
    k: usize,
    offset: usize,
    passing: &PassingRows,
) -> HttpResult<Vec<Hit>> {
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

impl QueryInfo {
    fn new(server: &Server, point: &[f32]) -> Self {
        let state = &server.state;
        let (space, root) = (state.space(), state.root());
        QueryInfo {
            depth: space.depth(point, root),
            aperture: space.half_aperture(point, MIN_RADIUS, root),
            factors: server.explorer.activation(point),
        }
    }
}
