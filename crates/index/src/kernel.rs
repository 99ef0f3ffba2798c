//! Dot products of points with points, in the widest vector registers of the machine.
//!
//! One side is packed into panels, whose columns hold [`LANES`] points each. The other side is read in place, one
//! coordinate at a time, so the points of an index are not copied. Each sum runs over [`RUN`] coordinates before it is
//! added to the total, in the order of the coordinates and in the same way for every pair. So a dot product does not
//! depend on the positions of the two points in a tile.

use half::f16;
use macerator::{AutoArch, Simd, WithSimd};

use crate::raw::tile;

/// Number of points per panel column: one register of AVX-512, two of AVX2.
pub(crate) const LANES: usize = 16;
/// Number of coordinates per partial sum. It keeps long `f32` sums accurate and a panel in the L1 cache.
pub(crate) const RUN: usize = 64;
/// The number of points that are read in place is padded to a multiple of this. It is a common multiple of the tile
/// heights.
pub(crate) const ROWS: usize = 12;
/// Number of columns of a wide panel.
pub(crate) const WIDE: usize = 4;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub(crate) [f32; LANES]);

impl Lanes {
    pub(crate) const ZERO: Lanes = Lanes([0.0; LANES]);

    #[inline(always)]
    pub(crate) fn from_fn(f: impl FnMut(usize) -> f32) -> Self {
        Lanes(std::array::from_fn(f))
    }
}

/// Largest error of a dot product of `dim` terms, computed here or by [`conifer_geometry::slices`], relative to the
/// product of the lengths. The error is half a machine epsilon for every rounding that one term can go through. In this
/// module these are at most [`RUN`] roundings within the run of the term and one per run. In `slices` they are one per
/// eight coordinates and those of the reduction of the eight partial sums.
pub(crate) fn dot_error(dim: usize) -> f32 {
    let here = dim.min(RUN) + dim.div_ceil(RUN);
    let there = dim / 8 + 8 + 2;
    f32::EPSILON / 2.0 * here.max(there) as f32
}

/// Columns of a panel if there are enough points: [`WIDE`] on machines with registers of [`LANES`] numbers, else 1.
pub(crate) fn wide() -> usize {
    struct LaneCount;
    impl WithSimd for LaneCount {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> usize {
            S::lanes32()
        }
    }
    if AutoArch::new().dispatch(LaneCount) >= LANES { WIDE } else { 1 }
}

/// Adds the dot products of `points` (a multiple of [`ROWS`]) with a panel of `width` columns, 1 or [`WIDE`], to `out`
/// `[points, width]`. `panel` is `[coordinates, width]` and is multiplied with the coordinates of every point from
/// `from` on.
#[inline(always)]
pub(crate) fn add_dots<S: Simd>(panel: &[Lanes], width: usize, points: &[&[f32]], from: usize, out: &mut [Lanes]) {
    // A tile has 24 sums for wide panels on machines with 32 registers, else 12.
    macro_rules! tiles {
        ($at:expr, $panel:expr, $rows:expr, $registers:expr, $columns:expr) => {
            for (points, out) in points.chunks_exact($rows).zip(out.chunks_exact_mut($rows * width)) {
                for column in 0..$columns {
                    tile::<S, $rows, $registers>($panel, width, column * $registers, points, $at, out);
                }
            }
        };
    }
    let lanes = S::lanes32();
    for (run, panel) in panel.chunks(RUN * width).enumerate() {
        let at = from + run * RUN;
        let at = at..at + panel.len() / width;
        if lanes >= LANES && width == WIDE {
            tiles!(at.clone(), panel, 6, WIDE, 1);
        } else if lanes >= LANES {
            tiles!(at.clone(), panel, ROWS, 1, width);
        } else {
            tiles!(at.clone(), panel, 6, 2, width * LANES / lanes / 2);
        }
    }
}

/// Dot products `<x, y>` of every query with every row of `rows` `[n, dim]`: `[queries, n]`, with the error of
/// [`dot_error`].
pub(crate) fn dots(queries: &[&[f32]], rows: &[f32], dim: usize) -> Vec<f32> {
    let mut out = vec![0.0; queries.len() * (rows.len() / dim)];
    AutoArch::new().dispatch(RowDots { queries, rows, dim, out: &mut out });
    out
}

