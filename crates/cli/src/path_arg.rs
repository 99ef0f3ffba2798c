//! Names of the paths of a traversal.

use clap::ValueEnum;
use conifer_index::PathKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PathArg {
    /// The straight line between the tangent vectors of both ends at the origin, as in HyCoCLIP.
    Tangent,
    /// The shortest line of the space.
    Geodesic,
}

impl From<PathArg> for PathKind {
    fn from(path: PathArg) -> Self {
        match path {
            PathArg::Tangent => Self::Tangent,
            PathArg::Geodesic => Self::Geodesic,
        }
    }
}
