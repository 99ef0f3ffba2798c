//! The fused losses on the CPU. Every sum has a fixed order; threads only decide who computes a row.

use burn::backend::tensor::BoolTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{Asking, NceOps, NceRule, multi, query};
use crate::array::{Array, array, contiguous, numbers};

pub(super) type Mask = BoolTensor<Flex>;

impl NceOps for Flex {
    fn info_nce(similarity: Array, scale: Array, rule: NceRule) -> Array {
        info_nce(similarity, scale, rule).0
    }

    fn multi_positive_nce(similarity: Array, scale: Array, positive: Mask, same: Mask) -> Array {
        multi_positive_nce(similarity, scale, positive, same).0
    }
}

/// What the backward pass of [`info_nce`] needs.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    similarity: Array,
    scale: Array,
    rule: NceRule,
    row_sums: Vec<f32>,
    column_sums: Vec<f32>,
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

/// The losses, and what the backward pass needs.
pub(super) fn info_nce(similarity: Array, scale: Array, rule: NceRule) -> (Array, Kept) {
    let [similarity, scale] = [similarity, scale].map(contiguous);
    let table = table(&similarity, &scale, rule);
    let (by_row, by_column) = (rule.asking != Asking::Columns, rule.asking != Asking::Rows);
    let rows = by_row.then(|| query::rows(&table));
    let columns = by_column.then(|| query::columns(&table));
    let (mut losses, mut sums) = (Vec::new(), Vec::new());
    for side in [rows, columns] {
        let (side_losses, side_sums) = side.map_or_else(Default::default, |side| (side.losses, side.log_sums));
        losses.extend(side_losses);
        sums.push(side_sums);
    }
    let count = losses.len();
    let out = array(losses, &[count], &similarity);
    let column_sums = sums.pop().unwrap_or_default();
    let row_sums = sums.pop().unwrap_or_default();
    (out, Kept { similarity, scale, rule, row_sums, column_sums })
}

/// Gradients with respect to the table and the scale.
pub(super) fn info_nce_backward(kept: &Kept, grad: Array) -> [Array; 2] {
    let grad = contiguous(grad);
    let (row_grads, column_grads) = numbers(&grad).split_at(kept.row_sums.len());
    let table = kept.table();
    let rows = (kept.rule.asking != Asking::Columns).then(|| query::Upstream::new(&kept.row_sums, row_grads));
    let columns = (kept.rule.asking != Asking::Rows).then(|| query::Upstream::new(&kept.column_sums, column_grads));
    let (slopes, scale) = query::gradients(&table, rows.as_ref(), columns.as_ref());
    [array(slopes, &[table.rows, table.columns], &grad), array(vec![scale], &[1], &grad)]
}

/// What the backward pass of [`multi_positive_nce`] needs.
#[derive(Clone, Debug)]
pub(super) struct KeptMulti {
    similarity: Array,
    scale: Array,
    positive: Mask,
    same: Mask,
    log_sums: Vec<multi::LogSums>,
}

fn multi_table<'a>(similarity: &'a Array, scale: &Array, positive: &'a Mask, same: &'a Mask) -> multi::Table<'a> {
    let [_, columns] = similarity.shape().dims::<2>();
    let (positive, same) = (truths(positive), truths(same));
    multi::Table { similarity: numbers(similarity), positive, same, columns, scale: numbers(scale)[0] }
}

/// The losses, and what the backward pass needs.
pub(super) fn multi_positive_nce(similarity: Array, scale: Array, positive: Mask, same: Mask) -> (Array, KeptMulti) {
    let [similarity, scale, positive, same] = [similarity, scale, positive, same].map(contiguous);
    let [rows, _] = similarity.shape().dims::<2>();
    let log_sums = multi::log_sums(&multi_table(&similarity, &scale, &positive, &same), rows);
    let loss = |sums: &multi::LogSums| sums.map_or(0.0, |[candidates, right]| candidates - right);
    let out = array(log_sums.iter().map(loss).collect(), &[rows], &similarity);
    (out, KeptMulti { similarity, scale, positive, same, log_sums })
}

/// Gradients with respect to the table and the scale.
pub(super) fn multi_positive_nce_backward(kept: &KeptMulti, grad: Array) -> [Array; 2] {
    let grad = contiguous(grad);
    let table = multi_table(&kept.similarity, &kept.scale, &kept.positive, &kept.same);
    let (slopes, scale) = multi::gradients(&table, &kept.log_sums, numbers(&grad));
    [array(slopes, &[kept.log_sums.len(), table.columns], &grad), array(vec![scale], &[1], &grad)]
}

/// The truths of a contiguous mask: a byte each.
fn truths(mask: &Mask) -> &[bool] {
    let bytes = mask.layout().contiguous_offsets().map(|(start, end)| &mask.storage::<u8>()[start..end]);
    let bytes = bytes.unwrap_or_else(|| unreachable!("only contiguous masks come here"));
    bytemuck::checked::cast_slice(bytes)
}
