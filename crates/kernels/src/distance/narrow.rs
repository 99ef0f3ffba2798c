//! Distances for many short factors: `u` of a few rows and one cache line of columns is computed and used in
//! registers, factor by factor, and never stored by the forward pass.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over registers use closures, which are compiled for the baseline instruction set"
)]

use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::DistanceNorm;
use super::acosh::acosh_1p;
use super::cpu::{DistanceOperands, PointGradients};
use super::points::{DistanceSizes, finish};
use crate::lanes::{CacheLine, LINE, Register, lanes, load, splat, store};

/// Rows per register tile. The rows of a tile share each loaded line of columns.
const GROUP: usize = 4;
/// Rows per task of the forward pass.
const TASK_ROWS: usize = 32;
/// Rows of the backward pass whose gradients of `u` are buffered for one factor. 8 rows of 768 columns are 24 KiB.
const BUFFERED_ROWS: usize = 8;
/// Largest number of columns of a small matrix product. Its sums for two rows stay in registers.
const WIDTH: usize = 9;
/// Rows per task of the backward pass, for many factors and for few.
const CHUNKS: [usize; 2] = [1024, 128];
/// Smallest number of factors for which `CHUNKS[0]` is used.
const MANY: usize = 16;

/// The rows in the form `[a, -c x, 1 + a]` per factor.
struct NarrowRows {
    numbers: Vec<f32>,
    /// Numbers per factor.
    wide: usize,
    /// Numbers per row.
    stride: usize,
}

/// The columns, interleaved in the form `[b, y, 1 + b]` per factor and padded with zeros.
struct NarrowColumns {
    lines: Vec<CacheLine>,
    wide: usize,
    stride: usize,
}

impl NarrowRows {
    fn new(operands: &DistanceOperands<'_>) -> Self {
        let DistanceSizes { m, k, d, .. } = operands.sizes;
        let mut numbers = vec![0.0_f32; m * k * (d + 2)];
        numbers.par_chunks_mut(d + 2).zip(operands.x.par_chunks(d)).enumerate().with_min_len(64).for_each(
            |(i, (row, x))| {
                let (a, c) = (operands.a[i], operands.curv[i % k]);
                row[0] = a;
                row[1..=d].iter_mut().zip(x).for_each(|(out, x)| *out = -c * x);
                row[d + 1] = 1.0 + a;
            },
        );
        NarrowRows { numbers, wide: d + 2, stride: k * (d + 2) }
    }

    #[inline(always)]
    fn factor(&self, row: usize, factor: usize) -> &[f32] {
        &self.numbers[row * self.stride + factor * self.wide..][..self.wide]
    }
}

impl NarrowColumns {
    fn new(operands: &DistanceOperands<'_>) -> Self {
        let DistanceSizes { n, k, d, .. } = operands.sizes;
        let stride = k * (d + 2);
        let mut lines = vec![CacheLine::ZERO; n.div_ceil(LINE) * stride];
        lines.par_chunks_mut(stride).zip(operands.y.par_chunks(LINE * k * d)).enumerate().for_each(
            |(block, (lines, points))| {
                for (lane, point) in points.chunks(k * d).enumerate() {
                    let b = &operands.b[(block * LINE + lane) * k..][..k];
                    for ((lines, y), &b) in lines.chunks_mut(d + 2).zip(point.chunks(d)).zip(b) {
                        lines[0].0[lane] = b;
                        lines[1..=d].iter_mut().zip(y).for_each(|(line, &y)| line.0[lane] = y);
                        lines[d + 1].0[lane] = 1.0 + b;
                    }
                }
            },
        );
        NarrowColumns { lines, wide: d + 2, stride }
    }

    #[inline(always)]
    fn blocks(&self) -> usize {
        self.lines.len() / self.stride
    }

    #[inline(always)]
    fn factor(&self, block: usize, factor: usize) -> &[CacheLine] {
        &self.lines[block * self.stride + factor * self.wide..][..self.wide]
    }
}

