//! Layer normalisation on the CPU, row by row.

use burn::backend::{Flex, TensorMetadata};
use macerator::{AutoArch, Simd, WithSimd};

use super::LayerNormOps;
use crate::arrays::{FlexArray, array, dense, into_numbers, numbers, total};
use crate::functions::{LANES, fma, sum};
use crate::raw::{in_pool, new_rows};

impl LayerNormOps for Flex {
    fn fused_layer_norm(x: FlexArray, gain: FlexArray, bias: FlexArray, epsilon: f64) -> FlexArray {
        forward(&dense(&x), &dense(&gain), &bias, epsilon).0
    }
}

/// The result, and the mean and the reciprocal of the standard deviation of each row. `x` and `gain` must be
/// contiguous.
pub(super) fn forward(x: &FlexArray, gain: &FlexArray, bias: &FlexArray, epsilon: f64) -> (FlexArray, Vec<[f32; 2]>) {
    let (shape, bias) = (x.shape(), dense(bias));
    let (from, gain, bias, width) = (numbers(x), numbers(gain), numbers(&bias), shape[1]);
    let (out, moments) = in_pool(|| {
        new_rows(shape[0], width, |rows, to| {
            let from = &from[rows.start * width..rows.end * width];
            AutoArch::new().dispatch(LayerNormForward { from, to, gain, bias, epsilon: epsilon as f32 })
        })
    });
    (array(out, shape.as_slice()), moments.into_iter().flatten().collect())
}

pub(super) fn backward(x: &FlexArray, gain: &FlexArray, moments: &[[f32; 2]], gradient: FlexArray) -> [FlexArray; 3] {
    let (shape, upstream) = (x.shape(), into_numbers(gradient));
    let (from, gain, width) = (numbers(x), numbers(gain), shape[1]);
    let (out, sums) = in_pool(|| {
        new_rows(shape[0], width, |rows, to| {
            let range = rows.start * width..rows.end * width;
            let mut sums = [vec![0.0; width], vec![0.0; width]];
            let [gain_sum, bias_sum] = &mut sums;
            let (from, upstream) = (&from[range.clone()], &upstream[range]);
            AutoArch::new().dispatch(LayerNormBackward {
                from,
                to,
                gain,
                moments: &moments[rows],
                upstream,
                gain_sum,
                bias_sum,
            });
            sums
        })
    });
    let (gains, biases): (Vec<_>, Vec<_>) = sums.into_iter().map(|[gain, bias]| (gain, bias)).unzip();
    let vector = |sums: Vec<Vec<f32>>| array(total(sums, width), &[width]);
    [array(out, shape.as_slice()), vector(gains), vector(biases)]
}

struct LayerNormForward<'a> {
    from: &'a [f32],
    to: &'a mut [f32],
    gain: &'a [f32],
    bias: &'a [f32],
    epsilon: f32,
}

impl WithSimd for LayerNormForward<'_> {
    type Output = Vec<[f32; 2]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> Self::Output {
        let width = self.gain.len();
        let mut moments = Vec::with_capacity(self.from.len().checked_div(width).unwrap_or(0));
        for (from, to) in self.from.chunks_exact(width.max(1)).zip(self.to.chunks_exact_mut(width.max(1))) {
            let mean = sum_of::<S>(from, 0.0).0 / width as f32;
            let variance = sum_of::<S>(from, mean).1 / width as f32;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            let (chunks, rest) = from.as_chunks::<LANES>();
            let (to_chunks, to_rest) = to.as_chunks_mut::<LANES>();
            let (gains, gain_rest) = self.gain.as_chunks::<LANES>();
            let (biases, bias_rest) = self.bias.as_chunks::<LANES>();
            for (((x, to), gain), bias) in chunks.iter().zip(to_chunks).zip(gains).zip(biases) {
                for lane in 0..LANES {
                    to[lane] = fma::<S>((x[lane] - mean) * scale, gain[lane], bias[lane]);
                }
            }
            for (((x, to), gain), bias) in rest.iter().zip(to_rest).zip(gain_rest).zip(bias_rest) {
                *to = fma::<S>((x - mean) * scale, *gain, *bias);
            }
            moments.push([mean, scale]);
        }
        moments
    }
}

