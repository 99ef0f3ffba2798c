//! Matrix products and memory access for the fused operations: Burn's matrix products on slices, new arrays that
//! several threads fill, and arrays split into columns for several threads.
//!
//! All `unsafe` code of the fused operations is in this file, behind a safe interface.
#![allow(unsafe_code, reason = "the matrix products take pointers, and threads write to columns of one array")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use gemm::Parallelism;
use rayon::prelude::*;

/// A matrix in a slice, with the entry `(i, j)` at `i row_stride + j column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct MatrixView<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> MatrixView<'a> {
    /// # Panics
    /// Panics if an entry is outside of the slice.
    pub(crate) fn new(data: &'a [f32], [rows, columns]: [usize; 2], [row_stride, column_stride]: [usize; 2]) -> Self {
        if rows > 0 && columns > 0 {
            let last = |count: usize, stride: usize| (count - 1).checked_mul(stride);
            let last = last(rows, row_stride).zip(last(columns, column_stride)).and_then(|(i, j)| i.checked_add(j));
            let inside = last.is_some_and(|last| last < data.len());
            assert!(inside, "a matrix of {rows} x {columns} exceeds its slice of {} numbers", data.len());
        }
        Self { data, rows, columns, row_stride, column_stride }
    }

    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }
}

/// A part of an array that one thread may write: `rows` rows of `columns` contiguous numbers, which start `stride`
/// apart.
pub(crate) struct Panel<'a> {
    start: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
    of: PhantomData<&'a mut [f32]>,
}

// SAFETY: while a panel lives, it is the only access to its numbers, like the mutable slice that it comes from.
unsafe impl Send for Panel<'_> {}

impl<'a> Panel<'a> {
    /// Creates a panel of the first `columns` of every `stride` numbers, `rows` times.
    ///
    /// # Panics
    /// Panics if the last row ends outside of the slice or if rows overlap.
    pub(crate) fn new(data: &'a mut [f32], [rows, columns]: [usize; 2], stride: usize) -> Self {
        let end = if rows == 0 { Some(0) } else { area(rows - 1, stride).checked_add(columns) };
        assert!(columns <= stride && end.is_some_and(|end| end <= data.len()), "the panel exceeds its slice");
        Self { start: data.as_mut_ptr(), rows, columns, stride, of: PhantomData }
    }

    /// Splits an array of rows of `stride` numbers into blocks of `height` rows, and every block into panels of
    /// `columns` numbers. Panels are ordered by block, then from left to right.
    ///
    /// # Panics
    /// Panics if the array or its rows cannot be split evenly.
    pub(crate) fn cut(data: &'a mut [f32], height: usize, stride: usize, columns: usize) -> Vec<Self> {
        if data.is_empty() {
            return Vec::new();
        }
        assert!(
            stride.is_multiple_of(columns) && data.len().is_multiple_of(area(height, stride)),
            "the array cannot be split into equal panels"
        );
        let mut panels = Vec::with_capacity(data.len() / (height * columns));
        for block in data.chunks_exact_mut(height * stride) {
            let start = block.as_mut_ptr();
            for first in (0..stride).step_by(columns) {
                // SAFETY: `first < stride <= block.len()`. Panels of a block share no number: each is `columns` wide,
                // and their starts are multiples of `columns` within rows that are `stride` apart.
                let start = unsafe { start.add(first) };
                panels.push(Self { start, rows: height, columns, stride, of: PhantomData });
            }
        }
        panels
    }

    /// Returns row `i`.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub(crate) fn row(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        // SAFETY: the row is inside the array by construction, only this panel may write to it, and it is borrowed from
        // `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.columns) }
    }

    /// Overwrites the panel with `scale left right`, on this thread.
    ///
    /// # Panics
    /// Panics if the shapes do not match.
    pub(crate) fn product(&mut self, left: MatrixView<'_>, right: MatrixView<'_>, scale: f32) {
        assert_eq!([self.rows, self.columns], [left.rows, right.columns], "shape of a product");
        // SAFETY: the panel has this shape, its numbers are initialised, and no other thread can access them.
        unsafe { multiply(self.start, self.stride, left, right, None, scale, Parallelism::None) }
    }
}

/// The number of entries of a matrix. All bounds checks below depend on it, so it must not wrap around.
///
/// # Panics
/// Panics if the product overflows.
fn area(rows: usize, columns: usize) -> usize {
    let (count, wrapped) = rows.overflowing_mul(columns);
    assert!(!wrapped, "{rows} x {columns} numbers exceed the address space");
    count
}

