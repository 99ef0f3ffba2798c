//! Selects the formula for bounds on the scores of a ranking in a space.

use conifer_geometry::safe::bounds;
use conifer_geometry::{FactorNorm, ScoreForm};

use super::terms::{Factor, turn_of};
use super::{LowerBound, below};
use crate::query::{Direction, Ranking};

/// One variant per type in [`super::terms`], and the stored depth of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundFormula {
    MinusDot,
    MinusCosine,
    SquaredChord,
    ChordDown,
    ChordUp,
    Cosh,
    Dist,
    DistSquared,
    MinusInner,
    TurnDown,
    TurnUp,
    ExteriorAngleDown,
    ExteriorAngleUp,
    Depth,
}

/// A limit on the scale of a formula, with its rounding error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormulaLimit {
    /// A row whose lower bound is above this does not pass.
    pub(super) out_above: f32,
    /// A row whose upper bound is at most this passes.
    pub(super) in_up_to: f32,
}

/// Calls a generic function with the type of a formula. [`BoundFormula::Depth`] has no such type, so it has a separate
/// branch.
macro_rules! with_term {
    ($formula:expr, $term:ident => $call:expr, depth => $depth:expr) => {
        match $formula {
            BoundFormula::MinusDot => {
                type $term = terms::MinusDot;
                $call
            }
            BoundFormula::MinusCosine => {
                type $term = terms::MinusCosine;
                $call
            }
            BoundFormula::SquaredChord => {
                type $term = terms::SquaredChord;
                $call
            }
            BoundFormula::ChordDown => {
                type $term = terms::ChordDown;
                $call
            }
            BoundFormula::ChordUp => {
                type $term = terms::ChordUp;
                $call
            }
            BoundFormula::Cosh => {
                type $term = terms::Cosh;
                $call
            }
            BoundFormula::Dist => {
                type $term = terms::Dist;
                $call
            }
            BoundFormula::DistSquared => {
                type $term = terms::DistSquared;
                $call
            }
            BoundFormula::MinusInner => {
                type $term = terms::MinusInner;
                $call
            }
            BoundFormula::TurnDown => {
                type $term = terms::TurnDown;
                $call
            }
            BoundFormula::TurnUp => {
                type $term = terms::TurnUp;
                $call
            }
            BoundFormula::ExteriorAngleDown => {
                type $term = terms::ExteriorAngleDown;
                $call
            }
            BoundFormula::ExteriorAngleUp => {
                type $term = terms::ExteriorAngleUp;
                $call
            }
            BoundFormula::Depth => $depth,
        }
    };
}
pub(super) use with_term;

impl BoundFormula {
    pub(super) fn of(form: ScoreForm, factors: usize, at_origin: bool, ranking: Ranking) -> Option<Self> {
        use ScoreForm::{Flat, Hyperboloids, UnitVectors};
        let ranking = if matches!(ranking, Ranking::Gated(_)) { Ranking::Similarity } else { ranking };
        Some(match (form, ranking) {
            (_, Ranking::Depth(_)) => BoundFormula::Depth,
            (UnitVectors, Ranking::Similarity | Ranking::Inner) | (Flat, Ranking::Inner) => BoundFormula::MinusDot,
            (UnitVectors, Ranking::Distance) => BoundFormula::MinusCosine,
            (Flat, Ranking::Distance | Ranking::Similarity) => BoundFormula::SquaredChord,
            (UnitVectors | Flat, Ranking::Angle(Direction::Down)) => BoundFormula::ChordDown,
            (UnitVectors | Flat, Ranking::Angle(Direction::Up)) => BoundFormula::ChordUp,
            (Hyperboloids(_), Ranking::Inner) => BoundFormula::MinusInner,
            // With a root other than the origin, angles on a hyperboloid need more than the dot product.
            (Hyperboloids(_), Ranking::Angle(_)) if !at_origin => return None,
            // With one factor, a monotone function of the angle or distance ranks the rows without a logarithm or arc
            // tangent.
            (Hyperboloids(_), Ranking::Angle(Direction::Down)) if factors == 1 => BoundFormula::TurnDown,
            (Hyperboloids(_), Ranking::Angle(Direction::Up)) if factors == 1 => BoundFormula::TurnUp,
            (Hyperboloids(_), Ranking::Angle(Direction::Down)) => BoundFormula::ExteriorAngleDown,
            (Hyperboloids(_), Ranking::Angle(Direction::Up)) => BoundFormula::ExteriorAngleUp,
            (Hyperboloids(_), Ranking::Distance | Ranking::Similarity) if factors == 1 => BoundFormula::Cosh,
            // Sums of squares rank like the root mean square, and sums like the mean.
            (Hyperboloids(FactorNorm::L2), Ranking::Distance | Ranking::Similarity) => BoundFormula::DistSquared,
            (Hyperboloids(FactorNorm::L1), Ranking::Distance | Ranking::Similarity) => BoundFormula::Dist,
            (_, Ranking::Gated(_)) => return None,
        })
    }

