//! The names of the rankings, and what each needs beside its name.

use conifer_index::{Direction, Gate, Ranking};
use serde::Deserialize;

use super::error::{Answer, Refusal};

/// Every ranking, by the name that requests give it.
pub(crate) const NAMES: [&str; 8] =
    ["distance", "similarity", "inner", "narrower", "broader", "gated_narrower", "gated_broader", "general"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    #[default]
    Distance,
    Similarity,
    Inner,
    Narrower,
    Broader,
    GatedNarrower,
    GatedBroader,
    General,
}

impl By {
    /// With the limits of gates: `angle` (radians) for the gated ones, `angle` or `within` (a distance) for `general`.
    ///
    /// # Errors
    /// A limit that is missing or that the ranking does not take.
    pub(crate) fn ranking(self, angle: Option<f32>, within: Option<f32>) -> Answer<Ranking> {
        let gated = |direction| match (angle, within) {
            (Some(angle), None) => Ok(Gate::Angle(direction, angle)),
            _ => Err(Refusal::invalid("a gated ranking takes `angle`, in radians, and no `within`")),
        };
        let plain = |ranking| match (angle, within) {
            (None, None) => Ok(ranking),
            _ => Err(Refusal::invalid("`angle` and `within` are for the gated rankings and `general`")),
        };
        match self {
            By::Distance => plain(Ranking::Distance),
            By::Similarity => plain(Ranking::Similarity),
            By::Inner => plain(Ranking::Inner),
            By::Narrower => plain(Ranking::Angle(Direction::Down)),
            By::Broader => plain(Ranking::Angle(Direction::Up)),
            By::GatedNarrower => gated(Direction::Down).map(Ranking::Gated),
            By::GatedBroader => gated(Direction::Up).map(Ranking::Gated),
            By::General => match (angle, within) {
                (Some(angle), None) => Ok(Ranking::Depth(Gate::Angle(Direction::Down, angle))),
                (None, Some(within)) => Ok(Ranking::Depth(Gate::Distance(within))),
                _ => Err(Refusal::invalid(
                    "`general` takes either `angle`, in radians, as seen from the query as the parent, or `within`, a distance",
                )),
            },
        }
    }

    /// Whether a larger score is the better one.
    pub(crate) fn large_first(self) -> bool {
        matches!(self, By::Similarity | By::Inner | By::GatedNarrower | By::GatedBroader)
    }
}
