//! Scores of every query against every candidate, computed in tiles.

use conifer_geometry::spaces::lorentz::time_excess;
use conifer_geometry::vector::ln_1p;
use conifer_geometry::{FactorNorm, ManifoldSpec, Root, ScoreForm, Space, space};
use macerator::{AutoArch, Simd, VFma, WithSimd};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::query::Ranking;

/// Number of candidates per tile: two AVX2 registers, one of AVX-512.
const LANES: usize = 16;
/// Number of queries per tile, which share each loaded candidate.
const GROUP: usize = 8;
/// Number of coordinates per partial sum, which keeps long `f32` sums accurate.
const RUN: usize = 64;
/// Maximum number of scores that one thread holds, before the number of queries is rounded up to a multiple of
/// [`GROUP`].
const BLOCK_SCORES: usize = 2 << 20;
/// Maximum number of queries in a block: enough to amortise reading all candidates.
const BLOCK_ROWS: usize = 64;

/// Calls `row(i, scores)` for each query `i` with its scores against all candidates. The calls run in parallel; the
/// results are in query order.
///
/// `queries` `[M, dim]` and `candidates` `[N, dim]` are row-major points of `spec`. [`Ranking::Distance`] gives
/// distances; [`Ranking::Similarity`] and [`Ranking::Inner`] give the values that [`Space`] defines. On the built-in
/// spaces a score is computed from the dot products of the factors, as in training and in the published evaluators;
/// only distances on the sphere are those of [`Space`]. The order of additions is the same for every pair. So equal
/// points have equal scores, for any number of points and threads.
///
/// A dot product is off by a few units in the last place of `|x| |y|`, and on a hyperboloid the argument of `acosh` by
/// a few units in the last place of `c |x| |y|`. A distance takes the square root of this error for points that are
/// close to each other, so use [`Space::dist`] for close points far from the origin.
///
/// On the built-in spaces the function needs memory for one copy of the candidates and, per thread, for the scores of
/// up to 64 queries (as many as fit in 8 MiB, rounded up to a multiple of eight).
///
/// # Errors
/// Fails if the spec is invalid, if points are incomplete, or if the ranking is not distance, similarity or inner
/// product.
pub fn score_rows<R: Send>(
    spec: &ManifoldSpec,
    ranking: Ranking,
    queries: &[f32],
    candidates: &[f32],
    row: impl Fn(usize, &[f32]) -> R + Sync,
) -> Result<Vec<R>> {
    let space = checked(spec, ranking, [("queries", queries), ("candidates", candidates)])?;
    let Some(formula) = ScoreFormula::of(space.as_ref(), ranking) else {
        return Ok(one_by_one(space.as_ref(), ranking, queries, candidates, row));
    };
    let (table, count) = (CandidateBlocks::new(spec, candidates), candidates.len() / spec.dim);
    let width = table.blocks() * LANES;
    let rows = (BLOCK_SCORES / width.max(1)).clamp(1, BLOCK_ROWS).next_multiple_of(GROUP);
    let blocks: Vec<Vec<R>> = queries
        .par_chunks(rows * spec.dim)
        .enumerate()
        .map_init(
            || vec![0.0_f32; rows * width],
            |scores, (block, queries)| {
                let in_block = queries.len() / spec.dim;
                formula.fill(&QueryBlocks::new(spec, queries), &table, scores, width);
                (0..in_block).map(|i| row(block * rows + i, &scores[i * width..][..count])).collect()
            },
        )
        .collect();
    Ok(blocks.into_iter().flatten().collect())
}

