//! Sizes of the feature maps, and how a stage is divided so that its intermediate results stay in the cache.

use std::ops::Range;

use super::ConvPadding;
use crate::lanes::CacheLine;

/// Bytes of intermediate results per thread: about a quarter of the L2 cache.
const BUDGET: usize = 512 << 10;
/// Minimum number of rows per strip, even if the buffers then exceed [`BUDGET`]. Shorter strips have fewer pixels
/// than a tile of the matrix product can use.
const ROWS: usize = 4;
/// Maximum number of images processed together in stages with small feature maps (side at most [`JOINT_SIDE`]). More
/// pixels then share each load of the weights.
pub(super) const MAX_IMAGES: usize = 4;
/// Largest side of a feature map for which images are computed together.
const JOINT_SIDE: usize = 20;

/// Sizes of a stage: a producer of rows, a depthwise convolution and a projection.
#[derive(Clone, Debug)]
pub(super) struct StageGeometry {
    /// Side of the input of the depthwise convolution.
    pub(super) input: usize,
    /// Side of the result of the depthwise convolution.
    pub(super) output: usize,
    pub(super) stride: usize,
    /// Zeros before the first row and the first column.
    pub(super) before: usize,
    /// Columns of a buffered row, with the zeros on both sides.
    pub(super) padded: usize,
    /// Output rows per strip.
    pub(super) rows: usize,
    /// Rows of the ring buffer: row `y` is in slot `y % slots`.
    pub(super) slots: usize,
    /// Number of expanded blocks of 16 channels that are computed together.
    pub(super) blocks: usize,
    /// Largest number of images that are computed together. If it is above 1, a strip has all rows.
    pub(super) images: usize,
}

/// The buffered input rows of an output row.
pub(super) struct RowWindow {
    /// Rows of the kernel that are inside of the image.
    pub(super) taps: Range<usize>,
    /// Slot of the buffer that holds the input row under the first of `taps`.
    pub(super) slot: usize,
    /// Index in the buffer at which the plane (one block of one image) starts.
    pub(super) start: usize,
    pub(super) padded: usize,
    pub(super) slots: usize,
}

/// The side of the result of a convolution with padding.
pub(super) fn output_side(input: usize, stride: usize) -> usize {
    input.div_ceil(stride)
}

/// The zeros before the first row.
pub(super) fn padding_before(padding: ConvPadding, input: usize, kernel: usize, stride: usize) -> usize {
    match padding {
        ConvPadding::Same => ((output_side(input, stride) - 1) * stride + kernel).saturating_sub(input) / 2,
        ConvPadding::Symmetric => (kernel - 1) / 2,
    }
}

impl StageGeometry {
    /// Chooses the strips of a stage with `expanded` blocks of channels.
    pub(super) fn new(padding: ConvPadding, input: usize, kernel: usize, stride: usize, expanded: usize) -> Self {
        let output = output_side(input, stride);
        let before = padding_before(padding, input, kernel, stride);
        let padded = ((output - 1) * stride + kernel).max(before + input);
        let images = if input <= JOINT_SIDE { MAX_IMAGES } else { 1 };
        let mut geometry =
            Self { input, output, stride, before, padded, rows: output, slots: input, blocks: expanded, images };
        let least = if images > 1 { output } else { ROWS.min(output) };
        geometry.set_rows(least, kernel);
        let block_bytes = geometry.buffer_bytes();
        geometry.blocks = (BUDGET / block_bytes).clamp(1, expanded);
        while geometry.rows < output {
            let previous = geometry.rows;
            geometry.set_rows(previous + 1, kernel);
            if geometry.buffer_bytes() * geometry.blocks > BUDGET {
                geometry.set_rows(previous, kernel);
                break;
            }
        }
        geometry
    }

    fn set_rows(&mut self, rows: usize, kernel: usize) {
        self.rows = rows;
        self.slots = ((rows - 1) * self.stride + kernel).min(self.input);
    }

    /// Bytes of intermediate results per block of channels.
    fn buffer_bytes(&self) -> usize {
        (self.ring_lines() + self.images * self.rows * self.output) * size_of::<CacheLine>()
    }

    /// Lines of the ring buffer per block of channels.
    pub(super) fn ring_lines(&self) -> usize {
        self.images * self.slots * self.padded
    }

    /// One past the last input row that the output rows before `row` need.
    pub(super) fn needed(&self, row: usize, kernel: usize) -> usize {
        ((row - 1) * self.stride + kernel).saturating_sub(self.before).min(self.input)
    }

    /// The input rows of output row `row` in plane `plane` of the buffer.
    #[inline(always)]
    pub(super) fn window(&self, row: usize, plane: usize, kernel: usize) -> RowWindow {
        let first = row * self.stride;
        let skipped = self.before.saturating_sub(first);
        let end = kernel.min((self.input + self.before).saturating_sub(first));
        RowWindow {
            taps: skipped..end,
            slot: (first + skipped - self.before) % self.slots,
            start: plane * self.slots * self.padded,
            padded: self.padded,
            slots: self.slots,
        }
    }
}
