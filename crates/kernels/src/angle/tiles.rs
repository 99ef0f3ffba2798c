//! The fused angles on the CPU: the matrix products of a few rows at a time, and one pass over their result.
//!
//! Every sum has a fixed order: over factors within a row of the table, over groups of rows within a tile, over tiles one after the
//! other. Threads only decide who computes a row or a group.

use std::ops::Range;

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Slice;
use rayon::prelude::*;

use super::pass::{add_angles, to_gradients};
use super::sides::Sides;
use super::{AngleOps, Bend};
use crate::arrays::{Array, array, dense, into_numbers, numbers};

/// Rows of one factor over which one thread adds what the children get.
const GROUP: usize = 32;

impl AngleOps for Flex {
    fn pairwise_exterior_angle(parent: Array, child: Array, curv: Array, bend: Bend, tiny: f64) -> Array {
        let sides = Sides::new(&parent, &child, &curv, bend, tiny);
        let (parents, children) = (sides.parents.count, sides.children.count);
        let mut table = vec![0.0_f32; parents * children];
        if children > 0 {
            let add = match bend {
                Bend::Hyperbolic => add_angles::<false>,
                Bend::Flat => add_angles::<true>,
            };
            let weight = 1.0 / sides.factors as f32;
            for (rows, table) in sides.tiles().zip(table.chunks_mut(sides.tile_rows() * children)) {
                let y = dense(&components(&sides, &rows));
                table.par_chunks_mut(children).enumerate().for_each(|(i, out)| {
                    for k in 0..sides.factors {
                        let y = &numbers(&y)[(k * rows.len() + i) * children..][..children];
                        add(sides.parent[k * parents + rows.start + i], sides.children_of(k), y, weight, out);
                    }
                });
            }
        }
        array(table, &[parents, children])
    }
}

/// Gradients with respect to the parents, the children and the curvatures. The components are computed again, tile by tile, and turned
/// into the derivatives by the dot products in place.
pub(super) fn backward(parent: &Array, child: &Array, curv: &Array, bend: Bend, tiny: f64, grad: &Array) -> [Array; 3] {
    let sides = Sides::new(parent, child, curv, bend, tiny);
    let (parents, children) = (sides.parents.count, sides.children.count);
    let (grad, factors, width) = (dense(grad), sides.factors, sides.width);
    let row = (factors * width).max(1);
    let mut to_parent = vec![0.0_f32; parents * row];
    // Of each factor: the sums of the parents by the dot products, and what multiplies the children themselves.
    let (mut mixed, mut stretch) = (vec![0.0_f32; factors * children * width], vec![0.0_f32; factors * children]);
    let mut to_curv = vec![0.0_f64; factors];
    if children > 0 {
        for rows in sides.tiles() {
            let tile = Tile::new(&sides, &rows, bend, numbers(&grad));
            add(&mut stretch, &tile.stretch);
            for (sum, rows) in to_curv.iter_mut().zip(tile.outward.chunks(rows.len())) {
                *sum += rows.iter().map(|&[_, share]| f64::from(share)).sum::<f64>();
            }
            let by_parent = dense(&Flex::float_matmul(tile.slopes.clone(), sides.children.points.clone()));
            let directions = numbers(&sides.direction);
            let outs = to_parent[rows.start * row..rows.end * row].par_chunks_mut(row).enumerate();
            outs.for_each(|(i, out)| {
                for (k, out) in out.chunks_mut(width).enumerate() {
                    let (curv, outward) = (sides.curv[k] as f32, tile.outward[k * rows.len() + i][0]);
                    let sum = &numbers(&by_parent)[(k * rows.len() + i) * width..][..width];
                    let direction = &directions[(k * parents + rows.start + i) * width..][..width];
                    for ((out, &sum), &direction) in out.iter_mut().zip(sum).zip(direction) {
                        *out = curv * sum + outward * direction;
                    }
                }
            });
            let by_child =
                Flex::float_matmul(Flex::float_swap_dims(tile.slopes, 1, 2), of_rows(&sides.parents.points, &rows));
            add(&mut mixed, numbers(&dense(&by_child)));
        }
    }
    let child = dense(child);
    let mut to_child = vec![0.0_f32; children * row];
    to_child.par_chunks_mut(row).zip(numbers(&child).par_chunks(row)).enumerate().for_each(|(j, (out, child))| {
        for (k, (out, child)) in out.chunks_mut(width).zip(child.chunks(width)).enumerate() {
            let (curv, stretch) = (sides.curv[k] as f32, stretch[k * children + j]);
            let mixed = &mixed[(k * children + j) * width..][..width];
            for ((out, &mixed), &child) in out.iter_mut().zip(mixed).zip(child) {
                *out = curv * (mixed + stretch * child);
            }
        }
    });
    let to_curv = to_curv.iter().zip(&sides.curv).map(|(sum, curv)| (sum / (2.0 * curv)) as f32).collect();
    let row = factors * width;
    let dims = [[parents, row], [children, row]];
    [array(to_parent, &dims[0]), array(to_child, &dims[1]), array(to_curv, &[factors])]
}

