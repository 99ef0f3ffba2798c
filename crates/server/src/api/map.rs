//! `/api/map...`: the rows in the Poincare disc, and the layers of the map.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use conifer_embeddings::Modality;

use crate::Server;
use crate::api::extract::{JsonBody, QueryParams, RowNumber};
use crate::api::map_requests::{LayerRequest, MapLayersParams, MapParams};
use crate::api::replies::{BesideSummary, LayerMethodSummary, LayerSummary, LayersReply, MapReply, MapRowReply};
use crate::api::search::MIN_RADIUS;
use crate::body::json;
use crate::error::{HttpError, HttpResult};
use crate::layer_maker::{LayerMaker, LayerMethod};

/// Coordinates are truncated to multiples of 1 / `STEPS_PER_RADIUS` of the disc radius. On a disc with a radius of 1000
/// pixels this is a tenth of a pixel at 1000-fold zoom. Shorter numbers make the response smaller.
const STEPS_PER_RADIUS: f64 = 1e7;

/// `GET /api/map`.
pub(crate) async fn map(State(server): State<Arc<Server>>, QueryParams(params): QueryParams<MapParams>) -> HttpResult {
    let limit = params.limit()?;
    server
        .work(move |server| {
            let rows = &server.state;
            let map = server.explorer.disc(rows)?.map(rows.len(), |row| rows.flat.row(row), limit);
            // Truncate towards zero, because rounding could move a point onto the boundary of the disc.
            let short = |values: Vec<f64>| {
                values.into_iter().map(|v| (v * STEPS_PER_RADIUS).trunc() / STEPS_PER_RADIUS).collect()
            };
            json(&MapReply {
                modality: map.rows.iter().map(|row| letter(rows.modality[*row])).collect(),
                rows: map.rows,
                x: short(map.x),
                y: short(map.y),
                depth: short(map.depth),
            })
        })
        .await
}

/// `GET /api/map/layers`.
pub(crate) async fn layers(
    State(server): State<Arc<Server>>,
    QueryParams(params): QueryParams<MapLayersParams>,
) -> HttpResult {
    let (state, explorer) = server.mapped(params.beside)?;
    // The job is read first: a layer that it names as done is among the layers that are read after it.
    let job = server.layer_jobs.status();
    let layers = explorer.layers.all();
    let layers = layers.iter().map(|layer| LayerSummary {
        name: layer.name(),
        title: layer.title(),
        rows: layer.len(state),
        disc: layer.is_disc(),
    });
    if params.beside == Some(true) {
        let refused = Some("the server computes layers of the served set only");
        return json(&LayersReply { layers: layers.collect(), job: None, methods: Vec::new(), refused, beside: None });
    }
    let maker = server.layer_jobs.maker();
    let methods = maker.map_or_else(|_| Vec::new(), LayerMaker::methods).into_iter().map(LayerMethodSummary::from);
    let beside = server.beside.as_ref().map(|it| BesideSummary {
        title: &it.title,
        rows: it.state.len(),
        shared_ids: it.shared_ids,
        linked_rows: it.links.len(),
    });
    json(&LayersReply { layers: layers.collect(), job, methods: methods.collect(), refused: maker.err(), beside })
}

/// `POST /api/map/layers`.
pub(crate) async fn new_layer(
    State(server): State<Arc<Server>>,
    JsonBody(request): JsonBody<LayerRequest>,
) -> HttpResult {
    json(&server.layer_jobs.start(request)?)
}

/// `DELETE /api/map/layers/{name}`.
pub(crate) async fn cancel_layer(
    State(server): State<Arc<Server>>,
    name: Result<Path<String>, PathRejection>,
) -> HttpResult {
    let Path(name) = name.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
    json(&server.layer_jobs.cancel(&name)?)
}

impl From<LayerMethod> for LayerMethodSummary {
    fn from(LayerMethod { by, title, needs_factor, refused }: LayerMethod) -> Self {
        LayerMethodSummary { by, title, needs_factor, refused }
    }
}

fn letter(modality: Modality) -> char {
    match modality {
        Modality::Image => 'i',
        Modality::Text => 't',
        Modality::BoxImage => 'b',
        Modality::BoxText => 'p',
    }
}

/// `GET /api/map/row/{row}`.
pub(crate) async fn map_row(State(server): State<Arc<Server>>, RowNumber(row): RowNumber) -> HttpResult {
    server.state.check_row(row)?;
    server
        .work(move |server| {
            let rows = &server.state;
            let point: Cow<'_, [f32]> = rows.flat.row(row);
            let projected = server.explorer.disc(rows)?.project(&point);
            let aperture = rows.space().half_aperture(&point, MIN_RADIUS, rows.root());
            json(&MapRowReply { x: projected.x, y: projected.y, aperture })
        })
        .await
}
