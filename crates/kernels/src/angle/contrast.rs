//! [`angle_contrast`](super::angle_contrast) on the CPU. The forward pass computes losses from dot products. The
//! backward pass computes gradients of the dot products from gradients of the losses. Both process a few rows of the
//! table at a time.
//!
//! Direction `down`: the wholes (rows) are the queries. Direction `up`: the parts (columns) are the queries. Sums over
//! columns are merged in the order of the row groups, so the result does not depend on the number of threads.

use std::ops::Range;

use burn::backend::TensorMetadata;
use rayon::prelude::*;

use super::ContrastRule;
use super::labels::of_rows;
use super::operands::AngleOperands;
use super::queries::{EXCLUDED, QuerySums, SimilarityBlock, differentiate_cells};
use super::tiles::{GROUP, RowGroup, add, gradients};
use crate::arrays::{FlexArray, array, dense, numbers};
use crate::raw::in_pool;

/// State saved for the backward pass. No saved tensor has the size `[W, P]`.
#[derive(Clone, Debug)]
pub(super) struct AngleContrastState {
    points: FlexArray,
    curv: FlexArray,
    scale: f32,
    contrast: ContrastRule,
    /// Similarities of the positive cells, down and up.
    positives: Vec<[f32; 2]>,
    /// Sums for the queries, down and up.
    directions: [DirectionSums; 2],
}

/// Per-query sums over all candidates and over the positives, for one direction (`down` or `up`).
#[derive(Clone, Debug)]
struct DirectionSums {
    candidates: QuerySums,
    positives: QuerySums,
    /// True if a query has a positive candidate. Other queries have the loss 0.
    has_positive: Vec<bool>,
}

/// The losses `[W + P]` and the state for the backward pass.
pub(super) fn losses(
    points: FlexArray,
    curv: FlexArray,
    scale: &FlexArray,
    contrast: ContrastRule,
) -> (FlexArray, AngleContrastState) {
    let scale = numbers(&dense(scale))[0];
    let (losses, positives, directions) = in_pool(|| {
        let operands = contrast.operands(&points, &curv);
        let (candidates, positives) = SimilarityTable { operands: &operands, contrast: &contrast, scale }.sums();
        let cells = contrast.labels.positive();
        let mut axis = 0;
        let directions = candidates.map(|candidates| {
            let count = contrast.labels.shape()[axis];
            let logits =
                cells.iter().zip(&positives).map(|(cell, positives)| (cell[axis] as usize, positives[axis] * scale));
            let mut has_positive = vec![false; count];
            logits.clone().for_each(|(query, _)| has_positive[query] = true);
            let positives = QuerySums::of_cells(count, logits);
            axis += 1;
            DirectionSums { candidates, positives, has_positive }
        });
        let losses: Vec<f32> = directions.iter().flat_map(DirectionSums::losses).collect();
        (losses, positives, directions)
    });
    let count = losses.len();
    (array(losses, &[count]), AngleContrastState { points, curv, scale, contrast, positives, directions })
}

pub(super) fn backward(state: &AngleContrastState, grad: &FlexArray) -> [FlexArray; 3] {
    let AngleContrastState { points, curv, scale, contrast, .. } = state;
    let grad = dense(grad);
    in_pool(|| {
        let operands = contrast.operands(points, curv);
        let (down, up) = numbers(&grad).split_at(operands.rows.count);
        let [down_sums, up_sums] = &state.directions;
        let pass = ContrastBackward {
            table: SimilarityTable { operands: &operands, contrast, scale: *scale },
            state,
            down: down_sums.weights(down),
            up: up_sums.weights(up),
        };
        let ([wholes, parts, curv], shares) =
            gradients(&operands, || pass.table.buffers(), |buffers, group| pass.differentiate_group(buffers, group));
        let shape = points.shape();
        let mut to_points = vec![0.0_f32; shape[0] * shape[1]];
        let labels = &contrast.labels;
        for (which, found) in [(labels.wholes(), &wholes), (labels.parts(), &parts)] {
            for (&point, found) in which.iter().zip(numbers(found).chunks(shape[1].max(1))) {
                add(&mut to_points[point as usize * shape[1]..][..shape[1]], found);
            }
        }
        [array(to_points, &[shape[0], shape[1]]), curv, array(vec![shares.iter().sum::<f64>() as f32], &[1])]
    })
}

