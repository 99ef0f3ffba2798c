//! SIMD kernels that load vector registers from slices by pointer, which needs unsafe code for registers of any width.

#![allow(unsafe_code, reason = "vector registers are read from and written to slices by pointer")]
#![allow(clippy::needless_range_loop, reason = "plain loops over registers are unrolled; iterators are not always")]

use half::f16;
use macerator::{Scalar, Simd, Vector, vload_unaligned, vstore_unaligned};

use crate::kernel::{LANES, Lanes};

/// Multiplies `R` points with a panel `[count, width]` over the `count` coordinates `at`, and adds the sums to `V`
/// registers of `out` `[R, width]`, starting at register `first`. See [`crate::kernel::add_dots`]. `first` and `V`
/// count machine registers, which may be shorter than [`Lanes`].
///
/// # Panics
/// Panics if a slice is too short or if `at` ends before it begins.
#[inline(always)]
pub(crate) fn tile<S: Simd, const R: usize, const V: usize>(
    panel: &[Lanes],
    width: usize,
    first: usize,
    points: &[&[f32]],
    at: std::ops::Range<usize>,
    out: &mut [Lanes],
) {
    let (lanes, count) = (f32::lanes::<S>(), at.len());
    assert!(at.start <= at.end && points.len() == R && points.iter().all(|point| point.len() >= at.end));
    assert!(panel.len() >= count * width && out.len() >= R * width && (first + V) * lanes <= width * LANES);
    let stride = width * LANES;
    let zero = 0.0_f32.splat::<S>();
    let mut sums = [[zero; V]; R];
    let mut starts = [std::ptr::null::<f32>(); R];
    for r in 0..R {
        // SAFETY: `at.start` is at most `at.end`, which is at most the length of the point.
        starts[r] = unsafe { points[r].as_ptr().add(at.start) };
    }
    let panel = panel.as_ptr().cast::<f32>();
    for k in 0..count {
        let mut side = [zero; V];
        for v in 0..V {
            // SAFETY: k is below `count`, the panel has `count` rows of `stride` numbers, and (first + V) registers fit
            // into a stride.
            side[v] = unsafe { vload_unaligned(panel.add(k * stride + (first + v) * lanes)) };
        }
        for r in 0..R {
            // SAFETY: k is below the length of the range, which lies within the point.
            let x = unsafe { *starts[r].add(k) }.splat::<S>();
            for v in 0..V {
                sums[r][v] = x.mul_add(side[v], sums[r][v]);
            }
        }
    }
    let out = out.as_mut_ptr().cast::<f32>();
    for r in 0..R {
        for v in 0..V {
            // SAFETY: `out` has R strides, and (first + V) registers fit into a stride.
            unsafe {
                let place = out.add(r * stride + (first + v) * lanes);
                let sum: Vector<S, f32> = vload_unaligned(place);
                vstore_unaligned(place, sum + sums[r][v]);
            }
        }
    }
}

/// True if `numbers[i] * factor > limits[i]` for every `i`.
///
/// # Panics
/// Panics if there are fewer limits than numbers.
#[inline(always)]
pub(crate) fn all_above<S: Simd>(numbers: &[Lanes], factor: f32, limits: &[Lanes]) -> bool {
    assert!(limits.len() >= numbers.len());
    let lanes = f32::lanes::<S>();
    let factor = factor.splat::<S>();
    let (numbers, limits, count) =
        (numbers.as_ptr().cast::<f32>(), limits.as_ptr().cast::<f32>(), numbers.len() * LANES / lanes);
    let mut all = true;
    for i in 0..count {
        // SAFETY: `numbers` consists of `count` registers, and `limits` is at least as long.
        let (number, limit): (Vector<S, f32>, Vector<S, f32>) =
            unsafe { (vload_unaligned(numbers.add(i * lanes)), vload_unaligned(limits.add(i * lanes))) };
        all &= (number * factor).gt(limit).all();
    }
    all
}

/// The dot product `<x, y>`, summed in four registers.
///
/// # Panics
/// Panics if the lengths differ.
#[inline(always)]
pub(crate) fn dot<S: Simd>(x: &[f32], y: &[f32]) -> f32 {
    assert!(x.len() == y.len());
    let lanes = f32::lanes::<S>();
    let zero = 0.0_f32.splat::<S>();
    let [mut a, mut b, mut c, mut d] = [zero; 4];
    let (left, right) = (x.as_ptr(), y.as_ptr());
    macro_rules! add_product {
        ($sum:ident, $k:expr) => {
            // SAFETY: the loops keep the register that begins at k within both slices.
            let (x, y): (Vector<S, f32>, Vector<S, f32>) =
                unsafe { (vload_unaligned(left.add($k)), vload_unaligned(right.add($k))) };
            $sum = x.mul_add(y, $sum);
        };
    }
    let mut k = 0;
    while k + 4 * lanes <= x.len() {
        add_product!(a, k);
        add_product!(b, k + lanes);
        add_product!(c, k + 2 * lanes);
        add_product!(d, k + 3 * lanes);
        k += 4 * lanes;
    }
    while k + lanes <= x.len() {
        add_product!(a, k);
        k += lanes;
    }
    let mut total = ((a + b) + (c + d)).reduce_add();
    for (x, y) in x[k..].iter().zip(&y[k..]) {
        total += x * y;
    }
    total
}