    /// Converts a lower bound to the scale of the keys of this formula.
    pub(super) fn lower_bound(self, factors: &[Factor], lower_bound: LowerBound) -> f32 {
        match (self, lower_bound) {
            (BoundFormula::Cosh, LowerBound::Excess(lower_bound))
            | (BoundFormula::TurnDown | BoundFormula::TurnUp, LowerBound::Turn(lower_bound)) => below(lower_bound),
            (BoundFormula::MinusDot | BoundFormula::MinusInner, LowerBound::Score(lower_bound)) => below(lower_bound),
            // An exact depth has no rounding error.
            (BoundFormula::Depth, LowerBound::Score(lower_bound)) => lower_bound as f32,
            (_, LowerBound::Score(lower_bound)) => self.limit(factors, lower_bound as f32).in_up_to,
            // A lower bound on another scale gives no information.
            (_, LowerBound::Excess(_) | LowerBound::Turn(_)) => f32::NEG_INFINITY,
        }
    }

    /// A limit on a distance or an angle, converted to the scale of the sum over factors.
    pub(super) fn limit(self, factors: &[Factor], limit: f32) -> FormulaLimit {
        let (value, count) = (f64::from(limit), factors.len() as f64);
        let square = if value < 0.0 { -1.0 } else { value * value };
        // `size` is a lower limit of the magnitude to which the rounding error is relative: 1 for cosines, which can
        // be near 0.
        let (at, size) = match self {
            BoundFormula::SquaredChord => (square, 0.0),
            BoundFormula::DistSquared => (count * square, 0.0),
            BoundFormula::Cosh => {
                let rapidity = value * f64::from(factors[0].curv).sqrt();
                (if rapidity < 0.0 { -1.0 } else { 2.0 * (rapidity / 2.0).sinh().powi(2) }, 0.0)
            }
            BoundFormula::Dist | BoundFormula::ExteriorAngleDown | BoundFormula::ExteriorAngleUp => {
                (count * value, 0.0)
            }
            BoundFormula::TurnDown | BoundFormula::TurnUp => (turn_of(value), 0.0),
            BoundFormula::MinusCosine | BoundFormula::ChordDown | BoundFormula::ChordUp => match value {
                value if value < 0.0 => (-2.0, 0.0),
                value if value < std::f64::consts::PI => (-value.cos(), 1.0),
                _ => (2.0, 0.0),
            },
            // No gate limits these values. NaN excludes no row.
            BoundFormula::MinusDot | BoundFormula::MinusInner | BoundFormula::Depth => (f64::NAN, 0.0),
        };
        let room = bounds::KEY * at.abs().max(size);
        FormulaLimit { out_above: (at + room) as f32, in_up_to: (at - room) as f32 }
    }
}
