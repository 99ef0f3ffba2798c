//! Cheap bounds on the score of every row, from one dot product per row and factor.
//!
//! A bound is an interval that contains the value that [`Space`](conifer_geometry::Space) computes, or a monotone
//! function of it. Only the few rows whose bounds overlap those of the `k` best need exact scores. In a space without
//! a [`ScoreForm`] every row is scored exactly.

mod formula;
mod sweep;
mod terms;
mod values;

use conifer_geometry::safe::bounds;
use conifer_geometry::{ManifoldSpec, Root, ScoreForm, Space};

use crate::kernel::dot_error;
use crate::query::Ranking;
use crate::rows::PointRows;
use formula::{BoundFormula, FormulaLimit};
pub(crate) use sweep::{BLOCK, Sweep, SweepBuffers};
use terms::Factor;
pub(crate) use terms::{acosh_1p_below, turn_of};
use values::RowValues;

/// Precomputed values of all rows for the bounds.
pub(crate) struct Scan {
    spec: ManifoldSpec,
    form: ScoreForm,
    factors: Vec<Factor>,
    at_origin: bool,
    /// The root; zeros for the origin.
    root: Vec<f32>,
    rows: RowValues,
}

/// The formulas that bound a ranking and its gate.
#[derive(Clone, Copy)]
pub(crate) struct BoundPlan {
    key: BoundFormula,
    gate: Option<(BoundFormula, FormulaLimit)>,
}

/// A lower bound on scores, on one of three scales.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LowerBound {
    /// A distance, an angle, a depth or a negated inner product.
    Score(f64),
    /// `cosh(sqrt(c) d) - 1` of a distance on a single hyperboloid.
    Excess(f64),
    /// An angle on a single hyperboloid, on the scale of [`turn_of`].
    Turn(f64),
}

impl Scan {
    /// Precomputes the values of the rows; `None` if the space has no [`ScoreForm`].
    pub(crate) fn new(space: &dyn Space<f32>, root: &Root, rows: &PointRows) -> Option<Self> {
        let (spec, form) = (space.spec(), space.score_form()?);
        let at: Vec<f32> = match root {
            Root::Origin => vec![0.0; spec.dim],
            Root::Point(point) => point.iter().map(|v| *v as f32).collect(),
        };
        // Allows for the rounding of the dot product in the scan and in the exact score, and of the terms that are
        // added to each.
        let rounding = 2.0 * dot_error(spec.factor_dim()) + 4.0 * f32::EPSILON;
        let square = conifer_geometry::slices::dot(&at, &at);
        let curv = (0..spec.factors).map(|i| spec.curv.get(i).map_or(1.0, |c| *c as f32));
        // The absolute value of a term of `MinusInner` is at most twice its `times`, and the terms are summed both here
        // and in the exact score.
        let joining = 4.0 * errors::joining(spec.factors) as f32;
        let factors =
            curv.map(|curv| Factor { curv, unit: 1.0 / curv.sqrt(), rounding, root: square, joining }).collect();
        let values = RowValues::of(spec, form, &at, rows);
        Some(Scan {
            spec: spec.clone(),
            form,
            factors,
            at_origin: matches!(root, Root::Origin),
            root: at,
            rows: values,
        })
    }

    /// Selects the bounds of a ranking; `None` if the space has no cheap bound for it.
    pub(crate) fn plan(&self, ranking: Ranking) -> Option<BoundPlan> {
        let formula = |ranking| BoundFormula::of(self.form, self.spec.factors, self.at_origin, ranking);
        let gate = match ranking.gate() {
            Some(gate) => {
                let formula = formula(gate.ranking())?;
                Some((formula, formula.limit(&self.factors, gate.limit())))
            }
            None => None,
        };
        Some(BoundPlan { key: formula(ranking)?, gate })
    }
}

/// Converts a lower bound to an `f32` key that is not above it.
pub(crate) fn below(lower_bound: f64) -> f32 {
    (lower_bound - bounds::KEY * lower_bound.abs()) as f32
}

impl LowerBound {
    /// The value, on the scale of its variant.
    pub(crate) fn value(self) -> f64 {
        let (LowerBound::Score(value) | LowerBound::Excess(value) | LowerBound::Turn(value)) = self;
        value
    }
}

/// Bounds on the rounding errors of the exact scores.
pub(crate) mod errors {
    pub(crate) use super::terms::{
        angle_error as angle, chord_distance_error as chord_distance, distance_error as distance,
        joining_error as joining,
    };
}
