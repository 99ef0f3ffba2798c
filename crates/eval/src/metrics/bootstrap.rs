use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Resamples drawn for an interval; the percentile error at 1000 is far below the intervals' width.
const RESAMPLES: usize = 1000;

/// 95 % percentile bootstrap interval of the mean of `values` (Efron 1979), resampling values with replacement.
///
/// `None` for fewer than two values. Deterministic in `seed`.
pub fn bootstrap_mean(values: &[f64], seed: u64) -> Option<[f64; 2]> {
    bootstrap_statistic(values.len(), seed, |rows| rows.iter().map(|&i| values[i]).sum::<f64>() / rows.len() as f64)
}

/// 95 % percentile bootstrap interval of any `statistic` of `n` resampled row indices.
///
/// `None` for `n < 2`. Deterministic in `seed`.
pub fn bootstrap_statistic(n: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64) -> Option<[f64; 2]> {
    if n < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut rows = vec![0; n];
    let mut values: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            rows.iter_mut().for_each(|row| *row = rng.random_range(0..n));
            statistic(&rows)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((RESAMPLES - 1) as f64 * q).round() as usize];
    Some([at(0.025), at(0.975)])
}