/// The product `left right`, row major, computed on all threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub(crate) fn product(left: MatrixView<'_>, right: MatrixView<'_>) -> Vec<f32> {
    let count = area(left.rows, right.columns);
    if left.columns == 0 {
        return vec![0.0; count];
    }
    let mut out = Vec::with_capacity(count);
    // SAFETY: `out` has room for `left.rows` rows of `right.columns` numbers. Without `keep` all of them are written
    // and none is read.
    unsafe {
        multiply(out.as_mut_ptr(), right.columns, left, right, None, 1.0, Parallelism::Rayon(0));
        out.set_len(count);
    }
    out
}

/// Adds `left right` to the row-major `out`, on all threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub(crate) fn add_product(out: &mut [f32], left: MatrixView<'_>, right: MatrixView<'_>) {
    assert_eq!(out.len(), area(left.rows, right.columns), "shape of a product");
    // SAFETY: `out` has this shape and is initialised.
    unsafe { multiply(out.as_mut_ptr(), right.columns, left, right, Some(1.0), 1.0, Parallelism::Rayon(0)) }
}

/// Computes `out = keep out + scale left right`. Without `keep`, `out` is not read.
///
/// # Safety
/// `out` must be valid for writes of `left.rows` rows of `right.columns` numbers, `stride >= right.columns` apart. With
/// `keep` they must be initialised. No other thread may access them meanwhile.
unsafe fn multiply(
    out: *mut f32,
    stride: usize,
    left: MatrixView<'_>,
    right: MatrixView<'_>,
    keep: Option<f32>,
    scale: f32,
    parallelism: Parallelism,
) {
    assert_eq!(left.columns, right.rows, "inner sizes of a product");
    let step = |stride: usize| isize::try_from(stride).unwrap_or(isize::MAX);
    // SAFETY: the operands are inside their slices (checked by `MatrixView::new`), and the caller guarantees the
    // result.
    unsafe {
        gemm::gemm(
            left.rows,
            right.columns,
            left.columns,
            out,
            1,
            step(stride),
            keep.is_some(),
            left.data.as_ptr(),
            step(left.column_stride),
            step(left.row_stride),
            right.data.as_ptr(),
            step(right.column_stride),
            step(right.row_stride),
            keep.unwrap_or(0.0),
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Rows per task. It does not depend on the number of threads: sums over rows are added block by block, so the block
/// size determines the rounding.
pub(crate) const BLOCK: usize = 32;

/// Creates an array of `count` rows of `width` numbers. Calls `write(rows, numbers)` in parallel for each block, whose
/// numbers are zero, and returns the results in order. Rows of width 0 have no blocks.
pub(crate) fn new_rows<R: Send>(
    count: usize,
    width: usize,
    write: impl Fn(Range<usize>, &mut [f32]) -> R + Sync,
) -> (Vec<f32>, Vec<R>) {
    let total = count * width;
    let mut out: Vec<f32> = Vec::with_capacity(total);
    let spare = &mut out.spare_capacity_mut()[..total];
    let results = spare
        .par_chunks_mut((BLOCK * width).max(1))
        .enumerate()
        .map(|(block, numbers)| write(block * BLOCK..((block + 1) * BLOCK).min(count), zeroed(numbers)))
        .collect();
    // SAFETY: the blocks cover `spare`, and `zeroed` initialised each of them.
    unsafe { out.set_len(total) };
    (out, results)
}

/// Does the same as [`new_rows`], and also passes the same block of the array `beside` to `write`.
pub(crate) fn new_rows_beside<R: Send>(
    beside: &mut [f32],
    width: usize,
    write: impl Fn(Range<usize>, &mut [f32], &mut [f32]) -> R + Sync,
) -> (Vec<f32>, Vec<R>) {
    let (total, chunk) = (beside.len(), (BLOCK * width).max(1));
    let count = total.checked_div(width).unwrap_or(0);
    let mut out: Vec<f32> = Vec::with_capacity(total);
    let spare = &mut out.spare_capacity_mut()[..total];
    let results = spare
        .par_chunks_mut(chunk)
        .zip(beside.par_chunks_mut(chunk))
        .enumerate()
        .map(|(block, (numbers, beside))| {
            write(block * BLOCK..((block + 1) * BLOCK).min(count), zeroed(numbers), beside)
        })
        .collect();
    // SAFETY: the blocks cover `spare`, and `zeroed` initialised each of them.
    unsafe { out.set_len(total) };
    (out, results)
}

/// Sets memory to zero. The caller writes to it next, while it is in the cache, so this costs little.
fn zeroed(spare: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    spare.fill(MaybeUninit::new(0.0));
    // SAFETY: all numbers were just written, and `MaybeUninit<f32>` has the layout of `f32`.
    unsafe { &mut *(std::ptr::from_mut(spare) as *mut [f32]) }
}

/// Runs `work` on a thread of the pool. Outside the pool the calling thread would block and wake up again for each
/// parallel loop.
pub(crate) fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_strided_matrices() {
        // The matrix [[1, 2], [3, 4], [5, 6]] is stored in rows of three. Its product with its transpose was computed
        // by hand.
        let data = [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 6.0];
        let a = MatrixView::new(&data, [3, 2], [3, 1]);
        let expected = [5.0, 11.0, 17.0, 11.0, 25.0, 39.0, 17.0, 39.0, 61.0];
        assert_eq!(product(a, a.transposed()), expected);
        let mut out = [1.0; 9];
        add_product(&mut out, a, a.transposed());
        assert_eq!(out, expected.map(|x| x + 1.0));
        let mut wide = [7.0; 12];
        Panel::new(&mut wide, [3, 3], 4).product(a, a.transposed(), 2.0);
        assert_eq!(wide, [10.0, 22.0, 34.0, 7.0, 22.0, 50.0, 78.0, 7.0, 34.0, 78.0, 122.0, 7.0]);
        assert_eq!(product(MatrixView::new(&data, [3, 0], [3, 1]), MatrixView::new(&data, [0, 2], [1, 1])), [0.0; 6]);
    }

    /// Sizes whose product wraps around to a small number must be rejected by every constructor and product.
    #[test]
    fn overflowing_sizes_are_rejected() {
        const HALF: usize = 1 << (usize::BITS - 1);
        // A matrix whose entries are all the same number in memory.
        fn repeated(rows: usize, columns: usize) -> MatrixView<'static> {
            MatrixView::new(&[1.0], [rows, columns], [0, 0])
        }
        let attempts: [fn(); 6] = [
            || _ = MatrixView::new(&[1.0], [3, 1], [HALF, 1]),
            || _ = MatrixView::new(&[1.0], [2, 2], [usize::MAX, 1]),
            || _ = Panel::new(&mut [0.0], [3, 1], HALF),
            || _ = Panel::cut(&mut [0.0; 4], HALF + 1, 4, 2),
            || _ = product(repeated(HALF, 1), repeated(1, 2)),
            || add_product(&mut [], repeated(HALF, 1), repeated(1, 2)),
        ];
        for (i, attempt) in attempts.into_iter().enumerate() {
            assert!(std::panic::catch_unwind(attempt).is_err(), "attempt {i}");
        }
    }

    #[test]
    fn panels_cover_every_number_once() {
        let mut data = [0.0; 2 * 3 * 6];
        for (number, panel) in Panel::cut(&mut data, 3, 6, 2).iter_mut().enumerate() {
            for row in 0..3 {
                panel.row(row).iter_mut().for_each(|x| *x += 1.0 + number as f32);
            }
        }
        let row = |block: usize| [1, 1, 2, 2, 3, 3].map(|panel| (panel + 3 * block) as f32);
        assert_eq!(
            data.chunks(6).map(<[f32]>::to_vec).collect::<Vec<_>>(),
            [0, 0, 0, 1, 1, 1].map(|b| row(b).to_vec())
        );
    }

    #[test]
    fn new_rows_are_written_block_by_block() {
        let count = 2 * BLOCK + 3;
        let (rows, blocks) = new_rows(count, 2, |range, out| {
            out.chunks_mut(2).zip(range.clone()).for_each(|(out, row)| out[1] = row as f32);
            range
        });
        assert!(rows.chunks(2).enumerate().all(|(i, row)| row == [0.0, i as f32]));
        assert_eq!(blocks, [0..BLOCK, BLOCK..2 * BLOCK, 2 * BLOCK..count]);
        let mut beside = rows.clone();
        let (copy, _) = new_rows_beside(&mut beside, 2, |_, new, old| {
            new.copy_from_slice(old);
            old.fill(1.0);
        });
        assert!(copy == rows && beside.iter().all(|&x| x == 1.0));
        assert!(new_rows(0, 3, |_, _| ()).0.is_empty() && new_rows(3, 0, |_, _| ()).0.is_empty());
    }
}
