//! The stem: a dense convolution of stride 2 on the pixels, computed as a matrix product of gathered taps.

use macerator::AutoArch;

use super::FoldedConv;
use super::weights::gathered;
use crate::lanes::{CacheLine, LINE, lines};
use crate::pointwise::{BlockGroup, Pointwise, PointwiseStart, PointwiseWeights};

/// The stride of the stem.
pub(super) const STEM_STRIDE: usize = 2;

/// The weights of the stem.
///
/// A run is the taps of one row of the kernel in one channel. A run never crosses the end of a [`CacheLine`], so that
/// one copy moves it. The unused lanes at the end of a line have the weight 0.
#[derive(Clone, Debug)]
pub(super) struct Stem {
    weights: PointwiseWeights,
    pub(super) channels: usize,
    pub(super) kernel: usize,
}

/// An image and the stem that reads it.
pub(super) struct StemImage<'a> {
    pub(super) stem: &'a Stem,
    /// `[channels, side, side]`
    pub(super) pixels: &'a [f32],
    pub(super) side: usize,
    /// Zeros before the first row and column.
    pub(super) before: usize,
}

/// Buffers of the stem.
#[derive(Debug, Default)]
pub(super) struct StemScratch {
    /// Gathered taps of one row of pixels: `[block, pixel]`. Unused lanes are never written and stay 0.
    taps: Vec<CacheLine>,
    /// A row of the image with the zeros on both sides.
    padded: Vec<f32>,
}

impl Stem {
    /// # Panics
    /// Panics if the kernel has more than 16 columns.
    pub(super) fn new(conv: &FoldedConv) -> Self {
        let (channels, kernel) = (conv.inputs, conv.kernel);
        assert!(kernel <= LINE, "stem: found a kernel of {kernel} columns, expected at most {LINE}");
        let runs = channels * kernel;
        let inputs = run_start(runs - 1, kernel) + kernel;
        let weights = gathered(conv, inputs, |output, input| {
            let (run, column) = (input / LINE * (LINE / kernel) + input % LINE / kernel, input % LINE % kernel);
            let used = input % LINE < LINE / kernel * kernel;
            if used { conv.weight[(output * runs + run) * kernel + column] } else { 0.0 }
        });
        Self { weights, channels, kernel }
    }

    pub(super) fn blocks(&self) -> usize {
        self.weights.blocks()
    }

    pub(super) fn groups(&self) -> &[BlockGroup] {
        &self.weights.groups
    }
}

/// Index of the first gathered tap of a run.
fn run_start(run: usize, kernel: usize) -> usize {
    let runs = LINE / kernel;
    run / runs * LINE + run % runs * kernel
}

impl StemImage<'_> {
    /// Computes rows `first..end` of `side` pixels for some groups of output channels. Pixel `i` is written to
    /// `positions[i]` of each block of `to`.
    pub(super) fn run(
        &self,
        [first, end, side]: [usize; 3],
        groups: &[BlockGroup],
        to: &mut [CacheLine],
        to_stride: usize,
        positions: &[u32],
        scratch: &mut StemScratch,
    ) {
        let (kernel, inputs) = (self.stem.kernel, self.stem.weights.inputs);
        let StemScratch { taps, padded } = scratch;
        let taps = lines(taps, inputs.div_ceil(LINE) * side);
        padded.clear();
        padded.resize(((side - 1) * STEM_STRIDE + kernel).max(self.before + self.side), 0.0);
        for (row, positions) in (first..end).zip(positions.chunks_exact(side)) {
            for (channel, plane) in self.pixels.chunks_exact(self.side * self.side).enumerate() {
                for kernel_row in 0..kernel {
                    let y = (row * STEM_STRIDE + kernel_row).wrapping_sub(self.before);
                    let inside = &mut padded[self.before..][..self.side];
                    if y < self.side {
                        inside.copy_from_slice(&plane[y * self.side..][..self.side]);
                    } else {
                        inside.fill(0.0);
                    }
                    let start = run_start(channel * kernel + kernel_row, kernel);
                    gather(padded, kernel, &mut taps[start / LINE * side..][..side], start % LINE);
                }
            }
            AutoArch::new().dispatch(Pointwise {
                weights: &self.stem.weights,
                input: 0,
                inputs,
                from: taps,
                from_stride: side,
                groups,
                to,
                to_stride,
                positions,
                start: PointwiseStart::BiasBeforeRelu6,
            });
        }
    }
}

/// Copies a run of taps of every pixel of a row, from lane `lane` on.
fn gather(row: &[f32], kernel: usize, taps: &mut [CacheLine], lane: usize) {
    match kernel {
        3 => copy_runs::<3>(row, taps, lane),
        5 => copy_runs::<5>(row, taps, lane),
        7 => copy_runs::<7>(row, taps, lane),
        _ => (0..kernel).for_each(|column| copy_runs::<1>(&row[column..], taps, lane + column)),
    }
}

fn copy_runs<const K: usize>(row: &[f32], taps: &mut [CacheLine], lane: usize) {
    for (column, line) in taps.iter_mut().enumerate() {
        line.0[lane..][..K].copy_from_slice(&row[column * STEM_STRIDE..][..K]);
    }
}
