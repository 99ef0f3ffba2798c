//! The fused losses on the CPU. Every sum has a fixed order, so the result does not depend on the number of threads.

use burn::backend::tensor::BoolTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{Asking, NceOps, NceRule, multi, query};
use crate::arrays::{Array, array, dense, numbers};

pub(super) type Mask = BoolTensor<Flex>;

impl NceOps for Flex {
    fn info_nce(similarity: Array, scale: Array, rule: NceRule) -> Array {
        info_nce(similarity, scale, rule).0
    }

    fn multi_positive_nce(similarity: Array, scale: Array, positive: Mask, same: Mask) -> Array {
        multi_positive_nce(similarity, scale, positive, same).0
    }
}

/// State saved for the backward pass of [`info_nce`].
#[derive(Clone, Debug)]
pub(super) struct Kept {
    similarity: Array,
    scale: Array,
    rule: NceRule,
    row_sums: Vec<query::ShiftedSum>,
    column_sums: Vec<query::ShiftedSum>,
}

impl Kept {
    fn table(&self) -> query::Table<'_> {
        table(&self.similarity, &self.scale, self.rule)
    }
}

fn table<'a>(similarity: &'a Array, scale: &Array, rule: NceRule) -> query::Table<'a> {
    let [rows, columns] = similarity.shape().dims::<2>();
    let with_positive = rule.with_positive;
    query::Table { similarity: numbers(similarity), rows, columns, scale: numbers(scale)[0], with_positive }
}

/// The losses and the saved state.
pub(super) fn info_nce(similarity: Array, scale: Array, rule: NceRule) -> (Array, Kept) {
    let [similarity, scale] = [similarity, scale].each_ref().map(dense);
    let table = table(&similarity, &scale, rule);
    let (by_row, by_column) = (rule.asking != Asking::Columns, rule.asking != Asking::Rows);
    let rows = by_row.then(|| query::rows(&table));
    let columns = by_column.then(|| query::columns(&table));
    let (rows, columns) = (rows.unwrap_or_default(), columns.unwrap_or_default());
    let losses = [rows.losses, columns.losses].concat();
    let count = losses.len();
    let out = array(losses, &[count]);
    (out, Kept { similarity, scale, rule, row_sums: rows.sums, column_sums: columns.sums })
}

pub(super) fn info_nce_backward(kept: &Kept, grad: Array) -> [Array; 2] {
    let grad = dense(&grad);
    let (row_grads, column_grads) = numbers(&grad).split_at(kept.row_sums.len());
    let table = kept.table();
    let rows = (kept.rule.asking != Asking::Columns).then(|| query::Upstream::new(&kept.row_sums, row_grads));
    let columns = (kept.rule.asking != Asking::Rows).then(|| query::Upstream::new(&kept.column_sums, column_grads));
    let (slopes, scale) = query::gradients(&table, rows.as_ref(), columns.as_ref());
    [array(slopes, &[table.rows, table.columns]), array(vec![scale], &[1])]
}

/// State saved for the backward pass of [`multi_positive_nce`].
#[derive(Clone, Debug)]
pub(super) struct KeptMulti {
    similarity: Array,
    scale: Array,
    positive: Mask,
    same: Mask,
    sums: Vec<multi::Sums>,
}

fn multi_table<'a>(similarity: &'a Array, scale: &Array, positive: &'a Mask, same: &'a Mask) -> multi::Table<'a> {
    let [_, columns] = similarity.shape().dims::<2>();
    let (positive, same) = (truths(positive), truths(same));
    multi::Table { similarity: numbers(similarity), positive, same, columns, scale: numbers(scale)[0] }
}

/// The losses and the saved state.
pub(super) fn multi_positive_nce(similarity: Array, scale: Array, positive: Mask, same: Mask) -> (Array, KeptMulti) {
    let [similarity, scale, positive, same] = [similarity, scale, positive, same].each_ref().map(dense);
    let [rows, _] = similarity.shape().dims::<2>();
    let sums = multi::sums(&multi_table(&similarity, &scale, &positive, &same), rows);
    let loss = |[all, right]: [query::ShiftedSum; 2]| (all.sum / right.sum).ln() as f32 + (all.shift - right.shift);
    let loss = |sums: &multi::Sums| sums.map_or(0.0, loss);
    let out = array(sums.iter().map(loss).collect(), &[rows]);
    (out, KeptMulti { similarity, scale, positive, same, sums })
}

pub(super) fn multi_positive_nce_backward(kept: &KeptMulti, grad: Array) -> [Array; 2] {
    let grad = dense(&grad);
    let table = multi_table(&kept.similarity, &kept.scale, &kept.positive, &kept.same);
    let (slopes, scale) = multi::gradients(&table, &kept.sums, numbers(&grad));
    [array(slopes, &[kept.sums.len(), table.columns]), array(vec![scale], &[1])]
}

/// The values of a contiguous mask, one byte each.
fn truths(mask: &Mask) -> &[bool] {
    let bytes = mask.layout().contiguous_offsets().map(|(start, end)| &mask.storage::<u8>()[start..end]);
    let bytes = bytes.unwrap_or_else(|| unreachable!("masks were made contiguous"));
    bytemuck::checked::cast_slice(bytes)
}
