//! The fused losses on the CPU. Every sum has a fixed order, so the result does not depend on the number of threads.

use burn::backend::tensor::BoolTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{NceOps, NceRule, QuerySide, multi, query};
use crate::arrays::{FlexArray, array, dense, numbers};

pub(super) type FlexMask = BoolTensor<Flex>;

impl NceOps for Flex {
    fn info_nce(similarity: FlexArray, scale: FlexArray, rule: NceRule) -> FlexArray {
        info_nce(similarity, scale, rule).0
    }

    fn multi_positive_nce(similarity: FlexArray, scale: FlexArray, positive: FlexMask, same: FlexMask) -> FlexArray {
        multi_positive_nce(similarity, scale, positive, same).0
    }
}

/// State saved for the backward pass of [`info_nce`].
#[derive(Clone, Debug)]
pub(super) struct InfoNceState {
    similarity: FlexArray,
    scale: FlexArray,
    rule: NceRule,
    row_sums: Vec<query::ShiftedSum>,
    column_sums: Vec<query::ShiftedSum>,
}

impl InfoNceState {
    fn table(&self) -> query::InfoNceTable<'_> {
        table(&self.similarity, &self.scale, self.rule)
    }
}

fn table<'a>(similarity: &'a FlexArray, scale: &FlexArray, rule: NceRule) -> query::InfoNceTable<'a> {
    let [rows, columns] = similarity.shape().dims::<2>();
    let with_positive = rule.with_positive;
    query::InfoNceTable { similarity: numbers(similarity), rows, columns, scale: numbers(scale)[0], with_positive }
}

/// The losses and the saved state.
pub(super) fn info_nce(similarity: FlexArray, scale: FlexArray, rule: NceRule) -> (FlexArray, InfoNceState) {
    let [similarity, scale] = [similarity, scale].each_ref().map(dense);
    let table = table(&similarity, &scale, rule);
    let (by_row, by_column) = (rule.side != QuerySide::Columns, rule.side != QuerySide::Rows);
    let rows = by_row.then(|| query::rows(&table));
    let columns = by_column.then(|| query::columns(&table));
    let (rows, columns) = (rows.unwrap_or_default(), columns.unwrap_or_default());
    let losses = [rows.losses, columns.losses].concat();
    let count = losses.len();
    let out = array(losses, &[count]);
    (out, InfoNceState { similarity, scale, rule, row_sums: rows.sums, column_sums: columns.sums })
}

pub(super) fn info_nce_backward(state: &InfoNceState, grad: FlexArray) -> [FlexArray; 2] {
    let grad = dense(&grad);
    let (row_grads, column_grads) = numbers(&grad).split_at(state.row_sums.len());
    let table = state.table();
    let rows = (state.rule.side != QuerySide::Columns).then(|| query::NceUpstream::new(&state.row_sums, row_grads));
    let columns =
        (state.rule.side != QuerySide::Rows).then(|| query::NceUpstream::new(&state.column_sums, column_grads));
    let (derivatives, scale) = query::gradients(&table, rows.as_ref(), columns.as_ref());
    [array(derivatives, &[table.rows, table.columns]), array(vec![scale], &[1])]
}

/// State saved for the backward pass of [`multi_positive_nce`].
#[derive(Clone, Debug)]
pub(super) struct MultiNceState {
    similarity: FlexArray,
    scale: FlexArray,
    positive: FlexMask,
    same: FlexMask,
    sums: Vec<multi::MultiNceSums>,
}

fn multi_table<'a>(
    similarity: &'a FlexArray,
    scale: &FlexArray,
    positive: &'a FlexMask,
    same: &'a FlexMask,
) -> multi::MultiNceTable<'a> {
    let [_, columns] = similarity.shape().dims::<2>();
    let (positive, same) = (truths(positive), truths(same));
    multi::MultiNceTable { similarity: numbers(similarity), positive, same, columns, scale: numbers(scale)[0] }
}

/// The losses and the saved state.
pub(super) fn multi_positive_nce(
    similarity: FlexArray,
    scale: FlexArray,
    positive: FlexMask,
    same: FlexMask,
) -> (FlexArray, MultiNceState) {
    let [similarity, scale, positive, same] = [similarity, scale, positive, same].each_ref().map(dense);
    let [rows, _] = similarity.shape().dims::<2>();
    let sums = multi::sums(&multi_table(&similarity, &scale, &positive, &same), rows);
    let loss = |[all, positives]: [query::ShiftedSum; 2]| {
        (all.sum / positives.sum).ln() as f32 + (all.shift - positives.shift)
    };
    let loss = |sums: &multi::MultiNceSums| sums.map_or(0.0, loss);
    let out = array(sums.iter().map(loss).collect(), &[rows]);
    (out, MultiNceState { similarity, scale, positive, same, sums })
}

pub(super) fn multi_positive_nce_backward(state: &MultiNceState, grad: FlexArray) -> [FlexArray; 2] {
    let grad = dense(&grad);
    let table = multi_table(&state.similarity, &state.scale, &state.positive, &state.same);
    let (derivatives, scale) = multi::gradients(&table, &state.sums, numbers(&grad));
    [array(derivatives, &[state.sums.len(), table.columns]), array(vec![scale], &[1])]
}

/// The values of a contiguous mask, one byte each.
fn truths(mask: &FlexMask) -> &[bool] {
    let bytes = mask.layout().contiguous_offsets().map(|(start, end)| &mask.storage::<u8>()[start..end]);
    let bytes = bytes.unwrap_or_else(|| unreachable!("masks were made contiguous"));
    bytemuck::checked::cast_slice(bytes)
}
