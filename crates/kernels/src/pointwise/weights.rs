//! Weights of a matrix product in the layout that the loops read: lines of 16 output channels.

use crate::lanes::{CacheLine, LINE};

/// An affine map of `inputs` numbers per pixel.
#[derive(Clone, Debug)]
pub(crate) struct PointwiseWeights {
    pub(crate) inputs: usize,
    /// Output channels without padding.
    pub(crate) outputs: usize,
    /// One line per block of output channels.
    pub(crate) bias: Vec<CacheLine>,
    /// The groups one after the other, each of shape `[inputs, width]` in lines.
    lines: Vec<CacheLine>,
    pub(crate) groups: Vec<BlockGroup>,
}

/// Adjacent blocks of output channels that share each loaded input number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockGroup {
    /// The first block.
    pub(crate) first: usize,
    /// Number of blocks: 1, 2 or 3.
    pub(crate) width: usize,
}

impl PointwiseWeights {
    /// An affine map from `inputs` to `outputs` channels with `number(output, input)` as its weight and `bias(output)`
    /// as its bias.
    pub(crate) fn new(
        [inputs, outputs]: [usize; 2],
        number: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        let blocks = outputs.div_ceil(LINE);
        let groups = groups(blocks);
        let mut lines = Vec::with_capacity(blocks * inputs);
        for group in &groups {
            for input in 0..inputs {
                for block in group.first..group.first + group.width {
                    lines.push(line(block, outputs, |output| number(output, input)));
                }
            }
        }
        let bias = (0..blocks).map(|block| line(block, outputs, &bias)).collect();
        Self { inputs, outputs, bias, lines, groups }
    }

    /// Blocks of output channels.
    pub(crate) fn blocks(&self) -> usize {
        self.bias.len()
    }

    /// The lines of a group for the input channels from `input` on: `[inputs - input, width]`.
    #[inline(always)]
    pub(super) fn group_lines(&self, group: BlockGroup, input: usize) -> &[CacheLine] {
        &self.lines[group.first * self.inputs..][..group.width * self.inputs][input * group.width..]
    }
}

/// Splits the blocks into pairs. If the number of blocks is odd, one group has three, because a group of one block
/// loads a value for every multiplication. A single block is a group of its own.
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
pub(crate) fn line(block: usize, outputs: usize, number: impl Fn(usize) -> f32) -> CacheLine {
    let mut line = CacheLine::ZERO;
    for (lane, output) in (block * LINE..outputs.min((block + 1) * LINE)).enumerate() {
        line.0[lane] = number(output);
    }
    line
}
