//! The routes of a front and their handlers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use conifer_search::RankingName;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::best::BestHits;
use super::{FrontServer, merge, written};
use crate::api::extract::{JsonBody, QueryParams, RowNumber};
use crate::api::openapi::document_of;
use crate::api::page;
use crate::api::replies::{HealthReply, NeighboursReply, PathReply, PhotoReply, PointReply, SearchReply};
use crate::api::requests::{NeighbourParams, PointQuery, PointRequest, SearchRequest, TraverseRequest};
use crate::app::gate::RequestGate;
use crate::app::routes::behind;
use crate::body::{json as reply, typed};
use crate::error::{HttpError, HttpResult};

/// Maximum offset of a search. The skipped hits may all be on one shard, so a shard may have to list all of them.
const MAX_OFFSET: usize = 10_000;
/// How long the result of a health check of the shards is reused, so that frequent health requests do not load the
/// shards.
const HEALTH_AGE: Duration = Duration::from_secs(1);

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

pub(super) fn router(front: Arc<FrontServer>, gate: Arc<RequestGate>) -> Router {
    let all = routes().into_iter().fold(Router::new(), |all, (_, path, handler)| all.route(path, handler));
    behind(all.with_state(front), gate)
}

/// The OpenAPI document of a front, which has only some routes of a server.
fn document() -> Value {
    let paths: Vec<&str> = routes().iter().map(|(_, path, _)| *path).collect();
    document_of(&paths, MAX_OFFSET)
}

async fn search(State(front): FrontState, JsonBody(mut search): JsonBody<SearchRequest>) -> HttpResult {
    let started = Instant::now();
    search.check()?;
    let (by, offset, k) = (search.by(), search.offset(), search.k());
    if offset > MAX_OFFSET {
        return Err(HttpError::invalid(format!("`offset` is {offset}; expected at most {MAX_OFFSET} on a front")));
    }
    search.filter().check(search.query.check()?)?;
    search.query = front.point(&search.query).await?;
    front.resolve_filter(&mut search.inside, &mut search.not).await?;
    let BestHits { hits, query, rows_passing, scores } = front.best(search, offset, k).await?;
    let flat = scores.and_then(|it| it.flatness(by.score()));
    reply(&SearchReply { query, hits, rows_passing, scores, flat, took_ms: started.elapsed().as_secs_f64() * 1e3 })
}

async fn traverse(State(front): FrontState, JsonBody(mut walk): JsonBody<TraverseRequest>) -> HttpResult {
    walk.filter().check(walk.check()?)?;
    walk.from = front.point(&walk.from).await?;
    if let Some(to) = &mut walk.to {
        *to = front.point(to).await?;
    }
    front.resolve_filter(&mut walk.inside, &mut walk.not).await?;
    let each = walk.each.replace(true).unwrap_or(false);
    let paths: Vec<PathReply<'static>> = front.all(Method::POST, "/api/traverse", Some(written(&walk)?)).await?;
    let mut all = Vec::new();
    for (shard, PathReply { mut stops }) in front.shards.iter().zip(paths) {
        if stops.len() != walk.steps() {
            return Err(shard.client.unexpected(&format!("{} stops; expected {}", stops.len(), walk.steps())));
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
    reply(&PathReply { stops: merge::path(&all, walk.to.is_none(), each) })
}

async fn point(State(front): FrontState, JsonBody(PointRequest { query }): JsonBody<PointRequest>) -> HttpResult {
    query.check()?;
    reply(&PointReply { point: front.point(&query).await?.point.unwrap_or_default() })
}

async fn photos(State(front): FrontState, bytes: Bytes) -> HttpResult {
    let _permit = front.uploads.acquire().await.map_err(|error| HttpError::fault(error.to_string()))?;
    reply(&front.first()?.json::<PhotoReply>(Method::POST, "/api/photos", Some(bytes.into())).await?)
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
    if found.status == StatusCode::NOT_FOUND {
        // The message of the shard contains the row number on the shard, not the one in the whole set.
        return Err(HttpError::absent(format!("row {row} has no picture")));
    }
    shard.client.check_success(&found)?;
    let is_jpeg = found.headers.get(CONTENT_TYPE).is_some_and(|it| it == "image/jpeg");
    let kind = if is_jpeg { "image/jpeg" } else { "application/octet-stream" };
    Ok(typed(kind, found.bytes))
}

async fn neighbours(
    State(front): FrontState,
    RowNumber(row): RowNumber,
    QueryParams(params): QueryParams<NeighbourParams>,
) -> HttpResult {
    let k = params.k()?;
    let own = front.row(row).await?;
    let query = front.point(&PointQuery::of_row(row)).await?;
    let mut lists = Vec::new();
    for by in [RankingName::Broader, RankingName::Narrower, RankingName::Distance] {
        let search = SearchRequest::of(query.clone(), by, params.modality);
        // Request one more hit, because the row itself may be among them.
        let BestHits { hits, .. } = front.best(search, 0, k + 1).await?;
        lists.push(hits.into_iter().filter(|it| it.row != row).take(k).collect());
    }
    let mut next = || lists.remove(0);
    reply(&NeighboursReply { row: own, broader: next(), narrower: next(), near: next() })
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
    let (version, shards) = (env!("CARGO_PKG_VERSION"), Some(front.shards.len()));
    reply(&HealthReply { status: "ok", rows: front.rows, version, shards })
}

async fn metrics(State(front): FrontState) -> HttpResult {
    let text = front.metrics.text(&[("conifer_shards", "Number of shards.", front.shards.len())])?;
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", text))
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
