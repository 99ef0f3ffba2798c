//! Names of the rankings, and the limits that each ranking requires.

use conifer_index::{Direction, Gate, Ranking};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The names of all rankings in HTTP requests. The command line uses `-` instead of `_`.
pub const RANKING_NAMES: [&str; 8] =
    ["distance", "similarity", "inner", "narrower", "broader", "gated_narrower", "gated_broader", "general"];

/// Upper limit of angles: pi, rounded up to accept 3.1416.
#[expect(clippy::approx_constant, reason = "intentionally larger than pi")]
pub const MAX_ANGLE: f32 = 3.1416;

/// A ranking by its name in requests, without its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ranking")]
pub enum RankingName {
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
    /// Rows that `narrower` finds within `angle` (required), ranked by similarity.
    #[serde(alias = "gated-narrower")]
    GatedNarrower,
    /// Rows that `broader` finds within `angle` (required), ranked by similarity.
    #[serde(alias = "gated-broader")]
    GatedBroader,
    /// Rows that `narrower` finds within `angle`, or rows not farther than `within` (give one of them), from general to
    /// specific.
    General,
}

impl RankingName {
    /// Converts the name to an index ranking with its gate: `angle` (radians) for the gated rankings, `angle` or
    /// `within` (a distance) for `general`. `dashes` precedes the names of the limits in messages, such as `--` for a
    /// command line.
    ///
    /// # Errors
    /// A limit is missing, out of its range or not accepted by the ranking.
    pub fn ranking(self, angle: Option<f32>, within: Option<f32>, dashes: &str) -> Result<Ranking, String> {
        if let Some(angle) = angle.filter(|it| !(0.0..=MAX_ANGLE).contains(it)) {
            return Err(format!("`{dashes}angle` is {angle}; expected radians, 0 to {MAX_ANGLE}"));
        }
        if let Some(within) = within.filter(|it| !it.is_finite() || *it < 0.0) {
            return Err(format!("`{dashes}within` is {within}; expected a distance, 0 or more"));
        }
        let below = |angle| Gate::Angle(Direction::Down, angle);
        Ok(match (self, angle, within) {
            (RankingName::Distance, None, None) => Ranking::Distance,
            (RankingName::Similarity, None, None) => Ranking::Similarity,
            (RankingName::Inner, None, None) => Ranking::Inner,
            (RankingName::Narrower, None, None) => Ranking::Angle(Direction::Down),
            (RankingName::Broader, None, None) => Ranking::Angle(Direction::Up),
            (RankingName::GatedNarrower, Some(angle), None) => Ranking::Gated(below(angle)),
            (RankingName::GatedBroader, Some(angle), None) => Ranking::Gated(Gate::Angle(Direction::Up, angle)),
            (RankingName::General, Some(angle), None) => Ranking::Depth(below(angle)),
            (RankingName::General, None, Some(within)) => Ranking::Depth(Gate::Distance(within)),
            (RankingName::GatedNarrower | RankingName::GatedBroader, ..) => {
                return Err(format!("a gated ranking takes `{dashes}angle`, in radians, and no `{dashes}within`"));
            }
            (RankingName::General, ..) => {
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
    pub fn large_first(self) -> bool {
        matches!(
            self,
            RankingName::Similarity | RankingName::Inner | RankingName::GatedNarrower | RankingName::GatedBroader
        )
    }

    /// Name of the score: `distance`, `similarity`, `inner`, `angle` or `depth`.
    pub fn score(self) -> &'static str {
        match self {
            RankingName::Distance => "distance",
            RankingName::Similarity | RankingName::GatedNarrower | RankingName::GatedBroader => "similarity",
            RankingName::Inner => "inner",
            RankingName::Narrower | RankingName::Broader => "angle",
            RankingName::General => "depth",
        }
    }
}