impl ContrastRule {
    fn operands(&self, points: &FlexArray, curv: &FlexArray) -> AngleOperands {
        AngleOperands::new(
            [points, points],
            [self.labels.wholes(), self.labels.parts()],
            curv,
            self.geometry,
            self.tiny,
        )
    }
}

impl DirectionSums {
    fn losses(&self) -> impl Iterator<Item = f32> {
        let loss = |(query, &has_positive): (usize, &bool)| {
            if has_positive { self.candidates.log_ratio(&self.positives, query) } else { 0.0 }
        };
        self.has_positive.iter().enumerate().map(loss)
    }

    /// Factors that convert the exponentials of the candidates and of the positives to gradients with respect to the
    /// logits.
    fn weights(&self, grad: &[f32]) -> [Vec<f32>; 2] {
        [&self.candidates, &self.positives].map(|sums| {
            let weight =
                |((&has_positive, &grad), &sum): ((&bool, &f32), &f32)| if has_positive { grad / sum } else { 0.0 };
            let mut weights: Vec<f32> = self.has_positive.iter().zip(grad).zip(&sums.sum).map(weight).collect();
            weights.resize(sums.sum.len(), 0.0);
            weights
        })
    }
}

/// The table of similarities, computed in tiles and never held in memory as a whole.
struct SimilarityTable<'a> {
    operands: &'a AngleOperands,
    contrast: &'a ContrastRule,
    scale: f32,
}

/// Similarities of a few rows: pi minus the angle at the whole (`down`), and the angle at the part (`up`).
struct SimilarityBuffers {
    down: SimilarityBlock,
    up: SimilarityBlock,
}

impl SimilarityTable<'_> {
    /// The sums for the row queries and the column queries, and both similarities of every positive cell.
    fn sums(&self) -> ([QuerySums; 2], Vec<[f32; 2]>) {
        let (operands, count, columns) = (self.operands, self.operands.rows.count, self.operands.columns.count);
        let (mut down, mut up, mut positives) = (QuerySums::none(count), QuerySums::none(columns), Vec::new());
        for rows in operands.tiles() {
            let dots = operands.dots(&rows);
            let groups = rows.clone().into_par_iter().step_by(GROUP);
            let groups = groups.map_init(
                || self.buffers(),
                |buffers, first| {
                    let group = first..(first + GROUP).min(rows.end);
                    let of =
                        |k: usize, i: usize| &dots[(k * rows.len() + first - rows.start + i) * columns..][..columns];
                    let positives = self.fill(buffers, group.clone(), of);
                    let sums: Vec<_> = (0..group.len()).map(|i| buffers.down.row_sum(i, self.scale)).collect();
                    (positives, sums, buffers.up.column_sums(group.len(), self.scale))
                },
            );
            for (group, (found, row_sums, column_sums)) in groups.collect::<Vec<_>>().into_iter().enumerate() {
                positives.extend(found);
                up.merge(&column_sums);
                for (i, (shift, sum)) in row_sums.into_iter().enumerate() {
                    let row = rows.start + group * GROUP + i;
                    (down.shift[row], down.sum[row]) = (shift, sum);
                }
            }
        }
        ([down, up], positives)
    }

    /// Allocates buffers for the similarities of a row group.
    fn buffers(&self) -> SimilarityBuffers {
        let new = || SimilarityBlock::new(GROUP, self.operands.columns.count);
        SimilarityBuffers { down: new(), up: new() }
    }

    /// Computes the similarities of some rows. `of(k, i)` returns the dot products of factor `k` and row `i`. Returns
    /// the similarities of the positive cells and sets excluded cells to [`EXCLUDED`].
    fn fill<'b>(
        &self,
        buffers: &mut SimilarityBuffers,
        rows: Range<usize>,
        of: impl Fn(usize, usize) -> &'b [f32],
    ) -> Vec<[f32; 2]> {
        let columns = self.operands.columns.count;
        for i in 0..rows.len() {
            let (down, up) = (buffers.down.row(i), buffers.up.row(i));
            down.fill(std::f32::consts::PI);
            up.fill(0.0);
            for k in 0..self.operands.factors {
                self.operands.row(k, rows.start + i).add_both(of(k, i), down, up);
            }
            down[columns..].fill(EXCLUDED);
            up[columns..].fill(EXCLUDED);
        }
        let labels = &self.contrast.labels;
        let cells = |list: &'_ [[u32; 2]]| -> Vec<[usize; 2]> {
            let cells = list[of_rows(list, rows.clone())].iter();
            cells.map(|cell| [cell[0] as usize - rows.start, cell[1] as usize]).collect()
        };
        let mut similarity = |[i, j]: [usize; 2]| [buffers.down.row(i)[j], buffers.up.row(i)[j]];
        let positives = cells(labels.positive()).into_iter().map(&mut similarity).collect();
        for [i, j] in cells(labels.same()) {
            (buffers.down.row(i)[j], buffers.up.row(i)[j]) = (EXCLUDED, EXCLUDED);
        }
        positives
    }
}

