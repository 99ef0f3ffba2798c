//! `POST /api/hierarchy`: the chain of texts, from general to specific, that is retrieved for a query.

use std::sync::Arc;

use axum::extract::State;
use conifer_embeddings::Modality;
use conifer_eval::{ChainQuery, RetrievedText, TIERS_COLUMN, retrieve_text_chain};
use conifer_index::Hit;

use crate::Server;
use crate::api::extract::JsonBody;
use crate::api::query::PassingRows;
use crate::api::replies::{HierarchyReply, RowReply, TierReply};
use crate::api::requests::{HierarchyRequest, PointQuery};
use crate::body::json;
use crate::error::{HttpError, HttpResult};
use crate::set::state::ServedSet;

/// Column with the text of a row.
const TEXT: &str = "text";

pub(crate) async fn hierarchy(
    State(server): State<Arc<Server>>,
    JsonBody(request): JsonBody<HierarchyRequest>,
) -> HttpResult {
    request.filter().check(request.check()?)?;
    let from = request.from.point(&server).await?;
    let resolved = request.filter().resolve(&server).await?;
    server
        .work(move |server| {
            let state = &server.state;
            let mut rows: Vec<usize> = match resolved.passing(state)? {
                PassingRows::All(count) => (0..count).collect(),
                PassingRows::Rows(rows) => rows,
            };
            if request.modality.is_none() {
                rows.retain(|&row| state.modality[row] == Modality::Text);
            }
            if rows.is_empty() {
                return Err(HttpError::invalid(format!(
                    "no text of the {} rows passes the filters; expected at least one candidate",
                    state.len()
                )));
            }
            let texts: Vec<&str> = rows.iter().map(|&row| text_of(state, row)).collect();
            let (protocol, steps) = (request.protocol(), request.steps());
            let query = ChainQuery { spec: state.spec(), root: state.root(), point: &from, protocol, steps };
            let chain = retrieve_text_chain(&query, &texts, |i| state.flat.row(rows[i]))
                .map_err(|error| HttpError::invalid(error.to_string()))?;
            let tier = |it: &RetrievedText| TierReply {
                radius: it.radius,
                hit: RowReply::found(server, Hit { row: rows[it.candidate], score: it.similarity }, &from),
            };
            json(&HierarchyReply {
                protocol: protocol.name,
                candidates: rows.len(),
                tiers: chain.tiers.iter().map(tier).collect(),
                left_out: chain.left_out.as_ref().map(tier),
                true_chain: true_chain(state, &request.from),
            })
        })
        .await
}

/// The text by which candidates are compared; the id if the row has no text.
fn text_of(state: &ServedSet, row: usize) -> &str {
    let text = state.columns.get(TEXT).map(|column| column[row].as_str()).filter(|it| !it.is_empty());
    text.unwrap_or(&state.ids[row])
}

/// The true chain of a row of the set, if it has one. `None` if the value is not a JSON list of texts.
fn true_chain(state: &ServedSet, from: &PointQuery) -> Option<Vec<String>> {
    let row = from.row.or_else(|| state.rows_of(from.id.as_deref()?).next())?;
    let chain: Vec<String> = serde_json::from_str(state.columns.get(TIERS_COLUMN)?.get(row)?).ok()?;
    (!chain.is_empty()).then_some(chain)
}
