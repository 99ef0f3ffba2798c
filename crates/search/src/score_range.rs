//! Detects flat rankings, whose scores are nearly equal.

use conifer_index::{Filter, FlatIndex, Query, Ranking};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scores are flat if their relative contrast is less than this.
///
/// This is the relative contrast of Beyer et al. (ICDT 1999, "When is nearest neighbor meaningful?"). If the farthest
/// row is less than 1 % farther than the nearest, an error of 1 % in the distances can produce any order. Rounding in
/// f32 (about 1e-6 of a distance) is far smaller, so the order is reproducible, but has almost no meaning. A collapsed
/// model had distances from 1.5917 to 1.5936 (0.1 %); twenty training steps on the toy world give 13 %.
const MIN_CONTRAST: f32 = 0.01;
/// Minimum number of scores for a warning. Fewer rows may have close scores because the rows themselves are similar.
const MIN_ROWS: usize = 20;
/// Maximum number of rows whose scores are compared, which bounds the work in large sets.
const SAMPLED_ROWS: usize = 4096;

/// Smallest and largest of several scores of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreRange {
    /// Number of rows compared.
    pub rows: usize,
    /// Smallest score of these rows.
    pub low: f32,
    /// Largest score of these rows.
    pub high: f32,
}

impl ScoreRange {
    /// Computes the range of `scores`. `None` if there are no scores, or if a score is not finite.
    pub fn of(scores: &[f32]) -> Option<Self> {
        if scores.is_empty() || scores.iter().any(|it| !it.is_finite()) {
            return None;
        }
        let (low, high) = scores.iter().fold((f32::MAX, f32::MIN), |(low, high), &it| (low.min(it), high.max(it)));
        Some(Self { rows: scores.len(), low, high })
    }

    /// Extends the range to contain `score`. The number of rows does not change.
    pub fn including(self, score: f32) -> Self {
        Self { low: self.low.min(score), high: self.high.max(score), ..self }
    }

    /// Returns the range that covers both ranges and their rows.
    pub fn merged(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, ..self.including(other.low).including(other.high) }
    }

    /// A warning if the scores are flat; `None` if they are not, or if there are too few scores. `what` names the
    /// scored quantity, such as `distance`.
    pub fn flatness(&self, what: &str) -> Option<String> {
        let Self { rows, low, high } = *self;
        // The relative contrast: (largest - smallest) / largest magnitude.
        let magnitude = low.abs().max(high.abs());
        let contrast = if magnitude == 0.0 { 0.0 } else { (high - low) / magnitude };
        (rows >= MIN_ROWS && contrast < MIN_CONTRAST).then(|| {
            format!(
                "the ranking is flat: the {what} of the {rows} rows compared goes from {low:.4} to {high:.4}, less than {:.0} % apart, so \
                 the order is almost meaningless; a model trained for longer or on similar data should separate them",
                100.0 * MIN_CONTRAST,
            )
        })
    }
}

/// Returns true if close scores indicate a flat ranking. Returns false for rankings with a gate, because rows that
/// pass a gate have similar scores by design.
pub fn is_comparable(ranking: Ranking) -> bool {
    !matches!(ranking, Ranking::Gated(_) | Ranking::Depth(_))
}

/// Returns the range of the scores of `rows`; `None` if there are no rows, or if a score is not finite.
///
/// # Errors
/// The errors of [`FlatIndex::top_k`].
pub fn score_range(
    index: &FlatIndex,
    query: &Query<'_>,
    ranking: Ranking,
    rows: &[usize],
) -> conifer_index::Result<Option<ScoreRange>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let hits = index.top_k(query, ranking, rows.len(), &Filter::Set(rows))?.concat();
    Ok(ScoreRange::of(&hits.iter().map(|hit| hit.score).collect::<Vec<_>>()))
}

/// Returns a warning if the ranking of `rows` for this query is flat. Compares the scores of an evenly spaced sample of
/// the rows with `best`, the best score of all rows.
///
/// # Errors
/// The errors of [`FlatIndex::top_k`].
pub fn flat_search(
    index: &FlatIndex,
    query: &Query<'_>,
    ranking: Ranking,
    rows: &[usize],
    best: Option<f32>,
    what: &str,
) -> conifer_index::Result<Option<String>> {
    if !is_comparable(ranking) {
        return Ok(None);
    }
    let sample: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(SAMPLED_ROWS).max(1)).collect();
    let range = score_range(index, query, ranking, &sample)?;
    let range = range.map(|it| best.map_or(it, |best| it.including(best)));
    Ok(range.and_then(|it| it.flatness(what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_within_one_percent_are_flat() {
        let spread =
            |low: f32, high: f32| -> Vec<f32> { (0..200).map(|i| low + (high - low) * i as f32 / 199.0).collect() };
        let flat = |scores: &[f32], what: &str| ScoreRange::of(scores)?.flatness(what);
        let warning = flat(&spread(1.5917, 1.5936), "distance").unwrap_or_default();
        assert!(
            warning.contains("flat") && warning.contains("1.5917 to 1.5936") && warning.contains("200 rows"),
            "{warning}"
        );
        assert_eq!(flat(&spread(0.4, 1.6), "distance"), None);
        assert!(flat(&spread(-0.2503, -0.25), "similarity").is_some());
        assert!(flat(&[0.0; 30], "angle").is_some());
        // A clear outlier makes the ranking meaningful.
        assert_eq!(flat(&[&spread(1.5917, 1.5936)[..], &[0.3]].concat(), "distance"), None);
        // There is no warning for too few rows or for non-finite scores.
        assert_eq!(flat(&[1.0; 5], "distance"), None);
        assert_eq!(flat(&[f32::NAN; 30], "distance"), None);
    }

    #[test]
    fn ranges_are_merged() {
        let range = |low: f32, high: f32| ScoreRange { rows: 15, low, high };
        let merged = range(1.0, 1.002).merged(range(1.001, 1.004));
        assert_eq!(merged, ScoreRange { rows: 30, low: 1.0, high: 1.004 });
        assert!(merged.flatness("distance").is_some() && range(1.0, 1.002).flatness("distance").is_none());
        assert_eq!(merged.including(0.5).flatness("distance"), None);
        assert_eq!(ScoreRange::of(&[]), None);
    }
}