/// Scores row i of `left` with row i of `right`, for every i. The scores equal those of [`score_rows`] bit for bit.
///
/// # Errors
/// Returns the errors of [`score_rows`]. Fails if the two lists have different lengths.
pub fn score_pairs(spec: &ManifoldSpec, ranking: Ranking, left: &[f32], right: &[f32]) -> Result<Vec<f32>> {
    let space = checked(spec, ranking, [("the left side", left), ("the right side", right)])?;
    if left.len() != right.len() {
        let found = format!("{} points", left.len() / spec.dim);
        return Err(Error::invalid("the left side", found, format!("{}, one a pair", right.len() / spec.dim)));
    }
    let Some(formula) = ScoreFormula::of(space.as_ref(), ranking) else {
        let pairs = left.par_chunks_exact(spec.dim).zip(right.par_chunks_exact(spec.dim));
        return Ok(pairs.map(|(x, y)| ranking.score(space.as_ref(), &Root::Origin, x, y)).collect());
    };
    // Each tile computes all GROUP x LANES pairs and keeps the diagonal. That is little work compared with scoring
    // every left point against every right point.
    let blocks = left.par_chunks(GROUP * spec.dim).zip(right.par_chunks(GROUP * spec.dim));
    let scores: Vec<Vec<f32>> = blocks
        .map(|(left, right)| {
            let mut scores = vec![0.0; GROUP * LANES];
            formula.fill(&QueryBlocks::new(spec, left), &CandidateBlocks::new(spec, right), &mut scores, LANES);
            (0..left.len() / spec.dim).map(|i| scores[i * LANES + i]).collect()
        })
        .collect();
    Ok(scores.concat())
}

/// Returns the space, after checking that the points are complete and that the ranking needs no root.
fn checked(spec: &ManifoldSpec, ranking: Ranking, lists: [(&str, &[f32]); 2]) -> Result<Box<dyn Space<f32>>> {
    let space = space::<f32>(spec)?;
    for (what, points) in lists {
        if !points.len().is_multiple_of(spec.dim) {
            let found = format!("{} coordinates", points.len());
            return Err(Error::invalid(what, found, format!("a multiple of `dim` = {}", spec.dim)));
        }
    }
    match ranking {
        Ranking::Distance | Ranking::Similarity | Ranking::Inner => Ok(space),
        Ranking::Angle(_) | Ranking::Gated(_) | Ranking::Depth(_) => Err(Error::invalid(
            "the ranking of all pairs",
            "an angle, a gate or a depth",
            "distance, similarity or inner product",
        )),
    }
}

/// Computes a score from the dot products and one number per point and factor.
struct ScoreFormula {
    metric: Metric,
    /// Number of coordinates per factor.
    dim: usize,
    /// Curvature per factor.
    curv: Vec<f32>,
    /// Weight of the term of each factor.
    weight: Vec<f32>,
    /// 1 for distances, -1 for similarities.
    sign: f32,
}

#[derive(Clone, Copy)]
enum Metric {
    /// The dot product.
    Dot,
    /// `|x - y|`.
    Chord,
    /// The weighted sum of the factors' distances.
    Sum,
    /// The square root of the weighted sum of the squares of the factors' distances.
    RootOfSquares,
    /// `<x, y>_L`, summed over factors.
    Lorentz,
}

/// [`ScoreFormula::fill`] for the instruction set of this machine. It is a struct because closures are compiled as
/// separate functions for the baseline instruction set.
struct FillScores<'a> {
    formula: &'a ScoreFormula,
    rows: &'a QueryBlocks,
    table: &'a CandidateBlocks,
    scores: &'a mut [f32],
    width: usize,
}

impl WithSimd for FillScores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let mut tile = [[0.0; LANES]; GROUP];
        for group in 0..self.table.blocks() {
            let blocks = self.scores.chunks_mut(GROUP * self.width).take(self.rows.blocks());
            for (block, scores) in blocks.enumerate() {
                self.formula.tile::<S>(self.rows, block, self.table, group, &mut tile);
                for (score, values) in scores.chunks_mut(self.width).zip(&tile) {
                    score[group * LANES..][..LANES].copy_from_slice(values);
                }
            }
        }
    }
}

impl ScoreFormula {
    /// Returns `None` if the scores of this ranking do not follow from dot products in this space.
    fn of(space: &dyn Space<f32>, ranking: Ranking) -> Option<Self> {
        let spec = space.spec();
        let metric = match (space.score_form()?, ranking) {
            (ScoreForm::UnitVectors, Ranking::Similarity | Ranking::Inner) => Metric::Dot,
            (ScoreForm::UnitVectors, _) => return None,
            (ScoreForm::Flat, Ranking::Inner) => Metric::Dot,
            (ScoreForm::Flat, _) => Metric::Chord,
            (ScoreForm::Hyperboloids(_), Ranking::Inner) => Metric::Lorentz,
            (ScoreForm::Hyperboloids(FactorNorm::L1), _) => Metric::Sum,
            (ScoreForm::Hyperboloids(FactorNorm::L2), _) => Metric::RootOfSquares,
        };
        let curv: Vec<f32> =
            if spec.curv.is_empty() { vec![1.0] } else { spec.curv.iter().map(|&c| c as f32).collect() };
        let count = spec.factors as f32;
        let weight = curv
            .iter()
            .map(|c| match metric {
                Metric::Dot | Metric::Chord => 1.0,
                Metric::Sum => 1.0 / (c.sqrt() * count),
                Metric::RootOfSquares => 1.0 / (c * count),
                Metric::Lorentz => 1.0 / c,
            })
            .collect();
        let sign = if matches!(ranking, Ranking::Similarity) { -1.0 } else { 1.0 };
        Some(Self { metric, dim: spec.factor_dim(), curv, weight, sign })
    }

