//! Cheap bounds on the score of every row, from one dot product per row (and factor).
//!
//! A bound is an interval that contains the value that [`Space`](conifer_space::Space) computes, so that the rows worth
//! an exact look are a handful more than asked for. A space that is not known here is searched exactly, row by row.

mod chords;
mod hyperboloids;

use conifer_space::{ManifoldSpec, Root};

use crate::query::Ranking;
use crate::select::Bounds;

/// What is precomputed for all rows of one space.
pub(crate) trait Scan: Send + Sync {
    /// Prepares a query; `None` when this ranking has no cheap bound here.
    fn probe<'a>(&'a self, query: &'a [f32], ranking: Ranking) -> Option<Probe<'a>>;
}

/// Bounds on the key of a row, by its number and its coordinates. Small keys are better.
pub(crate) type Probe<'a> = Box<dyn Fn(usize, &[f32]) -> Bounds + Sync + 'a>;

/// The scan for a space, `None` if there is none.
pub(crate) fn scan(spec: &ManifoldSpec, root: &Root, points: &[f32]) -> Option<Box<dyn Scan>> {
    match spec.kind.as_str() {
        "sphere" | "euclidean" => Some(Box::new(chords::Chords::new(spec, root, points))),
        "lorentz" | "product_l1" | "product_l2" => Some(Box::new(hyperboloids::Hyperboloids::new(spec, root, points))),
        _ => None,
    }
}

/// Relative error of a dot product of `dim` terms, with respect to the product of the lengths: the number of rounded
/// additions that one term goes through (eight partial sums, see `conifer_space::slices`) and its multiplication, each
/// half a machine epsilon; we allow twice that.
fn dot_error(dim: usize) -> f32 {
    f32::EPSILON * (dim / 8 + 8 + 2) as f32
}
