//! Sums of exponentials over blocks of similarities, by row and by column.

use macerator::{AutoArch, Simd, WithSimd};

use crate::functions::{LANES, exp};

/// Similarity of excluded and padding cells; its exponential is 0.
pub(super) const EXCLUDED: f32 = f32::NEG_INFINITY;

/// For each query, `sum_k exp(l_k) = exp(shift) sum` over its candidates, where `shift` is their largest logit. Both
/// vectors are padded to a multiple of [`LANES`].
#[derive(Clone, Debug)]
pub(super) struct QuerySums {
    pub(super) shift: Vec<f32>,
    pub(super) sum: Vec<f32>,
}

impl QuerySums {
    /// Sums without candidates.
    pub(super) fn none(queries: usize) -> Self {
        let length = queries.next_multiple_of(LANES);
        QuerySums { shift: vec![f32::MIN; length], sum: vec![0.0; length] }
    }

    /// Adds the candidates of another part of the table.
    pub(super) fn merge(&mut self, other: &QuerySums) {
        AutoArch::new().dispatch(MergeSums { sums: self, other });
    }

    /// The sums of single logits, given as (query, logit).
    pub(super) fn of_cells(queries: usize, cells: impl Iterator<Item = (usize, f32)> + Clone) -> Self {
        let mut sums = Self::none(queries);
        for (query, logit) in cells.clone() {
            let shift = &mut sums.shift[query];
            // A NaN never becomes the shift, but makes the sum NaN below.
            *shift = if logit > *shift { logit } else { *shift };
        }
        for (query, logit) in cells {
            sums.sum[query] += (logit - sums.shift[query]).exp();
        }
        sums
    }

    /// `log sum_k exp(l_k)` of a query minus that of the same query in `other`.
    pub(super) fn log_ratio(&self, other: &QuerySums, query: usize) -> f32 {
        (f64::from(self.sum[query]) / f64::from(other.sum[query])).ln() as f32
            + (self.shift[query] - other.shift[query])
    }
}

/// A block of similarities. Rows are padded to a multiple of [`LANES`] with [`EXCLUDED`].
pub(super) struct SimilarityBlock {
    stride: usize,
    cells: Vec<f32>,
}

impl SimilarityBlock {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        let stride = columns.next_multiple_of(LANES);
        SimilarityBlock { stride, cells: vec![0.0; rows * stride] }
    }

    pub(super) fn row(&mut self, i: usize) -> &mut [f32] {
        &mut self.cells[i * self.stride..][..self.stride]
    }

    /// The shifted sum of exponentials over the columns of row `i`, as `(shift, sum)`.
    pub(super) fn row_sum(&mut self, i: usize, scale: f32) -> (f32, f32) {
        let cells = self.row(i);
        AutoArch::new().dispatch(BlockRowSum { cells, scale })
    }

    /// For each column, the shifted sum of exponentials ([`QuerySums`]) over the first `rows` rows.
    pub(super) fn column_sums(&self, rows: usize, scale: f32) -> QuerySums {
        let mut sums = QuerySums::none(self.stride);
        AutoArch::new().dispatch(BlockColumnSums { block: self, rows, scale, sums: &mut sums });
        sums
    }
}

/// The logit of a similarity. The marker [`EXCLUDED`] stays unchanged, even if the scale is negative.
#[inline(always)]
fn logit(similarity: f32, scale: f32) -> f32 {
    let logit = similarity * scale;
    if similarity == EXCLUDED { EXCLUDED } else { logit }
}

struct BlockRowSum<'a> {
    cells: &'a [f32],
    scale: f32,
}

impl WithSimd for BlockRowSum<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> (f32, f32) {
        let (cells, _) = self.cells.as_chunks::<LANES>();
        let mut most = [f32::MIN; LANES];
        for cells in cells {
            for lane in 0..LANES {
                let logit = logit(cells[lane], self.scale);
                most[lane] = if logit > most[lane] { logit } else { most[lane] };
            }
        }
        let shift = most.iter().fold(f32::MIN, |a, &b| if b > a { b } else { a });
        let mut sums = [0.0_f32; LANES];
        for cells in cells {
            for lane in 0..LANES {
                sums[lane] += exp::<S>(logit(cells[lane], self.scale) - shift);
            }
        }
        (shift, crate::functions::sum(&sums))
    }
}

