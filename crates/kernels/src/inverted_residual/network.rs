//! The network: packs the weights and computes groups of images in parallel.

use std::sync::{Mutex, PoisonError};

use macerator::AutoArch;
use rayon::prelude::*;

use super::geometry::{MAX_IMAGES, StageGeometry, output_side, padding_before};
use super::stage::{Scratch, Stage, StageInput};
use super::stem::{STEM_STRIDE, Stem, StemImage};
use super::weights::{DepthwiseWeights, pointwise};
use super::{ConvPadding, FoldedConv, InvertedResidual};
use crate::lanes::{CacheLine, LINE, lines};
use crate::pointwise::{Pointwise, PointwiseStart, PointwiseWeights};
use crate::raw::in_pool;

/// A network of inverted residual blocks, for inference on the CPU.
///
/// It is built once and used for every batch. A block is computed in strips of rows and in chunks of expanded channels,
/// so that the expanded feature maps stay in the cache. Small feature maps of several images are computed together,
/// which loads the weights less often.
#[derive(Debug)]
pub struct InvertedResidualNet {
    stem: Stem,
    stages: Vec<Stage>,
    head: PointwiseWeights,
    padding: ConvPadding,
    /// Buffers of earlier calls, for reuse.
    workspaces: Mutex<Vec<Workspace>>,
}

/// Buffers of one thread.
#[derive(Debug, Default)]
struct Workspace {
    maps: [Vec<CacheLine>; 2],
    joint: Vec<CacheLine>,
    scratch: Scratch,
}

impl InvertedResidualNet {
    /// Packs the weights of a network: `stem` is a dense convolution of stride 2 on the pixels, and `head` a 1x1
    /// convolution. ReLU6 follows both.
    ///
    /// # Panics
    /// Panics if a weight or bias has the wrong length, if a kernel size or a number of channels is 0, if the channels
    /// of adjacent convolutions differ, if an expansion, a projection or the head is not a 1x1 convolution, if the
    /// kernel of the stem has more than 16 columns, if a residual block changes the shape, or if a stride is 0 or
    /// larger than its kernel.
    pub fn new(stem: &FoldedConv, blocks: &[InvertedResidual], head: &FoldedConv, padding: ConvPadding) -> Self {
        check("stem", stem, stem.inputs);
        assert!(stem.kernel >= STEM_STRIDE, "stem: kernel {} is smaller than the stride", stem.kernel);
        let mut channels = stem.outputs;
        for (i, block) in blocks.iter().enumerate() {
            channels = check_block(i, block, channels);
        }
        check("head", head, channels);
        assert_eq!(head.kernel, 1, "head: expected a 1x1 convolution");
        let stage = |block: &InvertedResidual| Stage {
            expand: block.expand.as_ref().map(pointwise),
            depthwise: DepthwiseWeights::new(&block.depthwise),
            project: pointwise(&block.project),
            stride: block.stride,
            residual: block.residual,
        };
        Self {
            stem: Stem::new(stem),
            stages: blocks.iter().map(stage).collect(),
            head: pointwise(head),
            padding,
            workspaces: Mutex::default(),
        }
    }

    /// Numbers per image in the result of [`Self::forward`].
    pub fn width(&self) -> usize {
        self.head.outputs
    }

    /// The output of the head, averaged over all positions. Shapes: `[batch, channels, size, size]` with the input
    /// channels of the stem, normalised as in training, to `[batch, width]`.
    ///
    /// The result of an image is bit-identical for any number of threads and in any batch.
    ///
    /// # Panics
    /// Panics if `pixels` does not have this shape or if `size` is 0.
    pub fn forward(&self, pixels: &[f32], batch: usize, size: usize) -> Vec<f32> {
        let channels = self.stem.channels;
        let image = channels.checked_mul(size).and_then(|row| row.checked_mul(size)).unwrap_or(usize::MAX);
        assert!(
            size > 0 && image.checked_mul(batch) == Some(pixels.len()),
            "computing features of {batch} images of {channels} x {size} x {size}: found {} numbers",
            pixels.len()
        );
        let mut out = vec![0.0; batch * self.width()];
        if out.is_empty() {
            return out;
        }
        let plan = self.plan(size);
        in_pool(|| {
            let together = batch.div_ceil(rayon::current_num_threads()).min(MAX_IMAGES);
            out.par_chunks_mut(together * self.width()).zip(pixels.par_chunks(together * image)).for_each(
                |(out, pixels)| {
                    let lock = || self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
                    let mut workspace = lock().pop().unwrap_or_default();
                    self.forward_group(&plan, pixels, size, out, &mut workspace);
                    lock().push(workspace);
                },
            );
        });
        out
    }

    /// The sizes of all stages for images of `size`.
    pub(super) fn plan(&self, size: usize) -> Vec<StageGeometry> {
        let mut side = output_side(size, STEM_STRIDE);
        let geometry = |stage: &Stage| {
            let depthwise = &stage.depthwise;
            let geometry = StageGeometry::new(self.padding, side, depthwise.kernel, stage.stride, depthwise.blocks());
            side = geometry.output;
            geometry
        };
        self.stages.iter().map(geometry).collect()
    }

