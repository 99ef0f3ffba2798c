//! Safe wrappers around the vector registers of the machine, for the fused loops.
//!
//! Every function is `inline(always)`; otherwise it would be compiled for the baseline instruction set. For the same
//! reason the code has loops instead of `map` with a closure.

use macerator::{Scalar, Simd, Vector};

/// A register of `f32`: 16 lanes (AVX-512), 8 (AVX2) or 4.
pub(crate) type Register<S> = Vector<S, f32>;

/// Numbers per [`CacheLine`]: a multiple of the lanes of every machine, so that the data layout is always the same.
pub(crate) const LINE: usize = 16;

/// Sixteen numbers on one cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub(crate) struct CacheLine(pub(crate) [f32; LINE]);

impl CacheLine {
    pub(crate) const ZERO: CacheLine = CacheLine([0.0; LINE]);

    /// Copies `numbers` to `lines` and pads the last line with zeros.
    pub(crate) fn fill(lines: &mut [CacheLine], numbers: &[f32]) {
        for (line, numbers) in lines.iter_mut().zip(numbers.chunks(LINE)) {
            line.0[..numbers.len()].copy_from_slice(numbers);
            line.0[numbers.len()..].fill(0.0);
        }
    }
}

/// Returns the first `count` lines of a buffer, which grows if necessary. Their values are unspecified.
pub(crate) fn lines(buffer: &mut Vec<CacheLine>, count: usize) -> &mut [CacheLine] {
    if buffer.len() < count {
        buffer.resize(count, CacheLine::ZERO);
    }
    &mut buffer[..count]
}

/// Lanes per register on this machine.
#[inline(always)]
pub(crate) fn lanes<S: Simd>() -> usize {
    S::lanes32()
}

/// Loads a register from the start of `from`.
#[inline(always)]
pub(crate) fn load<S: Simd>(from: &[f32]) -> Register<S> {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&from[..lanes::<S>()]))
}

/// Stores a register at the start of `to`.
#[inline(always)]
pub(crate) fn store<S: Simd>(value: Register<S>, to: &mut [f32]) {
    to[..lanes::<S>()].copy_from_slice(bytemuck::cast_slice(std::slice::from_ref(&value)));
}

#[inline(always)]
pub(crate) fn splat<S: Simd>(value: f32) -> Register<S> {
    value.splat::<S>()
}

/// Sum of the lanes in a fixed order, in `f64`.
#[inline(always)]
pub(crate) fn total<S: Simd>(value: Register<S>) -> f64 {
    let mut numbers = [0.0; LINE];
    store::<S>(value, &mut numbers);
    let mut sum = 0.0;
    for number in numbers {
        sum += f64::from(number);
    }
    sum
}

/// `ln(1 + t)` for `t >= 0`, as [`conifer_geometry::vector::ln_1p`], but with a reciprocal instead of a division, which
/// costs a few units in the last place.
#[inline(always)]
pub(crate) fn ln_1p<S: Simd>(t: Register<S>) -> Register<S> {
    const ROOT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    const ONE: u32 = 1.0_f32.to_bits();
    let shifted = (t + splat::<S>(1.0)).reinterpret::<u32>() + (ONE - ROOT_HALF).splat::<S>();
    let exponent = ((shifted >> 23).reinterpret::<i32>() - 127_i32.splat::<S>()).to_float();
    let mantissa = ((shifted & 0x007f_ffff_u32.splat::<S>()) + ROOT_HALF.splat::<S>()).reinterpret::<f32>();
    let f = exponent.eq(splat::<S>(0.0)).select(t, mantissa - splat::<S>(1.0));
    let s = f * (f + splat::<S>(2.0)).recip();
    let z = s * s; // at most 0.0295: the first omitted term is 2e-9 of the sum
    let mut series = z.mul_add(splat::<S>(2.0 / 9.0), splat::<S>(2.0 / 7.0));
    series = z.mul_add(series, splat::<S>(0.4));
    series = z.mul_add(series, splat::<S>(2.0 / 3.0));
    series = z.mul_add(series, splat::<S>(2.0)) * s;
    // The last term is zero for finite `t` and NaN otherwise. Without it, the bits of a NaN would give a finite result.
    t.mul_add(splat::<S>(0.0), exponent.mul_add(splat::<S>(std::f32::consts::LN_2), series))
}

/// `exp(x)` for `x` up to 0, with a relative error of at most 3e-7 for normal results. It is 0 below -87.3. NaN stays
/// NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln(2) / 2`, and `exp(r)` is computed by its series.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: Register<S>) -> Register<S> {
    // Below this limit the result is subnormal, and its exponent does not fit into eight bits.
    let least = splat::<S>(-87.33);
    let gone = x.lt(least);
    let x = x.lt(least).select(least, x);
    let n = (x * splat::<S>(std::f32::consts::LOG2_E)).round_ties_even();
    // ln 2 is split in two parts. The first has few digits, so that its product with n is exact.
    let r = n.mul_add(splat::<S>(-0.693_359_4), x);
    let r = n.mul_add(splat::<S>(2.121_944_4e-4), r);
    let mut series = splat::<S>(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series.mul_add(r, splat::<S>(coefficient));
    }
    let power = ((n.trunc_to_int() + 127_i32.splat::<S>()).reinterpret::<u32>() << 23).reinterpret::<f32>();
    gone.select(splat::<S>(0.0), series * power)
}
