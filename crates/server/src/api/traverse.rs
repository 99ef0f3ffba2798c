//! `POST /api/traverse`: finds the rows along a path from a point to the root or to another point.

use std::sync::Arc;

use axum::extract::State;
use conifer_index::{Cone, Hit as Found, Query as Points, Step, StopPlace, Traversal};

use crate::Server;
use crate::api::extract::JsonBody;
use crate::api::replies::{PathReply, RowReply, StopReply};
use crate::api::requests::TraverseRequest;
use crate::body::json;
use crate::error::HttpResult;

pub(crate) async fn traverse(
    State(server): State<Arc<Server>>,
    JsonBody(request): JsonBody<TraverseRequest>,
) -> HttpResult {
    request.filter().check(request.check()?)?;
    let from = request.from.point(&server).await?;
    let to = match &request.to {
        Some(to) => Some(to.point(&server).await?),
        None => None,
    };
    let resolved = request.filter().resolve(&server).await?;
    server
        .work(move |server| {
            let state = &server.state;
            let passing = resolved.passing(state)?;
            let cone = request.cone.unwrap_or(true).then(Cone::default);
            let settings = Traversal { steps: request.steps(), path: request.path(), cone };
            let start = Points::new(state.spec(), &from);
            let end = to.as_deref().map(|to| Points::new(state.spec(), to));
            let (flat, filter) = (&state.flat, passing.filter());
            let hit_reply = |row, similarity| Some(RowReply::found(server, Found { row, score: similarity }, &from));
            if request.each.unwrap_or(false) {
                let steps = match &end {
                    None => flat.steps_to_root(&start, &settings, &filter)?,
                    Some(end) => flat.steps_between(&start, end, &settings, &filter)?,
                };
                let stop = |it: Step| {
                    let hit = it.nearest.and_then(|hit| hit_reply(hit.row, hit.score));
                    StopReply { at: it.at, root: false, hit }
                };
                return json(&PathReply { stops: steps.into_iter().map(stop).collect() });
            }
            let path = match &end {
                None => flat.traverse_to_root(&start, &settings, &filter)?,
                Some(end) => flat.traverse_between(&start, end, &settings, &filter)?,
            };
            let stops = path.into_iter().map(|stop| match stop.place {
                StopPlace::Root => StopReply { at: stop.at, root: true, hit: None },
                StopPlace::Row(row) => StopReply { at: stop.at, root: false, hit: hit_reply(row, stop.similarity) },
            });
            json(&PathReply { stops: stops.collect() })
        })
        .await
}
