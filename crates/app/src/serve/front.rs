//! `conifer front`: a server that combines several servers, each with one shard of a set.
//!
//! A search goes to all shards. Its response equals that of one index over all rows. If a shard does not answer or
//! serves another set, the response is an error that names the shard.

mod best;
mod client;
mod merge;
mod start;
mod told;

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

use super::body::{JSON_BYTES, json as reply, read, typed};
use super::error::{Answer, Refusal};
use super::fields::{Settings, object, whole};
use super::gate::Gate;
use super::metrics::Metrics;
use super::openapi::document_of;
use super::page;
use super::query::{Asked, Wanted, split};
use super::routes::behind;
use super::rows::{Around, MOST_ROWS, Number};
use super::search::{PointOf, Search};
use super::traverse::Walk;
use crate::ranking::By;
use client::Shard;
use told::{Hit, Path, Photo, Point};

/// Maximum offset of a search. The skipped hits may all be on one shard, so every shard has to list that many.
const MOST_OFFSET: usize = 10_000;
/// How long the result of a health check of the shards is reused, so that frequent health requests do not load the
/// shards.
const WELL: Duration = Duration::from_secs(1);

/// The shards in order of their shard number, and the shared state of the handlers.
pub(crate) struct Front {
    shards: Vec<Arc<Shard>>,
    /// Number of rows of all shards.
    rows: usize,
    /// Number of coordinates of a point.
    dim: usize,
    metrics: Arc<Metrics>,
    max_upload: usize,
    /// Permits for photos in memory.
    uploads: Semaphore,
    /// Time and result of the last health check of the shards.
    health: Mutex<Option<(Instant, Answer<()>)>>,
}

type Shared = State<Arc<Front>>;
/// A route: its method in the spelling of OpenAPI, its path and its handler.
type Route = (&'static str, &'static str, MethodRouter<Arc<Front>>);

