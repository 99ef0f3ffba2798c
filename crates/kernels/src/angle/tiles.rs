//! The fused angles on the CPU: the matrix product of a few rows at a time, then one pass over the result.
//!
//! Every sum has a fixed order: over factors within a row of the table, over row groups within a tile, and over tiles
//! in sequence. So the result does not depend on the number of threads.

use std::ops::Range;

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use rayon::prelude::*;

use super::AngleGeometry;
use super::operands::AngleOperands;
use super::pass::RowGradient;
use crate::arrays::{FlexArray, array, dense, numbers};
use crate::raw::in_pool;

/// Rows per group; one thread sums the column gradients of a group.
pub(super) const GROUP: usize = 16;

pub(super) fn angles(
    parent: &FlexArray,
    child: &FlexArray,
    curv: &FlexArray,
    geometry: AngleGeometry,
    tiny: f64,
) -> FlexArray {
    in_pool(|| angles_in_pool(parent, child, curv, geometry, tiny))
}

fn angles_in_pool(
    parent: &FlexArray,
    child: &FlexArray,
    curv: &FlexArray,
    geometry: AngleGeometry,
    tiny: f64,
) -> FlexArray {
    let operands = AngleOperands::of_all(parent, child, curv, geometry, tiny);
    let (parents, children) = (operands.rows.count, operands.columns.count);
    let mut table = vec![0.0_f32; parents * children];
    for rows in operands.tiles() {
        let dots = operands.dots(&rows);
        let table = &mut table[rows.start * children..rows.end * children];
        table.par_chunks_mut(children).enumerate().for_each(|(i, out)| {
            for k in 0..operands.factors {
                operands.row(k, rows.start + i).add_down(&dots[(k * rows.len() + i) * children..][..children], out);
            }
        });
    }
    array(table, &[parents, children])
}

/// Gradients with respect to the parents, the children and the curvatures. Recomputes the dot products tile by tile.
pub(super) fn backward(
    parent: &FlexArray,
    child: &FlexArray,
    curv: &FlexArray,
    geometry: AngleGeometry,
    tiny: f64,
    grad: &FlexArray,
) -> [FlexArray; 3] {
    in_pool(|| backward_in_pool(parent, child, curv, geometry, tiny, grad))
}

fn backward_in_pool(
    parent: &FlexArray,
    child: &FlexArray,
    curv: &FlexArray,
    geometry: AngleGeometry,
    tiny: f64,
    grad: &FlexArray,
) -> [FlexArray; 3] {
    let operands = AngleOperands::of_all(parent, child, curv, geometry, tiny);
    let (grad, children) = (dense(grad), operands.columns.count);
    let (gradients, _) = gradients(
        &operands,
        || (),
        |(), group| {
            for k in 0..operands.factors {
                for i in 0..group.height {
                    let grad = &numbers(&grad)[(group.first + i) * children..][..children];
                    let row = operands.row(k, group.first + i);
                    group.differentiate_row(k, i, |dots, own| row.differentiate_down(dots, grad, own));
                }
            }
        },
    );
    gradients
}

/// A few rows of the tables of all factors, in the backward pass.
pub(super) struct RowGroup<'a> {
    /// Index of the first row of the group in the table.
    pub(super) first: usize,
    pub(super) height: usize,
    columns: usize,
    /// The rows of each factor, `[height, C]`: dot products, which are replaced by their gradients.
    pub(super) dots: Vec<&'a mut [f32]>,
    /// For each factor, the coefficient of each row's point in its own gradient.
    row_own: Vec<&'a mut [f32]>,
    /// The coefficients of the columns' points, summed over the rows of this group: `[K, C]`.
    column_own: Vec<f32>,
    /// Twice the derivative with respect to the logarithm of each curvature.
    curv: Vec<f64>,
}

impl RowGroup<'_> {
    /// Calls `differentiate` with the dot products of row `i` of factor `k` and the coefficients of the columns, and
    /// saves the result.
    pub(super) fn differentiate_row(
        &mut self,
        k: usize,
        i: usize,
        differentiate: impl FnOnce(&mut [f32], &mut [f32]) -> RowGradient,
    ) {
        let dots = &mut self.dots[k][i * self.columns..][..self.columns];
        let own = differentiate(dots, &mut self.column_own[k * self.columns..][..self.columns]);
        self.row_own[k][i] = own.row;
        self.curv[k] += f64::from(own.curv);
    }
}

