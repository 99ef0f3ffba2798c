//! The responses of shards, with the fields that a front needs. A response without these fields is an error.

use std::collections::BTreeMap;

use conifer_space::Modality;
use serde::{Deserialize, Serialize};

use super::super::search::SampledScores;

/// A row, as [`super::super::hits::RowReply`] serialises it. Numbers are `f64`, so that they are passed on without
/// rounding.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct ShardHit {
    pub(crate) row: usize,
    id: String,
    modality: Modality,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<f64>,
    depth: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    angle_down: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    angle_up: Option<f64>,
    columns: BTreeMap<String, String>,
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    bounds: Option<[f64; 4]>,
    thumbnail: bool,
}

/// Response of `POST /api/search`.
#[derive(Deserialize)]
pub(crate) struct ShardSearchReply {
    pub(crate) query: ShardQueryInfo,
    pub(crate) hits: Vec<ShardHit>,
    pub(crate) rows_passing: usize,
    #[serde(default)]
    pub(crate) scores: Option<SampledScores>,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct ShardQueryInfo {
    depth: f64,
    aperture: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    factors: Option<Vec<f64>>,
}

/// Response of `POST /api/point`.
#[derive(Deserialize)]
pub(crate) struct ShardPoint {
    pub(crate) point: Vec<f64>,
}

/// Response of `POST /api/photos`.
#[derive(Deserialize, Serialize)]
pub(crate) struct ShardPhoto {
    photo: String,
    width: u32,
    height: u32,
}

/// Response of `POST /api/traverse`.
#[derive(Deserialize)]
pub(crate) struct ShardPath {
    pub(crate) stops: Vec<ShardStop>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct ShardStop {
    pub(crate) at: f64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) root: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hit: Option<ShardHit>,
}

impl ShardHit {
    /// The sort key of a hit, in ascending order: the score, then the row. `large_first` negates the score.
    pub(crate) fn key(&self, large_first: bool) -> HitKey {
        let score = self.score.unwrap_or(f64::NAN);
        HitKey { score: if large_first { -score } else { score }, row: self.row }
    }

    #[cfg(test)]
    pub(crate) fn example(row: usize, score: f64) -> Self {
        let hit = serde_json::json!({
            "row": row, "score": score, "id": "a", "modality": "text", "depth": 1.0, "columns": {}, "thumbnail": false,
        });
        serde_json::from_value(hit).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The sort key of a hit; see [`ShardHit::key`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HitKey {
    score: f64,
    row: usize,
}

impl Ord for HitKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for HitKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for HitKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HitKey {}