/// The state of the backward pass.
struct ContrastBackward<'a> {
    table: SimilarityTable<'a>,
    state: &'a AngleContrastState,
    /// Weights of the candidates and of the positives, see [`DirectionSums::weights`].
    down: [Vec<f32>; 2],
    up: [Vec<f32>; 2],
}

impl ContrastBackward<'_> {
    /// Replaces the dot products of a row group by their gradients. Returns the contribution of the group to the
    /// gradient of the scale.
    fn differentiate_group(&self, buffers: &mut SimilarityBuffers, group: &mut RowGroup<'_>) -> f64 {
        let SimilarityTable { operands, contrast, scale } = self.table;
        let (rows, columns) = (group.first..group.first + group.height, operands.columns.count);
        self.table.fill(buffers, rows.clone(), |k, i| &group.dots[k][i * columns..][..columns]);
        let [down_sums, up_sums] = &self.state.directions;
        let mut share = 0.0;
        for (i, row) in rows.clone().enumerate() {
            let weights = [&down_sums.candidates.shift[row..], &self.down[0][row..]];
            share += f64::from(differentiate_cells::<false>(buffers.down.row(i), weights, [scale, -scale]));
            let weights = [&up_sums.candidates.shift[..], &self.up[0][..]];
            share += f64::from(differentiate_cells::<true>(buffers.up.row(i), weights, [scale, scale]));
        }
        let cells = contrast.labels.positive();
        let range = of_rows(cells, rows.clone());
        for (cell, &[down, up]) in cells[range.clone()].iter().zip(&self.state.positives[range]) {
            let [row, column] = cell.map(|i| i as usize);
            let weight = |similarity: f32, sums: &DirectionSums, weights: &[Vec<f32>; 2], query: usize| {
                (similarity * scale - sums.positives.shift[query]).exp() * weights[1][query]
            };
            let (down_weight, up_weight) =
                (weight(down, down_sums, &self.down, row), weight(up, up_sums, &self.up, column));
            buffers.down.row(row - rows.start)[column] += scale * down_weight;
            buffers.up.row(row - rows.start)[column] -= scale * up_weight;
            share -= f64::from(down * down_weight) + f64::from(up * up_weight);
        }
        for k in 0..operands.factors {
            for (i, row) in rows.clone().enumerate() {
                let (down, up) = (&*buffers.down.row(i), &*buffers.up.row(i));
                group.differentiate_row(k, i, |dots, own| operands.row(k, row).differentiate_both(dots, down, up, own));
            }
        }
        share
    }
}
