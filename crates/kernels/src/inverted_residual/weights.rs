//! Weights in the layout that the loops read: lines of 16 output channels.

use super::FoldedConv;
use crate::lanes::{CacheLine, LINE};

/// A dense convolution over `inputs` numbers per pixel: a 1x1 convolution, or a larger one over gathered taps.
#[derive(Clone, Debug)]
pub(super) struct PointwiseWeights {
    pub(super) inputs: usize,
    /// Output channels without padding.
    pub(super) outputs: usize,
    /// One line per block of output channels.
    pub(super) bias: Vec<CacheLine>,
    /// The groups one after the other, each of shape `[inputs, width]` in lines.
    lines: Vec<CacheLine>,
    pub(super) groups: Vec<BlockGroup>,
}

/// Adjacent blocks of output channels that share each loaded input number.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockGroup {
    /// The first block.
    pub(super) first: usize,
    /// Number of blocks: 1, 2 or 3.
    pub(super) width: usize,
}

impl PointwiseWeights {
    /// A 1x1 convolution.
    pub(super) fn new(conv: &FoldedConv) -> Self {
        Self::with_inputs(conv, conv.inputs, |output, input| conv.weight[output * conv.inputs + input])
    }

    /// A convolution over `inputs` numbers per pixel, with `number(output, input)` as its weight.
    pub(super) fn with_inputs(conv: &FoldedConv, inputs: usize, number: impl Fn(usize, usize) -> f32) -> Self {
        let outputs = conv.outputs;
        let groups = groups(outputs.div_ceil(LINE));
        let mut lines = Vec::with_capacity(outputs.div_ceil(LINE) * inputs);
        for group in &groups {
            for input in 0..inputs {
                for block in group.first..group.first + group.width {
                    lines.push(line(block, outputs, |output| number(output, input)));
                }
            }
        }
        Self { inputs, outputs, bias: bias_lines(conv), lines, groups }
    }

    /// Blocks of output channels.
    pub(super) fn blocks(&self) -> usize {
        self.bias.len()
    }

    /// The lines of a group for the input channels from `input` on: `[inputs - input, width]`.
    #[inline(always)]
    pub(super) fn group_lines(&self, group: BlockGroup, input: usize) -> &[CacheLine] {
        &self.lines[group.first * self.inputs..][..group.width * self.inputs][input * group.width..]
    }
}

/// A depthwise convolution.
#[derive(Clone, Debug)]
pub(super) struct DepthwiseWeights {
    pub(super) kernel: usize,
    pub(super) bias: Vec<CacheLine>,
    /// Shape `[blocks, kernel, kernel]` in lines.
    pub(super) lines: Vec<CacheLine>,
}

impl DepthwiseWeights {
    pub(super) fn new(conv: &FoldedConv) -> Self {
        let taps = conv.kernel * conv.kernel;
        let blocks = 0..conv.outputs.div_ceil(LINE);
        let lines = blocks.flat_map(|block| {
            (0..taps).map(move |tap| line(block, conv.outputs, |channel| conv.weight[channel * taps + tap]))
        });
        Self { kernel: conv.kernel, bias: bias_lines(conv), lines: lines.collect() }
    }

    /// Blocks of channels.
    pub(super) fn blocks(&self) -> usize {
        self.bias.len()
    }
}

/// Splits the blocks into pairs. An odd number of blocks has one triple, because a single block would need one load per
/// multiplication.
fn groups(blocks: usize) -> Vec<BlockGroup> {
    let mut groups = Vec::new();
    let mut first = 0;
    while first < blocks {
        let width = match blocks - first {
            1 => 1,
            3 => 3,
            _ => 2,
        };
        groups.push(BlockGroup { first, width });
        first += width;
    }
    groups
}

/// Sixteen numbers of the output channels of a block; 0 where there is no such channel.
fn line(block: usize, outputs: usize, number: impl Fn(usize) -> f32) -> CacheLine {
    let mut line = CacheLine::ZERO;
    for (lane, output) in (block * LINE..outputs.min((block + 1) * LINE)).enumerate() {
        line.0[lane] = number(output);
    }
    line
}

fn bias_lines(conv: &FoldedConv) -> Vec<CacheLine> {
    (0..conv.outputs.div_ceil(LINE)).map(|block| line(block, conv.outputs, |output| conv.bias[output])).collect()
}
