use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often each of `n` rows is drawn, in each of `resamples` draws of `n` with replacement: `[resamples][n]`, a count above 255 held at 255.
///
/// For statistics whose work can be shared between resamples (a ranking is sorted once). Deterministic in `seed`.
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

/// 95 % normal bootstrap interval: `value` -+ 1.96 standard deviations of the `resampled` values (Efron 1979), those that are no numbers
/// left out, cut to [0, 1].
///
/// For average precision, where percentiles mislead: in a resample the copies of a right box stand side by side in the ranking, and raise it.
/// A standard deviation needs some 200 resamples. `None` for fewer than two.
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
