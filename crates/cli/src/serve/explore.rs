//! Endpoints for the views of the explorer: `GET /api/map...`, `/api/factors...` and `/api/tree`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use conifer_embeddings::Modality;
use serde::Serialize;
use serde_json::json as value;

use super::Server;
use super::body::json;
use super::error::{HttpError, HttpResult};
use super::factors::{FactorSummary, ProductFactors};
use super::fields::{QueryParams, Request, RequestFields};
use super::hits::RowReply;
use super::map::PoincareDisc;
use super::rows::{NeighbourParams, RowNumber, digits};
use super::search::MIN_RADIUS;
use super::state::ServedSet;
use super::tree::ClassTree;

/// Default number of rows of a map.
pub(crate) const MAP_ROWS: usize = 100_000;
/// Maximum number of rows of a map.
pub(crate) const MAX_MAP_ROWS: usize = 1_000_000;
/// Coordinates are truncated to multiples of 1 / `STEPS_PER_RADIUS` of the disc radius. On a disc with a radius of 1000
/// pixels this is a tenth of a pixel at 1000-fold zoom. Shorter numbers make the response smaller.
const STEPS_PER_RADIUS: f64 = 1e7;

/// Data of the explorer views. The factor summary and the disc are computed on first use and then kept.
pub(crate) struct Explorer {
    factors: ProductFactors,
    summary: OnceLock<Vec<FactorSummary>>,
    disc: OnceLock<PoincareDisc>,
    classes: Option<ClassTree>,
}

impl Explorer {
    /// # Errors
    /// The space of the rows is not valid.
    pub(crate) fn new(rows: &ServedSet) -> anyhow::Result<Self> {
        let labels = rows.columns.get(crate::row_conditions::LABEL).map(Vec::as_slice);
        let classes = rows.tree.as_ref().map(|it| ClassTree::new(it.tree.clone(), &it.node_of, labels));
        let factors = ProductFactors::new(rows.spec(), rows.root())?;
        Ok(Explorer { factors, summary: OnceLock::new(), disc: OnceLock::new(), classes })
    }

    /// Depth of a point in every factor; `None` if the space is not a product.
    pub(crate) fn activation(&self, point: &[f32]) -> Option<Vec<f32>> {
        (self.factors.len() > 0).then(|| self.factors.depths(point))
    }

    fn disc(&self, rows: &ServedSet) -> HttpResult<&PoincareDisc> {
        if let Some(disc) = self.disc.get() {
            return Ok(disc);
        }
        // Concurrent first requests may each compute the disc; the results are equal.
        let disc = PoincareDisc::new(rows.spec(), rows.root(), rows.len(), |row| rows.flat.row(row));
        let disc = disc.map_err(|error| HttpError::fault(error.to_string()))?;
        Ok(self.disc.get_or_init(|| disc))
    }
}

/// Query parameters of `GET /api/map`: the maximum number of rows.
pub(crate) struct MapParams(usize);

impl Request for MapParams {
    const FIELDS: &'static [&'static str] = &["limit"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
        let limit = fields.take("limit")?.unwrap_or(MAP_ROWS);
        if !(1..=MAX_MAP_ROWS).contains(&limit) {
            return Err(HttpError::invalid(format!("`limit` is {limit}; expected 1 to {MAX_MAP_ROWS}")));
        }
        Ok(Self(limit))
    }
}

/// Query parameters of `GET /api/tree`: the name of a class, or `None` for the root.
pub(crate) struct TreeParams {
    node: Option<String>,
}

impl Request for TreeParams {
    const FIELDS: &'static [&'static str] = &["node"];

    fn read(fields: &mut RequestFields<'_>) -> HttpResult<Self> {
        Ok(Self { node: fields.take("node")? })
    }
}

#[derive(Serialize)]
struct MapReply {
    rows: Vec<usize>,
    x: Vec<f64>,
    y: Vec<f64>,
    depth: Vec<f64>,
    modality: String,
}

/// `GET /api/map`.
pub(crate) async fn map(
    State(server): State<Arc<Server>>,
    QueryParams(MapParams(limit)): QueryParams<MapParams>,
) -> HttpResult {
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
            json(&value!({ "x": projected.x, "y": projected.y, "aperture": aperture }))
        })
        .await
}

/// `GET /api/factors`.
pub(crate) async fn factors(State(server): State<Arc<Server>>) -> HttpResult {
    server
        .work(|server| {
            let (explorer, rows) = (&server.explorer, &server.state);
            let summary =
                explorer.summary.get_or_init(|| explorer.factors.summary(rows.len(), |row| rows.flat.row(row)));
            let list: Vec<_> =
                summary.iter().map(|it| value!({ "curv": it.curv, "mean": it.mean, "max": it.max })).collect();
            json(&value!({ "factors": list }))
        })
        .await
}

/// `GET /api/factors/{i}`.
pub(crate) async fn factor(
    State(server): State<Arc<Server>>,
    factor: Result<Path<String>, PathRejection>,
    QueryParams(NeighbourParams { k, modality }): QueryParams<NeighbourParams>,
) -> HttpResult {
    let Path(factor) = factor.map_err(|error| HttpError::new(error.status(), error.body_text()))?;
    let count = server.explorer.factors.len();
    let known: Option<usize> = digits(&factor).filter(|it| *it < count);
    let Some(factor) = known else {
        let expected = if count == 0 { "a set in a product space".to_owned() } else { format!("0 to {}", count - 1) };
        return Err(HttpError::absent(format!("no factor `{factor}`; expected {expected}")));
    };
    server
        .work(move |server| {
            let rows = &server.state;
            let passes = |row: usize| modality.is_none_or(|wanted| rows.modality[row] == wanted);
            let top = server.explorer.factors.top(rows.len(), |row| rows.flat.row(row), factor, k, passes);
            let hits: Vec<RowReply<'_>> =
                top.into_iter().map(|(row, depth)| RowReply::scored(server, row, depth)).collect();
            json(&value!({ "hits": hits }))
        })
        .await
}

/// `GET /api/tree`.
pub(crate) async fn tree(
    State(server): State<Arc<Server>>,
    QueryParams(TreeParams { node }): QueryParams<TreeParams>,
) -> HttpResult {
    let classes = server.explorer.classes.as_ref();
    let classes = classes.ok_or_else(|| {
        HttpError::absent(
            "the set has no classes; expected a column `label`, columns of ranks, or a server started with --tree FILE",
        )
    })?;
    let view = classes.view(node.as_deref()).ok_or_else(|| {
        HttpError::absent(format!(
            "unknown class `{}`; expected `{}` or a class below it",
            node.unwrap_or_default(),
            classes.root()
        ))
    })?;
    let children: Vec<_> = view
        .children
        .iter()
        .map(|it| value!({ "name": it.name, "count": it.count, "children": it.children }))
        .collect();
    json(&value!({
        "node": { "name": view.node.name, "count": view.node.count },
        "path": view.path,
        "children": children,
        "outside": classes.outside(),
    }))
}
