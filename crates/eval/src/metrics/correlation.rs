/// Spearman's rank correlation in `[-1, 1]`: Pearson's of the ranks, equal values sharing their mean rank.
///
/// NaN where either has no two different values. `x` and `y` are of one length.
pub fn spearman(x: &[f64], y: &[f64]) -> f64 {
    let (x, y) = (mean_ranks(x), mean_ranks(y));
    let mean = (x.len() as f64 + 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    sum(&x, &y) / (sum(&x, &x) * sum(&y, &y)).sqrt()
}

/// Ranks from 1, ties sharing the mean of theirs.
fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let first = order.partition_point(|&i| values[i].total_cmp(&values[tied[0]]).is_lt());
        let rank = first as f64 + (tied.len() as f64 + 1.0) / 2.0;
        tied.iter().for_each(|&i| ranks[i] = rank);
    }
    ranks
}
