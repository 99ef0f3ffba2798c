//! Names of the paths along which a traversal runs.

use conifer_index::PathKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path between two points by its name in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Path")]
pub enum PathName {
    /// The straight line between the tangent vectors of both ends at the origin, as in HyCoCLIP.
    Tangent,
    /// The shortest line of the space.
    Geodesic,
}

impl From<PathName> for PathKind {
    fn from(path: PathName) -> Self {
        match path {
            PathName::Tangent => Self::Tangent,
            PathName::Geodesic => Self::Geodesic,
        }
    }
}
