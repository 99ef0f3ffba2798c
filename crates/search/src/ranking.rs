//! Names of the rankings, and the limits that each one requires.

use clap::ValueEnum;
use conifer_index::{Direction, Gate, Ranking};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The names of all rankings in HTTP requests. On the command line they have `-` instead of `_`.
pub(crate) const NAMES: [&str; 8] =
    ["distance", "similarity", "inner", "narrower", "broader", "gated_narrower", "gated_broader", "general"];

/// Upper limit of angles: pi, rounded up so that 3.1416 is accepted.
#[expect(clippy::approx_constant, reason = "intentionally larger than pi")]
pub(crate) const MAX_ANGLE: f32 = 3.1416;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ranking")]
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
    #[serde(alias = "gated-narrower")]
    GatedNarrower,
    /// Rows that `broader` finds within --angle (required), ranked by similarity.
    #[value(alias = "gated_broader")]
    #[serde(alias = "gated-broader")]
    GatedBroader,
    /// Rows that `narrower` finds within --angle, or rows nearer than --within (give one of them), from general to
    /// specific.
    General,
}

impl RankingArg {
    /// The index ranking with its gate: `angle` (radians) for the gated rankings, `angle` or `within` (a distance) for
    /// `general`. Messages put `dashes` before the names of the limits.
    ///
    /// # Errors
    /// A limit is missing, out of its range or not accepted by the ranking.
    pub(crate) fn ranking(self, angle: Option<f32>, within: Option<f32>, dashes: &str) -> Result<Ranking, String> {
        if let Some(angle) = angle.filter(|it| !(0.0..=MAX_ANGLE).contains(it)) {
            return Err(format!("`{dashes}angle` is {angle}; expected radians, 0 to {MAX_ANGLE}"));
        }
        if let Some(within) = within.filter(|it| !it.is_finite() || *it < 0.0) {
            return Err(format!("`{dashes}within` is {within}; expected a distance, 0 or more"));
        }
        let below = |angle| Gate::Angle(Direction::Down, angle);
        Ok(match (self, angle, within) {
            (RankingArg::Distance, None, None) => Ranking::Distance,
            (RankingArg::Similarity, None, None) => Ranking::Similarity,
            (RankingArg::Inner, None, None) => Ranking::Inner,
            (RankingArg::Narrower, None, None) => Ranking::Angle(Direction::Down),
            (RankingArg::Broader, None, None) => Ranking::Angle(Direction::Up),
            (RankingArg::GatedNarrower, Some(angle), None) => Ranking::Gated(below(angle)),
            (RankingArg::GatedBroader, Some(angle), None) => Ranking::Gated(Gate::Angle(Direction::Up, angle)),
            (RankingArg::General, Some(angle), None) => Ranking::Depth(below(angle)),
            (RankingArg::General, None, Some(within)) => Ranking::Depth(Gate::Distance(within)),
            (RankingArg::GatedNarrower | RankingArg::GatedBroader, ..) => {
                return Err(format!("a gated ranking takes `{dashes}angle`, in radians, and no `{dashes}within`"));
            }
            (RankingArg::General, ..) => {
                return Err(format!(
                    "`general` takes either `{dashes}angle`, the largest exterior angle in radians, or `{dashes}within`, the largest distance"
                ));
            }
            _ => {
                return Err(format!(
                    "`{dashes}angle` and `{dashes}within` are accepted only by the gated rankings and `general`"
                ));
            }
        })
    }

    /// True if larger scores are better.
    pub(crate) fn large_first(self) -> bool {
        matches!(
            self,
            RankingArg::Similarity | RankingArg::Inner | RankingArg::GatedNarrower | RankingArg::GatedBroader
        )
    }

    /// Name of the quantity that the ranking scores rows by.
    pub(crate) fn score(self) -> &'static str {
        match self {
            RankingArg::Distance => "distance",
            RankingArg::Similarity | RankingArg::GatedNarrower | RankingArg::GatedBroader => "similarity",
            RankingArg::Inner => "inner",
            RankingArg::Narrower | RankingArg::Broader => "angle",
            RankingArg::General => "depth",
        }
    }
}
