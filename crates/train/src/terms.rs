//! Loss terms: pure functions of points and scalars that return one value per sample. The caller takes the mean.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
pub use conifer_geometry_tensor::ConeShape;
use conifer_geometry_tensor::RootT;
use conifer_kernels::{self as kernels, NceRule, PairLabels, QuerySide};
use serde::{Deserialize, Serialize};

use crate::methods::BatchSpace;
use crate::{Error, Result};

/// Which candidates a query is compared with in the denominator of [`info_nce`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denominator {
    /// Every candidate, including the positive (PHyCLIP Eq. 3, and the released code of the methods): an ordinary
    /// softmax. The loss is >= 0.
    #[default]
    All,
    /// Every candidate except the positive (as HyCoCLIP Eq. 5 is printed): "decoupled". The loss has no lower bound.
    Negatives,
}

/// Contrastive loss of each query against all candidates; candidate i is the positive of query i: `[M, D], [N, D] ->
/// [M]`, N >= M.
///
/// The loss is [`info_nce`] of the table `similarity(queries, candidates)`, queries in rows, with `logit_scale` =
/// 1/temperature. If [`BatchSpace::rows`] is a part of the rows, only these rows of the table are computed. The losses
/// of the other rows are 0, without gradient.
pub fn contrast(
    space: &BatchSpace,
    logit_scale: Tensor<1>,
    denominator: Denominator,
    query: &Tensor<2>,
    candidates: &Tensor<2>,
    similarity: impl FnOnce(Tensor<2>, Tensor<2>) -> Tensor<2>,
) -> Tensor<1> {
    in_own_rows(space, query.dims()[0], &query.device(), query.dtype(), |own| {
        // Move the positives of these rows to the front, because candidate i must be the positive of query i.
        let candidates = starting_at(candidates.clone(), own.start);
        info_nce(similarity(query.clone().slice(own), candidates), logit_scale, denominator)
    })
}

/// [`contrast`] by the similarity of the space, in both directions: `[B, D], [B, D] -> ([B], [B])`. If all rows are
/// computed, both directions share one table; otherwise each direction computes its rows of a separate table.
pub fn contrast_both_ways(
    space: &BatchSpace,
    denominator: Denominator,
    x: &Tensor<2>,
    y: &Tensor<2>,
) -> (Tensor<1>, Tensor<1>) {
    let scale = || space.logit_scale.clone();
    let similarity = |query, candidates| space.manifold.pairwise_similarity(query, candidates);
    if space.rows.is_whole() {
        return info_nce_both_ways(similarity(x.clone(), y.clone()), scale(), denominator);
    }
    let one_way = |query, candidates| contrast(space, scale(), denominator, query, candidates, similarity);
    (one_way(x, y), one_way(y, x))
}

/// [`multi_positive_nce`] of the table `similarity(queries)`, `[M, D] -> [M, N]`, with masks `[M, N]`. If
/// [`BatchSpace::rows`] is a part of the rows, only these rows of the table are computed. The losses of the other rows
/// are 0.
pub fn multi_positive_contrast(
    space: &BatchSpace,
    query: &Tensor<2>,
    positive: &Tensor<2, Bool>,
    same: &Tensor<2, Bool>,
    similarity: impl FnOnce(Tensor<2>) -> Tensor<2>,
) -> Tensor<1> {
    in_own_rows(space, query.dims()[0], &query.device(), query.dtype(), |own| {
        let [positive, same] = [positive, same].map(|mask| mask.clone().slice(own.clone()));
        multi_positive_nce(similarity(query.clone().slice(own)), space.logit_scale.clone(), positive, same)
    })
}

/// Sets `values` to 0, without gradient, in the rows that another process computes ([`BatchSpace::rows`]).
pub(crate) fn own_rows(space: &BatchSpace, values: Tensor<1>) -> Tensor<1> {
    let (rows, device, dtype) = (values.dims()[0], values.device(), values.dtype());
    in_own_rows(space, rows, &device, dtype, |own| values.slice(own))
}

/// `values(own)` in the rows of this process, and 0 in the others: `[rows]`.
fn in_own_rows(
    space: &BatchSpace,
    rows: usize,
    device: &Device,
    dtype: DType,
    values: impl FnOnce(Range<usize>) -> Tensor<1>,
) -> Tensor<1> {
    let own = space.rows.of(rows);
    if own.len() == rows {
        return values(own);
    }
    let zeros = |range: Range<usize>| (!range.is_empty()).then(|| Tensor::zeros([range.len()], (device, dtype)));
    let [before, after] = [zeros(0..own.start), zeros(own.end..rows)];
    let inside = (!own.is_empty()).then(|| values(own));
    Tensor::cat([before, inside, after].into_iter().flatten().collect(), 0)
}