/// The dot product `<x, y>` with finite half-precision numbers, by the AVX-512 instruction that converts sixteen at a
/// time. Returns `None` if the machine has no AVX-512 or the length is not a multiple of `2 LANES`.
///
/// # Panics
/// Panics if the lengths differ.
#[inline(always)]
pub(crate) fn dot_half<S: Simd>(x: &[f32], y: &[f16]) -> Option<f32> {
    assert!(x.len() == y.len());
    #[cfg(target_arch = "x86_64")]
    if f32::lanes::<S>() == LANES && x.len().is_multiple_of(2 * LANES) {
        use std::arch::x86_64::*;
        let (left, right) = (x.as_ptr(), y.as_ptr());
        // SAFETY: on x86_64 only AVX-512 has registers of sixteen `f32`, and this code runs only where `S` was
        // detected. Two registers from k on lie within both slices, whose length is a multiple of `2 LANES`.
        return Some(unsafe {
            let (mut a, mut b) = (_mm512_setzero_ps(), _mm512_setzero_ps());
            for k in (0..x.len()).step_by(2 * LANES) {
                let first = _mm512_cvtph_ps(_mm256_loadu_si256(right.add(k).cast()));
                let second = _mm512_cvtph_ps(_mm256_loadu_si256(right.add(k + LANES).cast()));
                a = _mm512_fmadd_ps(_mm512_loadu_ps(left.add(k)), first, a);
                b = _mm512_fmadd_ps(_mm512_loadu_ps(left.add(k + LANES)), second, b);
            }
            _mm512_reduce_add_ps(_mm512_add_ps(a, b))
        });
    }
    None
}

/// Computes [`LANES`] dot products of eight consecutive numbers each. Returns `false` if the machine has no AVX-512.
///
/// # Panics
/// Panics if a length is not `8 LANES`.
#[inline(always)]
pub(crate) fn dots_of_eight<S: Simd>(x: &[f32], y: &[f32], out: &mut Lanes) -> bool {
    assert!(x.len() == 8 * LANES && y.len() == 8 * LANES);
    #[cfg(target_arch = "x86_64")]
    if f32::lanes::<S>() == LANES {
        use std::arch::x86_64::*;
        // SAFETY: registers of sixteen `f32` exist on AVX-512 only, so the machine has AVX-512. Each slice has eight
        // such registers.
        unsafe {
            let mut products = [_mm512_setzero_ps(); 8];
            for i in 0..8 {
                let y = _mm512_loadu_ps(y.as_ptr().add(i * LANES));
                products[i] = _mm512_mul_ps(_mm512_loadu_ps(x.as_ptr().add(i * LANES)), y);
            }
            store_sums_of_eight(products, out);
        }
        return true;
    }
    let _ = (x, y, out);
    false
}

/// As [`dots_of_eight`], with `y` in half precision.
///
/// # Panics
/// Panics if a length is not `8 LANES`.
#[inline(always)]
pub(crate) fn dots_of_eight_halves<S: Simd>(x: &[f32], y: &[f16], out: &mut Lanes) -> bool {
    assert!(x.len() == 8 * LANES && y.len() == 8 * LANES);
    #[cfg(target_arch = "x86_64")]
    if f32::lanes::<S>() == LANES {
        use std::arch::x86_64::*;
        // SAFETY: as in `dots_of_eight`; a register of half-precision numbers has half the bytes.
        unsafe {
            let mut products = [_mm512_setzero_ps(); 8];
            for i in 0..8 {
                let y = _mm512_cvtph_ps(_mm256_loadu_si256(y.as_ptr().add(i * LANES).cast()));
                products[i] = _mm512_mul_ps(_mm512_loadu_ps(x.as_ptr().add(i * LANES)), y);
            }
            store_sums_of_eight(products, out);
        }
        return true;
    }
    let _ = (x, y, out);
    false
}

/// Sums the lower and the upper eight numbers of each of eight registers. Stores the sixteen sums to `out`, starting
/// with the lower half of the first register.
///
/// # Safety
/// The machine must have AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn store_sums_of_eight(p: [std::arch::x86_64::__m512; 8], out: &mut Lanes) {
    use std::arch::x86_64::*;
    // SAFETY: the caller guarantees AVX-512; `out` holds one register.
    unsafe {
        // Adds adjacent numbers of two registers. After both steps, every quarter holds one partial sum of each of four
        // registers.
        macro_rules! pairs {
            ($a:expr, $b:expr) => {
                _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps($a, $b), _mm512_unpackhi_ps($a, $b)))
            };
        }
        macro_rules! fours {
            ($a:expr, $b:expr) => {
                _mm512_add_ps(
                    _mm512_castpd_ps(_mm512_unpacklo_pd($a, $b)),
                    _mm512_castpd_ps(_mm512_unpackhi_pd($a, $b)),
                )
            };
        }
        let (front, middle) = (pairs!(p[0], p[1]), pairs!(p[2], p[3]));
        let first = fours!(front, middle);
        let (middle, back) = (pairs!(p[4], p[5]), pairs!(p[6], p[7]));
        let last = fours!(middle, back);
        // Add the even and the odd quarters, so that each sum covers a half of a register.
        let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(first, last);
        let odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(first, last);
        let order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
        _mm512_storeu_ps(out.0.as_mut_ptr(), _mm512_permutexvar_ps(order, _mm512_add_ps(even, odd)));
    }
}
