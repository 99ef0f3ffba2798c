//! `POST /api/search` and `POST /api/point`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_index::{Effort, Hit, Query as Points, Ranking};
use serde::{Deserialize, Serialize};

use super::Server;
use super::body::{MAX_JSON_BYTES, json, read};
use super::error::{HttpError, HttpResult};
use super::fields::{Request, RequestFields, object, parse_request};
use super::hits::RowReply;
use super::query::{PassingRows, PointQuery, split};
use crate::ranking::RankingArg;
use crate::triviality::{ScoreRange, is_comparable, score_range};

/// Maximum number of hits in a response.
pub(crate) const MAX_HITS: usize = 1000;
/// Maximum number of hits that a request may skip.
pub(crate) const MAX_OFFSET: usize = 1_000_000;
/// Maximum number of rows of the set whose scores are compared to find flat rankings. It is smaller than on the command
/// line, because every search compares them.
const SAMPLED_ROWS: usize = 512;
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
    /// Absent for gated rankings, and if no row can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<SampledScores>,
    /// A warning if the scores of the rows are so close together that their order is almost meaningless.
    #[serde(skip_serializing_if = "Option::is_none")]
    flat: Option<String>,
    took_ms: f64,
}

/// Scores of a sample of the rows that pass the filters, without rows at the query itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SampledScores {
    #[serde(flatten)]
    range: ScoreRange,
    /// Best score of all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<f32>,
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
            let mut found = best(server, &point, ranking, search.k + search.offset, &passing)?;
            let scores = SampledScores::new(server, &point, ranking, &passing, &found)?;
            found.drain(..search.offset.min(found.len()));
            json(&SearchReply {
                query: QueryInfo::new(server, &point),
                hits: found.into_iter().map(|hit| RowReply::found(server, hit, &point)).collect(),
                rows_passing: passing.len(),
                flat: scores.and_then(|it| it.flatness(search.by.score())),
                scores,
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

/// The `k` best rows.
pub(crate) fn best(
    server: &Server,
    point: &[f32],
    ranking: Ranking,
    k: usize,
    passing: &PassingRows,
) -> HttpResult<Vec<Hit>> {
    let state = &server.state;
    let (query, filter) = (Points::new(state.spec(), point), passing.filter());
    Ok(match &state.cells {
        None => state.flat.top_k(&query, ranking, k, &filter)?.concat(),
        Some(cells) => {
            let found = cells.top_k(&query, ranking, k, &filter, Effort::Exact)?;
            found.into_iter().flat_map(|it| it.hits).collect()
        }
    })
}

impl SampledScores {
    /// Compares the scores of the rows whose number in the whole set is a multiple of a step, so that the samples of all
    /// shards together are the sample of the whole set. Rows at the query itself are left out: their distance of 0 hides
    /// how close together the other rows are. `found` are the best hits.
    fn new(
        server: &Server,
        point: &[f32],
        ranking: Ranking,
        passing: &PassingRows,
        found: &[Hit],
    ) -> HttpResult<Option<Self>> {
        if !is_comparable(ranking) {
            return Ok(None);
        }
        let (index, shard, rows) = (&server.state.flat, server.info.shard_identity(), server.info.set.rows);
        let other = |row: usize| *index.row(row) != *point;
        let step = rows.div_ceil(SAMPLED_ROWS).max(1);
        let local = (0..rows).step_by(step).filter(|row| row % shard.count == shard.index).map(|row| row / shard.count);
        let sampled: Vec<usize> = local.filter(|row| passing.contains(*row) && other(*row)).collect();
        let range = score_range(index, &Points::new(server.state.spec(), point), ranking, &sampled)?;
        let best = found.iter().find(|hit| other(hit.row)).map(|hit| hit.score);
        Ok(range.map(|range| SampledScores { range, best }))
    }

    /// Merges the scores of the shards of a set.
    pub(crate) fn merged(shards: impl Iterator<Item = Option<Self>>, large_first: bool) -> Option<Self> {
        shards.flatten().reduce(|a, b| {
            let better = |x: f32, y: f32| if large_first { x.max(y) } else { x.min(y) };
            let best = match (a.best, b.best) {
                (Some(x), Some(y)) => Some(better(x, y)),
                (x, y) => x.or(y),
            };
            SampledScores { range: a.range.merged(b.range), best }
        })
    }

    /// See [`ScoreRange::flatness`].
    pub(crate) fn flatness(&self, what: &str) -> Option<String> {
        self.best.map_or(self.range, |best| self.range.including(best)).flatness(what)
    }
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
