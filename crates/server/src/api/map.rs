//! Endpoints for the views of the explorer: `GET /api/map...`, `/api/factors...` and `/api/tree`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use conifer_embeddings::Modality;

use crate::serve::Server;
use crate::serve::api::extract::{QueryParams, RowNumber, digits};
use crate::serve::api::replies::{FactorReply, FactorSummary, FactorsReply, MapReply, MapRowReply, RowReply};
use crate::serve::api::requests::{MapParams, NeighbourParams, TreeParams};
use crate::serve::api::search::MIN_RADIUS;
use crate::serve::body::json;
use crate::serve::error::{HttpError, HttpResult};
use crate::serve::set::factors::ProductFactors;
use crate::serve::set::map::PoincareDisc;
use crate::serve::set::state::ServedSet;
use crate::serve::set::tree::ClassTree;

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

/// `GET /api/factors`.
pub(crate) async fn factors(State(server): State<Arc<Server>>) -> HttpResult {
    server
        .work(|server| {
            let (explorer, rows) = (&server.explorer, &server.state);
            let summary =
                explorer.summary.get_or_init(|| explorer.factors.summary(rows.len(), |row| rows.flat.row(row)));
            json(&FactorsReply { factors: summary })
        })
        .await
}

/// `GET /api/factors/{i}`.
pub(crate) async fn factor(
    State(server): State<Arc<Server>>,
    factor: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<NeighbourParams>,
) -> HttpResult {
    let (k, modality) = (params.k()?, params.modality.map(Modality::from));
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
            json(&FactorReply { hits })
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
    json(&view)
}