pub(super) fn forward(operands: &DistanceOperands<'_>) -> Vec<f32> {
    let (rows, columns) = (NarrowRows::new(operands), NarrowColumns::new(operands));
    let DistanceSizes { m, n, .. } = operands.sizes;
    let mut out = vec![0.0_f32; m * n];
    out.par_chunks_mut(TASK_ROWS * n).enumerate().for_each(|(task, out)| {
        AutoArch::new().dispatch(NarrowForward {
            operands,
            rows: &rows,
            columns: &columns,
            first: task * TASK_ROWS,
            out,
        });
    });
    out
}

/// Computes some rows of the result. A struct instead of a closure, because closures are compiled for the baseline
/// instruction set.
struct NarrowForward<'a> {
    operands: &'a DistanceOperands<'a>,
    rows: &'a NarrowRows,
    columns: &'a NarrowColumns,
    first: usize,
    out: &'a mut [f32],
}

impl WithSimd for NarrowForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let count = self.out.len() / self.operands.sizes.n;
        let whole = count / GROUP * GROUP;
        for block in 0..self.columns.blocks() {
            for lane in (0..LINE).step_by(lanes::<S>()) {
                for row in (0..whole).step_by(GROUP) {
                    self.group::<S, GROUP>(row, block, lane);
                }
                for row in whole..count {
                    self.group::<S, 1>(row, block, lane);
                }
            }
        }
    }
}

impl NarrowForward<'_> {
    /// Computes `R` rows against the columns of `block` from `lane` on.
    #[inline(always)]
    fn group<S: Simd, const R: usize>(&mut self, row: usize, block: usize, lane: usize) {
        let DistanceSizes { n, k, .. } = self.operands.sizes;
        let mut total = [splat::<S>(0.0); R];
        for factor in 0..k {
            let u = products::<S, R>(self.rows, self.first + row, self.columns, block, factor, lane);
            let weight = splat::<S>(self.operands.weights[factor]);
            for r in 0..R {
                let (rapidity, _) = acosh_1p::<S>(u[r], self.operands.floor);
                let term = match self.operands.norm {
                    DistanceNorm::L1 => rapidity,
                    DistanceNorm::L2 => rapidity * rapidity,
                };
                total[r] = term.mul_add(weight, total[r]);
            }
        }
        let start = block * LINE + lane;
        for r in 0..R {
            let value = match self.operands.norm {
                DistanceNorm::L1 => total[r],
                DistanceNorm::L2 => total[r].sqrt() * splat::<S>(self.operands.sign),
            };
            let out = &mut self.out[(row + r) * n..][..n];
            if start + lanes::<S>() <= n {
                store::<S>(value, &mut out[start..]);
            } else if start < n {
                let mut last = [0.0; LINE];
                store::<S>(value, &mut last);
                let left = n - start;
                out[start..].copy_from_slice(&last[..left]);
            }
        }
    }
}

/// `u` of `R` rows and the columns of `block` from `lane` on, in one factor.
#[inline(always)]
fn products<S: Simd, const R: usize>(
    rows: &NarrowRows,
    row: usize,
    columns: &NarrowColumns,
    block: usize,
    factor: usize,
    lane: usize,
) -> [Register<S>; R] {
    let y = columns.factor(block, factor);
    let last = y.len() - 1;
    let mut x: [&[f32]; R] = [&[]; R];
    for r in 0..R {
        x[r] = &rows.factor(row + r, factor)[..y.len()];
    }
    let b = load::<S>(&y[0].0[lane..]);
    let mut u = [b; R];
    for r in 0..R {
        u[r] = b.mul_add(splat::<S>(x[r][last]), splat::<S>(x[r][0]));
    }
    for c in 1..last {
        let y = load::<S>(&y[c].0[lane..]);
        for r in 0..R {
            u[r] = y.mul_add(splat::<S>(x[r][c]), u[r]);
        }
    }
    u
}

