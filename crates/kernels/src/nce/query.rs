//! Sums and gradients of [`info_nce`](super::info_nce) over the rows and columns of a table.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over registers use closures, which are compiled for the baseline instruction set"
)]

use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use crate::lanes::{LINE, Register, exp, lanes, load, splat, store, total};

/// Rows per task.
pub(super) const TASK_ROWS: usize = 16;
/// Cache lines of columns per task, and registers of columns per step.
const ACROSS: usize = 4;

/// Similarities with their scale.
#[derive(Clone, Copy)]
pub(super) struct InfoNceTable<'a> {
    pub(super) similarity: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) scale: f32,
    pub(super) with_positive: bool,
}

impl InfoNceTable<'_> {
    /// The logit of the positive of `query`.
    fn own(&self, query: usize) -> f32 {
        self.similarity[query * self.columns + query] * self.scale
    }

    /// The similarities and logits of a row from `start` on. The logit is -inf past the end of the row, and for the
    /// positive if it is excluded.
    #[inline(always)]
    fn load<S: Simd>(&self, row: usize, start: usize) -> (Register<S>, Register<S>) {
        let scale = splat::<S>(self.scale);
        let from = &self.similarity[row * self.columns..][..self.columns];
        let whole = start + lanes::<S>() <= self.columns;
        let own = !self.with_positive && (start..start + lanes::<S>()).contains(&row);
        if whole && !own {
            let similarity = load::<S>(&from[start..]);
            return (similarity, similarity * scale);
        }
        let mut numbers = [0.0; LINE];
        let mut logits = [f32::NEG_INFINITY; LINE];
        let left = lanes::<S>().min(self.columns.saturating_sub(start));
        for lane in 0..left {
            numbers[lane] = from[start + lane];
            logits[lane] = numbers[lane] * self.scale;
        }
        if own {
            logits[row - start] = f32::NEG_INFINITY;
        }
        (load::<S>(&numbers), load::<S>(&logits))
    }
}

/// `sum_k exp(l_k) = exp(shift) sum` over the candidates of a query, with `shift` the largest logit. The logarithm of
/// the whole sum is not stored instead: near 100 it has only five decimal places in `f32`, so the probabilities of the
/// candidates would not sum to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShiftedSum {
    pub(super) shift: f32,
    pub(super) sum: f64,
}

/// The sums over the candidates of every query, and its loss.
#[derive(Default)]
pub(super) struct QueryLosses {
    pub(super) sums: Vec<ShiftedSum>,
    pub(super) losses: Vec<f32>,
}

/// The losses with each row as a query.
pub(super) fn rows(table: &InfoNceTable<'_>) -> QueryLosses {
    let mut sums = vec![ShiftedSum::default(); table.rows];
    sums.par_chunks_mut(TASK_ROWS).enumerate().for_each(|(task, out)| {
        AutoArch::new().dispatch(InfoNceRowSums { table, first: task * TASK_ROWS, out });
    });
    with_losses(table, sums)
}

/// The losses with each column as a query.
pub(super) fn columns(table: &InfoNceTable<'_>) -> QueryLosses {
    let mut sums = vec![ShiftedSum::default(); table.columns];
    sums.par_chunks_mut(ACROSS * LINE).enumerate().for_each(|(task, out)| {
        AutoArch::new().dispatch(InfoNceColumnSums { table, first: task * ACROSS * LINE, out });
    });
    with_losses(table, sums)
}

fn with_losses(table: &InfoNceTable<'_>, sums: Vec<ShiftedSum>) -> QueryLosses {
    let loss = |(query, it): (usize, &ShiftedSum)| it.sum.ln() as f32 + (it.shift - table.own(query));
    QueryLosses { losses: sums.iter().enumerate().map(loss).collect(), sums }
}

struct InfoNceRowSums<'a> {
    table: &'a InfoNceTable<'a>,
    first: usize,
    out: &'a mut [ShiftedSum],
}

impl WithSimd for InfoNceRowSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let mut most = splat::<S>(f32::NEG_INFINITY);
            for start in (0..self.table.columns).step_by(lanes::<S>()) {
                most = most.max(self.table.load::<S>(self.first + i, start).1);
            }
            let shift = most.reduce_max();
            let mut sum = splat::<S>(0.0);
            for start in (0..self.table.columns).step_by(lanes::<S>()) {
                sum += exp::<S>(self.table.load::<S>(self.first + i, start).1 - splat::<S>(shift));
            }
            *out = ShiftedSum { shift, sum: total::<S>(sum) };
        }
    }
}

struct InfoNceColumnSums<'a> {
    table: &'a InfoNceTable<'a>,
    first: usize,
    out: &'a mut [ShiftedSum],
}

