/// Rank (0 = best) of the best-ranked correct candidate: how many candidates score strictly higher than the
/// best correct one, ties counted against us.
///
/// A tie with a wrong candidate counts as lost: a model that gives every pair the same score is at the
/// bottom, not at the top.
pub fn rank_of_best(scores: &[f32], is_correct: impl Fn(usize) -> bool) -> Option<usize> {
    let best = scores.iter().enumerate().filter(|(j, _)| is_correct(*j)).map(|(_, &s)| s).max_by(f32::total_cmp)?;
    Some(scores.iter().enumerate().filter(|&(j, &s)| !is_correct(j) && s >= best).count())
}

/// Share of queries whose best correct candidate is among the first `k`: "any match in the top k", which
/// the CLIP literature calls Recall@k. `ranks` from [`rank_of_best`].
pub fn hit_at_k(ranks: &[usize], k: usize) -> f64 {
    ranks.iter().filter(|&&rank| rank < k).count() as f64 / ranks.len() as f64
}

/// Expected [`hit_at_k`] of a uniformly random ranking of `candidates`, `correct` of which are right:
/// `1 - C(N - m, k) / C(N, k)`.
pub fn chance_hit_at_k(candidates: usize, correct: usize, k: usize) -> f64 {
    let k = k.min(candidates);
    let miss: f64 = (0..k).map(|i| (candidates.saturating_sub(correct + i)) as f64 / (candidates - i) as f64).product();
    1.0 - miss
}
