//! Selects the formula that bounds a ranking on a space.

use conifer_space::ManifoldSpec;
use conifer_space::safe::bounds;

use super::terms::{Factor, turn_of};
use super::{Floor, below};
use crate::query::{Direction, Ranking};

/// The types of [`super::terms`], and the depth of a row, which is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    MinusDot,
    Arc,
    Gap,
    ChordDown,
    ChordUp,
    Cosh,
    Dist,
    DistSquared,
    MinusInner,
    TurnDown,
    TurnUp,
    ConeDown,
    ConeUp,
    Depth,
}

/// A limit on the scale of a form, with its rounding error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// A row whose lower bound is above this does not pass.
    pub(super) out_above: f32,
    /// A row whose upper bound is at most this passes.
    pub(super) in_up_to: f32,
}

/// Calls a generic function with the type of a form. The depth has no type, so it has its own branch.
macro_rules! with_term {
    ($form:expr, $term:ident => $call:expr, depth => $depth:expr) => {
        match $form {
            Form::MinusDot => {
                type $term = terms::MinusDot;
                $call
            }
            Form::Arc => {
                type $term = terms::Arc;
                $call
            }
            Form::Gap => {
                type $term = terms::Gap;
                $call
            }
            Form::ChordDown => {
                type $term = terms::ChordDown;
                $call
            }
            Form::ChordUp => {
                type $term = terms::ChordUp;
                $call
            }
            Form::Cosh => {
                type $term = terms::Cosh;
                $call
            }
            Form::Dist => {
                type $term = terms::Dist;
                $call
            }
            Form::DistSquared => {
                type $term = terms::DistSquared;
                $call
            }
            Form::MinusInner => {
                type $term = terms::MinusInner;
                $call
            }
            Form::TurnDown => {
                type $term = terms::TurnDown;
                $call
            }
            Form::TurnUp => {
                type $term = terms::TurnUp;
                $call
            }
            Form::ConeDown => {
                type $term = terms::ConeDown;
                $call
            }
            Form::ConeUp => {
                type $term = terms::ConeUp;
                $call
            }
            Form::Depth => $depth,
        }
    };
}
pub(super) use with_term;

impl Form {
    pub(super) fn of(spec: &ManifoldSpec, at_origin: bool, ranking: Ranking) -> Option<Self> {
        let ranking = if matches!(ranking, Ranking::Gated(_)) { Ranking::Similarity } else { ranking };
        Some(match (spec.kind.as_str(), ranking) {
            (_, Ranking::Depth(_)) => Form::Depth,
            ("sphere", Ranking::Similarity | Ranking::Inner) | ("euclidean", Ranking::Inner) => Form::MinusDot,
            ("sphere", Ranking::Distance) => Form::Arc,
            ("euclidean", Ranking::Distance | Ranking::Similarity) => Form::Gap,
            ("sphere" | "euclidean", Ranking::Angle(Direction::Down)) => Form::ChordDown,
            ("sphere" | "euclidean", Ranking::Angle(Direction::Up)) => Form::ChordUp,
            (_, Ranking::Inner) => Form::MinusInner,
            // With a root other than the origin, angles on a hyperboloid need more than the dot product.
            (_, Ranking::Angle(_)) if !at_origin => return None,
            // One factor needs neither a logarithm nor an arc tangent.
            (_, Ranking::Angle(Direction::Down)) if spec.factors == 1 => Form::TurnDown,
            (_, Ranking::Angle(Direction::Up)) if spec.factors == 1 => Form::TurnUp,
            (_, Ranking::Angle(Direction::Down)) => Form::ConeDown,
            (_, Ranking::Angle(Direction::Up)) => Form::ConeUp,
            (_, Ranking::Distance | Ranking::Similarity) if spec.factors == 1 => Form::Cosh,
            // Sums of squares rank like the root mean square, and sums like the mean.
            ("product_l2", Ranking::Distance | Ranking::Similarity) => Form::DistSquared,
            (_, Ranking::Distance | Ranking::Similarity) => Form::Dist,
            (_, Ranking::Gated(_)) => return None,
        })
    }

    /// A floor on the scale of the keys of this form.
    pub(super) fn floor(self, factors: &[Factor], floor: Floor) -> f32 {
        match (self, floor) {
            (Form::Cosh, Floor::Excess(floor)) | (Form::TurnDown | Form::TurnUp, Floor::Turn(floor)) => below(floor),
            (Form::MinusDot | Form::MinusInner, Floor::Score(floor)) => below(floor),
            (Form::Depth, Floor::Score(floor)) => floor as f32, // an exact depth, so no rounding error
            (_, Floor::Score(floor)) => self.limit(factors, floor as f32).in_up_to,
            // A floor on another scale gives no information.
            (_, Floor::Excess(_) | Floor::Turn(_)) => f32::NEG_INFINITY,
        }
    }

    /// A limit on a distance or an angle, converted to the scale of the sum over factors.
    pub(super) fn limit(self, factors: &[Factor], limit: f32) -> Limit {
        let (value, count) = (f64::from(limit), factors.len() as f64);
        let square = if value < 0.0 { -1.0 } else { value * value };
        // The second number is the size relative to which a cosine is rounded.
        let (at, size) = match self {
            Form::Gap => (square, 0.0),
            Form::DistSquared => (count * square, 0.0),
            Form::Cosh => {
                let rapidity = value * f64::from(factors[0].curv).sqrt();
                (if rapidity < 0.0 { -1.0 } else { 2.0 * (rapidity / 2.0).sinh().powi(2) }, 0.0)
            }
            Form::Dist | Form::ConeDown | Form::ConeUp => (count * value, 0.0),
            Form::TurnDown | Form::TurnUp => (turn_of(value), 0.0),
            Form::Arc | Form::ChordDown | Form::ChordUp => match value {
                value if value < 0.0 => (-2.0, 0.0),
                value if value < std::f64::consts::PI => (-value.cos(), 1.0),
                _ => (2.0, 0.0),
            },
            Form::MinusDot | Form::MinusInner | Form::Depth => (f64::NAN, 0.0), // no limit, so every row is compared
        };
        let room = bounds::KEY * at.abs().max(size);
        Limit { out_above: (at + room) as f32, in_up_to: (at - room) as f32 }
    }
}
