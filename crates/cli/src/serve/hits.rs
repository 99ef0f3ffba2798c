//! Serialises rows for responses, alone or as hits of a query.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::Server;
use super::state::BOX;

/// A row in a response. Fields that depend on a query are omitted without one.
#[derive(Serialize)]
pub(crate) struct RowReply<'a> {
    row: usize,
    id: &'a str,
    modality: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    depth: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<f32>,
    /// Exterior angle in radians with the query as the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    angle_down: Option<f32>,
    /// Exterior angle in radians with the row as the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    angle_up: Option<f32>,
    columns: RowColumns<'a>,
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    bounds: Option<[f32; 4]>,
    thumbnail: bool,
}

struct RowColumns<'a> {
    all: &'a BTreeMap<String, Vec<String>>,
    row: usize,
}

impl Serialize for RowColumns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, values) in self.all.iter().filter(|(name, _)| *name != BOX) {
            map.serialize_entry(name, &values[self.row])?;
        }
        map.end()
    }
}

impl<'a> RowReply<'a> {
    /// A row without a query. `row` must be below the number of rows.
    pub(crate) fn of(server: &'a Server, row: usize) -> Self {
        let state = &server.state;
        RowReply {
            row,
            id: &state.ids[row],
            modality: state.modality[row].name(),
            score: None,
            depth: state.depths[row],
            distance: None,
            angle_down: None,
            angle_up: None,
            columns: RowColumns { all: &state.columns, row },
            bounds: state.bounds(row),
            thumbnail: server.thumbnails.has(row),
        }
    }

    /// A row with a score that does not depend on a query.
    pub(crate) fn scored(server: &'a Server, row: usize, score: f32) -> Self {
        RowReply { score: Some(score), ..Self::of(server, row) }
    }

    /// A hit of the query at `point`, with its score, distance and angles.
    pub(crate) fn found(server: &'a Server, hit: conifer_index::Hit, point: &[f32]) -> Self {
        let (space, root) = (server.state.space(), server.state.root());
        let row = server.state.flat.row(hit.row);
        RowReply {
            score: Some(hit.score),
            distance: Some(space.dist(point, &row)),
            angle_down: Some(space.exterior_angle(point, &row, root)),
            angle_up: Some(space.exterior_angle(&row, point, root)),
            ..Self::of(server, hit.row)
        }
    }
}
