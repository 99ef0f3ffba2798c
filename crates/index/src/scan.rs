//! Cheap bounds on the score of every row, from one dot product per row (and factor).
//!
//! A bound is an interval that contains the value that [`Space`](conifer_space::Space) computes, or a number that grows with it, so
//! that the rows worth an exact look are a handful more than asked for. A space that is not known here is searched exactly, row by row.

mod form;
mod places;
mod sweep;
mod terms;

use conifer_space::safe::bounds;
use conifer_space::{ManifoldSpec, Root};

use crate::kernel::dot_error;
use crate::query::Ranking;
use crate::rows::Rows;
use form::{Form, Limit};
use places::Places;
pub(crate) use sweep::{BLOCK, Scratch, Sweep};
use terms::Factor;
pub(crate) use terms::{acosh_1p_below, turn_of};

/// What is known of all rows of one space besides their coordinates.
pub(crate) struct Scan {
    spec: ManifoldSpec,
    factors: Vec<Factor>,
    at_origin: bool,
    /// The root, zero where it is the origin.
    root: Vec<f32>,
    rows: Places,
}

/// What to compute for a ranking.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    key: Form,
    gate: Option<(Form, Limit)>,
}

/// No score is better than this.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// A distance, an angle, a depth or minus an inner product.
    Score(f64),
    /// `cosh(sqrt(c) d) - 1` of a distance in one hyperboloid.
    Excess(f64),
    /// [`turn_of`] an angle in one hyperboloid.
    Turn(f64),
}

impl Scan {
    /// For the rows of a space, `None` if it is not known here.
    pub(crate) fn new(spec: &ManifoldSpec, root: &Root, rows: &Rows) -> Option<Self> {
        if !matches!(spec.kind.as_str(), "sphere" | "euclidean" | "lorentz" | "product_l1" | "product_l2") {
            return None;
        }
        let at: Vec<f32> = match root {
            Root::Origin => vec![0.0; spec.dim],
            Root::Point(point) => point.iter().map(|v| *v as f32).collect(),
        };
        // Both this dot product and the one in the exact score are rounded, and what they are put together with.
        let rounding = 2.0 * dot_error(spec.factor_dim()) + 4.0 * f32::EPSILON;
        let square = conifer_space::slices::dot(&at, &at);
        let curv = (0..spec.factors).map(|i| spec.curv.get(i).map_or(1.0, |c| *c as f32));
        // Every term is at most twice its size, and is added up here and there.
        let joining = 4.0 * errors::joining(spec.factors) as f32;
        let factors =
            curv.map(|curv| Factor { curv, unit: 1.0 / curv.sqrt(), rounding, root: square, joining }).collect();
        let places = Places::of(spec, &at, rows);
        Some(Scan { spec: spec.clone(), factors, at_origin: matches!(root, Root::Origin), root: at, rows: places })
    }

    /// How to bound a ranking; `None` where this space has no cheap bound for it.
    pub(crate) fn plan(&self, ranking: Ranking) -> Option<Plan> {
        let form = |ranking| Form::of(&self.spec, self.at_origin, ranking);
        let gate = match ranking.gate() {
            Some(gate) => {
                let form = form(gate.ranking())?;
                Some((form, form.limit(&self.factors, gate.limit())))
            }
            None => None,
        };
        Some(Plan { key: form(ranking)?, gate })
    }
}

/// A floor as a key of `f32` that is not above it.
pub(crate) fn below(floor: f64) -> f32 {
    (floor - bounds::KEY * floor.abs()) as f32
}

impl Floor {
    /// The number, on its scale.
    pub(crate) fn value(self) -> f64 {
        let (Floor::Score(value) | Floor::Excess(value) | Floor::Turn(value)) = self;
        value
    }
}

/// How far exact scores may be from what they would be without rounding.
pub(crate) mod errors {
    pub(crate) use super::terms::{
        angle_error as angle, chord_distance_error as chord_distance, distance_error as distance,
        joining_error as joining,
    };
}
