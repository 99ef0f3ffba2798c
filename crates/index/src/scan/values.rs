//! Precomputed values per row and per query, beside the coordinates.

use conifer_geometry::slices::{dot, sums};
use conifer_geometry::spaces::lorentz::time_excess;
use conifer_geometry::{ManifoldSpec, ScoreForm};
use rayon::prelude::*;

use super::terms::{Factor, PointValues};
use crate::rows::PointRows;

/// Number of rows per parallel task.
const PART: usize = 4096;

/// One number per row and factor on hyperboloids, three numbers per row elsewhere.
pub(super) enum RowValues {
    /// `|x|^2`, `<root, x>`, `|x - root|`.
    Chords(Vec<[f32; 3]>),
    /// `sqrt(c) t(x) - 1`, row major.
    Hyperboloids(Vec<f32>),
}

impl RowValues {
    pub(super) fn of(spec: &ManifoldSpec, form: ScoreForm, root: &[f32], rows: &PointRows) -> Self {
        let parts = 0..rows.len(spec.dim).div_ceil(PART);
        let part = |part: usize| part * PART..((part + 1) * PART).min(rows.len(spec.dim));
        if !matches!(form, ScoreForm::Hyperboloids(_)) {
            let chord = |x: &[f32]| [dot(x, x), dot(root, x), sums(x, root, |a, b| [(a - b) * (a - b)])[0].sqrt()];
            let parts: Vec<Vec<[f32; 3]>> = parts
                .into_par_iter()
                .map_init(Vec::new, |scratch, i| part(i).map(|row| chord(rows.row(row, spec.dim, scratch))).collect())
                .collect();
            return RowValues::Chords(parts.concat());
        }
        let curv: Vec<f32> = spec.curv.iter().map(|c| *c as f32).collect();
        let parts: Vec<Vec<f32>> = parts
            .into_par_iter()
            .map_init(Vec::new, |scratch, i| {
                let mut excess = Vec::with_capacity(PART * curv.len());
                for row in part(i) {
                    let factors = rows.row(row, spec.dim, scratch).chunks_exact(spec.factor_dim()).zip(&curv);
                    excess.extend(factors.map(|(part, curv)| time_excess(dot(part, part), *curv)));
                }
                excess
            })
            .collect();
        RowValues::Hyperboloids(parts.concat())
    }

    /// The values of row `i` in the factor `index` of `count` factors.
    #[inline(always)]
    pub(super) fn at(&self, i: usize, count: usize, index: usize, factor: Factor) -> PointValues {
        match self {
            RowValues::Chords(values) => {
                let [a, b, c] = values[i];
                PointValues { a, b, c }
            }
            RowValues::Hyperboloids(excess) => from_excess(excess[i * count + index], factor),
        }
    }
}

/// The values of a point of a hyperboloid, from `e = sqrt(c) t - 1`: `c |x|^2 = e (e + 2)`.
#[inline(always)]
pub(super) fn from_excess(excess: f32, factor: Factor) -> PointValues {
    let norm = (excess * (excess + 2.0)).sqrt() * factor.unit;
    let inverse = if norm > 0.0 { 1.0 / norm } else { 0.0 };
    PointValues { a: excess, b: norm, c: inverse }
}
