//! [`angle_contrast`](super::angle_contrast) on the CPU. It processes a few rows of the table at a time, from dot
//! products to losses and back.
//!
//! Sums over columns are merged in the order of the row groups, so the result does not depend on the number of threads.

use std::ops::Range;

use burn::backend::TensorMetadata;
use rayon::prelude::*;

use super::Contrast;
use super::answers::of_rows;
use super::queries::{Block, NOBODY, Sums, turn};
use super::sides::Sides;
use super::tiles::{GROUP, Group, add, gradients};
use crate::arrays::{Array, array, dense, numbers};
use crate::raw::in_pool;

/// Tensors saved for the backward pass. None has the size `[W, P]`.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    points: Array,
    curv: Array,
    scale: f32,
    contrast: Contrast,
    /// Similarities of the positive cells, down and up.
    right: Vec<[f32; 2]>,
    /// Sums of the queries, down and up.
    asked: [Asked; 2],
}

/// Sums over the candidates of the queries in one direction.
#[derive(Clone, Debug)]
struct Asked {
    candidates: Sums,
    right: Sums,
    /// True if a query has a positive candidate. Other queries have the loss 0.
    asks: Vec<bool>,
}

/// The losses `[W + P]` and the state for the backward pass.
pub(super) fn losses(points: Array, curv: Array, scale: &Array, contrast: Contrast) -> (Array, Kept) {
    let scale = numbers(&dense(scale))[0];
    let (losses, right, asked) = in_pool(|| {
        let sides = contrast.sides(&points, &curv);
        let (candidates, right) = Table { sides: &sides, contrast: &contrast, scale }.sums();
        let cells = contrast.answers.positive();
        let mut way = 0;
        let asked = candidates.map(|candidates| {
            let count = contrast.answers.shape()[way];
            let logits = cells.iter().zip(&right).map(|(cell, right)| (cell[way] as usize, right[way] * scale));
            let mut asks = vec![false; count];
            logits.clone().for_each(|(query, _)| asks[query] = true);
            let right = Sums::of_cells(count, logits);
            way += 1;
            Asked { candidates, right, asks }
        });
        let losses: Vec<f32> = asked.iter().flat_map(Asked::losses).collect();
        (losses, right, asked)
    });
    let count = losses.len();
    (array(losses, &[count]), Kept { points, curv, scale, contrast, right, asked })
}

pub(super) fn backward(kept: &Kept, grad: &Array) -> [Array; 3] {
    let Kept { points, curv, scale, contrast, .. } = kept;
    let grad = dense(grad);
    in_pool(|| {
        let sides = contrast.sides(points, curv);
        let (down, up) = numbers(&grad).split_at(sides.rows.count);
        let [asked_down, asked_up] = &kept.asked;
        let back = Back {
            table: Table { sides: &sides, contrast, scale: *scale },
            kept,
            down: asked_down.weights(down),
            up: asked_up.weights(up),
        };
        let ([wholes, parts, curv], shares) =
            gradients(&sides, || back.table.room(), |room, group| back.turn(room, group));
        let shape = points.shape();
        let mut to_points = vec![0.0_f32; shape[0] * shape[1]];
        let answers = &contrast.answers;
        for (which, found) in [(answers.wholes(), &wholes), (answers.parts(), &parts)] {
            for (&point, found) in which.iter().zip(numbers(found).chunks(shape[1].max(1))) {
                add(&mut to_points[point as usize * shape[1]..][..shape[1]], found);
            }
        }
        [array(to_points, &[shape[0], shape[1]]), curv, array(vec![shares.iter().sum::<f64>() as f32], &[1])]
    })
}

impl Contrast {
    fn sides(&self, points: &Array, curv: &Array) -> Sides {
        Sides::new([points, points], [self.answers.wholes(), self.answers.parts()], curv, self.bend, self.tiny)
    }
}

impl Asked {
    fn losses(&self) -> impl Iterator<Item = f32> {
        let loss =
            |(query, &asks): (usize, &bool)| if asks { self.candidates.log_ratio(&self.right, query) } else { 0.0 };
        self.asks.iter().enumerate().map(loss)
    }

    /// Factors that convert the exponentials of the candidates and of the positives to gradients with respect to the
    /// logits.
    fn weights(&self, grad: &[f32]) -> [Vec<f32>; 2] {
        [&self.candidates, &self.right].map(|sums| {
            let weight = |((&asks, &grad), &sum): ((&bool, &f32), &f32)| if asks { grad / sum } else { 0.0 };
            let mut weights: Vec<f32> = self.asks.iter().zip(grad).zip(&sums.sum).map(weight).collect();
            weights.resize(sums.sum.len(), 0.0);
            weights
        })
    }
}

/// The table of similarities, computed in tiles and never held in memory as a whole.
struct Table<'a> {
    sides: &'a Sides,
    contrast: &'a Contrast,
    scale: f32,
}

/// Similarities of a few rows: pi less the angle at the whole (`down`), and the angle at the part (`up`).
struct Similarities {
    down: Block,
    up: Block,
}

