//! The two sides of the table, factor by factor.

use std::ops::Range;

use burn::backend::TensorMetadata;
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::Bend;
use super::pass::{Children, Parent};
use crate::arrays::{Array, array, dense, numbers};
use crate::trigonometry::sums;

/// Bytes of one table of a tile: small enough to stay in the outer caches between the product and the pass over it.
const TILE_BYTES: usize = 4 << 20;

/// Parents and children.
pub(super) struct Sides {
    pub(super) factors: usize,
    /// Coordinates of a factor.
    pub(super) width: usize,
    pub(super) curv: Vec<f64>,
    pub(super) parents: Side,
    pub(super) children: Side,
    /// `[K, P]`.
    pub(super) parent: Vec<Parent>,
    /// `sqrt(c)` times the direction of each parent, `[K, P, d]`; zero at the root.
    pub(super) direction: Array,
}

/// The points of one side and what the table needs to know of each.
pub(super) struct Side {
    pub(super) count: usize,
    /// The points, `[K, count, d]`.
    pub(super) points: Array,
    /// Lengths at curvature 1, `[K, count]`.
    length: Vec<f32>,
    /// `sqrt(1 + length^2)`, or 1 in flat space, `[K, count]`.
    time: Vec<f32>,
    /// `length^2 / time`, `[K, count]`.
    bulge: Vec<f32>,
}

impl Sides {
    pub(super) fn new(parent: &Array, child: &Array, curv: &Array, bend: Bend, tiny: f64) -> Self {
        let curv: Vec<f64> = match bend {
            Bend::Hyperbolic => numbers(&dense(curv)).iter().map(|&c| f64::from(c)).collect(),
            Bend::Flat => vec![1.0; curv.shape()[0]],
        };
        let factors = curv.len();
        let width = parent.shape()[1] / factors.max(1);
        let (parents, children) = (Side::new(parent, &curv, width, bend), Side::new(child, &curv, width, bend));
        let count = parents.count.max(1);
        let rows = parents.length.iter().zip(&parents.time).enumerate().map(|(i, (&length, &time))| {
            let curv = curv[i / count];
            let at_root = f64::from(length) <= tiny * curv.sqrt();
            Parent { length, time, at_root, floor: (tiny * tiny * curv) as f32 }
        });
        let parent: Vec<Parent> = rows.collect();
        let mut direction = vec![0.0_f32; numbers(&parents.points).len()];
        let pieces = direction.par_chunks_mut(width.max(1)).zip(numbers(&parents.points).par_chunks(width.max(1)));
        pieces.zip(&parent).enumerate().for_each(|(i, ((direction, point), parent))| {
            if !parent.at_root {
                // The point at curvature 1 over its length there, times sqrt(c) for the child that it is multiplied with.
                let factor = (curv[i / count] / f64::from(parent.length)) as f32;
                direction.iter_mut().zip(point).for_each(|(out, &x)| *out = factor * x);
            }
        });
        let direction = array(direction, &[factors, parents.count, width]);
        Self { factors, width, curv, parents, children, parent, direction }
    }

    /// The children of factor `k`.
    pub(super) fn children_of(&self, k: usize) -> Children<'_> {
        let at = k * self.children.count..(k + 1) * self.children.count;
        let Side { length, time, bulge, .. } = &self.children;
        Children { length: &length[at.clone()], time: &time[at.clone()], bulge: &bulge[at] }
    }

    /// Rows of a tile.
    pub(super) fn tile_rows(&self) -> usize {
        let row = size_of::<f32>() * self.factors * self.children.count;
        (TILE_BYTES / row.max(1)).clamp(1, self.parents.count.max(1))
    }

    /// Ranges of rows that cover the table.
    pub(super) fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, count) = (self.tile_rows(), self.parents.count);
        (0..count).step_by(rows).map(move |start| start..(start + rows).min(count))
    }
}

impl Side {
    fn new(points: &Array, curv: &[f64], width: usize, bend: Bend) -> Self {
        let (count, factors) = (points.shape()[0], curv.len());
        let points = dense(points);
        let (from, row) = (numbers(&points), factors * width);
        let mut by_factor = vec![0.0_f32; from.len()];
        let (mut length, mut time) = (vec![0.0_f32; factors * count], vec![1.0_f32; factors * count]);
        let pieces = by_factor.par_chunks_mut(width.max(1)).zip(length.par_iter_mut().zip(&mut time));
        pieces.enumerate().with_min_len(64).for_each(|(i, (out, (length, time)))| {
            let (k, point) = (i / count, i % count);
            out.copy_from_slice(&from[point * row + k * width..][..width]);
            let square = curv[k] * AutoArch::new().dispatch(Square(out));
            *length = square.sqrt() as f32;
            if bend == Bend::Hyperbolic {
                *time = (1.0 + square).sqrt() as f32;
            }
        });
        let bulge = length.iter().zip(&time).map(|(&length, &time)| length * (length / time)).collect();
        Self { count, points: array(by_factor, &[factors, count, width]), length, time, bulge }
    }
}

/// The squared length of a point.
struct Square<'a>(&'a [f32]);

impl WithSimd for Square<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> f64 {
        let [square] = sums::<S, 1>(self.0, self.0, |x, _| [[x, x]]);
        square
    }
}