/// Up to this many queries are multiplied one by one, because a panel would be mostly empty.
const FEW: usize = 3;

struct RowDots<'a> {
    queries: &'a [&'a [f32]],
    rows: &'a [f32],
    dim: usize,
    out: &'a mut [f32],
}

impl WithSimd for RowDots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let (dim, count) = (self.dim, self.rows.len() / self.dim);
        if self.queries.len() <= FEW {
            for (query, out) in self.queries.iter().zip(self.out.chunks_exact_mut(count.max(1))) {
                for (row, out) in self.rows.chunks_exact(dim).zip(out) {
                    *out = dot::<S, f32>(query, row);
                }
            }
            return;
        }
        let mut panel = vec![Lanes::ZERO; dim];
        let mut sums = [Lanes::ZERO; ROWS];
        let mut points: [&[f32]; ROWS] = [&[]; ROWS];
        for (queries, out) in self.queries.chunks(LANES).zip(self.out.chunks_mut(LANES * count.max(1))) {
            for (lane, query) in queries.iter().enumerate() {
                for (lanes, v) in panel.iter_mut().zip(*query) {
                    lanes.0[lane] = *v;
                }
            }
            for (block, rows) in self.rows.chunks(ROWS * dim).enumerate() {
                let filled = rows.len() / dim;
                for i in 0..ROWS {
                    points[i] = &rows[i.min(filled - 1) * dim..][..dim];
                }
                sums.fill(Lanes::ZERO);
                add_dots::<S>(&panel, 1, &points, 0, &mut sums);
                for lane in 0..queries.len() {
                    for i in 0..filled {
                        out[lane * count + block * ROWS + i] = sums[i].0[lane];
                    }
                }
            }
        }
    }
}

/// A stored coordinate.
pub(crate) trait StoredCoordinate: Copy + Send + Sync + 'static {
    fn wide(self) -> f32;

    /// Reads a number from exactly `size_of::<Self>()` little-endian bytes.
    fn from_le(bytes: &[u8]) -> Self;

    /// The dot product `<x, y>`.
    fn dot<S: Simd>(x: &[f32], y: &[Self]) -> f32;

    /// Computes [`LANES`] dot products of eight consecutive numbers each. Returns `false` if the machine has no fast
    /// instruction for it.
    fn dots_of_eight<S: Simd>(x: &[f32], y: &[Self], out: &mut Lanes) -> bool;
}

impl StoredCoordinate for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    fn from_le(bytes: &[u8]) -> f32 {
        bytes.try_into().map_or(f32::NAN, f32::from_le_bytes)
    }

    #[inline(always)]
    fn dot<S: Simd>(x: &[f32], y: &[f32]) -> f32 {
        crate::raw::dot::<S>(x, y)
    }

    #[inline(always)]
    fn dots_of_eight<S: Simd>(x: &[f32], y: &[f32], out: &mut Lanes) -> bool {
        crate::raw::dots_of_eight::<S>(x, y, out)
    }
}

impl StoredCoordinate for f16 {
    /// Converts a finite number by its bits, so that it compiles to vector instructions. The exponent and mantissa are
    /// shifted to their position in an `f32`, and a multiplication corrects the exponent bias. This is also exact for
    /// subnormal numbers.
    #[inline(always)]
    fn wide(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let size = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 127 - 15) << 23);
        f32::from_bits(size.to_bits() | (bits & 0x8000) << 16)
    }

    fn from_le(bytes: &[u8]) -> f16 {
        bytes.try_into().map_or(f16::NAN, f16::from_le_bytes)
    }

    /// Without a conversion instruction, blocks are converted to `f32` in the L1 cache.
    #[inline(always)]
    fn dot<S: Simd>(x: &[f32], y: &[f16]) -> f32 {
        if let Some(dot) = crate::raw::dot_half::<S>(x, y) {
            return dot;
        }
        const PART: usize = 512;
        let mut wide = [0.0; PART];
        let mut total = 0.0;
        for (x, y) in x.chunks(PART).zip(y.chunks(PART)) {
            for (wide, y) in wide.iter_mut().zip(y) {
                *wide = y.wide();
            }
            total += crate::raw::dot::<S>(x, &wide[..x.len()]);
        }
        total
    }

    #[inline(always)]
    fn dots_of_eight<S: Simd>(x: &[f32], y: &[f16], out: &mut Lanes) -> bool {
        crate::raw::dots_of_eight_halves::<S>(x, y, out)
    }
}

