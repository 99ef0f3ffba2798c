//! Contrastive losses of a table of similarities, each as one autodiff node: [`info_nce`] and [`multi_positive_nce`].
//!
//! The fused operations save the table, and the shift and the sum of each query; the backward pass writes the gradient
//! of the table once. The composition of tensor operations saves several copies of the table.

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Bool, Tensor};

use crate::arrays::is_fused;

mod autodiff;
mod cpu;
mod multi;
mod plain;
mod query;
#[cfg(test)]
mod tests;

pub use plain::{info_nce_plain, multi_positive_nce_plain};

/// The side of a table of similarities whose points are the queries. The positive of query i is candidate i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuerySide {
    /// Each row is a query, and the columns are its candidates.
    Rows,
    /// Each column is a query, and the rows are its candidates.
    Columns,
    /// Both, for a square table: the losses of the rows, followed by those of the columns.
    Both,
}

/// The variant of [`info_nce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NceRule {
    /// Rows, columns or both as queries.
    pub side: QuerySide,
    /// True if the denominator includes the positive.
    pub with_positive: bool,
}

/// Computes the contrastive loss of every query against all candidates. Shapes: `[M, N]` to `[M]`
/// ([`QuerySide::Rows`], N >= M), `[N]` ([`QuerySide::Columns`], M >= N) or `[M + N]` ([`QuerySide::Both`], M = N).
///
/// `l_i = log sum_k exp(s S_ik) - s S_ii` with s = `scale` (`[1]`) and k over all candidates, or over all but i (then
/// N >= 2). Sums are shifted by their largest term. Source: PHyCLIP Eq. 3, HyCoCLIP Eq. 5. Gradients flow to the
/// table and the scale.
///
/// Fused for `f32` on the CPU, otherwise [`info_nce_plain`]. The result does not depend on the number of threads.
///
/// # Panics
/// Panics if the table has the wrong shape for the queries or if `scale` is not a single number.
pub fn info_nce(similarity: Tensor<2>, scale: Tensor<1>, rule: NceRule) -> Tensor<1> {
    let [rows, columns] = similarity.dims();
    let fits = match rule.side {
        QuerySide::Rows => rows <= columns,
        QuerySide::Columns => columns <= rows,
        QuerySide::Both => rows == columns,
    };
    assert!(
        fits && scale.dims() == [1],
        "expected a candidate for every query and a scale of shape [1]; found queries {:?} of a table {rows} x {columns}, scale {:?}",
        rule.side,
        scale.dims()
    );
    if !(is_fused(&similarity) && is_fused(&scale)) {
        return info_nce_plain(similarity, scale, rule);
    }
    let [table, scale] = [similarity.into_dispatch(), scale.into_dispatch()];
    Tensor::from_dispatch(<Dispatch as NceOps>::info_nce(table, scale, rule))
}

/// Computes the contrastive loss of M queries against N candidates, with any number of positives per query: `[M, N]` to
/// `[M]`.
///
/// `l_i = log sum_{k not in same_i} exp(s S_ik) - log sum_{k in positive_i} exp(s S_ik)` with s = `scale` (`[1]`).
/// `positive` `[M, N]` is true for positives, `same` for candidates that are the query itself. A query without a
/// positive has the loss 0. Source: Wang et al., Sec. 3.2. Gradients flow to the table and the scale.
///
/// Fused for `f32` on the CPU, otherwise [`multi_positive_nce_plain`]. The result does not depend on the number of
/// threads.
///
/// # Panics
/// Panics if the shapes differ or if `scale` is not a single number.
pub fn multi_positive_nce(
    similarity: Tensor<2>,
    scale: Tensor<1>,
    positive: Tensor<2, Bool>,
    same: Tensor<2, Bool>,
) -> Tensor<1> {
    let shape = similarity.dims();
    assert!(
        positive.dims() == shape && same.dims() == shape && scale.dims() == [1],
        "expected masks of the shape of the table and a scale of shape [1]; found table {shape:?}, positive {:?}, same {:?}, scale {:?}",
        positive.dims(),
        same.dims(),
        scale.dims()
    );
    if !(is_fused(&similarity) && is_fused(&scale)) {
        return multi_positive_nce_plain(similarity, scale, positive, same);
    }
    Tensor::from_dispatch(<Dispatch as NceOps>::multi_positive_nce(
        similarity.into_dispatch(),
        scale.into_dispatch(),
        positive.into_dispatch(),
        same.into_dispatch(),
    ))
}

/// Burn backend extension that declares the fused operations.
#[backend_extension(Flex, Autodiff)]
trait NceOps: Backend {
    /// See [`info_nce`].
    fn info_nce(similarity: FloatTensor<Self>, scale: FloatTensor<Self>, rule: NceRule) -> FloatTensor<Self>;

    /// See [`multi_positive_nce`].
    fn multi_positive_nce(
        similarity: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        positive: BoolTensor<Self>,
        same: BoolTensor<Self>,
    ) -> FloatTensor<Self>;
}
