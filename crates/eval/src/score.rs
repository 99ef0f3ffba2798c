use conifer_space::Space;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Which similarity ranks the candidates, where papers and released evaluators differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The similarity that training used: minus the distance, cosine on the sphere.
    #[default]
    Similarity,
    /// The inner product `<x,y>_L`, summed over factors: what the released MERU family ranks by. Ranks as
    /// `Similarity` in one Lorentz space; differs in a product whose curvatures differ.
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

/// Calls `row(i, scores)` for each query `i` with its scores against every candidate, in parallel, and
/// returns the results in query order. Memory: one row of scores per thread.
///
/// `queries` `[M, dim]` and `candidates` `[N, dim]` are row-major points of `space`.
pub fn similarity_rows<R: Send>(
    space: &dyn Space<f32>,
    score: Score,
    queries: &[f32],
    candidates: &[f32],
    row: impl Fn(usize, &[f32]) -> R + Sync,
) -> Vec<R> {
    let dim = space.spec().dim;
    queries
        .par_chunks(dim)
        .enumerate()
        .map_init(
            || vec![0.0f32; candidates.len() / dim],
            |scores, (i, query)| {
                for (out, candidate) in scores.iter_mut().zip(candidates.chunks_exact(dim)) {
                    *out = match score {
                        Score::Similarity => space.similarity(query, candidate),
                        Score::Inner => space.inner(query, candidate),
                    };
                }
                row(i, scores)
            },
        )
        .collect()
}
