//! [`angle_contrast`](super::angle_contrast) on the CPU: a few rows of the table at a time, from dot products to losses and back.
//!
//! Sums over columns go group by group of rows, in order. Threads only decide who computes a group.

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

/// What the backward pass needs: nothing of the size `[W, P]`.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    points: Array,
    curv: Array,
    scale: f32,
    contrast: Contrast,
    /// Similarities of the right answers, down and up.
    right: Vec<[f32; 2]>,
    /// Down and up.
    asked: [Asked; 2],
}

/// The sums of the queries of one direction.
#[derive(Clone, Debug)]
struct Asked {
    candidates: Sums,
    right: Sums,
    /// Whether a query has a right answer; the others add nothing.
    asks: Vec<bool>,
}

/// The losses `[W + P]`, and what the backward pass needs.
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

/// Gradients with respect to points, curvatures and scale.
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

    /// What the exponentials of candidates and of right answers are multiplied by to be gradients by the logits.
    fn weights(&self, grad: &[f32]) -> [Vec<f32>; 2] {
        [&self.candidates, &self.right].map(|sums| {
            let weight = |((&asks, &grad), &sum): ((&bool, &f32), &f32)| if asks { grad / sum } else { 0.0 };
            let mut weights: Vec<f32> = self.asks.iter().zip(grad).zip(&sums.sum).map(weight).collect();
            weights.resize(sums.sum.len(), 0.0);
            weights
        })
    }
}

/// The table of similarities, which never is whole in memory.
struct Table<'a> {
    sides: &'a Sides,
    contrast: &'a Contrast,
    scale: f32,
}

/// Similarities of a few rows: pi less the angle at the whole, and the angle at the part.
struct Similarities {
    down: Block,
    up: Block,
}

impl Table<'_> {
    /// The sums of rows and of columns, and both similarities of every right answer.
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

    /// Room for the similarities of a group.
    fn room(&self) -> Similarities {
        let new = || Block::new(GROUP, self.sides.columns.count);
        Similarities { down: new(), up: new() }
    }

    /// Computes the similarities of some rows from the dot products `of` a factor and a row among them, and gives back those of the right
    /// answers; where a thing meets itself, there is [`NOBODY`].
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

/// The way back.
struct Back<'a> {
    table: Table<'a>,
    kept: &'a Kept,
    /// Weights of candidates and of right answers, see [`Asked::weights`].
    down: [Vec<f32>; 2],
    up: [Vec<f32>; 2],
}

impl Back<'_> {
    /// Turns a group's dot products, in `room` of its own, and gives back its share of the gradient of the scale.
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
