//! `GET /api/info` and `GET /health`: what is served.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use conifer_space::{ManifoldSpec, Root};
use serde::Serialize;
use serde_json::json as value;

use super::Server;
use super::body::json;
use super::error::Answer;
use super::ranking::NAMES;
use super::state::{BOX, State as Rows};

/// Values of a column that are told.
const MOST_VALUES: usize = 50;

/// What does not change while the server runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Info {
    version: &'static str,
    rows: usize,
    space: ManifoldSpec,
    root: &'static str,
    model: Option<String>,
    can: Can,
    modalities: BTreeMap<&'static str, usize>,
    columns: Vec<Column>,
    depth: Depths,
    by: [&'static str; 8],
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<[usize; 2]>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Can {
    pub(crate) text: bool,
    pub(crate) photo: bool,
    pub(crate) thumbnails: bool,
    pub(crate) tree: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Column {
    name: String,
    distinct: usize,
    values: Vec<(String, usize)>,
}

#[derive(Clone, Debug, Serialize)]
struct Depths {
    min: f32,
    max: f32,
    deciles: Vec<f32>,
}

impl Info {
    pub(crate) fn new(rows: &Rows, can: Can) -> Self {
        let mut modalities = BTreeMap::new();
        rows.modality.iter().for_each(|it| *modalities.entry(it.name()).or_insert(0) += 1);
        let told = rows.columns.iter().filter(|(name, _)| *name != BOX);
        Info {
            version: env!("CARGO_PKG_VERSION"),
            rows: rows.len(),
            space: rows.spec().clone(),
            root: if matches!(rows.root(), Root::Origin) { "origin" } else { "point" },
            model: Some(rows.model.clone()).filter(|it| !it.is_empty()),
            can,
            modalities,
            columns: told.map(|(name, values)| Column::new(name, values)).collect(),
            depth: Depths::new(rows.depths.clone()),
            by: NAMES,
            shard: rows.shard.map(|(part, of)| [part, of]),
        }
    }
}

impl Column {
    /// With the most frequent values first, equally frequent ones in the order of the alphabet.
    fn new(name: &str, values: &[String]) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        values.iter().for_each(|it| *counts.entry(it).or_insert(0) += 1);
        let distinct = counts.len();
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        counts.truncate(MOST_VALUES);
        let values = counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect();
        Column { name: name.to_owned(), distinct, values }
    }
}

impl Depths {
    /// Decile `i` is the depth of the row at place `i (n - 1) / 10`, rounded down, of the rows in order of depth.
    fn new(mut depths: Vec<f32>) -> Self {
        depths.sort_unstable_by(f32::total_cmp);
        let last = depths.len().saturating_sub(1);
        let deciles: Vec<f32> = (0..=10).filter_map(|i| depths.get(i * last / 10).copied()).collect();
        Depths { min: deciles.first().copied().unwrap_or(0.0), max: deciles.last().copied().unwrap_or(0.0), deciles }
    }
}

pub(crate) async fn info(State(server): State<Arc<Server>>) -> Answer {
    json(&server.info)
}

pub(crate) async fn health(State(server): State<Arc<Server>>) -> Answer {
    json(&value!({ "status": "ok", "rows": server.state.len(), "version": env!("CARGO_PKG_VERSION") }))
}