/// `sum (x - mean)` and `sum (x - mean)^2`.
#[inline(always)]
fn sum_of<S: Simd>(x: &[f32], mean: f32) -> (f32, f32) {
    let (mut plain, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (chunks, rest) = x.as_chunks::<LANES>();
    for x in chunks {
        for lane in 0..LANES {
            let d = x[lane] - mean;
            plain[lane] += d;
            squares[lane] = fma::<S>(d, d, squares[lane]);
        }
    }
    for (lane, x) in rest.iter().enumerate() {
        let d = x - mean;
        plain[lane] += d;
        squares[lane] = fma::<S>(d, d, squares[lane]);
    }
    (sum(&plain), sum(&squares))
}

/// With `scale` the reciprocal of the standard deviation, `y = (x - mean) scale` and `g = gradient gain`, the gradient
/// of `x` is `scale (g - mean(g) - y mean(g y))`.
struct LayerNormBackward<'a> {
    from: &'a [f32],
    to: &'a mut [f32],
    gain: &'a [f32],
    moments: &'a [[f32; 2]],
    upstream: &'a [f32],
    gain_sum: &'a mut [f32],
    bias_sum: &'a mut [f32],
}

impl WithSimd for LayerNormBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let width = self.gain.len();
        let (gains, gain_rest) = self.gain.as_chunks::<LANES>();
        let (gain_sums, gain_sum_rest) = self.gain_sum.as_chunks_mut::<LANES>();
        let (bias_sums, bias_sum_rest) = self.bias_sum.as_chunks_mut::<LANES>();
        let rows = self.from.chunks_exact(width.max(1)).zip(self.upstream.chunks_exact(width.max(1)));
        for (((x, upstream), to), &[mean, scale]) in rows.zip(self.to.chunks_exact_mut(width.max(1))).zip(self.moments)
        {
            let (xs, x_rest) = x.as_chunks::<LANES>();
            let (upstreams, upstream_rest) = upstream.as_chunks::<LANES>();
            let (mut g_sum, mut gy_sum) = ([0.0; LANES], [0.0; LANES]);
            for i in 0..xs.len() {
                for lane in 0..LANES {
                    let y = (xs[i][lane] - mean) * scale;
                    let g = upstreams[i][lane] * gains[i][lane];
                    g_sum[lane] += g;
                    gy_sum[lane] = fma::<S>(g, y, gy_sum[lane]);
                    gain_sums[i][lane] = fma::<S>(upstreams[i][lane], y, gain_sums[i][lane]);
                    bias_sums[i][lane] += upstreams[i][lane];
                }
            }
            for i in 0..x_rest.len() {
                let y = (x_rest[i] - mean) * scale;
                let g = upstream_rest[i] * gain_rest[i];
                g_sum[i] += g;
                gy_sum[i] = fma::<S>(g, y, gy_sum[i]);
                gain_sum_rest[i] = fma::<S>(upstream_rest[i], y, gain_sum_rest[i]);
                bias_sum_rest[i] += upstream_rest[i];
            }
            let (g_mean, gy_mean) = (sum(&g_sum) / width as f32, sum(&gy_sum) / width as f32);
            let (tos, to_rest) = to.as_chunks_mut::<LANES>();
            for i in 0..xs.len() {
                for lane in 0..LANES {
                    let y = (xs[i][lane] - mean) * scale;
                    let g = upstreams[i][lane] * gains[i][lane];
                    tos[i][lane] = scale * fma::<S>(-y, gy_mean, g - g_mean);
                }
            }
            for i in 0..x_rest.len() {
                let y = (x_rest[i] - mean) * scale;
                let g = upstream_rest[i] * gain_rest[i];
                to_rest[i] = scale * fma::<S>(-y, gy_mean, g - g_mean);
            }
        }
    }
}