/// Rotates the rows: the rows from `first` on, followed by the rows before `first`.
fn starting_at(points: Tensor<2>, first: usize) -> Tensor<2> {
    let [rows, _] = points.dims();
    match first {
        0 => points,
        _ => Tensor::cat(vec![points.clone().slice(first..rows), points.slice(0..first)], 0),
    }
}

/// Contrastive loss of M queries against N candidates; candidate i is the positive of query i: `[M, N] -> [M]`, N >= M.
///
/// `l_i = log sum_k exp(s S_ik) - s S_ii`, with S the similarity (`similarity`, queries in rows), s = 1/temperature
/// (`logit_scale`, `[1]`), and k over all candidates or over the negatives only. Source: PHyCLIP Eq. 3, HyCoCLIP Eq. 5
/// with the sign of the distance corrected (DEVIATIONS.md). With [`Denominator::Negatives`] N must be at least 2.
pub fn info_nce(similarity: Tensor<2>, logit_scale: Tensor<1>, denominator: Denominator) -> Tensor<1> {
    kernels::info_nce(similarity, logit_scale, denominator.rule(QuerySide::Rows))
}

/// [`info_nce`] over the rows and over the columns of a square table, for both directions: `[B, B] -> ([B], [B])`.
pub fn info_nce_both_ways(
    similarity: Tensor<2>,
    logit_scale: Tensor<1>,
    denominator: Denominator,
) -> (Tensor<1>, Tensor<1>) {
    let [rows, _] = similarity.dims();
    let losses = kernels::info_nce(similarity, logit_scale, denominator.rule(QuerySide::Both));
    (losses.clone().slice(0..rows), losses.slice(rows..2 * rows))
}

/// Contrastive loss of M queries against N candidates with any number of positives: `[M, N] -> [M]`.
///
/// `l_i = log sum_{k not in same_i} exp(s S_ik) - log sum_{k in positive_i} exp(s S_ik)`, with S the similarity
/// (queries in rows) and s = 1/temperature (`logit_scale`, `[1]`). `positive` `[M, N]` is true for positives, and
/// `same` is true for candidates that are left out because they show the query's own object. A query without positives
/// has loss 0. Source: Wang et al., Sec. 3.2 ("multi-positive InfoNCE", the sum inside the logarithm).
pub fn multi_positive_nce(
    similarity: Tensor<2>,
    logit_scale: Tensor<1>,
    positive: Tensor<2, Bool>,
    same: Tensor<2, Bool>,
) -> Tensor<1> {
    kernels::multi_positive_nce(similarity, logit_scale, positive, same)
}

/// Contrastive losses between W wholes and P parts among points `[N, D]`, by the exterior angles between them. Returns
/// `([W], [P])`: the losses with wholes as queries and with parts as queries.
///
/// The losses are [`multi_positive_nce`] of `pi - X(whole, part)` and of `X(part, whole)`, where X is the exterior
/// angle at its first argument. The first is largest when the part lies straight behind its whole, the second when the
/// whole lies straight back towards the root. Source: Wang et al., Sec. 3.2.
///
/// If [`BatchSpace::rows`] is a part of the rows, each direction has a table for its part. The losses of the other rows
/// are 0.
pub fn angle_contrast(space: &BatchSpace, points: &Tensor<2>, labels: &Arc<PairLabels>) -> (Tensor<1>, Tensor<1>) {
    if space.rows.is_whole() {
        return whole_angle_contrast(space, points, labels);
    }
    let [wholes, parts] = labels.shape();
    let among = |rows, columns| whole_angle_contrast(space, points, &Arc::new(block(labels, rows, columns)));
    let (device, dtype) = (points.device(), points.dtype());
    let down = in_own_rows(space, wholes, &device, dtype, |own| among(own, 0..parts).0);
    let up = in_own_rows(space, parts, &device, dtype, |own| among(0..wholes, own).1);
    (down, up)
}

