//! `conifer front`: a server that combines several servers, each with one shard of a set.
//!
//! A search goes to all shards. Its response equals that of one index over all rows. If a shard does not answer or
//! serves another set, the response is an error that names the shard.

mod best;
mod client;
mod merge;
mod shard_replies;
mod start;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

pub(crate) use start::front;

use super::body::{MAX_JSON_BYTES, json as reply, read, typed};
use super::error::{HttpError, HttpResult};
use super::fields::{QueryParams, object, parse_request};
use super::gate::RequestGate;
use super::metrics::Metrics;
use super::openapi::document_of;
use super::page;
use super::query::{PointQuery, RowFilter, split};
use super::routes::behind;
use super::rows::{MAX_ROWS, NeighbourParams, RowNumber};
use super::search::{PointRequest, SearchRequest};
use super::traverse::TraverseRequest;
use crate::ranking::RankingArg;
use best::BestHits;
use client::Shard;
use shard_replies::{ShardHit, ShardPath, ShardPhoto, ShardPoint};

/// Maximum offset of a search. The skipped hits may all be on one shard, so a shard may have to list all of them.
const MAX_OFFSET: usize = 10_000;
/// How long the result of a health check of the shards is reused, so that frequent health requests do not load the
/// shards.
const HEALTH_AGE: Duration = Duration::from_secs(1);

/// The shards in order of their shard number, and the shared state of the handlers.
pub(crate) struct FrontServer {
    shards: Vec<Arc<Shard>>,
    /// Number of rows of all shards.
    rows: usize,
    /// Number of coordinates of a point.
    dim: usize,
    metrics: Arc<Metrics>,
    max_upload: usize,
    /// Permits for photos that are forwarded to a shard.
    uploads: Semaphore,
    /// Time and result of the last health check of the shards.
    health: Mutex<Option<(Instant, HttpResult<()>)>>,
}

type FrontState = State<Arc<FrontServer>>;
/// A route: its method in the spelling of OpenAPI, its path and its handler.
type FrontRoute = (&'static str, &'static str, MethodRouter<Arc<FrontServer>>);

fn routes() -> Vec<FrontRoute> {
    vec![
        ("get", "/", get(page::page)),
        ("get", "/assets/{name}", get(page::page_asset)),
        ("get", "/health", get(health)),
        ("get", "/metrics", get(metrics)),
        ("get", "/api/openapi.json", get(openapi)),
        ("get", "/api/info", get(info)),
        ("post", "/api/search", post(search)),
        ("post", "/api/point", post(point)),
        ("post", "/api/traverse", post(traverse)),
        ("post", "/api/photos", post(photos)),
        ("get", "/api/rows", get(by_id)),
        ("get", "/api/rows/{row}", get(one)),
        ("get", "/api/rows/{row}/neighbours", get(neighbours)),
        ("get", "/api/rows/{row}/thumbnail", get(one)),
    ]
}

fn router(front: Arc<FrontServer>, gate: Arc<RequestGate>) -> Router {
    let all = routes().into_iter().fold(Router::new(), |all, (_, path, handler)| all.route(path, handler));
    behind(all.with_state(front), gate)
}

/// The OpenAPI document of a front, which has only some routes of a server.
fn document() -> Value {
    let paths: Vec<&str> = routes().iter().map(|(_, path, _)| *path).collect();
    document_of(&paths, MAX_OFFSET)
}

