//! `POST /api/search` and `POST /api/point`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use conifer_index::{Effort, Hit, Query as Points, Ranking};
use conifer_search::{is_comparable, score_range};

use crate::Server;
use crate::api::extract::JsonBody;
use crate::api::query::PassingRows;
use crate::api::replies::{PointReply, QueryInfo, RowReply, SampledScores, SearchReply};
use crate::api::requests::{PointRequest, SearchRequest};
use crate::body::json;
use crate::error::HttpResult;

/// Maximum number of rows of the set whose scores are compared to find flat rankings. It is smaller than on the command
/// line, because every search compares them.
const SAMPLED_ROWS: usize = 512;
/// Constant K of the cone half-aperture in responses, as in MERU.
pub(crate) const MIN_RADIUS: f32 = 0.1;

pub(crate) async fn search(State(server): State<Arc<Server>>, JsonBody(search): JsonBody<SearchRequest>) -> HttpResult {
    let started = Instant::now();
    let ranking = search.check()?;
    search.filter().check(search.query.check()?)?;
    let point = search.query.point(&server).await?;
    let resolved = search.filter().resolve(&server).await?;
    server
        .work(move |server| {
            let passing = resolved.passing(&server.state)?;
            let mut found = best(server, &point, ranking, search.k() + search.offset(), &passing)?;
            let scores = SampledScores::new(server, &point, ranking, &passing, &found)?;
            found.drain(..search.offset().min(found.len()));
            json(&SearchReply {
                query: QueryInfo::new(server, &point),
                hits: found.into_iter().map(|hit| RowReply::found(server, hit, &point)).collect(),
                rows_passing: passing.len(),
                flat: scores.and_then(|it| it.flatness(search.by().score())),
                scores,
                took_ms: started.elapsed().as_secs_f64() * 1e3,
            })
        })
        .await
}

/// `POST /api/point`: resolves a query to a point. A front resolves a query on one shard and sends the point to all
/// shards.
pub(crate) async fn point(
    State(server): State<Arc<Server>>,
    JsonBody(PointRequest { query }): JsonBody<PointRequest>,
) -> HttpResult {
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
    /// Compares the scores of the rows whose number in the whole set is a multiple of a step, so that the samples of
    /// all shards together are the sample of the whole set. Rows at the query itself are left out: their distance of 0
    /// hides how close together the other rows are. `found` are the best hits.
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
        Ok((range.is_some() || best.is_some()).then_some(SampledScores { range, best }))
    }

    /// Merges the scores of the shards of a set.
    pub(crate) fn merged(shards: impl Iterator<Item = Option<Self>>, large_first: bool) -> Option<Self> {
        shards.flatten().reduce(|a, b| {
            let better = |x: f32, y: f32| if large_first { x.max(y) } else { x.min(y) };
            let best = match (a.best, b.best) {
                (Some(x), Some(y)) => Some(better(x, y)),
                (x, y) => x.or(y),
            };
            let range = match (a.range, b.range) {
                (Some(x), Some(y)) => Some(x.merged(y)),
                (x, y) => x.or(y),
            };
            SampledScores { range, best }
        })
    }

    /// Returns a warning if the scores of the sample and the best score are nearly equal, see [`ScoreRange::flatness`].
    pub(crate) fn flatness(&self, what: &str) -> Option<String> {
        let range = self.range?;
        self.best.map_or(range, |best| range.including(best)).flatness(what)
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
