//! `conifer front`: several servers that each hold a part of a set, as one. Every shard is asked; the answers are those of one index of
//! all rows, or an error that names the shard that is missing.

mod client;
mod merge;
mod start;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use start::front;

use super::body::{JSON_BYTES, json as reply, parse, part, read, typed};
use super::error::{Answer, Refusal};
use super::gate::Gate;
use super::metrics::Metrics;
use super::query::{Asked, Wanted, split};
use super::routes::behind;
use super::rows::Number;
use super::search::{MOST_HITS, Search};
use super::traverse::Walk;
use super::{openapi, page};
use crate::ranking::By;
use client::Shard;

/// The shards, in their order.
pub(crate) struct Front {
    shards: Vec<Arc<Shard>>,
    metrics: Arc<Metrics>,
    max_upload: usize,
    /// Photos whose bytes are in memory.
    uploads: Semaphore,
}

type Shared = State<Arc<Front>>;

fn router(front: Arc<Front>, gate: Arc<Gate>) -> Router {
    let routes = Router::new()
        .route("/", get(page::page))
        .route("/assets/{name}", get(page::part))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/api/openapi.json", get(openapi::openapi))
        .route("/api/info", get(info))
        .route("/api/search", post(search))
        .route("/api/point", post(point))
        .route("/api/traverse", post(traverse))
        .route("/api/photos", post(photos))
        .route("/api/rows", get(by_id))
        .route("/api/rows/{row}", get(one))
        .route("/api/rows/{row}/neighbours", get(neighbours))
        .route("/api/rows/{row}/thumbnail", get(one));
    behind(routes.with_state(front), gate)
}

impl Front {
    /// The same question to all shards at a time; their answers in order.
    async fn all(&self, method: Method, path: &str, body: Option<&Value>) -> Answer<Vec<Value>> {
        let mut asked = JoinSet::new();
        for (i, shard) in self.shards.iter().enumerate() {
            let (shard, method, path) = (Arc::clone(shard), method.clone(), path.to_owned());
            let body = body.map(|it| it.to_string().into_bytes());
            asked.spawn(async move { (i, shard.json(method, &path, body).await) });
        }
        let mut answers = vec![Value::Null; self.shards.len()];
        while let Some(done) = asked.join_next().await {
            let (i, answer) = done.map_err(|error| Refusal::fault(error.to_string()))?;
            answers[i] = answer?;
        }
        Ok(answers)
    }

    fn first(&self) -> Answer<&Shard> {
        self.shards.first().map(AsRef::as_ref).ok_or_else(|| Refusal::fault("no shard"))
    }

    /// The shard that holds a row, and the number of the row there.
    fn holder(&self, row: usize) -> (usize, usize) {
        (row % self.shards.len(), row / self.shards.len())
    }

    /// Something of a row, from the shard that has it.
    async fn of_row(&self, row: usize, rest: &str) -> Answer<client::Reply> {
        let (shard, local) = self.holder(row);
        let shard = &self.shards[shard];
        let reply = shard.ask(Method::GET, &format!("/api/rows/{local}{rest}"), None).await?;
        match reply.status.as_u16() {
            // The shard would tell its own number.
            404 if rest.is_empty() => Err(Refusal::absent(format!("row {row} is not there"))),
            404 => Err(Refusal::absent(format!("row {row} is not there, or has no picture"))),
            _ => reply.good(shard),
        }
    }

    /// The rows of an id, in their order.
    async fn rows_of(&self, query: &str) -> Answer<Vec<Value>> {
        let mut rows = Vec::new();
        for (i, found) in self.all(Method::GET, &format!("/api/rows?{query}"), None).await?.into_iter().enumerate() {
            for mut hit in part::<Vec<Value>>(found)? {
                merge::renumber(&mut hit, i, self.shards.len())?;
                rows.push(hit);
            }
        }
        rows.sort_by_key(|hit| hit["row"].as_u64());
        Ok(rows)
    }

    /// What a query names, as a query by point.
    async fn point(&self, asked: &Asked) -> Answer<Value> {
        let Some(parts) = &asked.all else { return self.single(asked).await };
        let mut points = Vec::new();
        for it in parts {
            points.push(self.single(it).await?);
        }
        ask_point(self.first()?, &json!({ "all": points })).await
    }

