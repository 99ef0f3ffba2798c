//! `POST /api/traverse`: finds the rows along a path from a point to the root or to another point.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_index::{Cone, Hit as Found, Query as Points, Step, StopPlace, Traversal};
use serde::Serialize;

use super::Server;
use super::body::{JSON_BYTES, json, read};
use super::error::{Answer, Refusal};
use super::fields::{Fields, Request, object};
use super::hits::Hit;
use super::query::{Asked, split};

/// Maximum number of points of a path.
const MOST_STEPS: usize = 200;

/// Body of `POST /api/traverse` without its filter.
pub(crate) struct Walk {
    pub(crate) from: Asked,
    pub(crate) to: Option<Asked>,
    pub(crate) steps: usize,
    /// Consider only rows whose cone contains the point of the path, as in MERU. Otherwise consider all rows, as in the
    /// interpolation of HyCoCLIP.
    cone: bool,
    /// Return every point of the path with its nearest row, instead of each row once. A front needs this to merge the
    /// paths of its shards.
    pub(crate) each: bool,
}

impl Request for Walk {
    const FIELDS: &'static [&'static str] = &["from", "to", "steps", "cone", "each"];

    fn read(fields: &mut Fields<'_>) -> Answer<Self> {
        Ok(Self {
            from: fields.need("from")?,
            to: fields.take("to")?,
            steps: fields.take("steps")?.unwrap_or(50),
            cone: fields.take("cone")?.unwrap_or(true),
            each: fields.take("each")?.unwrap_or(false),
        })
    }
}

impl Walk {
    /// Returns the number of points in the request.
    ///
    /// # Errors
    /// The number of steps is out of range, or `from` or `to` is not a valid query.
    pub(crate) fn check(&self) -> Answer<usize> {
        if !(2..=MOST_STEPS).contains(&self.steps) {
            return Err(Refusal::invalid(format!("`steps` is {}; expected 2 to {MOST_STEPS}", self.steps)));
        }
        Ok(self.to.as_ref().map_or(Ok(0), Asked::check)? + self.from.check()?)
    }
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
    let (walk, wanted): (Walk, _) = split(object(&bytes)?)?;
    wanted.check(walk.check()?)?;
    let from = walk.from.point(&server).await?;
    let to = match &walk.to {
        Some(to) => Some(to.point(&server).await?),
        None => None,
    };
    let meant = wanted.meant(&server).await?;
    server
        .work(move |server| {
            let state = &server.state;
            let passing = meant.passing(state)?;
            let settings = Traversal { steps: walk.steps, cone: walk.cone.then(Cone::default) };
            let start = Points::new(state.spec(), &from);
            let end = to.as_deref().map(|to| Points::new(state.spec(), to));
            let (flat, filter) = (&state.flat, passing.filter());
            let seen = |row, similarity| Some(Hit::found(server, Found { row, score: similarity }, &from));
            if walk.each {
                let steps = match &end {
                    None => flat.steps_to_root(&start, &settings, &filter)?,
                    Some(end) => flat.steps_between(&start, end, &settings, &filter)?,
                };
                let stop = |it: Step| {
                    let hit = it.nearest.and_then(|hit| seen(hit.row, hit.score));
                    Stop { at: it.at, root: false, hit }
                };
                return json(&Reply { stops: steps.into_iter().map(stop).collect() });
            }
            let path = match &end {
                None => flat.traverse_to_root(&start, &settings, &filter)?,
                Some(end) => flat.traverse_between(&start, end, &settings, &filter)?,
            };
            let stops = path.into_iter().map(|stop| match stop.place {
                StopPlace::Root => Stop { at: stop.at, root: true, hit: None },
                StopPlace::Row(row) => Stop { at: stop.at, root: false, hit: seen(row, stop.similarity) },
            });
            json(&Reply { stops: stops.collect() })
        })
        .await
}