impl FrontServer {
    /// Sends the same request to all shards concurrently, and returns the responses in shard order.
    async fn all<T: DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> HttpResult<Vec<T>> {
        let mut requests = JoinSet::new();
        for (i, shard) in self.shards.iter().enumerate() {
            let (shard, method, path) = (Arc::clone(shard), method.clone(), path.to_owned());
            let body = body.map(|it| it.to_string().into_bytes());
            requests.spawn(async move { (i, shard.json::<T>(method, &path, body).await) });
        }
        let mut answers = Vec::new();
        while let Some(done) = requests.join_next().await {
            let (i, answer) = done.map_err(|error| HttpError::fault(error.to_string()))?;
            answers.push((i, answer?));
        }
        answers.sort_by_key(|(i, _)| *i);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    fn first(&self) -> HttpResult<&Shard> {
        self.shards.first().map(AsRef::as_ref).ok_or_else(|| HttpError::fault("the front has no shards"))
    }

    /// Returns the shard that holds a row, and the number of the row on that shard.
    fn holder(&self, row: usize) -> HttpResult<(&Shard, usize)> {
        if row >= self.rows {
            return Err(HttpError::absent(format!("no row {row}; expected a number below {}", self.rows)));
        }
        Ok((&self.shards[row % self.shards.len()], row / self.shards.len()))
    }

    /// Fetches a row from the shard that holds it.
    async fn row(&self, row: usize) -> HttpResult<ShardHit> {
        let (shard, local) = self.holder(row)?;
        let hit: ShardHit = shard.json(Method::GET, &format!("/api/rows/{local}"), None).await?;
        if hit.row != local {
            return Err(shard.client.unexpected(&format!("row {}; expected row {local}", hit.row)));
        }
        shard.renumber(hit)
    }

    /// Fetches the rows that match `query`, the URL query of `GET /api/rows`: the first [`MAX_ROWS`] in ascending
    /// order.
    async fn rows_of(&self, query: &str) -> HttpResult<Vec<ShardHit>> {
        let mut rows = Vec::new();
        let found = self.all::<Vec<ShardHit>>(Method::GET, &format!("/api/rows?{query}"), None).await?;
        for (shard, found) in self.shards.iter().zip(found) {
            for hit in found {
                rows.push(shard.renumber(hit)?);
            }
        }
        rows.sort_by_key(|hit| hit.row);
        rows.truncate(MAX_ROWS);
        Ok(rows)
    }

    /// Resolves a query to a query by point.
    async fn point(&self, query: &PointQuery) -> HttpResult<Value> {
        let Some(parts) = &query.all else { return self.single(query).await };
        let mut points = Vec::new();
        for it in parts {
            points.push(self.single(it).await?);
        }
        self.resolve_point(self.first()?, &json!({ "all": points })).await
    }

    async fn single(&self, query: &PointQuery) -> HttpResult<Value> {
        if let Some(point) = &query.point {
            // The shards validate the point.
            return Ok(json!({ "point": point.iter().map(exact).collect::<Vec<_>>() }));
        }
        let mut row = query.row;
        if let Some(id) = &query.id {
            let rows = self.rows_of(&format!("id={}", percent(id))).await?;
            let found = rows.first().ok_or_else(|| HttpError::absent(format!("no row has the id `{id}`")))?;
            row = Some(found.row);
        }
        if let Some(row) = row {
            let (shard, local) = self.holder(row)?;
            return self.resolve_point(shard, &json!({ "row": local })).await;
        }
        let numbers = |it: &Vec<f32>| it.iter().map(exact).collect::<Vec<_>>();
        let named = match query {
            PointQuery { text: Some(text), .. } => json!({ "text": text }),
            PointQuery { image_vector: Some(it), .. } => json!({ "image_vector": numbers(it) }),
            PointQuery { text_vector: Some(it), .. } => json!({ "text_vector": numbers(it) }),
            PointQuery { photo, .. } => json!({ "photo": photo }),
        };
        self.resolve_point(self.first()?, &named).await
    }

    /// Resolves `query` on one shard to a query by point, which every shard accepts.
    async fn resolve_point(&self, shard: &Shard, query: &Value) -> HttpResult<Value> {
        let body = json!({ "query": query }).to_string().into_bytes();
        let ShardPoint { point } = shard.json(Method::POST, "/api/point", Some(body)).await?;
        if point.len() != self.dim {
            return Err(shard.client.unexpected(&format!(
                "a point of {} coordinates; expected {}",
                point.len(),
                self.dim
            )));
        }
        Ok(json!({ "point": point }))
    }

    /// Resolves the queries of the filter, and writes them to `body` as queries by point.
    async fn resolve_filter(&self, filter: &RowFilter, body: &mut Map<String, Value>) -> HttpResult<()> {
        if let Some(inside) = &filter.inside {
            body.insert("inside".to_owned(), self.point(inside).await?);
        }
        if let Some(not) = &filter.not {
            let mut points = Vec::new();
            for it in not {
                points.push(self.point(it).await?);
            }
            body.insert("not".to_owned(), json!(points));
        }
        Ok(())
    }
}

/// Writes a coordinate without loss of precision. A coordinate that is not finite becomes JSON `null`, which the shards
/// reject.
fn exact(it: &f32) -> Value {
    // As an f64 the number has more digits than the f32 needs, but it parses back to the same f32.
    json!(f64::from(*it))
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|it| if it.is_ascii_alphanumeric() { char::from(it).to_string() } else { format!("%{it:02X}") })
        .collect()
}

