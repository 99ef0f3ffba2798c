//! Sums and gradients of [`multi_positive_nce`](super::multi_positive_nce).

use macerator::{AutoArch, Scalar, Simd, WithSimd};
use rayon::prelude::*;

use super::query::{ShiftedSum, TASK_ROWS, store_part};
use crate::lanes::{LINE, Register, exp, lanes, load, splat, total};

/// Similarities with the masks of the positives and of the query itself.
#[derive(Clone, Copy)]
pub(super) struct MultiNceTable<'a> {
    pub(super) similarity: &'a [f32],
    pub(super) positive: &'a [bool],
    pub(super) same: &'a [bool],
    pub(super) columns: usize,
    pub(super) scale: f32,
}

/// The sums over the candidates and over the positives; `None` for a query without a positive.
pub(super) type MultiNceSums = Option<[ShiftedSum; 2]>;

impl MultiNceTable<'_> {
    /// The similarities, the logits of the candidates and the logits of the positives of a row from `start` on. Logits
    /// of other cells are -inf.
    #[inline(always)]
    fn load<S: Simd>(&self, row: usize, start: usize) -> (Register<S>, [Register<S>; 2]) {
        let at = row * self.columns + start;
        let left = lanes::<S>().min(self.columns - start);
        let (mut numbers, mut same, mut positive) = ([0.0; LINE], [true; LINE], [false; LINE]);
        let whole = left == lanes::<S>();
        if !whole {
            numbers[..left].copy_from_slice(&self.similarity[at..][..left]);
            same[..left].copy_from_slice(&self.same[at..][..left]);
            positive[..left].copy_from_slice(&self.positive[at..][..left]);
        }
        let numbers = if whole { &self.similarity[at..][..left] } else { &numbers[..lanes::<S>()] };
        let same = if whole { &self.same[at..][..left] } else { &same[..lanes::<S>()] };
        let positive = if whole { &self.positive[at..][..left] } else { &positive[..lanes::<S>()] };
        let similarity = load::<S>(numbers);
        let (logits, none) = (similarity * splat::<S>(self.scale), splat::<S>(f32::NEG_INFINITY));
        let candidates = f32::mask_from_bools::<S>(same).select(none, logits);
        let positives = f32::mask_from_bools::<S>(positive).select(logits, none);
        (similarity, [candidates, positives])
    }

    fn has_positive(&self, row: usize) -> bool {
        self.positive[row * self.columns..][..self.columns].contains(&true)
    }
}

pub(super) fn sums(table: &MultiNceTable<'_>, rows: usize) -> Vec<MultiNceSums> {
    let mut out = vec![None; rows];
    out.par_chunks_mut(TASK_ROWS).enumerate().for_each(|(task, out)| {
        AutoArch::new().dispatch(MultiNceRowSums { table, first: task * TASK_ROWS, out });
    });
    out
}

struct MultiNceRowSums<'a> {
    table: &'a MultiNceTable<'a>,
    first: usize,
    out: &'a mut [MultiNceSums],
}

impl WithSimd for MultiNceRowSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let columns = self.table.columns;
        for (i, out) in self.out.iter_mut().enumerate() {
            let row = self.first + i;
            if !self.table.has_positive(row) {
                continue;
            }
            let mut most = [splat::<S>(f32::NEG_INFINITY); 2];
            for start in (0..columns).step_by(lanes::<S>()) {
                let (_, logits) = self.table.load::<S>(row, start);
                most[0] = most[0].max(logits[0]);
                most[1] = most[1].max(logits[1]);
            }
            let shifts = [most[0].reduce_max(), most[1].reduce_max()];
            let mut sums = [splat::<S>(0.0); 2];
            for start in (0..columns).step_by(lanes::<S>()) {
                let (_, logits) = self.table.load::<S>(row, start);
                sums[0] += exp::<S>(logits[0] - splat::<S>(shifts[0]));
                sums[1] += exp::<S>(logits[1] - splat::<S>(shifts[1]));
            }
            let sum = |i: usize| ShiftedSum { shift: shifts[i], sum: total::<S>(sums[i]) };
            *out = Some([sum(0), sum(1)]);
        }
    }
}

pub(super) fn gradients(table: &MultiNceTable<'_>, sums: &[MultiNceSums], grads: &[f32]) -> (Vec<f32>, f32) {
    let mut out = vec![0.0_f32; grads.len() * table.columns];
    let scales: Vec<f64> = out
        .par_chunks_mut((TASK_ROWS * table.columns).max(1))
        .enumerate()
        .map(|(task, out)| {
            let (mut sum, first) = (0.0, task * TASK_ROWS);
            AutoArch::new().dispatch(MultiNceBackward { table, sums, grads, first, out, sum: &mut sum });
            sum
        })
        .collect();
    (out, scales.iter().sum::<f64>() as f32)
}

struct MultiNceBackward<'a> {
    table: &'a MultiNceTable<'a>,
    sums: &'a [MultiNceSums],
    grads: &'a [f32],
    first: usize,
    out: &'a mut [f32],
    /// Gradient of the loss with respect to the scale, summed over the rows of the task.
    sum: &'a mut f64,
}

impl WithSimd for MultiNceBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let columns = self.table.columns;
        for (i, out) in self.out.chunks_mut(columns).enumerate() {
            let row = self.first + i;
            // A row without a positive has the gradient 0.
            let Some([candidates, positives]) = self.sums[row] else { continue };
            let grad = self.grads[row];
            let mut sum = splat::<S>(0.0);
            for start in (0..columns).step_by(lanes::<S>()) {
                let (similarity, logits) = self.table.load::<S>(row, start);
                let candidate =
                    exp::<S>(logits[0] - splat::<S>(candidates.shift)) * splat::<S>(grad / candidates.sum as f32);
                let derivative = candidate
                    - exp::<S>(logits[1] - splat::<S>(positives.shift)) * splat::<S>(grad / positives.sum as f32);
                sum = similarity.mul_add(derivative, sum);
                store_part::<S>(derivative * splat::<S>(self.table.scale), &mut out[start..]);
            }
            *self.sum += total::<S>(sum);
        }
    }
}