impl WithSimd for InfoNceColumnSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let across = ACROSS * lanes::<S>();
        for (part, out) in self.out.chunks_mut(across).enumerate() {
            let start = self.first + part * across;
            let mut most = [splat::<S>(f32::NEG_INFINITY); ACROSS];
            for row in 0..self.table.rows {
                for i in 0..ACROSS {
                    most[i] = most[i].max(self.table.load::<S>(row, start + i * lanes::<S>()).1);
                }
            }
            let mut sum = [splat::<S>(0.0); ACROSS];
            for row in 0..self.table.rows {
                for i in 0..ACROSS {
                    sum[i] += exp::<S>(self.table.load::<S>(row, start + i * lanes::<S>()).1 - most[i]);
                }
            }
            let [mut shifts, mut sums] = [[0.0; ACROSS * LINE]; 2];
            for i in 0..ACROSS {
                store::<S>(most[i], &mut shifts[i * lanes::<S>()..]);
                store::<S>(sum[i], &mut sums[i * lanes::<S>()..]);
            }
            for (out, (&sum, &shift)) in out.iter_mut().zip(sums.iter().zip(&shifts)) {
                *out = ShiftedSum { shift, sum: f64::from(sum) };
            }
        }
    }
}

/// The queries of one direction in the backward pass, padded to whole lines.
pub(super) struct NceUpstream {
    shifts: Vec<f32>,
    /// Gradients with respect to the losses (`grads`), and the same divided by the sums (`weights`).
    grads: Vec<f32>,
    weights: Vec<f32>,
}

impl NceUpstream {
    pub(super) fn new(sums: &[ShiftedSum], grads: &[f32]) -> Self {
        let padded = |mut numbers: Vec<f32>| {
            numbers.resize(numbers.len().next_multiple_of(LINE), 0.0);
            numbers
        };
        NceUpstream {
            shifts: padded(sums.iter().map(|it| it.shift).collect()),
            grads: padded(grads.to_vec()),
            weights: padded(sums.iter().zip(grads).map(|(it, grad)| grad / it.sum as f32).collect()),
        }
    }
}

pub(super) fn gradients(
    table: &InfoNceTable<'_>,
    rows: Option<&NceUpstream>,
    columns: Option<&NceUpstream>,
) -> (Vec<f32>, f32) {
    let mut out = vec![0.0_f32; table.rows * table.columns];
    let sums: Vec<f64> = out
        .par_chunks_mut((TASK_ROWS * table.columns).max(1))
        .enumerate()
        .map(|(task, out)| {
            let mut sum = 0.0;
            let first = task * TASK_ROWS;
            AutoArch::new().dispatch(InfoNceBackward { table, rows, columns, first, out, sum: &mut sum });
            sum
        })
        .collect();
    (out, sums.iter().sum::<f64>() as f32)
}

struct InfoNceBackward<'a> {
    table: &'a InfoNceTable<'a>,
    rows: Option<&'a NceUpstream>,
    columns: Option<&'a NceUpstream>,
    first: usize,
    out: &'a mut [f32],
    /// Gradient of the loss with respect to the scale, summed over the rows of the task.
    sum: &'a mut f64,
}

impl WithSimd for InfoNceBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let scale = splat::<S>(self.table.scale);
        for (i, out) in self.out.chunks_mut(self.table.columns).enumerate() {
            let row = self.first + i;
            let mut sum = splat::<S>(0.0);
            for start in (0..self.table.columns).step_by(lanes::<S>()) {
                let (similarity, logit) = self.table.load::<S>(row, start);
                let mut derivative = splat::<S>(0.0);
                if let Some(rows) = self.rows {
                    let share = exp::<S>(logit - splat::<S>(rows.shifts[row]));
                    derivative = share.mul_add(splat::<S>(rows.weights[row]), derivative);
                }
                if let Some(columns) = self.columns {
                    let share = exp::<S>(logit - load::<S>(&columns.shifts[start..]));
                    derivative = share.mul_add(load::<S>(&columns.weights[start..]), derivative);
                }
                if (start..start + lanes::<S>()).contains(&row) {
                    let mut numbers = [0.0; LINE];
                    store::<S>(derivative, &mut numbers);
                    for side in [self.rows, self.columns].into_iter().flatten() {
                        numbers[row - start] -= side.grads.get(row).copied().unwrap_or(0.0);
                    }
                    derivative = load::<S>(&numbers);
                }
                sum = similarity.mul_add(derivative, sum);
                store_part::<S>(derivative * scale, &mut out[start..]);
            }
            *self.sum += total::<S>(sum);
        }
    }
}

/// Stores a register at the start of `to`, or only its first numbers if `to` is shorter.
#[inline(always)]
pub(super) fn store_part<S: Simd>(value: Register<S>, to: &mut [f32]) {
    if to.len() >= lanes::<S>() {
        store::<S>(value, to);
    } else {
        let mut last = [0.0; LINE];
        store::<S>(value, &mut last);
        let left = to.len();
        to.copy_from_slice(&last[..left]);
    }
}
