use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often each of `n` rows is drawn in each of `resamples` resamples with replacement: `[resamples][n]`, saturating
/// at 255.
///
/// For statistics that can share work between resamples, such as sorting a ranking once. The same `seed` gives the same
/// counts.
pub fn bootstrap_counts(n: usize, resamples: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let draw = |_| {
        let mut counts = vec![0u8; n];
        for _ in 0..n {
            let count = &mut counts[rng.random_range(0..n)];
            *count = count.saturating_add(1);
        }
        counts
    };
    (0..resamples).map(draw).collect()
}

/// 95 % normal bootstrap interval: `value` -+ 1.96 standard deviations of the finite `resampled` values (Efron 1979),
/// clipped to [0, 1].
///
/// Use it for average precision. Percentile intervals are biased for it, because the copies of a right box in a
/// resample are adjacent in the ranking and raise the precision. A standard deviation needs about 200 resamples. `None`
/// for fewer than two finite values.
pub fn normal_interval(value: f64, resampled: impl IntoIterator<Item = f64>) -> Option<[f64; 2]> {
    let values: Vec<f64> = resampled.into_iter().filter(|it| it.is_finite()).collect();
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    let half = 1.96 * variance.sqrt();
    Some([(value - half).max(0.0), (value + half).min(1.0)])
}