fn routes() -> Vec<Route> {
    vec![
        ("get", "/", get(page::page)),
        ("get", "/assets/{name}", get(page::part)),
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

fn router(front: Arc<Front>, gate: Arc<Gate>) -> Router {
    let all = routes().into_iter().fold(Router::new(), |all, (_, path, answer)| all.route(path, answer));
    behind(all.with_state(front), gate)
}

/// The OpenAPI document of a front, which has only some routes of a server.
fn document() -> Value {
    let paths: Vec<&str> = routes().iter().map(|(_, path, _)| *path).collect();
    document_of(&paths, MOST_OFFSET)
}

impl Front {
    /// Sends the same request to all shards concurrently, and returns the responses in shard order.
    async fn all<T: DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer<Vec<T>> {
        let mut asked = JoinSet::new();
        for (i, shard) in self.shards.iter().enumerate() {
            let (shard, method, path) = (Arc::clone(shard), method.clone(), path.to_owned());
            let body = body.map(|it| it.to_string().into_bytes());
            asked.spawn(async move { (i, shard.json::<T>(method, &path, body).await) });
        }
        let mut answers = Vec::new();
        while let Some(done) = asked.join_next().await {
            let (i, answer) = done.map_err(|error| Refusal::fault(error.to_string()))?;
            answers.push((i, answer?));
        }
        answers.sort_by_key(|(i, _)| *i);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    fn first(&self) -> Answer<&Shard> {
        self.shards.first().map(AsRef::as_ref).ok_or_else(|| Refusal::fault("the front has no shards"))
    }

    /// Returns the shard that holds a row, and the number of the row on that shard.
    fn holder(&self, row: usize) -> Answer<(&Shard, usize)> {
        if row >= self.rows {
            return Err(Refusal::absent(format!("no row {row}; expected a number below {}", self.rows)));
        }
        Ok((&self.shards[row % self.shards.len()], row / self.shards.len()))
    }

    /// Fetches a row from the shard that holds it.
    async fn row(&self, row: usize) -> Answer<Hit> {
        let (shard, local) = self.holder(row)?;
        let hit: Hit = shard.json(Method::GET, &format!("/api/rows/{local}"), None).await?;
        if hit.row != local {
            return Err(shard.client.wrong(&format!("row {}; expected row {local}", hit.row)));
        }
        shard.renumber(hit)
    }

    /// Fetches the rows that match `query`, the URL query of `GET /api/rows`, in ascending order.
    async fn rows_of(&self, query: &str) -> Answer<Vec<Hit>> {
        let mut rows = Vec::new();
        let found = self.all::<Vec<Hit>>(Method::GET, &format!("/api/rows?{query}"), None).await?;
        for (shard, found) in self.shards.iter().zip(found) {
            for hit in found {
                rows.push(shard.renumber(hit)?);
            }
        }
        rows.sort_by_key(|hit| hit.row);
        rows.truncate(MOST_ROWS);
        Ok(rows)
    }

    /// Resolves a query to a query by point.
    async fn point(&self, asked: &Asked) -> Answer<Value> {
        let Some(parts) = &asked.all else { return self.single(asked).await };
        let mut points = Vec::new();
        for it in parts {
            points.push(self.single(it).await?);
        }
        self.ask_point(self.first()?, &json!({ "all": points })).await
    }

    async fn single(&self, asked: &Asked) -> Answer<Value> {
        if let Some(point) = &asked.point {
            // The shards validate the point.
            return Ok(json!({ "point": point.iter().map(exact).collect::<Vec<_>>() }));
        }
        let mut row = asked.row;
        if let Some(id) = &asked.id {
            let rows = self.rows_of(&format!("id={}", percent(id))).await?;
            let found = rows.first().ok_or_else(|| Refusal::absent(format!("no row has the id `{id}`")))?;
            row = Some(found.row);
        }
        if let Some(row) = row {
            let (shard, local) = self.holder(row)?;
            return self.ask_point(shard, &json!({ "row": local })).await;
        }
        let named = match (&asked.text, &asked.photo) {
            (Some(text), _) => json!({ "text": text }),
            (None, photo) => json!({ "photo": photo }),
        };
        self.ask_point(self.first()?, &named).await
    }

    /// Resolves `query` on one shard to a query by point, which every shard accepts.
    async fn ask_point(&self, shard: &Shard, query: &Value) -> Answer<Value> {
        let body = json!({ "query": query }).to_string().into_bytes();
        let Point { point } = shard.json(Method::POST, "/api/point", Some(body)).await?;
        if point.len() != self.dim {
            return Err(shard.client.wrong(&format!("a point of {} coordinates; expected {}", point.len(), self.dim)));
        }
        Ok(json!({ "point": point }))
    }

    /// Replaces the queries in the filter of `body` by queries by point.
    async fn lower(&self, wanted: &Wanted, body: &mut Map<String, Value>) -> Answer<()> {
        if let Some(inside) = &wanted.inside {
            body.insert("inside".to_owned(), self.point(inside).await?);
        }
        if let Some(not) = &wanted.not {
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

async fn search(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let started = Instant::now();
    let bytes = read(&headers, body, JSON_BYTES).await?;
    let raw = object(&bytes)?;
    let (search, wanted): (Search, _) = split(raw.clone())?;
    search.check()?;
    if search.offset > MOST_OFFSET {
        let offset = search.offset;
        return Err(Refusal::invalid(format!("`offset` is {offset}; expected at most {MOST_OFFSET} on a front")));
    }
    wanted.check(search.query.check()?)?;
    let mut asked = raw;
    asked.insert("query".to_owned(), front.point(&search.query).await?);
    front.lower(&wanted, &mut asked).await?;
    let (hits, about, passing) = front.best(asked, search.by, search.offset, search.k).await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    reply(&json!({ "query": about, "hits": hits, "rows_passing": passing, "took_ms": took }))
}

async fn traverse(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let mut asked = object(&read(&headers, body, JSON_BYTES).await?)?;
    let (walk, wanted): (Walk, _) = split(asked.clone())?;
    wanted.check(walk.check()?)?;
    asked.insert("from".to_owned(), front.point(&walk.from).await?);
    if let Some(to) = &walk.to {
        asked.insert("to".to_owned(), front.point(to).await?);
    }
    front.lower(&wanted, &mut asked).await?;
    asked.insert("each".to_owned(), json!(true));
    let paths: Vec<Path> = front.all(Method::POST, "/api/traverse", Some(&Value::Object(asked))).await?;
    let mut all = Vec::new();
    for (shard, Path { mut stops }) in front.shards.iter().zip(paths) {
        if stops.len() != walk.steps {
            return Err(shard.client.wrong(&format!("{} stops; expected {}", stops.len(), walk.steps)));
        }
        for stop in &mut stops {
            let Some(hit) = stop.hit.take() else { continue };
            if hit.score.is_none() {
                return Err(shard.client.wrong(&format!("row {} has no score", hit.row)));
            }
            stop.hit = Some(shard.renumber(hit)?);
        }
        all.push(stops);
    }
    reply(&json!({ "stops": merge::path(&all, walk.to.is_none(), walk.each) }))
}

async fn point(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let PointOf { query } = whole(&read(&headers, body, JSON_BYTES).await?)?;
    query.check()?;
    reply(&front.point(&query).await?)
}

async fn photos(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let _turn = front.uploads.acquire().await.map_err(|error| Refusal::fault(error.to_string()))?;
    let bytes = read(&headers, body, front.max_upload).await?;
    reply(&front.first()?.json::<Photo>(Method::POST, "/api/photos", Some(bytes)).await?)
}

async fn by_id(State(front): Shared, RawQuery(query): RawQuery) -> Answer {
    reply(&front.rows_of(&query.unwrap_or_default()).await?)
}

/// Handles `GET /api/rows/{row}` and `GET /api/rows/{row}/thumbnail`.
async fn one(State(front): Shared, Number(row): Number, uri: Uri) -> Answer {
    if !uri.path().ends_with("/thumbnail") {
        return reply(&front.row(row).await?);
    }
    let (shard, local) = front.holder(row)?;
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let found = shard.ask(Method::GET, &format!("/api/rows/{local}/thumbnail{query}"), None).await?;
    if found.is_absent() {
        // The message of the shard contains the row number on the shard, not the one in the whole set.
        return Err(Refusal::absent(format!("row {row} has no picture")));
    }
    shard.client.good(&found)?;
    let kind = if found.is_jpeg() { "image/jpeg" } else { "application/octet-stream" };
    Ok(typed(kind, found.bytes))
}

async fn neighbours(
    State(front): Shared,
    Number(row): Number,
    Settings(Around { k, modality }): Settings<Around>,
) -> Answer {
    let own = front.row(row).await?;
    let point = front.point(&Asked { row: Some(row), ..Asked::default() }).await?;
    let mut answer = Map::from_iter([("row".to_owned(), json!(own))]);
    for (name, word, by) in [
        ("broader", "broader", By::Broader),
        ("narrower", "narrower", By::Narrower),
        ("near", "distance", By::Distance),
    ] {
        let mut body = Map::from_iter([("query".to_owned(), point.clone()), ("by".to_owned(), json!(word))]);
        if let Some(modality) = modality {
            body.insert("modality".to_owned(), json!([modality]));
        }
        // Request one more hit, because the row itself is among them.
        let (hits, _, _) = front.best(body, by, 0, k + 1).await?;
        let others: Vec<Hit> = hits.into_iter().filter(|it| it.row != row).take(k).collect();
        answer.insert(name.to_owned(), json!(others));
    }
    reply(&Value::Object(answer))
}

async fn info(State(front): Shared) -> Answer {
    let told = front.all(Method::GET, "/api/info", None).await?;
    reply(&merge::info(&told).ok_or_else(|| Refusal::fault("the front has no shards"))?)
}

async fn openapi() -> Response {
    typed("application/json", document().to_string())
}

async fn health(State(front): Shared) -> Answer {
    let mut last = front.health.lock().await;
    let well = match last.as_ref().filter(|(when, _)| when.elapsed() < WELL) {
        Some((_, well)) => well.clone(),
        None => {
            let well = front.all::<IgnoredAny>(Method::GET, "/health", None).await.map(drop);
            *last = Some((Instant::now(), well.clone()));
            well
        }
    };
    drop(last);
    well?;
    let (version, shards) = (env!("CARGO_PKG_VERSION"), front.shards.len());
    reply(&json!({ "status": "ok", "rows": front.rows, "version": version, "shards": shards }))
}

async fn metrics(State(front): Shared) -> Response {
    let text = front.metrics.text(&[("conifer_shards", "Number of shards.", front.shards.len())]);
    typed("text/plain; version=0.0.4; charset=utf-8", text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_it_says_of_itself_is_what_it_answers() {
        let document = document();
        let said: BTreeSet<(&str, &str)> = document["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(path, methods)| {
                methods.as_object().into_iter().flat_map(|it| it.keys().map(|it| (&**it, &**path)))
            })
            .collect();
        let there: BTreeSet<(&str, &str)> = routes().iter().map(|(method, path, _)| (*method, *path)).collect();
        assert_eq!(said, there);
        assert_eq!(document["components"]["schemas"]["Search"]["properties"]["offset"]["maximum"], MOST_OFFSET);
    }
}
