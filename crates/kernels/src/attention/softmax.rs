//! Row-wise passes over the score table of a head, between its matrix products.
//!
//! Rows are padded to a multiple of [`LANES`]; the padding counts as masked keys.

use macerator::{Simd, WithSimd};

use crate::functions::{LANES, exp, fma, sum};

/// Replaces scores by `exp(score - largest)`. Writes the largest score and the reciprocal of the sum of each row to
/// `rows`.
pub(super) struct SoftmaxForward<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) keys: usize,
    /// True if keys with a higher index than the query are masked.
    pub(super) causal: bool,
    /// Keys that are masked for all queries.
    pub(super) hidden: Option<&'a [bool]>,
    pub(super) rows: &'a mut [[f32; 2]],
}

impl WithSimd for SoftmaxForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let width = self.keys.next_multiple_of(LANES);
        for (query, (scores, row)) in self.scores.chunks_exact_mut(width).zip(self.rows).enumerate() {
            hide(scores, query, self.keys, self.causal, self.hidden);
            let (chunks, _) = scores.as_chunks_mut::<LANES>();
            let mut most = [f32::NEG_INFINITY; LANES];
            for chunk in chunks.iter() {
                for lane in 0..LANES {
                    most[lane] = if chunk[lane] > most[lane] { chunk[lane] } else { most[lane] };
                }
            }
            let most = most.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            let mut sums = [0.0; LANES];
            for chunk in chunks {
                for lane in 0..LANES {
                    chunk[lane] = exp::<S>(chunk[lane] - most);
                    sums[lane] += chunk[lane];
                }
            }
            *row = [most, 1.0 / sum(&sums)];
        }
    }
}

/// Multiplies every row of the panel by the reciprocal of its sum, the second number of its `rows` entry.
pub(super) struct ScaleRows<'a, 'b> {
    pub(super) panel: &'a mut crate::raw::Panel<'b>,
    pub(super) rows: &'a [[f32; 2]],
}

impl WithSimd for ScaleRows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        for (query, [_, scale]) in self.rows.iter().enumerate() {
            self.panel.row(query).iter_mut().for_each(|x| *x *= scale);
        }
    }
}

/// Replaces scores by probabilities `p`, and their gradient `g` by the gradient of the unscaled scores, `scale p (g -
/// sum p g)`.
pub(super) struct SoftmaxBackward<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) gradient: &'a mut [f32],
    pub(super) keys: usize,
    pub(super) causal: bool,
    pub(super) hidden: Option<&'a [bool]>,
    pub(super) rows: &'a [[f32; 2]],
    pub(super) scale: f32,
}

impl WithSimd for SoftmaxBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let width = self.keys.next_multiple_of(LANES);
        let rows = self.scores.chunks_exact_mut(width).zip(self.gradient.chunks_exact_mut(width)).zip(self.rows);
        for (query, ((scores, gradient), &[most, scale])) in rows.enumerate() {
            hide(scores, query, self.keys, self.causal, self.hidden);
            gradient[self.keys..].fill(0.0);
            let (scores, _) = scores.as_chunks_mut::<LANES>();
            let (gradient, _) = gradient.as_chunks_mut::<LANES>();
            let mut sums = [0.0; LANES];
            for (p, g) in scores.iter_mut().zip(gradient.iter()) {
                for lane in 0..LANES {
                    p[lane] = exp::<S>(p[lane] - most) * scale;
                    sums[lane] = fma::<S>(p[lane], g[lane], sums[lane]);
                }
            }
            let mean = sum(&sums);
            for (p, g) in scores.iter().zip(gradient) {
                for lane in 0..LANES {
                    g[lane] = self.scale * p[lane] * (g[lane] - mean);
                }
            }
        }
    }
}

/// Sets the scores of masked keys to minus infinity.
#[inline(always)]
fn hide(scores: &mut [f32], query: usize, keys: usize, causal: bool, hidden: Option<&[bool]>) {
    let visible = if causal { keys.min(query + 1) } else { keys };
    scores[visible..].fill(f32::NEG_INFINITY);
    if let Some(hidden) = hidden {
        for (score, &hidden) in scores.iter_mut().zip(hidden) {
            *score = if hidden { f32::NEG_INFINITY } else { *score };
        }
    }
}