async fn search(State(front): FrontState, headers: HeaderMap, body: Body) -> HttpResult {
    let started = Instant::now();
    let bytes = read(&headers, body, MAX_JSON_BYTES).await?;
    let raw = object(&bytes)?;
    let (search, filter): (SearchRequest, _) = split(raw.clone())?;
    search.check()?;
    if search.offset > MAX_OFFSET {
        let offset = search.offset;
        return Err(HttpError::invalid(format!("`offset` is {offset}; expected at most {MAX_OFFSET} on a front")));
    }
    filter.check(search.query.check()?)?;
    let mut request = raw;
    request.insert("query".to_owned(), front.point(&search.query).await?);
    front.resolve_filter(&filter, &mut request).await?;
    let BestHits { hits, query, rows_passing, scores } =
        front.best(request, search.by, search.offset, search.k).await?;
    let mut answer = json!({ "query": query, "hits": hits, "rows_passing": rows_passing });
    if let Some(scores) = scores {
        answer["scores"] = json!(scores);
        if let Some(warning) = scores.flatness(search.by.score()) {
            answer["flat"] = json!(warning);
        }
    }
    answer["took_ms"] = json!(started.elapsed().as_secs_f64() * 1e3);
    reply(&answer)
}

async fn traverse(State(front): FrontState, headers: HeaderMap, body: Body) -> HttpResult {
    let mut request = object(&read(&headers, body, MAX_JSON_BYTES).await?)?;
    let (walk, filter): (TraverseRequest, _) = split(request.clone())?;
    filter.check(walk.check()?)?;
    request.insert("from".to_owned(), front.point(&walk.from).await?);
    if let Some(to) = &walk.to {
        request.insert("to".to_owned(), front.point(to).await?);
    }
    front.resolve_filter(&filter, &mut request).await?;
    request.insert("each".to_owned(), json!(true));
    let paths: Vec<ShardPath> = front.all(Method::POST, "/api/traverse", Some(&Value::Object(request))).await?;
    let mut all = Vec::new();
    for (shard, ShardPath { mut stops }) in front.shards.iter().zip(paths) {
        if stops.len() != walk.steps {
            return Err(shard.client.unexpected(&format!("{} stops; expected {}", stops.len(), walk.steps)));
        }
        for stop in &mut stops {
            let Some(hit) = stop.hit.take() else { continue };
            if hit.score.is_none() {
                return Err(shard.client.unexpected(&format!("row {} has no score", hit.row)));
            }
            stop.hit = Some(shard.renumber(hit)?);
        }
        all.push(stops);
    }
    reply(&json!({ "stops": merge::path(&all, walk.to.is_none(), walk.each) }))
}

async fn point(State(front): FrontState, headers: HeaderMap, body: Body) -> HttpResult {
    let PointRequest { query } = parse_request(&read(&headers, body, MAX_JSON_BYTES).await?)?;
    query.check()?;
    reply(&front.point(&query).await?)
}

async fn photos(State(front): FrontState, headers: HeaderMap, body: Body) -> HttpResult {
    let _permit = front.uploads.acquire().await.map_err(|error| HttpError::fault(error.to_string()))?;
    let bytes = read(&headers, body, front.max_upload).await?;
    reply(&front.first()?.json::<ShardPhoto>(Method::POST, "/api/photos", Some(bytes)).await?)
}

