//! The responses of shards, with the fields that a front needs. A response without these fields is an error.

use std::collections::BTreeMap;

use conifer_space::Modality;
use serde::{Deserialize, Serialize};

/// A row, as [`super::super::hits::Hit`] serialises it. Numbers are `f64`, so that they are passed on without rounding.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Hit {
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
    place: Option<[f64; 4]>,
    thumbnail: bool,
}

/// Response of `POST /api/search`.
#[derive(Deserialize)]
pub(crate) struct Found {
    pub(crate) query: About,
    pub(crate) hits: Vec<Hit>,
    pub(crate) rows_passing: usize,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct About {
    depth: f64,
    aperture: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    factors: Option<Vec<f64>>,
}

/// Response of `POST /api/point`.
#[derive(Deserialize)]
pub(crate) struct Point {
    pub(crate) point: Vec<f64>,
}

/// Response of `POST /api/photos`.
#[derive(Deserialize, Serialize)]
pub(crate) struct Photo {
    photo: String,
    width: u32,
    height: u32,
}

/// Response of `POST /api/traverse`.
#[derive(Deserialize)]
pub(crate) struct Path {
    pub(crate) stops: Vec<Stop>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Stop {
    pub(crate) at: f64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) root: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hit: Option<Hit>,
}

impl Hit {
    /// The sort key of a hit, in ascending order: the score, then the row. `large_first` negates the score.
    pub(crate) fn key(&self, large_first: bool) -> Key {
        let score = self.score.unwrap_or(f64::NAN);
        Key { score: if large_first { -score } else { score }, row: self.row }
    }

    #[cfg(test)]
    pub(crate) fn example(row: usize, score: f64) -> Self {
        let hit = serde_json::json!({
            "row": row, "score": score, "id": "a", "modality": "text", "depth": 1.0, "columns": {}, "thumbnail": false,
        });
        serde_json::from_value(hit).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The sort key of a hit; see [`Hit::key`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    score: f64,
    row: usize,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}
