//! The depthwise convolution with ReLU6: every channel is filtered separately.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over registers use closures, which are compiled for the baseline instruction set"
)]

use std::ops::Range;

use macerator::{Simd, WithSimd};

use super::geometry::{RowWindow, StageGeometry};
use super::weights::DepthwiseWeights;
use crate::lanes::{CacheLine, LINE, lanes, load, store};
use crate::pointwise::relu6;

/// Output pixels of a row that are computed at once. The feature maps of EfficientNet-Lite0 have sides that are
/// multiples of 7.
const TILE: usize = 7;

/// Filters some rows of some blocks of 16 channels.
pub(super) struct Depthwise<'a> {
    pub(super) geometry: &'a StageGeometry,
    pub(super) weights: &'a DepthwiseWeights,
    pub(super) images: usize,
    /// Blocks of channels.
    pub(super) blocks: Range<usize>,
    /// Output rows.
    pub(super) rows: Range<usize>,
    /// The buffered input rows of these blocks: `[block, image, slot, padded column]`.
    pub(super) from: &'a [CacheLine],
    /// `[block, image, row, column]`.
    pub(super) to: &'a mut [CacheLine],
}

impl WithSimd for Depthwise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self) {
        // The literals become constants of the inlined loops.
        match (self.weights.kernel, self.geometry.stride) {
            (3, 1) => self.filter::<S, TILE>(3, 1),
            (3, 2) => self.filter::<S, TILE>(3, 2),
            (5, 1) => self.filter::<S, TILE>(5, 1),
            (5, 2) => self.filter::<S, TILE>(5, 2),
            (kernel, stride) => self.filter::<S, 1>(kernel, stride),
        }
    }
}

impl Depthwise<'_> {
    /// Filters in tiles of `T` pixels.
    #[inline(always)]
    fn filter<S: Simd, const T: usize>(&mut self, kernel: usize, stride: usize) {
        let (geometry, width) = (self.geometry, self.geometry.output);
        let mut to = 0;
        for block in self.blocks.clone() {
            for image in 0..self.images {
                let plane = (block - self.blocks.start) * self.images + image;
                for row in self.rows.clone() {
                    let window = geometry.window(row, plane, kernel);
                    if width < T {
                        for column in 0..width {
                            self.tile::<S, 1>([kernel, stride], block, &window, column, to + column);
                        }
                    } else {
                        for column in (0..width).step_by(T) {
                            // The last tile is moved to the left, so that some of its pixels are computed twice.
                            let column = column.min(width - T);
                            self.tile::<S, T>([kernel, stride], block, &window, column, to + column);
                        }
                    }
                    to += width;
                }
            }
        }
    }

    /// Computes `T` output pixels from `column` on and writes them at `to`.
    #[inline(always)]
    fn tile<S: Simd, const T: usize>(
        &mut self,
        [kernel, stride]: [usize; 2],
        block: usize,
        window: &RowWindow,
        column: usize,
        to: usize,
    ) {
        let bias = &self.weights.bias[block];
        let weights = &self.weights.lines[block * kernel * kernel..][..kernel * kernel];
        let to = &mut self.to[to..][..T];
        for lane in (0..LINE).step_by(lanes::<S>()) {
            let mut sum = [load::<S>(&bias.0[lane..]); T];
            let mut slot = window.slot;
            for tap_row in window.taps.clone() {
                let from =
                    &self.from[window.start + slot * window.padded + column * stride..][..(T - 1) * stride + kernel];
                let weights = &weights[tap_row * kernel..][..kernel];
                for tap in 0..kernel {
                    let weight = load::<S>(&weights[tap].0[lane..]);
                    for t in 0..T {
                        sum[t] = load::<S>(&from[t * stride + tap].0[lane..]).mul_add(weight, sum[t]);
                    }
                }
                slot = if slot + 1 == window.slots { 0 } else { slot + 1 };
            }
            for t in 0..T {
                store::<S>(relu6::<S>(sum[t]), &mut to[t].0[lane..]);
            }
        }
    }
}
