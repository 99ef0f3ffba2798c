//! The weights of convolutions as lines of 16 output channels.

use super::FoldedConv;
use crate::lanes::{CacheLine, LINE};
use crate::pointwise::{PointwiseWeights, line};

/// A 1x1 convolution.
pub(super) fn pointwise(conv: &FoldedConv) -> PointwiseWeights {
    gathered(conv, conv.inputs, |output, input| conv.weight[output * conv.inputs + input])
}

/// A convolution over `inputs` gathered numbers per pixel, with `number(output, input)` as its weight.
pub(super) fn gathered(conv: &FoldedConv, inputs: usize, number: impl Fn(usize, usize) -> f32) -> PointwiseWeights {
    PointwiseWeights::new([inputs, conv.outputs], number, |output| conv.bias[output])
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

fn bias_lines(conv: &FoldedConv) -> Vec<CacheLine> {
    (0..conv.outputs.div_ceil(LINE)).map(|block| line(block, conv.outputs, |output| conv.bias[output])).collect()
}