/// The gradients of the points. `grad` is the gradient of the result; for l2 it is divided by the result.
pub(super) fn backward(operands: &DistanceOperands<'_>, grad: &[f32]) -> PointGradients {
    let (rows, columns) = (NarrowRows::new(operands), NarrowColumns::new(operands));
    let DistanceSizes { m, n, k, d } = operands.sizes;
    let blocks = columns.blocks();
    let mut table = vec![CacheLine::ZERO; m * blocks];
    table
        .par_chunks_mut(blocks)
        .zip(grad.par_chunks(n))
        .with_min_len(16)
        .for_each(|(lines, grad)| CacheLine::fill(lines, grad));

    let chunk = CHUNKS[usize::from(k < MANY)];
    let chunks = m.div_ceil(chunk);
    // The tasks are ordered by factor, then by chunk of rows.
    let parts: Vec<ChunkSums> = (0..k * chunks)
        .into_par_iter()
        .map(|task| {
            let (factor, first) = (task / chunks, task % chunks * chunk);
            let count = chunk.min(m - first);
            let mut chunk_sums =
                ChunkSums { x: vec![0.0; count * (d + 1)], y: vec![CacheLine::ZERO; blocks * (d + 1)], value: 0.0 };
            let table = &table[first * blocks..(first + count) * blocks];
            let buffer = vec![CacheLine::ZERO; BUFFERED_ROWS * blocks];
            AutoArch::new().dispatch(NarrowBackward {
                operands,
                rows: &rows,
                columns: &columns,
                factor,
                first,
                table,
                buffer,
                chunk_sums: &mut chunk_sums,
            });
            chunk_sums
        })
        .collect();

    let mut found = PointGradients { x: vec![0.0; m * k * d], y: vec![0.0; n * k * d], values: vec![0.0; k] };
    for (factor, parts) in parts.chunks(chunks).enumerate() {
        found.values[factor] = parts.iter().map(|chunk_sums| chunk_sums.value).sum();
    }
    found.x.par_chunks_mut(d).enumerate().with_min_len(64).for_each(|(i, out)| {
        let (row, factor) = (i / k, i % k);
        let sums = &parts[factor * chunks + row / chunk].x[row % chunk * (d + 1)..][..=d];
        let c = operands.curv[factor];
        out.copy_from_slice(&sums[..d]);
        finish(out, &operands.x[i * d..][..d], -c, sums[d], c, operands.a[i]);
    });
    found.y.par_chunks_mut(LINE * k * d).enumerate().for_each(|(block, out)| {
        for factor in 0..k {
            let parts = &parts[factor * chunks..][..chunks];
            for (lane, out) in out.chunks_mut(k * d).enumerate() {
                let out = &mut out[factor * d..][..d];
                let total =
                    |c: usize| parts.iter().map(|chunk_sums| chunk_sums.y[block * (d + 1) + c].0[lane]).sum::<f32>();
                out.iter_mut().enumerate().for_each(|(c, out)| *out = total(c));
                let i = (block * LINE + lane) * k + factor;
                finish(out, &operands.y[i * d..][..d], 1.0, total(d), operands.curv[factor], operands.b[i]);
            }
        }
    });
    found
}

/// Sums of one chunk of rows in one factor.
struct ChunkSums {
    /// `[sum e y, sum e (1 + b)]` for each row, with `e` the gradient of `u`.
    x: Vec<f32>,
    /// `[sum e (-c x), sum e (1 + a)]`, with the columns interleaved.
    y: Vec<CacheLine>,
    /// Sum of the weighted distances (for l2 their squares divided by the result) times their gradients.
    value: f64,
}

/// The backward pass of one factor and one chunk of rows.
struct NarrowBackward<'a> {
    operands: &'a DistanceOperands<'a>,
    rows: &'a NarrowRows,
    columns: &'a NarrowColumns,
    factor: usize,
    first: usize,
    /// Upstream gradients of the distances of these rows; for l2, divided by the distance.
    table: &'a [CacheLine],
    /// Gradients of `u` in [`BUFFERED_ROWS`] rows.
    buffer: Vec<CacheLine>,
    chunk_sums: &'a mut ChunkSums,
}

