use std::sync::atomic::{AtomicUsize, Ordering};

use conifer_geometry::ManifoldSpec;
use conifer_index::{Ranking, score_pairs, score_rows};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Similarity that ranks the candidates, where papers and released evaluators differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The similarity used in training: the negative distance, or the cosine on the sphere.
    #[default]
    Similarity,
    /// The inner product `<x,y>_L`, summed over factors. The released code of the MERU family ranks by it. In a single
    /// Lorentz space the ranking equals that of `Similarity`; in a product of several it does not.
    Inner,
}

impl Score {
    /// Name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Similarity => "similarity",
            Self::Inner => "inner product",
        }
    }
}

impl From<Score> for Ranking {
    fn from(score: Score) -> Self {
        match score {
            Score::Similarity => Self::Similarity,
            Score::Inner => Self::Inner,
        }
    }
}

/// Calls `row(i, scores)` for each query `i` with its scores against all candidates, in parallel. Returns the results
/// in query order. For the memory use see [`conifer_index::score_rows`].
///
/// `queries` `[M, dim]` and `candidates` `[N, dim]` are row-major points of `spec`.
///
/// # Errors
/// `spec` is not a valid space, or the length of the points is not a multiple of `dim`.
pub fn similarity_rows<R: Send>(
    spec: &ManifoldSpec,
    score: Score,
    queries: &[f32],
    candidates: &[f32],
    row: impl Fn(usize, &[f32]) -> R + Sync,
) -> Result<Vec<R>> {
    Ok(score_rows(spec, score.into(), queries, candidates, row)?)
}

/// Ranks (0 = best) in both directions: for each query the rank of its best correct candidate, and for each candidate
/// the rank of its only correct query. The score matrix is computed once for both directions. Ties count as in
/// [`crate::metrics::rank_of_best`].
///
/// `query_of[j]` is the query for which candidate `j` is correct. Every query needs at least one correct candidate.
///
/// # Errors
/// The errors of [`similarity_rows`]; the score of a correct pair is NaN; or a query has no correct candidate.
pub(crate) fn ranks_both_ways(
    spec: &ManifoldSpec,
    score: Score,
    queries: &[f32],
    candidates: &[f32],
    query_of: &[usize],
) -> Result<(Vec<usize>, Vec<usize>)> {
    let owners: Vec<f32> = query_of.iter().flat_map(|&i| &queries[i * spec.dim..][..spec.dim]).copied().collect();
    let own = score_pairs(spec, score.into(), &owners, candidates)?;
    if let Some(candidate) = own.iter().position(|score| score.is_nan()) {
        return Err(Error::Embedder(format!("the score of candidate {candidate} is not a number")));
    }
    let mut best = vec![None::<f32>; queries.len() / spec.dim];
    for (&query, &own) in query_of.iter().zip(&own) {
        best[query] = Some(best[query].map_or(own, |best| best.max(own)));
    }
    let best: Option<Vec<f32>> = best.into_iter().collect();
    let best = best.ok_or_else(|| Error::Embedder("a query has no right candidate".into()))?;
    let ahead: Vec<AtomicUsize> = own.iter().map(|_| AtomicUsize::new(0)).collect();
    let ranks = similarity_rows(spec, score, queries, candidates, |query, scores| {
        let mut rank = 0;
        for ((&score, &own), (&owner, ahead)) in scores.iter().zip(&own).zip(query_of.iter().zip(&ahead)) {
            if owner == query {
                continue;
            }
            rank += usize::from(score >= best[query]);
            if score >= own {
                ahead.fetch_add(1, Ordering::Relaxed);
            }
        }
        rank
    })?;
    Ok((ranks, ahead.into_iter().map(AtomicUsize::into_inner).collect()))
}
