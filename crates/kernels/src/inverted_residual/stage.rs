//! One stage: rows are produced, filtered by the depthwise convolution and projected, strip by strip.

use macerator::AutoArch;

use super::depthwise::Depthwise;
use super::geometry::StageGeometry;
use super::stem::{StemImage, StemScratch};
use super::weights::DepthwiseWeights;
use crate::lanes::{CacheLine, LINE, lines};
use crate::pointwise::{BlockGroup, Pointwise, PointwiseStart, PointwiseWeights};

/// An inverted residual block.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) expand: Option<PointwiseWeights>,
    pub(super) depthwise: DepthwiseWeights,
    pub(super) project: PointwiseWeights,
    pub(super) stride: usize,
    pub(super) residual: bool,
}

/// Buffers that one thread reuses for every stage.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Ring buffer of the input rows of the depthwise convolution.
    pub(super) ring: Vec<CacheLine>,
    /// Result of the depthwise convolution.
    pub(super) filtered: Vec<CacheLine>,
    pub(super) stem: StemScratch,
    pub(super) positions: Vec<u32>,
}

/// The input of a stage.
pub(super) enum StageInput<'a> {
    /// Feature maps in blocks of 16 channels: `[block, image, row, column]`.
    Lines(&'a [CacheLine]),
    /// An image, from which the stem computes the feature maps.
    Image(&'a StemImage<'a>),
}

impl Stage {
    /// Computes `output = project(relu6(depthwise(relu6(expand(input)))))` for `images` images, plus `input` if the
    /// block is residual.
    pub(super) fn run(
        &self,
        geometry: &StageGeometry,
        images: usize,
        input: &StageInput<'_>,
        output: &mut [CacheLine],
        scratch: &mut Scratch,
    ) {
        let blocks = self.depthwise.blocks();
        match input {
            StageInput::Image(stem) => self.run_chunks(geometry, images, input, stem.stem.groups(), output, scratch),
            StageInput::Lines(_) => match &self.expand {
                Some(expand) => self.run_chunks(geometry, images, input, &expand.groups, output, scratch),
                None => {
                    let single: Vec<_> = (0..blocks).map(|first| BlockGroup { first, width: 1 }).collect();
                    self.run_chunks(geometry, images, input, &single, output, scratch);
                }
            },
        }
    }

    fn run_chunks(
        &self,
        geometry: &StageGeometry,
        images: usize,
        input: &StageInput<'_>,
        groups: &[BlockGroup],
        output: &mut [CacheLine],
        scratch: &mut Scratch,
    ) {
        let mut start = 0;
        while start < groups.len() {
            let first = groups[start].first;
            let fits = |group: &&BlockGroup| group.first + group.width <= first + geometry.blocks;
            let count = groups[start..].iter().take_while(fits).count().max(1);
            self.run_chunk(geometry, images, input, &groups[start..start + count], output, scratch);
            start += count;
        }
    }

    /// Adds the contribution of some groups of expanded channels to the output.
    fn run_chunk(
        &self,
        geometry: &StageGeometry,
        images: usize,
        input: &StageInput<'_>,
        groups: &[BlockGroup],
        output: &mut [CacheLine],
        scratch: &mut Scratch,
    ) {
        let blocks = groups[0].first..groups.last().map_or(0, |last| last.first + last.width);
        let (side, out_side, kernel) = (geometry.input, geometry.output, self.depthwise.kernel);
        let plane = geometry.slots * geometry.padded;
        let stride = images * plane;
        let ring = lines(&mut scratch.ring, blocks.len() * stride);
        // Set the columns of padding to zero.
        for row in ring.chunks_exact_mut(geometry.padded) {
            row[..geometry.before].fill(CacheLine::ZERO);
            row[geometry.before + side..].fill(CacheLine::ZERO);
        }
        let mut produced = 0;
        for first in (0..out_side).step_by(geometry.rows) {
            let rows = first..(first + geometry.rows).min(out_side);
            let needed = geometry.needed(rows.end, kernel);
            if needed > produced {
                let positions = &mut scratch.positions;
                positions.clear();
                for image in 0..images {
                    for row in produced..needed {
                        let start = image * plane + row % geometry.slots * geometry.padded + geometry.before;
                        positions.extend(start as u32..(start + side) as u32);
                    }
                }
                match input {
                    StageInput::Image(stem) => {
                        stem.run([produced, needed, side], groups, ring, stride, positions, &mut scratch.stem);
                    }
                    StageInput::Lines(from) => {
                        let (from, from_stride) = (&from[produced * side..], images * side * side);
                        match &self.expand {
                            Some(expand) => AutoArch::new().dispatch(Pointwise {
                                weights: expand,
                                input: 0,
                                inputs: expand.inputs,
                                from,
                                from_stride,
                                groups,
                                to: ring,
                                to_stride: stride,
                                positions,
                                start: PointwiseStart::BiasBeforeRelu6,
                            }),
                            None => {
                                for (i, block) in blocks.clone().enumerate() {
                                    for (&to, from) in positions.iter().zip(&from[block * from_stride..]) {
                                        ring[i * stride + to as usize] = *from;
                                    }
                                }
                            }
                        }
                    }
                }
                produced = needed;
            }
            let count = images * rows.len() * out_side;
            let filtered = lines(&mut scratch.filtered, blocks.len() * count);
            AutoArch::new().dispatch(Depthwise {
                geometry,
                weights: &self.depthwise,
                images,
                blocks: blocks.clone(),
                rows: rows.clone(),
                from: ring,
                to: filtered,
            });
            // With several images a strip has all rows, so the pixels are contiguous in either case.
            let start = rows.start * out_side;
            scratch.positions.clear();
            scratch.positions.extend(start as u32..(start + count) as u32);
            let begin = match (blocks.start, self.residual, input) {
                (0, true, StageInput::Lines(from)) => PointwiseStart::BiasAndResidual(from),
                (0, ..) => PointwiseStart::Bias,
                _ => PointwiseStart::Result,
            };
            let inputs = (blocks.end * LINE).min(self.project.inputs) - blocks.start * LINE;
            AutoArch::new().dispatch(Pointwise {
                weights: &self.project,
                input: blocks.start * LINE,
                inputs,
                from: filtered,
                from_stride: count,
                groups: &self.project.groups,
                to: output,
                to_stride: images * out_side * out_side,
                positions: &scratch.positions,
                start: begin,
            });
        }
    }
}
