//! The network: packs the weights and computes groups of texts in parallel.

use std::sync::{Mutex, PoisonError};

use macerator::AutoArch;
use rayon::prelude::*;

use super::attention::{HeadAttention, HeadScratch};
use super::rows::{GeluLines, NormLines, NormTokens, pool, to_lines};
use super::{AffineWeights, NormWeights, PostNormLayer, RowPooling};
use crate::lanes::{CacheLine, LINE, lines};
use crate::pointwise::{Pointwise, PointwiseStart, PointwiseWeights};
use crate::raw::in_pool;

/// Most tokens per task unless one text has more, and tokens that the feed-forward part processes together (a strip).
/// It is a multiple of 14, the tokens of one tile of a matrix product. The hidden layer of a strip fits into the L2
/// cache, and each weight that is loaded is used for 112 tokens.
const STRIP: usize = 112;

/// A post-norm transformer for inference on the CPU.
///
/// It is built once and used for every batch. Heads are padded to a multiple of 16 channels with weights of 0.
#[derive(Debug)]
pub struct PostNormEncoder {
    input_norm: NormLines,
    layers: Vec<PackedLayer>,
    width: usize,
    heads: usize,
    /// Buffers of earlier calls, for reuse.
    workspaces: Mutex<Vec<PostNormBuffers>>,
}

#[derive(Debug)]
struct PackedLayer {
    qkv: PointwiseWeights,
    output: PointwiseWeights,
    attention_norm: NormLines,
    up: PointwiseWeights,
    down: PointwiseWeights,
    output_norm: NormLines,
}

/// Buffers of one thread.
#[derive(Debug, Default)]
struct PostNormBuffers {
    tokens: Vec<CacheLine>,
    attended: Vec<CacheLine>,
    qkv: Vec<CacheLine>,
    context: Vec<CacheLine>,
    hidden: Vec<CacheLine>,
    head: HeadScratch,
    positions: Vec<u32>,
}

/// Consecutive texts that one thread computes.
struct TextGroup<'a> {
    rows: &'a [f32],
    lengths: &'a [usize],
    out: &'a mut [f32],
}

impl PostNormEncoder {
    /// Packs the weights. `input_norm` is applied to the rows before the first layer.
    ///
    /// # Panics
    /// Panics if the width or a hidden width is 0, if the width is no multiple of `heads`, or if a weight, bias or gain
    /// has the wrong length.
    pub fn new(input_norm: &NormWeights, layers: &[PostNormLayer], heads: usize, epsilon: f64) -> Self {
        let width = input_norm.gain.len();
        assert!(
            width > 0 && heads > 0 && width.is_multiple_of(heads),
            "found width {width} and {heads} heads, expected a multiple"
        );
        check_norm("input norm", input_norm, width);
        let columns = width / heads;
        let padded = columns.next_multiple_of(LINE);
        // The unpadded index of the channel at position `at` of the padded heads; `None` for padding.
        let channel = |at: usize| (at % padded < columns).then_some(at / padded % heads * columns + at % padded);
        let pack = |(i, layer): (usize, &PostNormLayer)| {
            let hidden = layer.up.bias.len();
            check(&format!("layer {i}, qkv"), &layer.qkv, [width, 3 * width]);
            check(&format!("layer {i}, output"), &layer.output, [width, width]);
            check(&format!("layer {i}, up"), &layer.up, [width, hidden]);
            check(&format!("layer {i}, down"), &layer.down, [hidden, width]);
            check_norm(&format!("layer {i}, attention norm"), &layer.attention_norm, width);
            check_norm(&format!("layer {i}, output norm"), &layer.output_norm, width);
            let qkv_column = |at: usize| channel(at).map(|it| at / (heads * padded) * width + it);
            PackedLayer {
                qkv: PointwiseWeights::new(
                    [width, 3 * heads * padded],
                    |output, input| qkv_column(output).map_or(0.0, |it| layer.qkv.weight[input * 3 * width + it]),
                    |output| qkv_column(output).map_or(0.0, |it| layer.qkv.bias[it]),
                ),
                output: PointwiseWeights::new(
                    [heads * padded, width],
                    |output, input| channel(input).map_or(0.0, |it| layer.output.weight[it * width + output]),
                    |output| layer.output.bias[output],
                ),
                attention_norm: NormLines::new(&layer.attention_norm, epsilon),
                up: dense(&layer.up),
                down: dense(&layer.down),
                output_norm: NormLines::new(&layer.output_norm, epsilon),
            }
        };
        Self {
            input_norm: NormLines::new(input_norm, epsilon),
            layers: layers.iter().enumerate().map(pack).collect(),
            width,
            heads,
            workspaces: Mutex::default(),
        }
    }

    /// The pooled result of the last layer, `[texts, width]`. `rows` `[tokens, width]` holds the concatenated texts,
    /// and `lengths` the number of tokens of each text.
    ///
    /// The result of a text is bit-identical for any number of threads and in any batch.
    ///
    /// # Panics
    /// Panics if a text has no tokens or if the lengths do not sum up to the number of rows.
    pub fn forward(&self, rows: &[f32], lengths: &[usize], pooling: RowPooling) -> Vec<f32> {
        let tokens: usize = lengths.iter().sum();
        assert!(
            rows.len() == tokens * self.width && !lengths.contains(&0),
            "found {} numbers and lengths {lengths:?}, expected {} numbers per token and no empty text",
            rows.len(),
            self.width
        );
        let mut out = vec![0.0; lengths.len() * self.width];
        in_pool(|| {
            self.groups(rows, lengths, &mut out).into_par_iter().for_each(|group| {
                let lock = || self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
                let mut workspace = lock().pop().unwrap_or_default();
                self.forward_group(group, pooling, &mut workspace);
                lock().push(workspace);
            });
        });
        out
    }

