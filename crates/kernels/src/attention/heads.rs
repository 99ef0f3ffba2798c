//! Attention on the CPU: one task per head and sequence, whose score matrices stay in the cache of the core.

use std::cell::RefCell;

use burn::backend::Flex;
use macerator::AutoArch;
use rayon::prelude::*;

use super::softmax::{ScaleRows, SoftmaxBackward, SoftmaxForward};
use super::{AttentionOps, AttentionShape, HostMask};
use crate::arrays::{FlexArray, array, dense, into_numbers, numbers};
use crate::functions::LANES;
use crate::raw::{MatrixView, Panel, in_pool, new_rows};

impl AttentionOps for Flex {
    fn fused_attention(query: FlexArray, key_value: FlexArray, shape: AttentionShape, mask: HostMask) -> FlexArray {
        AttentionOperands::split(&query, &key_value, shape, mask).forward().0
    }

    fn fused_self_attention(joint: FlexArray, shape: AttentionShape, mask: HostMask) -> FlexArray {
        AttentionOperands::joint(&joint, shape, mask).forward().0
    }
}

thread_local! {
    /// Two buffers per thread, reused for every head: the scores and, in the backward pass, their derivatives.
    static TABLES: RefCell<[Vec<f32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// The operands of an attention, with the layout of their columns.
#[derive(Clone, Debug)]
pub(super) struct AttentionOperands {
    query: FlexArray,
    /// The same array as `query` for self-attention.
    key_value: FlexArray,
    joint: bool,
    shape: AttentionShape,
    mask: HostMask,
}

/// For every query of every head, the largest score and the reciprocal of the sum of exponentials.
pub(super) type SoftmaxStats = Vec<[f32; 2]>;

impl AttentionOperands {
    pub(super) fn split(query: &FlexArray, key_value: &FlexArray, shape: AttentionShape, mask: HostMask) -> Self {
        let (query, key_value) = (dense(query), dense(key_value));
        Self { query, key_value, joint: false, shape, mask }
    }

    pub(super) fn joint(joint: &FlexArray, shape: AttentionShape, mask: HostMask) -> Self {
        let joint = dense(joint);
        Self { query: joint.clone(), key_value: joint, joint: true, shape, mask }
    }

    /// Returns the result and the row statistics for the backward pass.
    pub(super) fn forward(&self) -> (FlexArray, SoftmaxStats) {
        let AttentionShape { batch, heads, width, queries, .. } = self.shape;
        let mut rows = vec![[0.0; 2]; batch * heads * queries];
        let out = in_pool(|| {
            let (mut out, _) = new_rows(batch * queries, width, |_, _| ());
            if queries > 0 && self.shape.keys > 0 && width > 0 {
                let panels = Panel::cut(&mut out, queries, width, width / heads);
                panels.into_par_iter().zip(rows.par_chunks_mut(queries)).enumerate().for_each(
                    |(head, (panel, rows))| {
                        TABLES.with_borrow_mut(|[table, _]| self.forward_head(head, panel, rows, self.table(table)));
                    },
                );
            } else if self.shape.keys == 0 {
                out.fill(f32::NAN);
            }
            out
        });
        (array(out, &[batch * queries, width]), rows)
    }

    fn forward_head(&self, head: usize, mut out: Panel<'_>, rows: &mut [[f32; 2]], scores: &mut [f32]) {
        let [query, key, value] = self.operands(head);
        let keys = self.shape.keys;
        self.scores(query, key, scores);
        let (causal, hidden) = (self.mask.causal, self.hidden_keys(head));
        AutoArch::new().dispatch(SoftmaxForward { scores, keys, causal, hidden, rows });
        // Scaling the result takes one multiplication per query and channel. Scaling the probabilities would take one
        // per query and key.
        out.product(self.table_view(scores), value, 1.0);
        AutoArch::new().dispatch(ScaleRows { panel: &mut out, rows });
    }

    /// Gradients with respect to the operands, in the layout of the operands: one array for self-attention; otherwise
    /// one for the queries and one for the keys and values.
    pub(super) fn backward(&self, rows: &SoftmaxStats, gradient: FlexArray) -> (FlexArray, Option<FlexArray>) {
        let AttentionShape { batch, heads, width, queries, keys } = self.shape;
        let upstream = into_numbers(gradient);
        let (columns, work) = (width / heads, queries > 0 && keys > 0 && width > 0);
        in_pool(|| {
            let zeros = |rows: usize, width: usize| new_rows(rows, width, |_, _| ()).0;
            let (mut first, mut second) = if self.joint {
                (zeros(batch * queries, 3 * width), None)
            } else {
                (zeros(batch * queries, width), Some(zeros(batch * keys, 2 * width)))
            };
            if work {
                // For each sequence, `Panel::cut` returns the panels of the queries of all heads, then those of the
                // keys, then those of the values.
                let mut targets = Vec::with_capacity(batch * heads);
                match &mut second {
                    None => group(Panel::cut(&mut first, queries, 3 * width, columns), heads, 3, &mut targets),
                    Some(second) => {
                        let queries = Panel::cut(&mut first, queries, width, columns);
                        group(Panel::cut(second, keys, 2 * width, columns), heads, 2, &mut targets);
                        targets.iter_mut().zip(queries).for_each(|(target, query)| target.insert(0, query));
                    }
                }
                targets.into_par_iter().zip(rows.par_chunks(queries)).enumerate().for_each(|(head, (target, rows))| {
                    TABLES.with_borrow_mut(|[scores, derivatives]| {
                        let tables = [self.table(scores), self.table(derivatives)];
                        self.backward_head(head, target, rows, &upstream, tables);
                    });
                });
            }
            let queries_shape = [batch * queries, if self.joint { 3 * width } else { width }];
            (array(first, &queries_shape), second.map(|it| array(it, &[batch * keys, 2 * width])))
        })
    }

    fn backward_head(
        &self,
        head: usize,
        target: Vec<Panel<'_>>,
        rows: &[[f32; 2]],
        upstream: &[f32],
        [scores, derivatives]: [&mut [f32]; 2],
    ) {
        let AttentionShape { heads, width, queries, keys, .. } = self.shape;
        let [query, key, value] = self.operands(head);
        let columns = width / heads;
        let start = head / heads * queries * width + head % heads * columns;
        let upstream = MatrixView::new(&upstream[start..], [queries, columns], [width, 1]);
        self.scores(query, key, scores);
        let padded = keys.next_multiple_of(LANES);
        Panel::new(derivatives, [queries, keys], padded).product(upstream, value.transposed(), 1.0);
        let (causal, hidden, scale) = (self.mask.causal, self.hidden_keys(head), self.scale());
        AutoArch::new().dispatch(SoftmaxBackward { scores, gradient: derivatives, keys, causal, hidden, rows, scale });
        let (probabilities, derivatives) = (self.table_view(scores), self.table_view(derivatives));
        let gradients = [(derivatives, key), (derivatives.transposed(), query), (probabilities.transposed(), upstream)];
        for (mut panel, (left, right)) in target.into_iter().zip(gradients) {
            panel.product(left, right, 1.0);
        }
    }

    /// Scaled scores of all query-key pairs.
    fn scores(&self, query: MatrixView<'_>, key: MatrixView<'_>, table: &mut [f32]) {
        let AttentionShape { queries, keys, .. } = self.shape;
        Panel::new(table, [queries, keys], keys.next_multiple_of(LANES)).product(query, key.transposed(), self.scale());
    }

    fn scale(&self) -> f32 {
        ((self.shape.width / self.shape.heads) as f64).powf(-0.5) as f32
    }

    /// Query, key and value of one head of one sequence.
    fn operands(&self, head: usize) -> [MatrixView<'_>; 3] {
        let AttentionShape { heads, width, queries, keys, .. } = self.shape;
        let (sequence, columns) = (head / heads, width / heads);
        let (query_parts, parts, first) = if self.joint { (3, 3, 1) } else { (1, 2, 0) };
        let start =
            |rows: usize, parts: usize, part: usize| (sequence * rows * parts + part) * width + head % heads * columns;
        fn of(array: &FlexArray, start: usize, [rows, columns]: [usize; 2], stride: usize) -> MatrixView<'_> {
            MatrixView::new(&numbers(array)[start..], [rows, columns], [stride, 1])
        }
        [
            of(&self.query, start(queries, query_parts, 0), [queries, columns], query_parts * width),
            of(&self.key_value, start(keys, parts, first), [keys, columns], parts * width),
            of(&self.key_value, start(keys, parts, first + 1), [keys, columns], parts * width),
        ]
    }

    fn hidden_keys(&self, head: usize) -> Option<&[bool]> {
        let (sequence, keys) = (head / self.shape.heads, self.shape.keys);
        self.mask.hidden.as_ref().map(|hidden| &hidden[sequence * keys..][..keys])
    }

    fn table<'a>(&self, memory: &'a mut Vec<f32>) -> &'a mut [f32] {
        let size = self.shape.queries * self.shape.keys.next_multiple_of(LANES);
        if memory.len() < size {
            memory.resize(size, 0.0);
        }
        &mut memory[..size]
    }

    fn table_view<'a>(&self, table: &'a [f32]) -> MatrixView<'a> {
        let AttentionShape { queries, keys, .. } = self.shape;
        MatrixView::new(table, [queries, keys], [keys.next_multiple_of(LANES), 1])
    }
}

/// Regroups panels, ordered by sequence, part and head, by sequence and head.
fn group<'a>(panels: Vec<Panel<'a>>, heads: usize, parts: usize, into: &mut Vec<Vec<Panel<'a>>>) {
    for (number, panel) in panels.into_iter().enumerate() {
        let (sequence, part, head) = (number / (heads * parts), number / heads % parts, number % heads);
        if part == 0 {
            into.push(Vec::with_capacity(3));
        }
        into[sequence * heads + head].push(panel);
    }
}
