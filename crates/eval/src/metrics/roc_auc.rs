/// Area under the ROC curve: the probability that a random positive scores higher than a random negative, where a tie
/// counts one half. In [0, 1]; NaN without a positive or without a negative. `scores` and `positive` have the same
/// length.
pub fn roc_auc(scores: &[f64], positive: &[bool]) -> f64 {
    RocRanking::new(scores, positive).area(|_| 1.0)
}

/// Scored rows in ascending order of the score. They are sorted once and can be evaluated with any weights, as for a
/// bootstrap that resamples rows.
#[derive(Clone, Debug)]
pub struct RocRanking(Vec<ScoredRow>);

#[derive(Clone, Copy, Debug)]
struct ScoredRow {
    row: usize,
    score: f64,
    positive: bool,
}

impl RocRanking {
    /// Sorts the rows by score. `scores` and `positive` have the same length.
    pub fn new(scores: &[f64], positive: &[bool]) -> Self {
        let rows = scores.iter().zip(positive).enumerate();
        let mut rows: Vec<_> = rows.map(|(row, (&score, &positive))| ScoredRow { row, score, positive }).collect();
        rows.sort_by(|a, b| a.score.total_cmp(&b.score));
        Self(rows)
    }

    /// [`roc_auc`] where row i counts `weight(i)` times.
    pub fn area(&self, weight: impl Fn(usize) -> f64) -> f64 {
        let (mut positives, mut negatives, mut area) = (0.0, 0.0, 0.0);
        for ties in self.0.chunk_by(|a, b| a.score == b.score) {
            let total = |positive: bool| -> f64 {
                ties.iter().filter(|it| it.positive == positive).map(|it| weight(it.row)).sum()
            };
            let (right, wrong) = (total(true), total(false));
            area += right * (negatives + wrong / 2.0);
            positives += right;
            negatives += wrong;
        }
        area / (positives * negatives)
    }
}