impl Table<'_> {
    /// The sums of rows and columns, and both similarities of every positive cell.
    fn sums(&self) -> ([Sums; 2], Vec<[f32; 2]>) {
        let (sides, count, columns) = (self.sides, self.sides.rows.count, self.sides.columns.count);
        let (mut down, mut up, mut right) = (Sums::none(count), Sums::none(columns), Vec::new());
        for rows in sides.tiles() {
            let dots = sides.dots(&rows);
            let groups = rows.clone().into_par_iter().step_by(GROUP);
            let groups = groups.map_init(
                || self.room(),
                |room, first| {
                    let group = first..(first + GROUP).min(rows.end);
                    let of =
                        |k: usize, i: usize| &dots[(k * rows.len() + first - rows.start + i) * columns..][..columns];
                    let right = self.fill(room, group.clone(), of);
                    let sums: Vec<_> = (0..group.len()).map(|i| room.down.row_sum(i, self.scale)).collect();
                    (right, sums, room.up.column_sums(group.len(), self.scale))
                },
            );
            for (group, (found, row_sums, column_sums)) in groups.collect::<Vec<_>>().into_iter().enumerate() {
                right.extend(found);
                up.merge(&column_sums);
                for (i, (shift, sum)) in row_sums.into_iter().enumerate() {
                    let row = rows.start + group * GROUP + i;
                    (down.shift[row], down.sum[row]) = (shift, sum);
                }
            }
        }
        ([down, up], right)
    }

    /// Allocates buffers for the similarities of a row group.
    fn room(&self) -> Similarities {
        let new = || Block::new(GROUP, self.sides.columns.count);
        Similarities { down: new(), up: new() }
    }

    /// Computes the similarities of some rows. `of(k, i)` returns the dot products of factor `k` and row `i`. Returns
    /// the similarities of the positive cells and sets excluded cells to [`NOBODY`].
    fn fill<'b>(
        &self,
        room: &mut Similarities,
        rows: Range<usize>,
        of: impl Fn(usize, usize) -> &'b [f32],
    ) -> Vec<[f32; 2]> {
        let columns = self.sides.columns.count;
        for i in 0..rows.len() {
            let (down, up) = (room.down.row(i), room.up.row(i));
            down.fill(std::f32::consts::PI);
            up.fill(0.0);
            for k in 0..self.sides.factors {
                self.sides.row(k, rows.start + i).add_both(of(k, i), down, up);
            }
            down[columns..].fill(NOBODY);
            up[columns..].fill(NOBODY);
        }
        let answers = &self.contrast.answers;
        let cells = |list: &'_ [[u32; 2]]| -> Vec<[usize; 2]> {
            let cells = list[of_rows(list, rows.clone())].iter();
            cells.map(|cell| [cell[0] as usize - rows.start, cell[1] as usize]).collect()
        };
        let mut similarity = |[i, j]: [usize; 2]| [room.down.row(i)[j], room.up.row(i)[j]];
        let right = cells(answers.positive()).into_iter().map(&mut similarity).collect();
        for [i, j] in cells(answers.same()) {
            (room.down.row(i)[j], room.up.row(i)[j]) = (NOBODY, NOBODY);
        }
        right
    }
}

/// The state of the backward pass.
struct Back<'a> {
    table: Table<'a>,
    kept: &'a Kept,
    /// Weights of the candidates and of the positives, see [`Asked::weights`].
    down: [Vec<f32>; 2],
    up: [Vec<f32>; 2],
}

impl Back<'_> {
    /// Replaces the dot products of a row group by their gradients. Returns the contribution of the group to the
    /// gradient of the scale.
    fn turn(&self, room: &mut Similarities, group: &mut Group<'_>) -> f64 {
        let Table { sides, contrast, scale } = self.table;
        let (rows, columns) = (group.first..group.first + group.height, sides.columns.count);
        self.table.fill(room, rows.clone(), |k, i| &group.dots[k][i * columns..][..columns]);
        let [asked_down, asked_up] = &self.kept.asked;
        let mut share = 0.0;
        for (i, row) in rows.clone().enumerate() {
            let asked = [&asked_down.candidates.shift[row..], &self.down[0][row..]];
            share += f64::from(turn::<false>(room.down.row(i), asked, [scale, -scale]));
            let asked = [&asked_up.candidates.shift[..], &self.up[0][..]];
            share += f64::from(turn::<true>(room.up.row(i), asked, [scale, scale]));
        }
        let cells = contrast.answers.positive();
        let range = of_rows(cells, rows.clone());
        for (cell, &[down, up]) in cells[range.clone()].iter().zip(&self.kept.right[range]) {
            let [row, column] = cell.map(|i| i as usize);
            let weight = |similarity: f32, asked: &Asked, weights: &[Vec<f32>; 2], query: usize| {
                (similarity * scale - asked.right.shift[query]).exp() * weights[1][query]
            };
            let (down_weight, up_weight) =
                (weight(down, asked_down, &self.down, row), weight(up, asked_up, &self.up, column));
            room.down.row(row - rows.start)[column] += scale * down_weight;
            room.up.row(row - rows.start)[column] -= scale * up_weight;
            share -= f64::from(down * down_weight) + f64::from(up * up_weight);
        }
        for k in 0..sides.factors {
            for (i, row) in rows.clone().enumerate() {
                let (down, up) = (&*room.down.row(i), &*room.up.row(i));
                group.turn(k, i, |dots, own| sides.row(k, row).turn_both(dots, down, up, own));
            }
        }
        share
    }
}
