/// Indices of `values` in ascending order (`argsort`). Ties keep their input order.
pub fn ordering_by_ascending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order
}

/// Kendall's tau-a of `values` against their index order: (concordant - discordant) pairs / all pairs, where a tie
/// counts 0. NaN for fewer than two values.
///
/// HierarCaps' tau_d takes the tau of the `argsort` of the depths, which is the inverse permutation of their ranks. A
/// permutation and its inverse have the same number of inversions, so without ties the result is the same.
pub fn pair_order_tau(values: &[f64]) -> f64 {
    let n = values.len();
    let sum: i64 = (0..n)
        .flat_map(|i| (i + 1..n).map(move |j| (i, j)))
        .map(|(i, j)| i64::from(values[j] > values[i]) - i64::from(values[j] < values[i]))
        .sum();
    2.0 * sum as f64 / (n * n.saturating_sub(1)) as f64
}