/// `<x, y>` with `y` in its stored precision.
#[inline(always)]
pub(crate) fn dot<S: Simd, E: StoredCoordinate>(x: &[f32], y: &[E]) -> f32 {
    E::dot::<S>(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_exactly() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!(half.wide().to_bits(), half.to_f32().to_bits(), "{bits:#x}");
            }
        }
    }

    struct HalfDot<'a>(&'a [f32], &'a [f16]);

    impl WithSimd for HalfDot<'_> {
        type Output = f32;
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> f32 {
            dot::<S, f16>(self.0, self.1)
        }
    }

    /// Compares with sums in f64, at lengths with and without a special instruction.
    #[test]
    fn dots_of_halves_keep_their_error() {
        for dim in [1, 31, 32, 64, 96, 500, 512, 1024] {
            let x: Vec<f32> = (0..dim).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect();
            let y: Vec<f16> = (0..dim).map(|i| f16::from_f32((i * 53 % 97) as f32 * 0.01 - 0.5)).collect();
            let terms = || x.iter().zip(&y).map(|(a, b)| f64::from(*a) * f64::from(b.to_f32()));
            let error = (f64::from(AutoArch::new().dispatch(HalfDot(&x, &y))) - terms().sum::<f64>()).abs();
            assert!(error <= f64::from(dot_error(dim)) * terms().map(f64::abs).sum::<f64>(), "dim {dim}: {error:e}");
        }
    }

    struct DotsProbe<'a> {
        panel: &'a [Lanes],
        width: usize,
        points: &'a [&'a [f32]],
        left: &'a [Vec<f32>],
    }

    impl WithSimd for DotsProbe<'_> {
        type Output = (Vec<Lanes>, Vec<Vec<f32>>);
        #[inline(always)]
        fn with_simd<S: Simd>(self) -> Self::Output {
            let mut out = vec![Lanes::ZERO; self.points.len() * self.width];
            add_dots::<S>(self.panel, self.width, self.points, 0, &mut out);
            let dots = |x: &Vec<f32>| self.points.iter().map(|y| dot::<S, f32>(x, y)).collect();
            (out, self.left.iter().map(dots).collect())
        }
    }

    /// Compares tiles and single dot products with sums in f64, for lengths around every block size.
    #[test]
    fn dots_keep_their_error() {
        let mut random = 7_u64;
        let mut uniform = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as f32 / (1_u32 << 24) as f32 - 0.5
        };
        for (dim, width) in [1, 7, 16, 63, 64, 65, 200, 512].into_iter().flat_map(|dim| [(dim, 1), (dim, WIDE)]) {
            let mut some =
                |count| -> Vec<Vec<f32>> { (0..count).map(|_| (0..dim).map(|_| uniform()).collect()).collect() };
            let (left, right) = (some(width * LANES), some(2 * ROWS));
            let panel: Vec<Lanes> = (0..dim)
                .flat_map(|k| (0..width).map(move |column| (k, column)))
                .map(|(k, column)| Lanes::from_fn(|lane| left[column * LANES + lane][k]))
                .collect();
            let points: Vec<&[f32]> = right.iter().map(Vec::as_slice).collect();
            let probe = DotsProbe { panel: &panel, width, points: &points, left: &left };
            let (tiles, singles) = AutoArch::new().dispatch(probe);
            for (i, x) in left.iter().enumerate() {
                for (j, y) in right.iter().enumerate() {
                    let terms = || x.iter().zip(y).map(|(a, b)| f64::from(*a) * f64::from(*b));
                    let size = terms().map(f64::abs).sum::<f64>();
                    for found in [tiles[j * width + i / LANES].0[i % LANES], singles[i][j]] {
                        let error = (f64::from(found) - terms().sum::<f64>()).abs();
                        assert!(error <= f64::from(dot_error(dim)) * size, "dim {dim}, width {width}: {error:e}");
                    }
                }
            }
        }
    }
}