impl WithSimd for NarrowBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let blocks = self.columns.blocks();
        let count = self.table.len() / blocks;
        let width = self.operands.sizes.d + 1;
        for start in (0..count).step_by(BUFFERED_ROWS) {
            let rows = BUFFERED_ROWS.min(count - start);
            let whole = rows / GROUP * GROUP;
            for row in (0..whole).step_by(GROUP) {
                self.derivatives::<S, GROUP>(start, row);
            }
            for row in whole..rows {
                self.derivatives::<S, 1>(start, row);
            }
            let mut column = 0;
            while column < width {
                // Take eight columns at a time while more than nine are left.
                let some = if width - column > WIDTH { WIDTH - 1 } else { width - column };
                macro_rules! of_width {
                    ($($w:literal)*) => {
                        match some {
                            $($w => self.products::<S, $w>(start, rows, column),)*
                            _ => unreachable!("at most {WIDTH} columns"),
                        }
                    };
                }
                of_width!(1 2 3 4 5 6 7 8 9);
                column += some;
            }
        }
    }
}

impl NarrowBackward<'_> {
    /// Computes the gradients of `u` in `R` rows.
    #[inline(always)]
    fn derivatives<S: Simd, const R: usize>(&mut self, start: usize, row: usize) {
        let blocks = self.columns.blocks();
        let mut value = splat::<S>(0.0);
        let weight = splat::<S>(self.operands.weights[self.factor]);
        for block in 0..blocks {
            for lane in (0..LINE).step_by(lanes::<S>()) {
                let u = products::<S, R>(self.rows, self.first + start + row, self.columns, block, self.factor, lane);
                for r in 0..R {
                    let grad = load::<S>(&self.table[(start + row + r) * blocks + block].0[lane..]) * weight;
                    let (rapidity, derivative) = acosh_1p::<S>(u[r], self.operands.floor);
                    let grad = match self.operands.norm {
                        DistanceNorm::L1 => grad,
                        DistanceNorm::L2 => grad * rapidity,
                    };
                    value = grad.mul_add(rapidity, value);
                    store::<S>(grad * derivative, &mut self.buffer[(row + r) * blocks + block].0[lane..]);
                }
            }
        }
        self.chunk_sums.value += f64::from(value.reduce_add());
    }

    /// Adds the contribution of the buffered rows to `W` columns of both sums, from `column` on.
    #[inline(always)]
    fn products<S: Simd, const W: usize>(&mut self, start: usize, rows: usize, column: usize) {
        let whole = rows / 2 * 2;
        for row in (0..whole).step_by(2) {
            self.row_sums::<S, W, 2>(start, row, column);
        }
        for row in whole..rows {
            self.row_sums::<S, W, 1>(start, row, column);
        }
        let (blocks, width) = (self.columns.blocks(), self.operands.sizes.d + 1);
        for block in 0..blocks {
            for lane in (0..LINE).step_by(lanes::<S>()) {
                let sums = &mut self.chunk_sums.y[block * width + column..][..W];
                let mut total = [splat::<S>(0.0); W];
                for c in 0..W {
                    total[c] = load::<S>(&sums[c].0[lane..]);
                }
                for row in 0..rows {
                    let e = load::<S>(&self.buffer[row * blocks + block].0[lane..]);
                    let x = &self.rows.factor(self.first + start + row, self.factor)[1 + column..][..W];
                    for c in 0..W {
                        total[c] = e.mul_add(splat::<S>(x[c]), total[c]);
                    }
                }
                for c in 0..W {
                    store::<S>(total[c], &mut sums[c].0[lane..]);
                }
            }
        }
    }

    #[inline(always)]
    fn row_sums<S: Simd, const W: usize, const R: usize>(&mut self, start: usize, row: usize, column: usize) {
        let (blocks, width) = (self.columns.blocks(), self.operands.sizes.d + 1);
        let mut total = [[splat::<S>(0.0); W]; R];
        for block in 0..blocks {
            let y = &self.columns.factor(block, self.factor)[1 + column..][..W];
            for lane in (0..LINE).step_by(lanes::<S>()) {
                let mut e = [splat::<S>(0.0); R];
                for r in 0..R {
                    e[r] = load::<S>(&self.buffer[(row + r) * blocks + block].0[lane..]);
                }
                for c in 0..W {
                    let y = load::<S>(&y[c].0[lane..]);
                    for r in 0..R {
                        total[r][c] = e[r].mul_add(y, total[r][c]);
                    }
                }
            }
        }
        for r in 0..R {
            for c in 0..W {
                self.chunk_sums.x[(start + row + r) * width + column + c] = total[r][c].reduce_add();
            }
        }
    }
}
