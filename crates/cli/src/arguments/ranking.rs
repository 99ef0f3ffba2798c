//! Names of the rankings on the command line.

use clap::ValueEnum;
use conifer_search::RankingName;

/// Value of `--by`. The help texts name the options that a ranking requires.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RankingArg {
    /// Geodesic distance, nearest first.
    #[default]
    Distance,
    /// The similarity used in training, largest first: the cosine on the sphere, minus the distance in other spaces.
    Similarity,
    /// Lorentzian inner product, largest first; summed over the factors, as PHyCLIP was evaluated.
    Inner,
    /// Exterior angle with the query as the parent, smallest first: finds narrower rows, such as whole scenes for a
    /// phrase.
    Narrower,
    /// Exterior angle with the query as the child, smallest first: finds broader rows.
    Broader,
    /// Rows that `narrower` finds within --angle (required), ranked by similarity.
    #[value(alias = "gated_narrower")]
    GatedNarrower,
    /// Rows that `broader` finds within --angle (required), ranked by similarity.
    #[value(alias = "gated_broader")]
    GatedBroader,
    /// Rows that `narrower` finds within --angle, or rows not farther than --within (give one of them), from general to
    /// specific.
    General,
}

impl From<RankingArg> for RankingName {
    fn from(argument: RankingArg) -> Self {
        match argument {
            RankingArg::Distance => RankingName::Distance,
            RankingArg::Similarity => RankingName::Similarity,
            RankingArg::Inner => RankingName::Inner,
            RankingArg::Narrower => RankingName::Narrower,
            RankingArg::Broader => RankingName::Broader,
            RankingArg::GatedNarrower => RankingName::GatedNarrower,
            RankingArg::GatedBroader => RankingName::GatedBroader,
            RankingArg::General => RankingName::General,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_search::RANKING_NAMES;

    use super::*;

    #[test]
    fn names_are_those_of_requests() {
        let arguments = RankingArg::value_variants();
        assert_eq!(arguments.len(), RANKING_NAMES.len());
        for (argument, name) in arguments.iter().zip(RANKING_NAMES) {
            assert_eq!(argument.to_possible_value().unwrap().get_name().replace('-', "_"), name);
            assert_eq!(serde_json::to_value(RankingName::from(*argument)).unwrap(), name);
        }
    }
}