    /// Divides a batch into groups of about equal numbers of tokens, at most [`STRIP`] unless one text has more.
    fn groups<'a>(&self, mut rows: &'a [f32], mut lengths: &'a [usize], mut out: &'a mut [f32]) -> Vec<TextGroup<'a>> {
        let tokens = rows.len() / self.width;
        let tasks = tokens.div_ceil(STRIP).next_multiple_of(rayon::current_num_threads());
        let target = tokens.div_ceil(tasks.max(1));
        let mut groups = Vec::new();
        while !lengths.is_empty() {
            let (mut count, mut size) = (0, 0);
            while count < lengths.len() && size < target && (count == 0 || size + lengths[count] <= STRIP) {
                size += lengths[count];
                count += 1;
            }
            let (group_rows, group_out);
            (group_rows, rows) = rows.split_at(size * self.width);
            (group_out, out) = out.split_at_mut(count * self.width);
            groups.push(TextGroup { rows: group_rows, lengths: &lengths[..count], out: group_out });
            lengths = &lengths[count..];
        }
        groups
    }

    /// Computes some texts on this thread.
    fn forward_group(&self, group: TextGroup<'_>, pooling: RowPooling, workspace: &mut PostNormBuffers) {
        let count = group.rows.len() / self.width;
        // An odd stride spreads the blocks of a token over the sets of the cache.
        let stride = count | 1;
        let blocks = self.width.div_ceil(LINE);
        let PostNormBuffers { tokens, attended, qkv, context, hidden, head, positions } = workspace;
        let (tokens, attended) = (lines(tokens, blocks * stride), lines(attended, blocks * stride));
        positions.clear();
        positions.extend(0..count as u32);
        to_lines(group.rows, self.width, tokens, stride);
        AutoArch::new().dispatch(NormTokens { norm: &self.input_norm, tokens, stride, count });
        for layer in &self.layers {
            let qkv = lines(qkv, layer.qkv.blocks() * stride);
            product(&layer.qkv, tokens, [stride, stride], qkv, positions, PointwiseStart::Bias);
            let context = lines(context, layer.qkv.blocks() / 3 * stride);
            self.attend(qkv, context, group.lengths, stride, head);
            let start = PointwiseStart::BiasAndResidual(tokens);
            product(&layer.output, context, [stride, stride], attended, positions, start);
            AutoArch::new().dispatch(NormTokens { norm: &layer.attention_norm, tokens: attended, stride, count });
            for first in (0..count).step_by(STRIP) {
                let strip = STRIP.min(count - first);
                let hidden = lines(hidden, layer.up.blocks() * (strip | 1));
                let from = &attended[first..];
                product(&layer.up, from, [stride, strip | 1], hidden, &positions[..strip], PointwiseStart::Bias);
                AutoArch::new().dispatch(GeluLines(hidden));
                let start = PointwiseStart::BiasAndResidual(attended);
                let positions = &positions[first..][..strip];
                product(&layer.down, hidden, [strip | 1, stride], tokens, positions, start);
            }
            AutoArch::new().dispatch(NormTokens { norm: &layer.output_norm, tokens, stride, count });
        }
        let mut first = 0;
        for (&length, out) in group.lengths.iter().zip(group.out.chunks_exact_mut(self.width)) {
            pool(tokens, stride, [first, length], pooling, out);
            first += length;
        }
    }

    /// Attention of every head of every text.
    fn attend(
        &self,
        qkv: &[CacheLine],
        context: &mut [CacheLine],
        lengths: &[usize],
        stride: usize,
        scratch: &mut HeadScratch,
    ) {
        let columns = self.width / self.heads;
        let blocks = columns.div_ceil(LINE);
        let scale = (columns as f64).powf(-0.5) as f32;
        for head in 0..self.heads {
            let part = |part: usize| (part * self.heads + head) * blocks * stride;
            let mut first = 0;
            for &count in lengths {
                AutoArch::new().dispatch(HeadAttention {
                    query: &qkv[part(0) + first..],
                    key: &qkv[part(1) + first..],
                    value: &qkv[part(2) + first..],
                    to: &mut context[part(0) + first..],
                    stride,
                    blocks,
                    count,
                    scale,
                    scratch,
                });
                first += count;
            }
        }
    }
}

/// An affine map of the tokens at `positions`.
fn product(
    weights: &PointwiseWeights,
    from: &[CacheLine],
    [from_stride, to_stride]: [usize; 2],
    to: &mut [CacheLine],
    positions: &[u32],
    start: PointwiseStart<'_>,
) {
    AutoArch::new().dispatch(Pointwise {
        weights,
        input: 0,
        inputs: weights.inputs,
        from,
        from_stride,
        groups: &weights.groups,
        to,
        to_stride,
        positions,
        start,
    });
}

fn dense(map: &AffineWeights) -> PointwiseWeights {
    let outputs = map.bias.len();
    let number = |output: usize, input: usize| map.weight[input * outputs + output];
    PointwiseWeights::new([map.weight.len() / outputs, outputs], number, |output| map.bias[output])
}

fn check(name: &str, map: &AffineWeights, [inputs, outputs]: [usize; 2]) {
    assert!(inputs > 0 && outputs > 0, "{name}: found {inputs} inputs and {outputs} outputs, expected at least 1");
    assert_eq!([map.weight.len(), map.bias.len()], [inputs * outputs, outputs], "{name}: lengths of weight and bias");
}

fn check_norm(name: &str, norm: &NormWeights, width: usize) {
    assert_eq!([norm.gain.len(), norm.bias.len()], [width; 2], "{name}: lengths of gain and bias");
}
