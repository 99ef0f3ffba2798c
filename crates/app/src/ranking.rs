//! The names of the rankings, and what each needs beside its name.

use clap::ValueEnum;
use conifer_index::{Direction, Gate, Ranking};

/// Every ranking, by the name that requests give it; the command line has `-` for `_`.
pub(crate) const NAMES: [&str; 8] =
    ["distance", "similarity", "inner", "narrower", "broader", "gated_narrower", "gated_broader", "general"];

/// The largest angle that there is is pi; whoever types it rounds it up.
#[expect(clippy::approx_constant, reason = "more than pi, on purpose")]
pub(crate) const MOST_ANGLE: f32 = 3.1416;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Nearest first.
    #[default]
    Distance,
    /// The similarity with which the space is trained, largest first: the cosine on the sphere, minus the distance elsewhere.
    Similarity,
    /// The Lorentzian inner product, largest first; summed over factors, as PHyCLIP was evaluated.
    Inner,
    /// Exterior angle, the query being the parent: the narrower, the whole scene of a phrase.
    Narrower,
    /// Exterior angle, the query being the child: the broader.
    Broader,
    /// What `narrower` finds within --angle (which it needs), by similarity.
    #[value(alias = "gated_narrower")]
    GatedNarrower,
    /// What `broader` finds within --angle (which it needs), by similarity.
    #[value(alias = "gated_broader")]
    GatedBroader,
    /// What `narrower` finds within --angle, or what is nearer than --within (it needs one of them), from general to specific.
    General,
}

impl By {
    /// With the limits of gates: `angle` (radians) for the gated ones, `angle` or `within` (a distance) for `general`. `dashes` stand before
    /// their names in messages.
    ///
    /// # Errors
    /// A limit that is missing, that is out of its range or that the ranking does not take.
    pub(crate) fn ranking(self, angle: Option<f32>, within: Option<f32>, dashes: &str) -> Result<Ranking, String> {
        if let Some(angle) = angle.filter(|it| !(0.0..=MOST_ANGLE).contains(it)) {
            return Err(format!("`{dashes}angle` is {angle}; expected radians, 0 to {MOST_ANGLE}"));
        }
        if let Some(within) = within.filter(|it| !it.is_finite() || *it < 0.0) {
            return Err(format!("`{dashes}within` is {within}; expected a distance, 0 or more"));
        }
        let below = |angle| Gate::Angle(Direction::Down, angle);
        Ok(match (self, angle, within) {
            (By::Distance, None, None) => Ranking::Distance,
            (By::Similarity, None, None) => Ranking::Similarity,
            (By::Inner, None, None) => Ranking::Inner,
            (By::Narrower, None, None) => Ranking::Angle(Direction::Down),
            (By::Broader, None, None) => Ranking::Angle(Direction::Up),
            (By::GatedNarrower, Some(angle), None) => Ranking::Gated(below(angle)),
            (By::GatedBroader, Some(angle), None) => Ranking::Gated(Gate::Angle(Direction::Up, angle)),
            (By::General, Some(angle), None) => Ranking::Depth(below(angle)),
            (By::General, None, Some(within)) => Ranking::Depth(Gate::Distance(within)),
            (By::GatedNarrower | By::GatedBroader, ..) => {
                return Err(format!("a gated ranking takes `{dashes}angle`, in radians, and no `{dashes}within`"));
            }
            (By::General, ..) => {
                return Err(format!(
                    "`general` takes either `{dashes}angle`, in radians, as seen from the query as the parent, or `{dashes}within`, a distance"
                ));
            }
            _ => {
                return Err(format!("`{dashes}angle` and `{dashes}within` are for the gated rankings and `general`"));
            }
        })
    }

    /// Whether a larger score is the better one.
    pub(crate) fn large_first(self) -> bool {
        matches!(self, By::Similarity | By::Inner | By::GatedNarrower | By::GatedBroader)
    }

    /// What the score of a hit is.
    pub(crate) fn score(self) -> &'static str {
        match self {
            By::Distance => "distance",
            By::Similarity | By::GatedNarrower | By::GatedBroader => "similarity",
            By::Inner => "inner",
            By::Narrower | By::Broader => "angle",
            By::General => "depth",
        }
    }
}