    /// Computes some images on this thread.
    fn forward_group(
        &self,
        plan: &[StageGeometry],
        pixels: &[f32],
        size: usize,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let images = out.len() / self.width();
        let Workspace { maps, joint, scratch } = workspace;
        let [mut from, mut to] = maps.each_mut();
        // Compute the stages with large feature maps image by image.
        let single = plan.iter().take_while(|geometry| geometry.images == 1).count();
        let stem_side = output_side(size, STEM_STRIDE);
        let before = padding_before(self.padding, size, self.stem.kernel, STEM_STRIDE);
        let mut side = stem_side;
        for (image, pixels) in pixels.chunks_exact(self.stem.channels * size * size).enumerate() {
            let stem = StemImage { stem: &self.stem, pixels, side: size, before };
            let fused = single > 0 && self.stages[0].expand.is_none();
            side = stem_side;
            let mut blocks = self.stem.blocks();
            if !fused {
                let count = side * side;
                scratch.positions.clear();
                scratch.positions.extend(0..count as u32);
                let to = lines(from, blocks * count);
                stem.run([0, side, side], self.stem.groups(), to, count, &scratch.positions, &mut scratch.stem);
            }
            for (i, (stage, geometry)) in self.stages.iter().zip(plan).take(single).enumerate() {
                let input = if i == 0 && fused { StageInput::Image(&stem) } else { StageInput::Lines(from) };
                (side, blocks) = (geometry.output, stage.project.blocks());
                stage.run(geometry, 1, &input, lines(to, blocks * side * side), scratch);
                std::mem::swap(&mut from, &mut to);
            }
            let count = side * side;
            let joint = lines(joint, blocks * images * count);
            for (joint, from) in joint.chunks_exact_mut(images * count).zip(from.chunks_exact(count)) {
                joint[image * count..][..count].copy_from_slice(from);
            }
        }
        // Compute the remaining stages for all images together.
        std::mem::swap(from, joint);
        for (stage, geometry) in self.stages.iter().zip(plan).skip(single) {
            side = geometry.output;
            let output = lines(to, stage.project.blocks() * images * side * side);
            stage.run(geometry, images, &StageInput::Lines(from), output, scratch);
            std::mem::swap(&mut from, &mut to);
        }
        self.mean_of_head(from, images, side * side, out, scratch);
    }

    /// Applies the head and averages over the `count` positions of each image.
    fn mean_of_head(&self, from: &[CacheLine], images: usize, count: usize, out: &mut [f32], scratch: &mut Scratch) {
        scratch.positions.clear();
        scratch.positions.extend(0..(images * count) as u32);
        for group in &self.head.groups {
            let to = lines(&mut scratch.filtered, group.width * images * count);
            AutoArch::new().dispatch(Pointwise {
                weights: &self.head,
                input: 0,
                inputs: self.head.inputs,
                from,
                from_stride: images * count,
                groups: std::slice::from_ref(group),
                to,
                to_stride: images * count,
                positions: &scratch.positions,
                start: PointwiseStart::BiasBeforeRelu6,
            });
            for (plane, positions) in to.chunks_exact(count).enumerate() {
                let (block, image) = (group.first + plane / images, plane % images);
                let mut sum = [0.0; LINE];
                for line in positions {
                    sum.iter_mut().zip(&line.0).for_each(|(sum, x)| *sum += x);
                }
                let out = &mut out[image * self.width()..][..self.width()];
                for (out, sum) in out[block * LINE..].iter_mut().zip(sum) {
                    *out = sum / count as f32;
                }
            }
        }
    }
}

/// Checks a dense convolution.
fn check(name: &str, conv: &FoldedConv, inputs: usize) {
    assert_eq!(conv.inputs, inputs, "{name}: input channels");
    check_sizes(name, conv, inputs);
}

fn check_sizes(name: &str, conv: &FoldedConv, inputs_per_output: usize) {
    assert!(
        inputs_per_output > 0 && conv.outputs > 0 && conv.kernel > 0,
        "{name}: expected channels and a kernel, found {conv:?}"
    );
    assert_eq!(conv.bias.len(), conv.outputs, "{name}: length of the bias");
    let numbers = conv.outputs * inputs_per_output * conv.kernel * conv.kernel;
    assert_eq!(conv.weight.len(), numbers, "{name}: length of the weight");
}

/// Checks a block with `inputs` input channels and returns its output channels.
fn check_block(i: usize, block: &InvertedResidual, inputs: usize) -> usize {
    let InvertedResidual { expand, depthwise, project, stride, residual } = block;
    let mut channels = inputs;
    if let Some(expand) = expand {
        check(&format!("block {i}, expansion"), expand, channels);
        assert_eq!(expand.kernel, 1, "block {i}, expansion: expected a 1x1 convolution");
        channels = expand.outputs;
    }
    assert_eq!([depthwise.inputs, depthwise.outputs], [channels; 2], "block {i}, depthwise convolution: channels");
    check_sizes(&format!("block {i}, depthwise convolution"), depthwise, 1);
    let strides = 1..=depthwise.kernel;
    assert!(strides.contains(stride), "block {i}: found stride {stride}, expected {strides:?}");
    check(&format!("block {i}, projection"), project, channels);
    assert_eq!(project.kernel, 1, "block {i}, projection: expected a 1x1 convolution");
    let same = *stride == 1 && project.outputs == inputs;
    assert!(!residual || same, "block {i}: a residual block has stride 1 and as many output as input channels");
    project.outputs
}