/// Gradients with respect to rows, columns and curvatures, and the results of `differentiate` for each group.
/// `differentiate` replaces the dot products of a group by their gradients. `buffers` creates scratch buffers, which
/// are reused without being cleared.
pub(super) fn gradients<R, T: Send>(
    operands: &AngleOperands,
    buffers: impl Fn() -> R + Sync + Send,
    differentiate: impl Fn(&mut R, &mut RowGroup<'_>) -> T + Sync + Send,
) -> ([FlexArray; 3], Vec<T>) {
    let (count, columns, factors, width) =
        (operands.rows.count, operands.columns.count, operands.factors, operands.width);
    let (mut to_rows, mut row_own) = (vec![0.0_f32; factors * count * width], vec![0.0_f32; factors * count]);
    let (mut to_columns, mut column_own) = (vec![0.0_f32; factors * columns * width], vec![0.0_f32; factors * columns]);
    let (mut to_curv, mut results) = (vec![0.0_f64; factors], Vec::new());
    for rows in operands.tiles() {
        let height = rows.len();
        let mut derivatives = operands.dots(&rows);
        let mut own = vec![0.0_f32; factors * height];
        let mut groups = groups(&rows, columns, factors, &mut derivatives, &mut own);
        results.par_extend(groups.par_iter_mut().map_init(&buffers, &differentiate));
        for group in groups {
            add(&mut column_own, &group.column_own);
            to_curv.iter_mut().zip(group.curv).for_each(|(sum, share)| *sum += share);
        }
        let derivatives = array(derivatives, &[factors, height, columns]);
        let by_row = dense(&Flex::float_matmul(derivatives.clone(), operands.columns.points.clone()));
        let by_column = Flex::float_matmul(Flex::float_swap_dims(derivatives, 1, 2), operands.rows.slice(&rows));
        add(&mut to_columns, numbers(&dense(&by_column)));
        for k in 0..factors {
            let at = k * count + rows.start;
            row_own[at..at + height].copy_from_slice(&own[k * height..][..height]);
            let from = &numbers(&by_row)[k * height * width..][..height * width];
            to_rows[at * width..][..height * width].copy_from_slice(from);
        }
    }
    let to_curv = to_curv.iter().zip(&operands.curv).map(|(sum, curv)| (sum / (2.0 * curv)) as f32).collect();
    let finish = |sums: &[f32], own: &[f32], points: &FlexArray, count: usize| {
        let mut out = vec![0.0_f32; factors * count * width];
        out.par_chunks_mut((factors * width).max(1)).enumerate().with_min_len(64).for_each(|(i, out)| {
            for (k, out) in out.chunks_mut(width.max(1)).enumerate() {
                let (curv, own, at) = (operands.curv[k] as f32, own[k * count + i], (k * count + i) * width);
                let (sums, points) = (&sums[at..][..width], &numbers(points)[at..][..width]);
                for ((out, &sum), &x) in out.iter_mut().zip(sums).zip(points) {
                    *out = curv * (sum + own * x);
                }
            }
        });
        array(out, &[count, factors * width])
    };
    let gradients = [
        finish(&to_rows, &row_own, &operands.rows.points, count),
        finish(&to_columns, &column_own, &operands.columns.points, columns),
        array(to_curv, &[factors]),
    ];
    (gradients, results)
}

/// Splits the rows of a tile into groups.
fn groups<'a>(
    rows: &Range<usize>,
    columns: usize,
    factors: usize,
    derivatives: &'a mut [f32],
    own: &'a mut [f32],
) -> Vec<RowGroup<'a>> {
    let new = |first: usize| RowGroup {
        first,
        height: GROUP.min(rows.end - first),
        columns,
        dots: Vec::with_capacity(factors),
        row_own: Vec::with_capacity(factors),
        column_own: vec![0.0; factors * columns],
        curv: vec![0.0; factors],
    };
    let mut groups: Vec<RowGroup<'a>> = rows.clone().step_by(GROUP).map(new).collect();
    let by_factor = derivatives.chunks_mut(rows.len() * columns).zip(own.chunks_mut(rows.len()));
    for (derivatives, own) in by_factor {
        let pieces = derivatives.chunks_mut(GROUP * columns).zip(own.chunks_mut(GROUP));
        for (group, (derivatives, own)) in groups.iter_mut().zip(pieces) {
            group.dots.push(derivatives);
            group.row_own.push(own);
        }
    }
    groups
}

pub(super) fn add(sum: &mut [f32], share: &[f32]) {
    sum.iter_mut().zip(share).for_each(|(sum, &share)| *sum += share);
}
