//! A matrix product whose operands are lines of 16 channels, for inference: the dense convolution of pixels and the
//! affine maps of tokens. In the following, a pixel is a row of the left operand.
//!
//! Every number of the result is a sum over the input channels in order. It depends neither on the other pixels nor on
//! the number of threads.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over registers use closures, which are compiled for the baseline instruction set"
)]

mod weights;

use macerator::{Simd, WithSimd};

use crate::lanes::{CacheLine, LINE, Register, lanes, load, splat, store};
pub(crate) use weights::{BlockGroup, PointwiseWeights, line};

/// Repeats statements for `r` from 0 to `R - 1`. LLVM does not unroll loops with such large bodies, and registers
/// cannot be indexed by a variable.
macro_rules! for_each_row {
    ($r:ident < $R:ident $body:block) => {
        for_each_row!(@ $r $R $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $r:ident $R:ident $body:block $($number:literal)*) => {{
        $(if $number < $R {
            let $r = $number;
            $body
        })*
    }};
}

/// The initial values of the sums, to which the products are added.
#[derive(Clone, Copy)]
pub(crate) enum PointwiseStart<'a> {
    /// The bias. ReLU6 is applied to the sum.
    BiasBeforeRelu6,
    /// The bias.
    Bias,
    /// The bias plus these numbers, in the layout of the result.
    BiasAndResidual(&'a [CacheLine]),
    /// The current values of the result.
    Result,
}

/// Computes `to = start + from W` for some groups of output channels and a block-aligned range of input channels.
pub(crate) struct Pointwise<'a> {
    pub(crate) weights: &'a PointwiseWeights,
    /// The first input channel to use, which is the first channel of `from`.
    pub(crate) input: usize,
    /// Number of input channels to use.
    pub(crate) inputs: usize,
    /// Input channels in blocks of 16: `[block, pixel]` with `from_stride` pixels per block.
    pub(crate) from: &'a [CacheLine],
    pub(crate) from_stride: usize,
    pub(crate) groups: &'a [BlockGroup],
    /// Output channels in blocks of 16, `to_stride` lines apart. The first belongs to the first group.
    pub(crate) to: &'a mut [CacheLine],
    pub(crate) to_stride: usize,
    /// For every pixel, its line in a block of the result.
    pub(crate) positions: &'a [u32],
    pub(crate) start: PointwiseStart<'a>,
}

impl WithSimd for Pointwise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        let groups = self.groups;
        for &group in groups {
            match group.width {
                1 => self.group::<S, 1>(group),
                2 => self.group::<S, 2>(group),
                _ => self.group::<S, 3>(group),
            }
        }
    }
}

impl Pointwise<'_> {
    #[inline(always)]
    fn group<S: Simd, const C: usize>(&mut self, group: BlockGroup) {
        let count = self.positions.len();
        let mut pixel = 0;
        while pixel < count {
            let left = count - pixel;
            // The large tiles need 32 registers, which only the machines with 16 lanes are known to have.
            pixel += if lanes::<S>() == LINE && C < 3 && left >= 14 {
                self.tile::<S, C, 14>(group, pixel)
            } else if lanes::<S>() == LINE && C == 3 && left >= 9 {
                self.tile::<S, C, 9>(group, pixel)
            } else if left >= 4 {
                self.tile::<S, C, 4>(group, pixel)
            } else {
                self.tile::<S, C, 1>(group, pixel)
            };
        }
    }

    /// Computes `R` pixels of `C` blocks and returns `R`. Every number is the sum over the input channels in order, so
    /// it does not depend on `R`.
    #[inline(always)]
    fn tile<S: Simd, const C: usize, const R: usize>(&mut self, group: BlockGroup, pixel: usize) -> usize {
        let (weights, _) = self.weights.group_lines(group, self.input).as_chunks::<C>();
        let bias = &self.weights.bias[group.first..][..C];
        let first = (group.first - self.groups[0].first) * self.to_stride;
        let positions = &self.positions[pixel..][..R];
        for lane in (0..LINE).step_by(lanes::<S>()) {
            let mut line = [splat::<S>(0.0); C];
            for c in 0..C {
                line[c] = load::<S>(&bias[c].0[lane..]);
            }
            let mut sum = [line; R];
            match self.start {
                PointwiseStart::Bias | PointwiseStart::BiasBeforeRelu6 => {}
                PointwiseStart::BiasAndResidual(residual) => for_each_row!(r < R {
                    for c in 0..C {
                        let i = first + c * self.to_stride + positions[r] as usize;
                        sum[r][c] = line[c] + load::<S>(&residual[i].0[lane..]);
                    }
                }),
                PointwiseStart::Result => for_each_row!(r < R {
                    for c in 0..C {
                        let i = first + c * self.to_stride + positions[r] as usize;
                        sum[r][c] = load::<S>(&self.to[i].0[lane..]);
                    }
                }),
            }
            for (block, weights) in weights[..self.inputs].chunks(LINE).enumerate() {
                let from = &self.from[block * self.from_stride + pixel..][..R];
                for k in 0..weights.len().min(LINE) {
                    let mut weight = [splat::<S>(0.0); C];
                    for c in 0..C {
                        weight[c] = load::<S>(&weights[k][c].0[lane..]);
                    }
                    for_each_row!(r < R {
                        let x = splat::<S>(from[r].0[k]);
                        for c in 0..C {
                            sum[r][c] = x.mul_add(weight[c], sum[r][c]);
                        }
                    });
                }
            }
            if matches!(self.start, PointwiseStart::BiasBeforeRelu6) {
                for_each_row!(r < R {
                    for c in 0..C {
                        sum[r][c] = relu6::<S>(sum[r][c]);
                    }
                });
            }
            for_each_row!(r < R {
                for c in 0..C {
                    let to = first + c * self.to_stride + positions[r] as usize;
                    store::<S>(sum[r][c], &mut self.to[to].0[lane..]);
                }
            });
        }
        R
    }
}

/// `min(max(x, 0), 6)`. NaN stays NaN: with a NaN operand, the x86 instructions return the second operand, and the
/// ARM instructions return NaN.
#[inline(always)]
pub(crate) fn relu6<S: Simd>(x: Register<S>) -> Register<S> {
    splat::<S>(6.0).min(splat::<S>(0.0).max(x))
}
