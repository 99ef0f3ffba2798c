//! The points of the rows and columns of the table, by factor.

use std::ops::Range;

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Slice;
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::AngleGeometry;
use super::pass::{AnglePoint, AngleRow, ColumnPoints};
use crate::arrays::{FlexArray, array, dense, into_numbers, numbers};
use crate::trigonometry::sums;

/// Bytes of the dot products of one tile over all factors. They stay in the cache between the product and the SIMD
/// pass.
const TILE_BYTES: usize = 4 << 20;

pub(super) struct AngleOperands {
    pub(super) factors: usize,
    /// Coordinates per factor.
    pub(super) width: usize,
    pub(super) curv: Vec<f64>,
    geometry: AngleGeometry,
    pub(super) rows: SidePoints,
    pub(super) columns: SidePoints,
    /// `[K]`: squared lengths below this count as zero.
    floor: Vec<f32>,
}

/// The points of one side and their precomputed values.
pub(super) struct SidePoints {
    pub(super) count: usize,
    /// The points, `[K, count, d]`.
    pub(super) points: FlexArray,
    /// Precomputed values at curvature 1, see [`AnglePoint`]; each `[K, count]`.
    length: Vec<f32>,
    time: Vec<f32>,
    over_length: Vec<f32>,
    over_time: Vec<f32>,
}

impl AngleOperands {
    /// Prepares all points of two arrays, `[R, K d]` and `[C, K d]`.
    pub(super) fn of_all(
        rows: &FlexArray,
        columns: &FlexArray,
        curv: &FlexArray,
        geometry: AngleGeometry,
        tiny: f64,
    ) -> Self {
        let all = |points: &FlexArray| -> Vec<u32> { (0..points.shape()[0] as u32).collect() };
        Self::new([rows, columns], [&all(rows), &all(columns)], curv, geometry, tiny)
    }

    /// Prepares the points with the indices `which` of each of two arrays.
    pub(super) fn new(
        points: [&FlexArray; 2],
        which: [&[u32]; 2],
        curv: &FlexArray,
        geometry: AngleGeometry,
        tiny: f64,
    ) -> Self {
        let curv: Vec<f64> = match geometry {
            AngleGeometry::Hyperbolic => numbers(&dense(curv)).iter().map(|&c| f64::from(c)).collect(),
            AngleGeometry::Flat => vec![1.0; curv.shape()[0]],
        };
        let factors = curv.len();
        let width = points[0].shape()[1] / factors.max(1);
        let [rows, columns] = [0, 1].map(|i| SidePoints::new(points[i], which[i], &curv, width, geometry, tiny));
        let floor = curv.iter().map(|curv| (tiny * tiny * curv) as f32).collect();
        Self { factors, width, curv, geometry, rows, columns, floor }
    }

    /// Row `i` of the table of factor `k`.
    pub(super) fn row(&self, k: usize, i: usize) -> AngleRow<'_> {
        let (curv, weight) = (self.curv[k] as f32, 1.0 / self.factors as f32);
        let (point, columns) = (self.rows.point(k, i), self.columns.of(k));
        AngleRow { point, columns, geometry: self.geometry, curv, floor: self.floor[k], weight }
    }

    /// Rows per tile: the largest number whose dot products over all factors fit into [`TILE_BYTES`], at least 1.
    pub(super) fn tile_rows(&self) -> usize {
        let row = size_of::<f32>() * self.factors * self.columns.count;
        (TILE_BYTES / row.max(1)).clamp(1, self.rows.count.max(1))
    }

    /// Row ranges that cover the table; none if there are no columns.
    pub(super) fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, count) = (self.tile_rows(), if self.columns.count == 0 { 0 } else { self.rows.count });
        (0..count).step_by(rows).map(move |start| start..(start + rows).min(count))
    }

    /// The dot products of `rows` with the columns: `[K, rows, C]`.
    pub(super) fn dots(&self, rows: &Range<usize>) -> Vec<f32> {
        let columns = Flex::float_swap_dims(self.columns.points.clone(), 1, 2);
        into_numbers(Flex::float_matmul(self.rows.slice(rows), columns))
    }
}

impl SidePoints {
    fn new(points: &FlexArray, which: &[u32], curv: &[f64], width: usize, geometry: AngleGeometry, tiny: f64) -> Self {
        let (count, factors) = (which.len(), curv.len());
        let points = dense(points);
        let (from, row) = (numbers(&points), factors * width);
        let mut by_factor = vec![0.0_f32; count * row];
        let mut values = vec![AnglePoint::default(); factors * count];
        let pieces = by_factor.par_chunks_mut(width.max(1)).zip(&mut values);
        pieces.enumerate().with_min_len(64).for_each(|(i, (out, value))| {
            let (k, point) = (i / count, which[i % count] as usize);
            out.copy_from_slice(&from[point * row + k * width..][..width]);
            let square = curv[k] * AutoArch::new().dispatch(Square(out));
            let length = square.sqrt();
            let time = if geometry == AngleGeometry::Hyperbolic { (1.0 + square).sqrt() } else { 1.0 };
            // The comparison is false for a NaN length, so that NaN propagates.
            let over_length = if length <= tiny * curv[k].sqrt() { 0.0 } else { 1.0 / length };
            let [length, time, over_length, over_time] = [length, time, over_length, 1.0 / time].map(|v| v as f32);
            *value = AnglePoint { length, time, over_length, over_time };
        });
        let column = |of: fn(&AnglePoint) -> f32| values.iter().map(of).collect();
        Self {
            count,
            points: array(by_factor, &[factors, count, width]),
            length: column(|it| it.length),
            time: column(|it| it.time),
            over_length: column(|it| it.over_length),
            over_time: column(|it| it.over_time),
        }
    }

    /// The points `[K, rows, d]` of the range `rows`.
    pub(super) fn slice(&self, rows: &Range<usize>) -> FlexArray {
        Flex::float_slice(self.points.clone(), &[Slice::full(), Slice::from(rows.clone()), Slice::full()])
    }

    fn point(&self, k: usize, i: usize) -> AnglePoint {
        let at = k * self.count + i;
        let SidePoints { length, time, over_length, over_time, .. } = self;
        AnglePoint { length: length[at], time: time[at], over_length: over_length[at], over_time: over_time[at] }
    }

    fn of(&self, k: usize) -> ColumnPoints<'_> {
        let at = k * self.count..(k + 1) * self.count;
        ColumnPoints {
            length: &self.length[at.clone()],
            time: &self.time[at.clone()],
            over_length: &self.over_length[at.clone()],
            over_time: &self.over_time[at],
        }
    }
}

struct Square<'a>(&'a [f32]);

impl WithSimd for Square<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> f64 {
        let [square] = sums::<S, 1>(self.0, self.0, |x, _| [[x, x]]);
        square
    }
}