/// Restricts the labels to a block of rows and columns, whose indices start at 0.
fn block(labels: &PairLabels, rows: Range<usize>, columns: Range<usize>) -> PairLabels {
    let at = |index: u32, range: &Range<usize>| range.contains(&(index as usize)).then(|| index - range.start as u32);
    let inside = |cells: &[[u32; 2]]| {
        cells.iter().filter_map(|&[row, column]| Some([at(row, &rows)?, at(column, &columns)?])).collect::<Vec<_>>()
    };
    let (positive, same) = (inside(labels.positive()), inside(labels.same()));
    PairLabels::new(labels.wholes()[rows].to_vec(), labels.parts()[columns].to_vec(), positive, same)
}

/// [`angle_contrast`] if this process computes all rows.
fn whole_angle_contrast(space: &BatchSpace, points: &Tensor<2>, labels: &Arc<PairLabels>) -> (Tensor<1>, Tensor<1>) {
    let [wholes, parts] = labels.shape();
    let fused = space.manifold.fused_angles(points, &space.root).and_then(|angles| {
        let (scale, tiny) = (space.logit_scale.clone(), angles.tiny);
        kernels::angle_contrast(points.clone(), angles.curv, scale, labels, angles.geometry, tiny)
    });
    if let Some(losses) = fused {
        return (losses.clone().slice(0..wholes), losses.slice(wholes..wholes + parts));
    }
    let [whole, part] = [labels.wholes(), labels.parts()].map(|rows| select(points, rows));
    let angle =
        |at: &Tensor<2>, to: &Tensor<2>| space.manifold.pairwise_exterior_angle(at.clone(), to.clone(), &space.root);
    let [positive, same] = masks(labels, &points.device());
    let down = -angle(&whole, &part) + std::f64::consts::PI;
    let down = multi_positive_nce(down, space.logit_scale.clone(), positive.clone(), same.clone());
    let up = angle(&part, &whole);
    (down, multi_positive_nce(up, space.logit_scale.clone(), positive.transpose(), same.transpose()))
}

pub(crate) fn select<const D: usize>(points: &Tensor<D>, rows: &[u32]) -> Tensor<D> {
    let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    let count = rows.len();
    let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &points.device());
    points.clone().select(0, rows)
}

/// Masks `[W, P]`: which pairs are positives, and which pairs show the same object on both sides.
pub(crate) fn masks(labels: &PairLabels, device: &Device) -> [Tensor<2, Bool>; 2] {
    [labels.positive(), labels.same()].map(|cells| {
        let shape @ [rows, columns] = labels.shape();
        let mut table = vec![false; rows * columns];
        cells.iter().for_each(|&[row, column]| table[row as usize * columns + column as usize] = true);
        Tensor::from_data(TensorData::new(table, shape), device)
    })
}

impl Denominator {
    fn rule(self, side: QuerySide) -> NceRule {
        NceRule { side, with_positive: self == Denominator::All }
    }
}

/// Violation of the cone of `parent` by `child`, row by row, radians: `[B, D], [B, D] -> [B]`.
///
/// `max(0, ext(parent, child) - aperture_scale * aperture(parent))`, with apertures clamped to `max_aperture`; on a
/// product space the mean over the factors. 0 when the child lies in the cone. Source: HyCoCLIP Eq. 10 (MERU:
/// `aperture_scale` = 1), PHyCLIP Eq. 5.
///
/// # Errors
/// [`Error::Invalid`] if `max_aperture` is set and the root is not the origin.
pub fn cone(space: &BatchSpace, parent: Tensor<2>, child: Tensor<2>, shape: &ConeShape) -> Result<Tensor<1>> {
    if shape.max_aperture.is_some() && !matches!(space.root, RootT::Origin) {
        return Err(Error::invalid(
            "root",
            "a point",
            "the origin, because the largest aperture of released code (`reference = true`) is defined only there",
        ));
    }
    Ok(space.manifold.cone_hinge(parent, child, shape, &space.root))
}

/// Squared length of each row, `[B, D] -> [B]`, at least `floor`, below which the gradient is 0.
pub(crate) fn squared_lengths(points: &Tensor<2>, floor: f64) -> Tensor<1> {
    (points.clone() * points.clone()).sum_dim(1).squeeze_dim(1).clamp_min(floor)
}

/// Elementwise mean over a non-empty list of `[B]` tensors.
pub(crate) fn mean(values: Vec<Tensor<1>>) -> Tensor<1> {
    let values: Tensor<2> = Tensor::stack(values, 0);
    values.mean_dim(0).squeeze_dim(0)
}

#[cfg(test)]
#[path = "terms/tests.rs"]
mod tests;
