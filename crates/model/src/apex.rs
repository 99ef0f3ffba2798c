//! Root of the entailment cones, as the manifest of a finished model records it.

use serde::{Deserialize, Serialize};

/// The root of a finished model whose manifest stores no root point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Apex {
    /// The origin of the space.
    Origin,
    /// The embedding of a text.
    Text(String),
}