/// The components of all children along the parents `rows`, at curvature 1: `[K, rows, C]`.
fn components(sides: &Sides, rows: &Range<usize>) -> Array {
    let columns = Flex::float_swap_dims(sides.children.points.clone(), 1, 2);
    Flex::float_matmul(of_rows(&sides.direction, rows), columns)
}

/// `[K, P, d]` to `[K, rows, d]`.
fn of_rows(points: &Array, rows: &Range<usize>) -> Array {
    Flex::float_slice(points.clone(), &[Slice::full(), Slice::from(rows.clone()), Slice::full()])
}

/// The gradients of some rows of the table.
struct Tile {
    /// By the dot products at curvature 1, `[K, rows, C]`.
    slopes: Array,
    /// What multiplies the children at curvature 1, `[K, C]`.
    stretch: Vec<f32>,
    /// What multiplies the directions of the parents, and twice the derivative by the logarithm of the curvature, `[K, rows]`.
    outward: Vec<[f32; 2]>,
}

impl Tile {
    fn new(sides: &Sides, rows: &Range<usize>, bend: Bend, grad: &[f32]) -> Self {
        let (factors, height, children) = (sides.factors, rows.len(), sides.children.count);
        let turn = match bend {
            Bend::Hyperbolic => to_gradients::<false>,
            Bend::Flat => to_gradients::<true>,
        };
        let weight = 1.0 / factors as f32;
        let mut slopes = into_numbers(components(sides, rows));
        let mut outward = vec![[0.0_f32; 2]; factors * height];
        // One piece of work is a group of rows of one factor; it has its own sums over the columns.
        let by_factor = slopes.chunks_mut(height * children).zip(outward.chunks_mut(height));
        let groups: Vec<_> = by_factor
            .enumerate()
            .flat_map(|(k, (slopes, outward))| {
                let groups = slopes.chunks_mut(GROUP * children).zip(outward.chunks_mut(GROUP));
                groups.enumerate().map(move |(group, (slopes, outward))| (k, group * GROUP, slopes, outward))
            })
            .collect();
        let sums: Vec<(usize, Vec<f32>)> = groups
            .into_par_iter()
            .map(|(k, first, slopes, outward)| {
                let mut columns = vec![0.0_f32; children];
                for (i, (slopes, outward)) in slopes.chunks_mut(children).zip(outward).enumerate() {
                    let row = rows.start + first + i;
                    let parent = sides.parent[k * sides.parents.count + row];
                    let grad = &grad[row * children..][..children];
                    *outward = turn(parent, sides.children_of(k), slopes, weight, grad, &mut columns);
                }
                (k, columns)
            })
            .collect();
        let mut stretch = vec![0.0_f32; factors * children];
        for (k, columns) in sums {
            add(&mut stretch[k * children..][..children], &columns);
        }
        Self { slopes: array(slopes, &[factors, height, children]), stretch, outward }
    }
}

fn add(sum: &mut [f32], share: &[f32]) {
    sum.iter_mut().zip(share).for_each(|(sum, &share)| *sum += share);
}
