/// Rank (0 = best) of the best correct candidate: the number of wrong candidates that score at least as high. `None` if
/// there is no correct candidate.
///
/// A wrong candidate with the same score ranks before the correct one, so a model that gives every pair the same score
/// ranks last.
pub fn rank_of_best(scores: &[f32], is_correct: impl Fn(usize) -> bool) -> Option<usize> {
    let best = scores.iter().enumerate().filter(|(j, _)| is_correct(*j)).map(|(_, &s)| s).max_by(f32::total_cmp)?;
    Some(scores.iter().enumerate().filter(|&(j, &s)| !is_correct(j) && s >= best).count())
}

/// Fraction of queries whose best correct candidate is among the first `k`. The CLIP literature calls this Recall@k.
/// `ranks` are results of [`rank_of_best`].
pub fn hit_at_k(ranks: &[usize], k: usize) -> f64 {
    ranks.iter().filter(|&&rank| rank < k).count() as f64 / ranks.len() as f64
}

/// Expected [`hit_at_k`] of a uniformly random ranking of N `candidates`, m of which are `correct`: `1 - C(N - m, k) /
/// C(N, k)`.
pub fn chance_hit_at_k(candidates: usize, correct: usize, k: usize) -> f64 {
    let k = k.min(candidates);
    let miss: f64 = (0..k).map(|i| (candidates.saturating_sub(correct + i)) as f64 / (candidates - i) as f64).product();
    1.0 - miss
}
