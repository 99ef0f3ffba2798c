//! `conifer front`: several servers that each hold a part of a set, as one. Every shard is asked; the answers are those of one index of
//! all rows, or an error that names the shard that is missing or serves something else by now.

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

/// Most hits before those of an answer: any of them may lie on any shard, so that every shard has to list its own.
const MOST_OFFSET: usize = 10_000;
/// For so long it is believed that the shards are well: whoever asks us all the time asks them once in a while.
const WELL: Duration = Duration::from_secs(1);

/// The shards, in their order.
pub(crate) struct Front {
    shards: Vec<Arc<Shard>>,
    /// Rows of all.
    rows: usize,
    /// Numbers of a point.
    dim: usize,
    metrics: Arc<Metrics>,
    max_upload: usize,
    /// Photos whose bytes are in memory.
    uploads: Semaphore,
    /// How the shards were, and when.
    health: Mutex<Option<(Instant, Answer<()>)>>,
}

type Shared = State<Arc<Front>>;
/// A route: its method as OpenAPI writes it, its path, who answers.
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

/// What a front answers of what a server does.
fn document() -> Value {
    let paths: Vec<&str> = routes().iter().map(|(_, path, _)| *path).collect();
    document_of(&paths, MOST_OFFSET)
}

impl Front {
    /// The same question to all shards at a time; their answers in order.
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
        self.shards.first().map(AsRef::as_ref).ok_or_else(|| Refusal::fault("no shard"))
    }

    /// The shard that holds a row, and the number of the row there.
    fn holder(&self, row: usize) -> Answer<(&Shard, usize)> {
        if row >= self.rows {
            return Err(Refusal::absent(format!("row {row} is not there; expected one below {}", self.rows)));
        }
        Ok((&self.shards[row % self.shards.len()], row / self.shards.len()))
    }

    /// A row, from the shard that has it.
    async fn row(&self, row: usize) -> Answer<Hit> {
        let (shard, local) = self.holder(row)?;
        let hit: Hit = shard.json(Method::GET, &format!("/api/rows/{local}"), None).await?;
        if hit.row != local {
            return Err(shard.client.wrong(&format!("row {}; {local} was asked for", hit.row)));
        }
        shard.renumber(hit)
    }

    /// The rows of an id, in their order.
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

    /// What a query names, as a query by point.
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
            // One that is wrong is refused by the shards.
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

    /// As a query by point, so that it can be passed on.
    async fn ask_point(&self, shard: &Shard, query: &Value) -> Answer<Value> {
        let body = json!({ "query": query }).to_string().into_bytes();
        let Point { point } = shard.json(Method::POST, "/api/point", Some(body)).await?;
        if point.len() != self.dim {
            return Err(shard.client.wrong(&format!("a point of {} numbers; expected {}", point.len(), self.dim)));
        }
        Ok(json!({ "point": point }))
    }

    /// Puts points in place of what the filter of a body names.
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

/// A coordinate so that it is read as what it is; what is not finite, as JSON's `null`, which is refused.
fn exact(it: &f32) -> Value {
    // The shortest decimal of an f32 reads back as the same f32; an f64 would write more digits, which do so, too.
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
        return Err(Refusal::invalid(format!("`offset` is {offset}; expected at most {MOST_OFFSET} of a front")));
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
            return Err(shard.client.wrong(&format!("{} stops; {} were asked for", stops.len(), walk.steps)));
        }
        for stop in &mut stops {
            let Some(hit) = stop.hit.take() else { continue };
            if hit.score.is_none() {
                return Err(shard.client.wrong(&format!("row {} without a score", hit.row)));
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

/// A row, or its thumbnail.
async fn one(State(front): Shared, Number(row): Number, uri: Uri) -> Answer {
    if !uri.path().ends_with("/thumbnail") {
        return reply(&front.row(row).await?);
    }
    let (shard, local) = front.holder(row)?;
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let found = shard.ask(Method::GET, &format!("/api/rows/{local}/thumbnail{query}"), None).await?;
    if found.is_absent() {
        // The shard would tell its own number.
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
        // One more than asked for: the row itself is among them.
        let (hits, _, _) = front.best(body, by, 0, k + 1).await?;
        let others: Vec<Hit> = hits.into_iter().filter(|it| it.row != row).take(k).collect();
        answer.insert(name.to_owned(), json!(others));
    }
    reply(&Value::Object(answer))
}

async fn info(State(front): Shared) -> Answer {
    let told = front.all(Method::GET, "/api/info", None).await?;
    reply(&merge::info(&told).ok_or_else(|| Refusal::fault("no shard"))?)
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
    let text = front.metrics.text(&[("conifer_shards", "Shards.", front.shards.len())]);
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
