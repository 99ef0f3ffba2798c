//! Names of the paths of a traversal on the command line.

use clap::ValueEnum;
use conifer_search::PathName;

/// Value of `--path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PathArg {
    /// The straight line between the tangent vectors of both ends at the origin, as in HyCoCLIP.
    Tangent,
    /// The shortest line of the space.
    Geodesic,
}

impl From<PathArg> for PathName {
    fn from(argument: PathArg) -> Self {
        match argument {
            PathArg::Tangent => Self::Tangent,
            PathArg::Geodesic => Self::Geodesic,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_those_of_requests() {
        for argument in PathArg::value_variants() {
            let name = argument.to_possible_value().unwrap();
            assert_eq!(serde_json::to_value(PathName::from(*argument)).unwrap(), name.get_name());
        }
    }
}
