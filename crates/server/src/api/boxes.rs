//! `GET /api/rows/{row}/boxes`: the boxes of the photo that a row belongs to.
//!
//! Each box is listed once, with all phrases that describe it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use conifer_embeddings::Modality;

use crate::Server;
use crate::api::extract::RowNumber;
use crate::api::replies::{BoxesReply, PhotoBox};
use crate::api::rows::MAX_ROWS;
use crate::body::json;
use crate::error::HttpResult;
use crate::set::state::{BOX, ServedSet};

/// Column with the caption or phrase of a row.
const TEXT: &str = "text";

pub(crate) async fn boxes(State(server): State<Arc<Server>>, RowNumber(row): RowNumber) -> HttpResult {
    server.state.check_row(row)?;
    json(&of_row(&server.state, row))
}

/// Lists the boxes in the order of their first rows.
fn of_row(state: &ServedSet, row: usize) -> BoxesReply<'_> {
    let mut sample = state.rows_of_sample(row);
    sample.truncate(MAX_ROWS);
    let (texts, box_column) = (state.columns.get(TEXT), state.columns.get(BOX));
    let photo = sample.iter().copied().find(|it| state.modality[*it] == Modality::Image);
    let mut boxes: Vec<PhotoBox<'_>> = Vec::new();
    let mut number: BTreeMap<&str, usize> = BTreeMap::new();
    for row in sample.into_iter().filter(|it| state.modality[*it] == Modality::BoxImage) {
        let (Some(bounds), Some(written)) = (state.bounds(row), box_column.map(|it| it[row].as_str())) else {
            continue;
        };
        let at = *number.entry(written).or_insert(boxes.len());
        if at == boxes.len() {
            boxes.push(PhotoBox { bounds, rows: Vec::new(), texts: Vec::new() });
        }
        boxes[at].rows.push(row);
        let text = texts.map_or("", |it| it[row].as_str());
        if !text.is_empty() && !boxes[at].texts.contains(&text) {
            boxes[at].texts.push(text);
        }
    }
    BoxesReply { photo, boxes }
}