    async fn single(&self, asked: &Asked) -> Answer<Value> {
        if let Some(point) = &asked.point {
            // One that is wrong is refused by the shards.
            return Ok(json!({ "point": point.iter().map(exact).collect::<Vec<_>>() }));
        }
        let mut row = asked.row;
        if let Some(id) = &asked.id {
            let rows = self.rows_of(&format!("id={}", percent(id))).await?;
            let found = rows.first().and_then(|it| it["row"].as_u64());
            let found = found.ok_or_else(|| Refusal::absent(format!("no row has the id `{id}`")))?;
            row = usize::try_from(found).ok();
        }
        if let Some(row) = row {
            let (shard, local) = self.holder(row);
            let point = ask_point(&self.shards[shard], &json!({ "row": local })).await;
            return point
                .map_err(|it| if it.status == 404 { Refusal::absent(format!("row {row} is not there")) } else { it });
        }
        let named = match (&asked.text, &asked.photo) {
            (Some(text), _) => json!({ "text": text }),
            (None, photo) => json!({ "photo": photo }),
        };
        ask_point(self.first()?, &named).await
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

    /// The best rows of all shards. `body` is a search with points in place of names, without `k` and `offset`.
    async fn best(
        &self,
        mut body: Map<String, Value>,
        by: By,
        offset: usize,
        k: usize,
    ) -> Answer<(Vec<Value>, Value, u64)> {
        let of = self.shards.len();
        let (mut hits, mut about, mut passing) = (Vec::new(), Value::Null, 0);
        // Any of the best may lie on any shard.
        for start in (0..offset + k).step_by(MOST_HITS) {
            body.insert("offset".to_owned(), json!(start));
            body.insert("k".to_owned(), json!((offset + k - start).min(MOST_HITS)));
            let answers = self.all(Method::POST, "/api/search", Some(&Value::Object(body.clone()))).await?;
            passing = answers.iter().filter_map(|it| it["rows_passing"].as_u64()).sum();
            let mut more = false;
            for (i, mut answer) in answers.into_iter().enumerate() {
                for mut hit in part::<Vec<Value>>(answer["hits"].take())? {
                    merge::renumber(&mut hit, i, of)?;
                    hits.push(hit);
                    more = true;
                }
                if about.is_null() {
                    about = answer["query"].take();
                }
            }
            if !more {
                break;
            }
        }
        Ok((merge::best(hits, by.large_first(), offset, k), about, passing))
    }
}

/// As a query by point, so that it can be passed on.
async fn ask_point(shard: &Shard, query: &Value) -> Answer<Value> {
    let body = json!({ "query": query }).to_string().into_bytes();
    let mut answer = shard.json(Method::POST, "/api/point", Some(body)).await?;
    Ok(json!({ "point": answer["point"].take() }))
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
    let raw: Map<String, Value> = parse(&bytes)?;
    let (search, wanted): (Search, _) = split(raw.clone())?;
    search.check()?;
    wanted.check(search.query.check()?)?;
    let mut asked = raw;
    asked.insert("query".to_owned(), front.point(&search.query).await?);
    front.lower(&wanted, &mut asked).await?;
    let (hits, about, passing) = front.best(asked, search.by, search.offset, search.k).await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    reply(&json!({ "query": about, "hits": hits, "rows_passing": passing, "took_ms": took }))
}

async fn traverse(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let mut asked: Map<String, Value> = parse(&read(&headers, body, JSON_BYTES).await?)?;
    let (walk, wanted): (Walk, _) = split(asked.clone())?;
    wanted.check(walk.check()?)?;
    asked.insert("from".to_owned(), front.point(&walk.from).await?);
    if let Some(to) = &walk.to {
        asked.insert("to".to_owned(), front.point(to).await?);
    }
    front.lower(&wanted, &mut asked).await?;
    asked.insert("each".to_owned(), json!(true));
    let mut paths = front.all(Method::POST, "/api/traverse", Some(&Value::Object(asked))).await?;
    let mut all = Vec::new();
    for (i, path) in paths.iter_mut().enumerate() {
        let mut stops: Vec<Value> = part(path["stops"].take())?;
        for hit in stops.iter_mut().filter_map(|it| it.get_mut("hit")) {
            merge::renumber(hit, i, front.shards.len())?;
        }
        all.push(stops);
    }
    reply(&json!({ "stops": merge::path(&all, walk.to.is_none(), walk.each) }))
}

async fn point(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let mut body: Map<String, Value> = parse(&read(&headers, body, JSON_BYTES).await?)?;
    let query: Asked = part(body.shift_remove("query").unwrap_or_default())?;
    if let Some(name) = body.keys().next() {
        return Err(Refusal::invalid(format!("the body: unknown field `{name}`, expected `query`")));
    }
    query.check()?;
    reply(&front.point(&query).await?)
}

async fn photos(State(front): Shared, headers: HeaderMap, body: Body) -> Answer {
    let _turn = front.uploads.acquire().await.map_err(|error| Refusal::fault(error.to_string()))?;
    let bytes = read(&headers, body, front.max_upload).await?;
    reply(&front.first()?.json(Method::POST, "/api/photos", Some(bytes)).await?)
}

async fn by_id(State(front): Shared, RawQuery(query): RawQuery) -> Answer {
    reply(&front.rows_of(&query.unwrap_or_default()).await?)
}

/// A row, or its thumbnail.
async fn one(State(front): Shared, Number(row): Number, uri: Uri) -> Answer {
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    if uri.path().ends_with("/thumbnail") {
        let found = front.of_row(row, &format!("/thumbnail{query}")).await?;
        let kind = if found.kind == "image/jpeg" { "image/jpeg" } else { "application/octet-stream" };
        return Ok(typed(kind, found.bytes));
    }
    let mut hit: Value = parse(&front.of_row(row, "").await?.bytes)?;
    merge::renumber(&mut hit, front.holder(row).0, front.shards.len())?;
    reply(&hit)
}

async fn neighbours(State(front): Shared, Number(row): Number, RawQuery(query): RawQuery) -> Answer {
    let (mut k, mut filter) = (10, Map::new());
    for pair in query.iter().flat_map(|it| it.split('&')).filter(|it| !it.is_empty()) {
        match pair.split_once('=') {
            Some(("k", value)) => k = value.parse().unwrap_or(0),
            Some(("modality", value)) => _ = filter.insert("modality".to_owned(), json!([value])),
            _ => return Err(Refusal::invalid(format!("`{pair}` is no setting; expected `k=` or `modality=`"))),
        }
    }
    // One more than asked for: the row itself is among them.
    if !(1..MOST_HITS).contains(&k) {
        return Err(Refusal::invalid(format!("`k` is not a number from 1 to {}", MOST_HITS - 1)));
    }
    let mut own: Value = parse(&front.of_row(row, "").await?.bytes)?;
    merge::renumber(&mut own, front.holder(row).0, front.shards.len())?;
    let point = front.point(&Asked { row: Some(row), ..Asked::default() }).await?;
    let mut answer = Map::from_iter([("row".to_owned(), own)]);
    for (name, word, by) in [
        ("broader", "broader", By::Broader),
        ("narrower", "narrower", By::Narrower),
        ("near", "distance", By::Distance),
    ] {
        let mut body = filter.clone();
        body.insert("query".to_owned(), point.clone());
        body.insert("by".to_owned(), json!(word));
        let (hits, _, _) = front.best(body, by, 0, k + 1).await?;
        let others: Vec<Value> = hits.into_iter().filter(|it| it["row"] != row).take(k).collect();
        answer.insert(name.to_owned(), json!(others));
    }
    reply(&Value::Object(answer))
}

async fn info(State(front): Shared) -> Answer {
    reply(&merge::info(&front.all(Method::GET, "/api/info", None).await?)?)
}

async fn health(State(front): Shared) -> Answer {
    let shards = front.all(Method::GET, "/health", None).await?;
    let rows: u64 = shards.iter().filter_map(|it| it["rows"].as_u64()).sum();
    reply(&json!({ "status": "ok", "rows": rows, "version": env!("CARGO_PKG_VERSION"), "shards": shards.len() }))
}

async fn metrics(State(front): Shared) -> Response {
    let text = front.metrics.text(&[("conifer_shards", "Shards.", front.shards.len())]);
    typed("text/plain; version=0.0.4; charset=utf-8", text)
}