    /// Writes the scores of `rows` against all candidates, with `width` scores per row.
    fn fill(&self, rows: &QueryBlocks, table: &CandidateBlocks, scores: &mut [f32], width: usize) {
        AutoArch::new().dispatch(FillScores { formula: self, rows, table, scores, width });
    }

    /// Computes one tile: a block of queries against a group of candidates.
    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        rows: &QueryBlocks,
        block: usize,
        table: &CandidateBlocks,
        group: usize,
        total: &mut [[f32; LANES]; GROUP],
    ) {
        *total = [[0.0; LANES]; GROUP];
        for (factor, (&curv, &weight)) in self.curv.iter().zip(&self.weight).enumerate() {
            let (left, right) = (rows.factor(block, factor, self.dim), table.factor(group, factor, self.dim));
            let (a, b) = (rows.extra(block, factor), table.extra(group, factor));
            if self.dim <= RUN {
                // A short factor stays in registers, so process one query after the other.
                for query in 0..GROUP {
                    let mut dots = [0.0_f32; LANES];
                    for (x, y) in left.iter().zip(right) {
                        dots = plus_products::<S>(dots, x[query], y);
                    }
                    self.add_term(&dots, a[query], b, curv, weight, &mut total[query]);
                }
            } else {
                let dots = dots::<S>(left, right);
                for query in 0..GROUP {
                    self.add_term(&dots[query], a[query], b, curv, weight, &mut total[query]);
                }
            }
        }
        for values in total {
            *values = match self.metric {
                Metric::Dot | Metric::Lorentz => *values,
                Metric::Sum => values.map(|value| self.sign * value),
                Metric::Chord | Metric::RootOfSquares => values.map(|value| self.sign * not_below_zero(value).sqrt()),
            };
        }
    }

    #[inline(always)]
    fn add_term(
        &self,
        dots: &[f32; LANES],
        a: f32,
        b: &[f32; LANES],
        curv: f32,
        weight: f32,
        total: &mut [f32; LANES],
    ) {
        macro_rules! each {
            (|$b:ident, $dot:ident| $term:expr) => {
                *total = std::array::from_fn(|lane| {
                    let ($b, $dot) = (b[lane], dots[lane]);
                    total[lane] + $term
                })
            };
        }
        match self.metric {
            Metric::Dot => each!(|_b, dot| dot),
            Metric::Chord => each!(|b, dot| a + b - 2.0 * dot),
            Metric::Sum => each!(|b, dot| weight * rapidity(a + b + a * b - curv * dot)),
            Metric::RootOfSquares => each!(|b, dot| {
                let rapidity = rapidity(a + b + a * b - curv * dot);
                weight * rapidity * rapidity
            }),
            Metric::Lorentz => each!(|b, dot| weight * (curv * dot - (a + b + a * b) - 1.0)),
        }
    }
}

/// Clamps rounding errors below zero. Unlike `max`, it keeps NaN.
#[inline(always)]
fn not_below_zero(u: f32) -> f32 {
    if u < 0.0 { 0.0 } else { u }
}

/// `acosh(1 + u)`.
#[inline(always)]
fn rapidity(u: f32) -> f32 {
    let u = not_below_zero(u);
    ln_1p(u + (u * (u + 2.0)).sqrt())
}

/// `sum + x y`, fused if the machine has an instruction for it.
#[inline(always)]
fn plus_products<S: Simd>(sum: [f32; LANES], x: f32, y: &[f32; LANES]) -> [f32; LANES] {
    let fused = <f32 as VFma>::is_accelerated::<S>();
    std::array::from_fn(|lane| if fused { x.mul_add(y[lane], sum[lane]) } else { sum[lane] + x * y[lane] })
}

