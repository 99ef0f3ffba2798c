//! Contrastive losses of a table of similarities: [`info_nce`] and [`multi_positive_nce`], each one node of the graph.
//!
//! Composed of tensor operations they pass over the table a dozen times and keep several copies of it for the backward
//! pass. Fused, the forward pass keeps the shift and the sum of each query, and the backward pass writes the gradient of the table once.

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

/// Who asks in a table of similarities. The answer to query i is candidate i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Each row; the columns are the candidates.
    Rows,
    /// Each column; the rows are the candidates.
    Columns,
    /// Both, of a square table: the losses of the rows and, behind them, those of the columns.
    Both,
}

/// Which losses are computed of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NceRule {
    /// Who asks.
    pub asking: Asking,
    /// Whether the right answer is among the candidates of the denominator.
    pub with_positive: bool,
}

/// Contrastive loss of every query against all candidates: `[M, N]` to `[M]` ([`Asking::Rows`], N >= M), `[N]`
/// ([`Asking::Columns`], M >= N) or `[M + N]` ([`Asking::Both`], M = N).
///
/// `l_i = log sum_k exp(s S_ik) - s S_ii` with s = `scale` (`[1]`) and k over all candidates, or over all but i (N >= 2 then).
/// Sums are shifted by the largest of their terms. Source: PHyCLIP Eq. 3, HyCoCLIP Eq. 5. Gradients flow to the table and
/// the scale.
///
/// Fused for `f32` on the CPU; [`info_nce_plain`] for everything else. Both give the same result for any number of threads.
///
/// # Panics
/// Where a query has no candidate of its number.
pub fn info_nce(similarity: Tensor<2>, scale: Tensor<1>, rule: NceRule) -> Tensor<1> {
    let [rows, columns] = similarity.dims();
    let fits = match rule.asking {
        Asking::Rows => rows <= columns,
        Asking::Columns => columns <= rows,
        Asking::Both => rows == columns,
    };
    assert!(fits && scale.dims() == [1], "{:?} of a table {rows} x {columns}, scale {:?}", rule.asking, scale.dims());
    if !(is_fused(&similarity) && is_fused(&scale)) {
        return info_nce_plain(similarity, scale, rule);
    }
    let [table, scale] = [similarity.into_dispatch(), scale.into_dispatch()];
    Tensor::from_dispatch(<Dispatch as NceOps>::info_nce(table, scale, rule))
}

/// Contrastive loss of M queries against N candidates of which several may be right: `[M, N] -> [M]`.
///
/// `l_i = log sum_{k not in same_i} exp(s S_ik) - log sum_{k in positive_i} exp(s S_ik)` with s = `scale` (`[1]`). `positive`
/// `[M, N]` is true for right answers, `same` for candidates that are the query itself. A query without a right answer adds
/// 0. Source: Wang et al., Sec. 3.2. Gradients flow to the table and the scale.
///
/// Fused for `f32` on the CPU; [`multi_positive_nce_plain`] for everything else. Both give the same result for any number of
/// threads.
///
/// # Panics
/// Where the shapes differ.
pub fn multi_positive_nce(
    similarity: Tensor<2>,
    scale: Tensor<1>,
    positive: Tensor<2, Bool>,
    same: Tensor<2, Bool>,
) -> Tensor<1> {
    let shape = similarity.dims();
    assert!(
        positive.dims() == shape && same.dims() == shape && scale.dims() == [1],
        "a table {shape:?}, positive {:?}, same {:?}, scale {:?}",
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

/// The operations as an extension of the engine's backends.
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
