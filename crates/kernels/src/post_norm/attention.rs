//! Attention of one head of one text, on lines of 16 channels.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over registers use closures, which are compiled for the baseline instruction set"
)]

use macerator::{Simd, WithSimd};

use crate::lanes::{CacheLine, LINE, exp, lanes, lines, load, splat, store, total};

/// Buffers of [`HeadAttention`].
#[derive(Debug, Default)]
pub(super) struct HeadScratch {
    /// The keys as `[channel, key / 16, 16]`.
    keys: Vec<CacheLine>,
    /// Scores, then exponentials, of [`QUERIES`] queries: `[query, key / 16, 16]`.
    scores: Vec<CacheLine>,
}

/// Queries that are computed together. Each query has its own sums, so that the dependent additions of several
/// queries overlap.
const QUERIES: usize = 4;

/// Computes `softmax(scale Q K^T) V`. All operands have `stride` lines per block of channels.
pub(super) struct HeadAttention<'a> {
    pub(super) query: &'a [CacheLine],
    pub(super) key: &'a [CacheLine],
    pub(super) value: &'a [CacheLine],
    pub(super) to: &'a mut [CacheLine],
    pub(super) stride: usize,
    /// Blocks of 16 channels of the head.
    pub(super) blocks: usize,
    /// Tokens of the text.
    pub(super) count: usize,
    pub(super) scale: f32,
    pub(super) scratch: &'a mut HeadScratch,
}

impl WithSimd for HeadAttention<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let key_lines = self.count.div_ceil(LINE);
        let keys = lines(&mut self.scratch.keys, self.blocks * LINE * key_lines);
        for block in 0..self.blocks {
            for key in 0..self.count {
                let line = &self.key[block * self.stride + key];
                for channel in 0..LINE {
                    keys[(block * LINE + channel) * key_lines + key / LINE].0[key % LINE] = line.0[channel];
                }
            }
        }
        lines(&mut self.scratch.scores, QUERIES * key_lines);
        let mut query = 0;
        while query < self.count {
            query +=
                if self.count - query >= QUERIES { self.tile::<S, QUERIES>(query) } else { self.tile::<S, 1>(query) };
        }
    }
}

impl HeadAttention<'_> {
    /// Computes `R` queries and returns `R`. All sums are in order of the channels or keys.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(&mut self, query: usize) -> usize {
        let key_lines = self.count.div_ceil(LINE);
        let HeadScratch { keys, scores } = &mut *self.scratch;
        for key_line in 0..key_lines {
            for lane in (0..LINE).step_by(lanes::<S>()) {
                let mut sum = [splat::<S>(0.0); R];
                for block in 0..self.blocks {
                    let from = &self.query[block * self.stride + query..][..R];
                    for channel in 0..LINE {
                        let key = load::<S>(&keys[(block * LINE + channel) * key_lines + key_line].0[lane..]);
                        for r in 0..R {
                            sum[r] = splat::<S>(from[r].0[channel]).mul_add(key, sum[r]);
                        }
                    }
                }
                for r in 0..R {
                    store::<S>(sum[r] * splat::<S>(self.scale), &mut scores[r * key_lines + key_line].0[lane..]);
                }
            }
        }
        let mut factors = [0.0; R];
        for r in 0..R {
            let scores = &mut scores[r * key_lines..][..key_lines];
            // The lanes after the last key were not written, so their scores are unspecified.
            scores[key_lines - 1].0[(self.count - 1) % LINE + 1..].fill(f32::NEG_INFINITY);
            factors[r] = exponentials::<S>(scores);
        }
        for block in 0..self.blocks {
            for lane in (0..LINE).step_by(lanes::<S>()) {
                let mut sum = [splat::<S>(0.0); R];
                for key in 0..self.count {
                    let value = load::<S>(&self.value[block * self.stride + key].0[lane..]);
                    for r in 0..R {
                        let weight = scores[r * key_lines + key / LINE].0[key % LINE];
                        sum[r] = splat::<S>(weight).mul_add(value, sum[r]);
                    }
                }
                for r in 0..R {
                    let to = &mut self.to[block * self.stride + query + r];
                    store::<S>(sum[r] * splat::<S>(factors[r]), &mut to.0[lane..]);
                }
            }
        }
        R
    }
}

/// Replaces scores by `exp(score - largest)` and returns the reciprocal of their sum.
#[inline(always)]
fn exponentials<S: Simd>(scores: &mut [CacheLine]) -> f32 {
    let mut most = f32::NEG_INFINITY;
    for line in scores.iter() {
        for lane in 0..LINE {
            most = if line.0[lane] > most { line.0[lane] } else { most };
        }
    }
    let mut sum = splat::<S>(0.0);
    for line in scores {
        for lane in (0..LINE).step_by(lanes::<S>()) {
            let value = exp::<S>(load::<S>(&line.0[lane..]) - splat::<S>(most));
            store::<S>(value, &mut line.0[lane..]);
            sum += value;
        }
    }
    (1.0 / total::<S>(sum)) as f32
}
