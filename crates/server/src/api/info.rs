//! `GET /api/info` and `GET /health`: describe the served set.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use conifer_geometry::{ManifoldSpec, Root};
use conifer_search::RANKING_NAMES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::api::replies::HealthReply;
use crate::body::json;
use crate::error::HttpResult;
use crate::set::identity::{SetIdentity, ShardIdentity};
use crate::set::state::{BOX, ServedSet};

/// Maximum number of values listed for a column.
pub(crate) const MAX_VALUES: usize = 50;

/// Response of `GET /api/info`. It does not change while the server runs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServerInfo {
    pub(crate) version: String,
    /// Number of rows.
    pub(crate) rows: usize,
    pub(crate) space: SpaceInfo,
    /// origin or point.
    pub(crate) root: String,
    pub(crate) model: Option<String>,
    pub(crate) can: Capabilities,
    /// Widths of the vectors that the model reads: `image` of `image_vector`, `text` of `text_vector`. Empty for a
    /// model with encoders.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) vectors: BTreeMap<String, usize>,
    /// Number of rows of each modality.
    pub(crate) modalities: BTreeMap<String, usize>,
    pub(crate) columns: Vec<ColumnSummary>,
    pub(crate) depth: DepthSummary,
    /// Names of the rankings.
    pub(crate) by: Vec<String>,
    /// Shard I of N, as [I, N].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard: Option<(usize, usize)>,
    pub(crate) set: SetIdentity,
}

/// The space of the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SpaceInfo {
    /// Kind of the space: one of sphere, euclidean, lorentz, product_l1, product_l2.
    pub(crate) kind: String,
    /// Number of coordinates of a point, over all factors.
    pub(crate) dim: usize,
    /// Number of factors; each has dim / factors consecutive coordinates.
    pub(crate) factors: usize,
    /// Curvature parameter c > 0 of each hyperbolic factor; the curvature is -c.
    pub(crate) curv: Vec<f64>,
}

/// Features of the server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Capabilities {
    /// Queries by text.
    pub(crate) text: bool,
    /// Queries by photo.
    pub(crate) photo: bool,
    pub(crate) thumbnails: bool,
    /// Filters by `subtree`.
    pub(crate) tree: bool,
    /// True if the server has a threshold for `POST /api/predict`.
    #[serde(default)]
    pub(crate) predict: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ColumnSummary {
    pub(crate) name: String,
    /// Number of distinct values, without the empty value.
    pub(crate) distinct: usize,
    /// At most 50 values with the number of their rows, most frequent first.
    pub(crate) values: Vec<(String, usize)>,
    /// True on a front if a shard does not list all values of the column; `distinct` and the counts are then lower
    /// bounds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DepthSummary {
    /// Minimum depth of the rows.
    pub(crate) min: f32,
    /// Maximum depth of the rows.
    pub(crate) max: f32,
    /// Depths at the quantiles 0 %, 10 %, .. 100 %.
    pub(crate) deciles: Vec<f32>,
}

impl ServerInfo {
    pub(crate) fn new(
        rows: &ServedSet,
        can: Capabilities,
        vectors: BTreeMap<String, usize>,
        shard: Option<(usize, usize)>,
        set: SetIdentity,
    ) -> Self {
        let mut modalities = BTreeMap::new();
        rows.modality.iter().for_each(|it| *modalities.entry(it.name()).or_insert(0) += 1);
        let modalities = modalities.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        let shown = rows.columns.iter().filter(|(name, _)| *name != BOX);
        ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rows: rows.len(),
            space: SpaceInfo::from(rows.spec().clone()),
            root: if matches!(rows.root(), Root::Origin) { "origin" } else { "point" }.to_owned(),
            model: Some(rows.model.clone()).filter(|it| !it.is_empty()),
            can,
            vectors,
            modalities,
            columns: shown.map(|(name, values)| ColumnSummary::new(name, values)).collect(),
            depth: DepthSummary::new(rows.depths.clone()),
            by: RANKING_NAMES.map(str::to_owned).to_vec(),
            shard,
            set,
        }
    }

    /// The shard and set that every response names in its headers.
    pub(crate) fn shard_identity(&self) -> ShardIdentity {
        let (index, count) = self.shard.unwrap_or((0, 1));
        ShardIdentity { index, count, set: self.set.sha256.clone() }
    }
}

impl From<ManifoldSpec> for SpaceInfo {
    fn from(ManifoldSpec { kind, dim, factors, curv }: ManifoldSpec) -> Self {
        SpaceInfo { kind: kind.to_string(), dim, factors, curv }
    }
}

impl ColumnSummary {
    /// Values are ordered by descending frequency, then alphabetically. Empty values are not counted.
    fn new(name: &str, values: &[String]) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        values.iter().filter(|it| !it.is_empty()).for_each(|it| *counts.entry(it).or_insert(0) += 1);
        let distinct = counts.len();
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        counts.truncate(MAX_VALUES);
        let values = counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect();
        ColumnSummary { name: name.to_owned(), distinct, values, partial: false }
    }
}

impl DepthSummary {
    /// Decile `i` is the depth at index `i (n - 1) / 10`, rounded down, of the sorted depths.
    fn new(mut depths: Vec<f32>) -> Self {
        depths.sort_unstable_by(f32::total_cmp);
        let last = depths.len().saturating_sub(1);
        let deciles: Vec<f32> = (0..=10).filter_map(|i| depths.get(i * last / 10).copied()).collect();
        DepthSummary {
            min: deciles.first().copied().unwrap_or(0.0),
            max: deciles.last().copied().unwrap_or(0.0),
            deciles,
        }
    }
}

pub(crate) async fn info(State(server): State<Arc<Server>>) -> HttpResult {
    json(&server.info)
}

pub(crate) async fn health(State(server): State<Arc<Server>>) -> HttpResult {
    json(&HealthReply { status: "ok", rows: server.state.len(), version: env!("CARGO_PKG_VERSION"), shards: None })
}