struct BlockColumnSums<'a> {
    block: &'a SimilarityBlock,
    rows: usize,
    scale: f32,
    sums: &'a mut QuerySums,
}

impl WithSimd for BlockColumnSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let SimilarityBlock { stride, cells } = self.block;
        let (shifts, _) = self.sums.shift.as_chunks_mut::<LANES>();
        let (sums, _) = self.sums.sum.as_chunks_mut::<LANES>();
        for (chunk, (shift, sum)) in shifts.iter_mut().zip(sums).enumerate() {
            for i in 0..self.rows {
                let cells = &cells[i * stride + chunk * LANES..][..LANES];
                for lane in 0..LANES {
                    let logit = logit(cells[lane], self.scale);
                    shift[lane] = if logit > shift[lane] { logit } else { shift[lane] };
                }
            }
            for i in 0..self.rows {
                let cells = &cells[i * stride + chunk * LANES..][..LANES];
                for lane in 0..LANES {
                    sum[lane] += exp::<S>(logit(cells[lane], self.scale) - shift[lane]);
                }
            }
        }
    }
}

struct MergeSums<'a> {
    sums: &'a mut QuerySums,
    other: &'a QuerySums,
}

impl WithSimd for MergeSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let (shifts, _) = self.sums.shift.as_chunks_mut::<LANES>();
        let (sums, _) = self.sums.sum.as_chunks_mut::<LANES>();
        let (other_shifts, other_sums) =
            (self.other.shift.as_chunks::<LANES>().0, self.other.sum.as_chunks::<LANES>().0);
        for (i, (shift, sum)) in shifts.iter_mut().zip(sums).enumerate() {
            for lane in 0..LANES {
                let (a, b) = (shift[lane], other_shifts[i][lane]);
                let most = if b > a { b } else { a };
                sum[lane] = sum[lane] * exp::<S>(a - most) + other_sums[i][lane] * exp::<S>(b - most);
                shift[lane] = most;
            }
        }
    }
}

/// Replaces each similarity by `derivative * weight_i` with `weight_i = exp(logit_i - shift_i) factor_i`, where
/// `derivative` is the derivative of the logit with respect to the angle. Returns the sum of similarity times weight.
/// With `EACH`, `shift` and `factor` have one entry per cell, otherwise one entry.
pub(super) fn differentiate_cells<const EACH: bool>(
    cells: &mut [f32],
    [shift, factor]: [&[f32]; 2],
    [scale, derivative]: [f32; 2],
) -> f32 {
    AutoArch::new().dispatch(CellGradients::<EACH> { cells, shift, factor, scale, derivative })
}

struct CellGradients<'a, const EACH: bool> {
    cells: &'a mut [f32],
    shift: &'a [f32],
    factor: &'a [f32],
    scale: f32,
    derivative: f32,
}

impl<const EACH: bool> WithSimd for CellGradients<'_, EACH> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> f32 {
        let (cells, _) = self.cells.as_chunks_mut::<LANES>();
        let mut sums = [0.0_f32; LANES];
        let of = |values: &[f32], chunk: usize| {
            if EACH { values.as_chunks::<LANES>().0[chunk] } else { [values[0]; LANES] }
        };
        for (chunk, cells) in cells.iter_mut().enumerate() {
            let (shift, factor) = (of(self.shift, chunk), of(self.factor, chunk));
            for lane in 0..LANES {
                let weight = exp::<S>(logit(cells[lane], self.scale) - shift[lane]) * factor[lane];
                let share = cells[lane] * weight;
                // An excluded cell has the similarity -inf and the weight 0, so skip its product. A NaN weight must
                // propagate.
                sums[lane] += if weight == 0.0 { 0.0 } else { share };
                cells[lane] = self.derivative * weight;
            }
        }
        crate::functions::sum(&sums)
    }
}
