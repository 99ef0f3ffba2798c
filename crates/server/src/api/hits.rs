//! Replies with rows, alone or as hits of a query.

use std::borrow::Cow;

use crate::Server;
use crate::api::replies::RowReply;
use crate::set::state::BOX;

impl<'a> RowReply<'a> {
    /// A row without a query. `row` must be below the number of rows.
    pub(crate) fn of(server: &'a Server, row: usize) -> Self {
        let state = &server.state;
        let columns = state.columns.iter().filter(|(name, _)| *name != BOX);
        RowReply {
            row,
            id: Cow::Borrowed(&state.ids[row]),
            modality: state.modality[row].into(),
            score: None,
            depth: state.depths[row],
            distance: None,
            angle_down: None,
            angle_up: None,
            columns: columns
                .map(|(name, values)| (Cow::Borrowed(name.as_str()), Cow::Borrowed(values[row].as_str())))
                .collect(),
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