#[inline(always)]
fn dots<S: Simd>(left: &[[f32; GROUP]], right: &[[f32; LANES]]) -> [[f32; LANES]; GROUP] {
    let mut total = [[0.0_f32; LANES]; GROUP];
    for (left, right) in left.chunks(RUN).zip(right.chunks(RUN)) {
        // A named variable for each query stays in registers. An array indexed in a loop would be written to memory at
        // every step.
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = [[0.0_f32; LANES]; GROUP];
        for (x, y) in left.iter().zip(right) {
            a = plus_products::<S>(a, x[0], y);
            b = plus_products::<S>(b, x[1], y);
            c = plus_products::<S>(c, x[2], y);
            d = plus_products::<S>(d, x[3], y);
            e = plus_products::<S>(e, x[4], y);
            f = plus_products::<S>(f, x[5], y);
            g = plus_products::<S>(g, x[6], y);
            h = plus_products::<S>(h, x[7], y);
        }
        let plus = |query: usize, sum: [f32; LANES]| std::array::from_fn(|lane| total[query][lane] + sum[lane]);
        total = [plus(0, a), plus(1, b), plus(2, c), plus(3, d), plus(4, e), plus(5, f), plus(6, g), plus(7, h)];
    }
    total
}

/// Points in blocks of `WIDE`, interleaved by coordinate; the last block is padded with zeros.
struct Interleaved<const WIDE: usize> {
    coordinates: Vec<[f32; WIDE]>,
    /// Per factor: `sqrt(c) t - 1` on a hyperboloid, the squared norm elsewhere.
    extras: Vec<[f32; WIDE]>,
    dim: usize,
    factors: usize,
}

type CandidateBlocks = Interleaved<LANES>;
type QueryBlocks = Interleaved<GROUP>;

impl<const WIDE: usize> Interleaved<WIDE> {
    fn new(spec: &ManifoldSpec, points: &[f32]) -> Self {
        let (dim, factors) = (spec.dim, spec.factors);
        let count = (points.len() / dim).div_ceil(WIDE);
        let mut it = Self {
            coordinates: vec![[0.0; WIDE]; count * dim],
            extras: vec![[0.0; WIDE]; count * factors],
            dim,
            factors,
        };
        let blocks = it.coordinates.par_chunks_mut(dim).zip(it.extras.par_chunks_mut(factors));
        blocks.zip(points.par_chunks(WIDE * dim)).for_each(|((coordinates, extras), points)| {
            for (lane, point) in points.chunks_exact(dim).enumerate() {
                point.iter().zip(coordinates.iter_mut()).for_each(|(&v, place)| place[lane] = v);
                for (factor, (part, extra)) in point.chunks_exact(dim / factors).zip(extras.iter_mut()).enumerate() {
                    let square = conifer_geometry::slices::dot(part, part);
                    extra[lane] = spec.curv.get(factor).map_or(square, |&c| time_excess(square, c as f32));
                }
            }
        });
        it
    }

    /// Number of blocks of `WIDE` points.
    fn blocks(&self) -> usize {
        self.coordinates.len() / self.dim
    }

    #[inline(always)]
    fn factor(&self, block: usize, factor: usize, dim: usize) -> &[[f32; WIDE]] {
        &self.coordinates[block * self.dim + factor * dim..][..dim]
    }

    #[inline(always)]
    fn extra(&self, block: usize, factor: usize) -> &[f32; WIDE] {
        &self.extras[block * self.factors + factor]
    }
}

/// Scores every pair with [`Space`], for rankings without a [`ScoreFormula`].
fn one_by_one<R: Send>(
    space: &dyn Space<f32>,
    ranking: Ranking,
    queries: &[f32],
    candidates: &[f32],
    row: impl Fn(usize, &[f32]) -> R + Sync,
) -> Vec<R> {
    let dim = space.spec().dim;
    let score = |query: &[f32], candidate: &[f32]| ranking.score(space, &Root::Origin, query, candidate);
    queries
        .par_chunks_exact(dim)
        .enumerate()
        .map_init(Vec::new, |scores, (i, query)| {
            scores.clear();
            scores.extend(candidates.chunks_exact(dim).map(|candidate| score(query, candidate)));
            row(i, scores)
        })
        .collect()
}

#[cfg(test)]
mod tests;