async fn by_id(State(front): FrontState, RawQuery(query): RawQuery) -> HttpResult {
    reply(&front.rows_of(&query.unwrap_or_default()).await?)
}

/// Handles `GET /api/rows/{row}` and `GET /api/rows/{row}/thumbnail`.
async fn one(State(front): FrontState, RowNumber(row): RowNumber, uri: Uri) -> HttpResult {
    if !uri.path().ends_with("/thumbnail") {
        return reply(&front.row(row).await?);
    }
    let (shard, local) = front.holder(row)?;
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let found = shard.send(Method::GET, &format!("/api/rows/{local}/thumbnail{query}"), None).await?;
    if found.is_absent() {
        // The message of the shard contains the row number on the shard, not the one in the whole set.
        return Err(HttpError::absent(format!("row {row} has no picture")));
    }
    shard.client.check_success(&found)?;
    let kind = if found.is_jpeg() { "image/jpeg" } else { "application/octet-stream" };
    Ok(typed(kind, found.bytes))
}

async fn neighbours(
    State(front): FrontState,
    RowNumber(row): RowNumber,
    QueryParams(NeighbourParams { k, modality }): QueryParams<NeighbourParams>,
) -> HttpResult {
    let own = front.row(row).await?;
    let point = front.point(&PointQuery { row: Some(row), ..PointQuery::default() }).await?;
    let mut answer = Map::from_iter([("row".to_owned(), json!(own))]);
    for (name, word, by) in [
        ("broader", "broader", RankingArg::Broader),
        ("narrower", "narrower", RankingArg::Narrower),
        ("near", "distance", RankingArg::Distance),
    ] {
        let mut body = Map::from_iter([("query".to_owned(), point.clone()), ("by".to_owned(), json!(word))]);
        if let Some(modality) = modality {
            body.insert("modality".to_owned(), json!([modality]));
        }
        // Request one more hit, because the row itself is among them.
        let BestHits { hits, .. } = front.best(body, by, 0, k + 1).await?;
        let others: Vec<ShardHit> = hits.into_iter().filter(|it| it.row != row).take(k).collect();
        answer.insert(name.to_owned(), json!(others));
    }
    reply(&Value::Object(answer))
}

async fn info(State(front): FrontState) -> HttpResult {
    let infos = front.all(Method::GET, "/api/info", None).await?;
    reply(&merge::info(&infos).ok_or_else(|| HttpError::fault("the front has no shards"))?)
}

async fn openapi() -> Response {
    typed("application/json", document().to_string())
}

async fn health(State(front): FrontState) -> HttpResult {
    let mut last = front.health.lock().await;
    let healthy = match last.as_ref().filter(|(when, _)| when.elapsed() < HEALTH_AGE) {
        Some((_, healthy)) => healthy.clone(),
        None => {
            let healthy = front.all::<IgnoredAny>(Method::GET, "/health", None).await.map(drop);
            *last = Some((Instant::now(), healthy.clone()));
            healthy
        }
    };
    drop(last);
    healthy?;
    let (version, shards) = (env!("CARGO_PKG_VERSION"), front.shards.len());
    reply(&json!({ "status": "ok", "rows": front.rows, "version": version, "shards": shards }))
}

async fn metrics(State(front): FrontState) -> Response {
    let text = front.metrics.text(&[("conifer_shards", "Number of shards.", front.shards.len())]);
    typed("text/plain; version=0.0.4; charset=utf-8", text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn front_routes_and_openapi_paths_match() {
        let document = document();
        let described: BTreeSet<(&str, &str)> = document["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(path, methods)| {
                methods.as_object().into_iter().flat_map(|it| it.keys().map(|it| (&**it, &**path)))
            })
            .collect();
        let routed: BTreeSet<(&str, &str)> = routes().iter().map(|(method, path, _)| (*method, *path)).collect();
        assert_eq!(described, routed);
        assert_eq!(document["components"]["schemas"]["Search"]["properties"]["offset"]["maximum"], MAX_OFFSET);
    }
}
