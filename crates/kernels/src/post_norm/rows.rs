//! Passes over tokens whose channels are lines of 16 numbers, between the products.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over registers use closures, which are compiled for the baseline instruction set"
)]

use macerator::{Simd, WithSimd};

use super::{NormWeights, RowPooling};
use crate::functions::normal;
use crate::lanes::{CacheLine, LINE, lanes, load, splat, store, total};
use crate::pointwise::line;

/// A layer norm, packed.
#[derive(Clone, Debug)]
pub(super) struct NormLines {
    gain: Vec<CacheLine>,
    bias: Vec<CacheLine>,
    width: usize,
    epsilon: f64,
}

impl NormLines {
    pub(super) fn new(weights: &NormWeights, epsilon: f64) -> Self {
        let width = weights.gain.len();
        Self { gain: pack(&weights.gain), bias: pack(&weights.bias), width, epsilon }
    }
}

fn pack(numbers: &[f32]) -> Vec<CacheLine> {
    (0..numbers.len().div_ceil(LINE)).map(|block| line(block, numbers.len(), |channel| numbers[channel])).collect()
}

/// Normalises `count` tokens in place: `[channels / 16, token]` with `stride` tokens per block. Padding channels must
/// be 0 and stay 0.
pub(super) struct NormTokens<'a> {
    pub(super) norm: &'a NormLines,
    pub(super) tokens: &'a mut [CacheLine],
    pub(super) stride: usize,
    pub(super) count: usize,
}

impl WithSimd for NormTokens<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let NormLines { gain, bias, width, epsilon } = self.norm;
        let blocks = gain.len();
        for token in 0..self.count {
            let mut sum = splat::<S>(0.0);
            for block in 0..blocks {
                let from = &self.tokens[block * self.stride + token];
                for lane in (0..LINE).step_by(lanes::<S>()) {
                    sum += load::<S>(&from.0[lane..]);
                }
            }
            let mean = (total::<S>(sum) / *width as f64) as f32;
            let mut squares = splat::<S>(0.0);
            for block in 0..blocks {
                let line = &mut self.tokens[block * self.stride + token];
                for lane in (0..LINE).step_by(lanes::<S>()) {
                    let from = load::<S>(&line.0[lane..]) - splat::<S>(mean);
                    store::<S>(from, &mut line.0[lane..]);
                }
                // Padding channels must not contribute to the variance.
                line.0[(*width - block * LINE).min(LINE)..].fill(0.0);
                for lane in (0..LINE).step_by(lanes::<S>()) {
                    let from = load::<S>(&line.0[lane..]);
                    squares = from.mul_add(from, squares);
                }
            }
            let scale = splat::<S>((1.0 / (total::<S>(squares) / *width as f64 + epsilon).sqrt()) as f32);
            for block in 0..blocks {
                let line = &mut self.tokens[block * self.stride + token];
                for lane in (0..LINE).step_by(lanes::<S>()) {
                    let [gain, bias] = [load::<S>(&gain[block].0[lane..]), load::<S>(&bias[block].0[lane..])];
                    let from = load::<S>(&line.0[lane..]) * scale;
                    store::<S>(from.mul_add(gain, bias), &mut line.0[lane..]);
                }
            }
        }
    }
}

/// Applies the exact GELU in place.
pub(super) struct GeluLines<'a>(pub(super) &'a mut [CacheLine]);

impl WithSimd for GeluLines<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        for line in self.0 {
            for lane in 0..LINE {
                line.0[lane] *= normal::<S>(line.0[lane]).0;
            }
        }
    }
}

/// Copies row-major tokens `[count, width]` to lines with `stride` tokens per block.
pub(super) fn to_lines(rows: &[f32], width: usize, to: &mut [CacheLine], stride: usize) {
    for (token, row) in rows.chunks_exact(width).enumerate() {
        for (block, numbers) in row.chunks(LINE).enumerate() {
            CacheLine::fill(std::slice::from_mut(&mut to[block * stride + token]), numbers);
        }
    }
}

/// Combines the tokens `first..first + count` to one row, which is written to `to`.
pub(super) fn pool(
    tokens: &[CacheLine],
    stride: usize,
    [first, count]: [usize; 2],
    pooling: RowPooling,
    to: &mut [f32],
) {
    for (block, to) in to.chunks_mut(LINE).enumerate() {
        let tokens = &tokens[block * stride + first..][..count];
        let mut pooled = tokens[0].0;
        for token in tokens.iter().skip(1) {
            match pooling {
                RowPooling::First => break,
                RowPooling::Mean => pooled.iter_mut().zip(&token.0).for_each(|(sum, x)| *sum += x),
                RowPooling::Max => {
                    pooled.iter_mut().zip(&token.0).for_each(|(most, x)| *most = if *x > *most { *x } else { *most });
                }
            }
        }
        let scale = if pooling == RowPooling::Mean { 1.0 / count as f32 } else { 1.0 };
        to.iter_mut().zip(pooled).for_each(|(to, x)| *to = x * scale);
    }
}
