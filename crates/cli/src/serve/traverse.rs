//! `POST /api/traverse`: finds the rows along a path from a point to the root or to another point.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_index::{Cone, Hit as Found, Query as Points, Step, StopPlace, Traversal};
use serde::Serialize;

use super::Server;
use super::body::{MAX_JSON_BYTES, json, read};
use super::error::{HttpError, HttpResult};
use super::fields::{Request, RequestFields, object};
use super::hits::RowReply;
use super::query::{PointQuery, split};

/// Maximum number of points of a path.
const MAX_STEPS: usize = 200;

/// Body of `POST /api/traverse` without its filter.
pub(crate) struct TraverseRequest {
    pub(crate) from: PointQuery,
    pub(crate) to: Option<PointQuery>,
    pub(crate) steps: usize,
    /// Consider only rows whose cone contains the point of the path, as in MERU. Otherwise consider all rows, as in the
    /// interpolation of HyCoCLIP.
    cone: bool,
    /// Return every point of the path with its nearest row, instead of each row once. A front needs this to merge the
    /// paths of its shards.
    pub(crate) each: bool,
}

impl Request for TraverseRequest {
    const FIELDS: &'static [&'static str] = &["from", "to", "steps", "cone", "each"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
        Ok(Self {
            from: fields.need("from")?,
            to: fields.take("to")?,
            steps: fields.take("steps")?.unwrap_or(50),
            cone: fields.take("cone")?.unwrap_or(true),
            each: fields.take("each")?.unwrap_or(false),
        })
    }
}

impl TraverseRequest {
    /// Returns the number of points in the request.
    ///
    /// # Errors
    /// The number of steps is out of range, or `from` or `to` is not a valid query.
    pub(crate) fn check(&self) -> HttpResult<usize> {
        if !(2..=MAX_STEPS).contains(&self.steps) {
            return Err(HttpError::invalid(format!("`steps` is {}; expected 2 to {MAX_STEPS}", self.steps)));
        }
        Ok(self.to.as_ref().map_or(Ok(0), PointQuery::check)? + self.from.check()?)
    }
}

#[derive(Serialize)]
struct TraverseReply<'a> {
    stops: Vec<StopReply<'a>>,
}

#[derive(Serialize)]
struct StopReply<'a> {
    at: f32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    root: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit: Option<RowReply<'a>>,
}

pub(crate) async fn traverse(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> HttpResult {
    let bytes = read(&headers, body, MAX_JSON_BYTES).await?;
    let (request, filter): (TraverseRequest, _) = split(object(&bytes)?)?;
    filter.check(request.check()?)?;
    let from = request.from.point(&server).await?;
    let to = match &request.to {
        Some(to) => Some(to.point(&server).await?),
        None => None,
    };
    let resolved = filter.resolve(&server).await?;
    server
        .work(move |server| {
            let state = &server.state;
            let passing = resolved.passing(state)?;
            let settings = Traversal { steps: request.steps, cone: request.cone.then(Cone::default) };
            let start = Points::new(state.spec(), &from);
            let end = to.as_deref().map(|to| Points::new(state.spec(), to));
            let (flat, filter) = (&state.flat, passing.filter());
            let hit_reply = |row, similarity| Some(RowReply::found(server, Found { row, score: similarity }, &from));
            if request.each {
                let steps = match &end {
                    None => flat.steps_to_root(&start, &settings, &filter)?,
                    Some(end) => flat.steps_between(&start, end, &settings, &filter)?,
                };
                let stop = |it: Step| {
                    let hit = it.nearest.and_then(|hit| hit_reply(hit.row, hit.score));
                    StopReply { at: it.at, root: false, hit }
                };
                return json(&TraverseReply { stops: steps.into_iter().map(stop).collect() });
            }
            let path = match &end {
                None => flat.traverse_to_root(&start, &settings, &filter)?,
                Some(end) => flat.traverse_between(&start, end, &settings, &filter)?,
            };
            let stops = path.into_iter().map(|stop| match stop.place {
                StopPlace::Root => StopReply { at: stop.at, root: true, hit: None },
                StopPlace::Row(row) => StopReply { at: stop.at, root: false, hit: hit_reply(row, stop.similarity) },
            });
            json(&TraverseReply { stops: stops.collect() })
        })
        .await
}
