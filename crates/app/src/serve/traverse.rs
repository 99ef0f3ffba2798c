//! `POST /api/traverse`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_index::{Cone, Hit as Found, Place, Query as Points, Traversal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Server;
use super::body::{JSON_BYTES, json, parse, read};
use super::error::{Answer, Refusal};
use super::hits::Hit;
use super::query::{Asked, split};

/// Most points of a path.
const MOST_STEPS: usize = 200;

/// The body without its filter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Walk {
    from: Asked,
    to: Option<Asked>,
    #[serde(default = "fifty")]
    steps: usize,
    /// Only rows whose cone contains the point of the path, as MERU walks; else the nearest row, as HyCoCLIP interpolates.
    #[serde(default = "yes")]
    cone: bool,
}

fn fifty() -> usize {
    50
}

fn yes() -> bool {
    true
}

#[derive(Serialize)]
struct Reply<'a> {
    stops: Vec<Stop<'a>>,
}

#[derive(Serialize)]
struct Stop<'a> {
    at: f32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    root: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit: Option<Hit<'a>>,
}

pub(crate) async fn traverse(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Answer {
    let bytes = read(&headers, body, JSON_BYTES).await?;
    let (walk, wanted): (Walk, _) = split(parse::<Map<String, Value>>(&bytes)?)?;
    if !(2..=MOST_STEPS).contains(&walk.steps) {
        return Err(Refusal::invalid(format!("`steps` is {}; expected 2 to {MOST_STEPS}", walk.steps)));
    }
    let ends = walk.to.as_ref().map_or(Ok(0), Asked::check)? + walk.from.check()?;
    wanted.check(ends)?;
    let from = walk.from.point(&server).await?;
    let to = match &walk.to {
        Some(to) => Some(to.point(&server).await?),
        None => None,
    };
    let limits = wanted.limits(&server).await?;
    server
        .work(move |server| {
            let state = &server.state;
            let passing = limits.passing(state)?;
            let settings = Traversal { steps: walk.steps, cone: walk.cone.then(Cone::default) };
            let start = Points::new(state.spec(), &from);
            let path = match &to {
                None => state.flat.traverse_to_root(&start, &settings, &passing.filter())?,
                Some(to) => {
                    let end = Points::new(state.spec(), to);
                    state.flat.traverse_between(&start, &end, &settings, &passing.filter())?
                }
            };
            let stops = path.into_iter().map(|stop| match stop.place {
                Place::Root => Stop { at: stop.at, root: true, hit: None },
                Place::Row(row) => {
                    let hit = Hit::found(server, Found { row, score: stop.similarity }, &from);
                    Stop { at: stop.at, root: false, hit: Some(hit) }
                }
            });
            json(&Reply { stops: stops.collect() })
        })
        .await
}
