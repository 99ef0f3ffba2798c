//! `GET /api/tree`: the classes of the rows, level by level.

use std::sync::Arc;

use axum::extract::State;

use crate::Server;
use crate::api::extract::QueryParams;
use crate::api::requests::TreeParams;
use crate::body::json;
use crate::error::{HttpError, HttpResult};

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
