use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Number of resamples of an interval. With 1000 resamples, the sampling error of the percentiles is far below the
/// width of the interval.
const RESAMPLES: u64 = 1000;

/// 95 % percentile bootstrap interval of the mean of `values` (Efron 1979), resampling values with replacement.
///
/// `None` for fewer than two values. The same `seed` gives the same interval.
pub fn bootstrap_mean(values: &[f64], seed: u64) -> Option<[f64; 2]> {
    bootstrap_statistic(values.len(), seed, |rows| rows.iter().map(|&i| values[i]).sum::<f64>() / rows.len() as f64)
}

/// 95 % percentile bootstrap interval of any `statistic` of `n` resampled row indices.
///
/// `None` for `n < 2`. The same `seed` gives the same interval.
pub fn bootstrap_statistic(n: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64 + Sync) -> Option<[f64; 2]> {
    bootstrap_units(&BootstrapUnits::Rows(n), seed, statistic)
}

/// Like [`bootstrap_statistic`], but draws whole `units`. `None` for fewer than two units.
pub fn bootstrap_units(
    units: &BootstrapUnits,
    seed: u64,
    statistic: impl Fn(&[usize]) -> f64 + Sync,
) -> Option<[f64; 2]> {
    if units.len() < 2 {
        return None;
    }
    let mut values: Vec<f64> = (0..RESAMPLES)
        .into_par_iter()
        .map_init(Vec::new, |rows, resample| {
            // Each resample has a separate random stream, so the result does not depend on the number of threads.
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(resample);
            units.draw(&mut rng, rows);
            statistic(rows)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    Some([at(0.025), at(0.975)])
}

/// Units that a bootstrap draws with replacement.
#[derive(Clone, Debug)]
pub enum BootstrapUnits {
    /// Single rows `0..n`.
    Rows(usize),
    /// Whole clusters of dependent rows, such as the five captions of a photo (Davison and Hinkley 1997, section 3.8).
    Clusters(Vec<Vec<usize>>),
    /// Single rows within strata. Each stratum keeps its number of rows.
    Strata(Vec<Vec<usize>>),
}

impl BootstrapUnits {
    /// Groups the rows with equal ids into clusters.
    pub fn clusters(of_row: &[u32]) -> Self {
        Self::Clusters(by_number(of_row))
    }

    /// Groups the rows with equal ids into strata.
    pub fn strata(of_row: &[u32]) -> Self {
        Self::Strata(by_number(of_row))
    }

    /// Number of units in a resample.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(n) => *n,
            Self::Clusters(clusters) => clusters.len(),
            Self::Strata(strata) => strata.iter().map(Vec::len).sum(),
        }
    }

    /// Returns true if there are no units.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Draws [`BootstrapUnits::len`] units with replacement and stores their rows in `rows`.
    pub fn draw(&self, rng: &mut ChaCha8Rng, rows: &mut Vec<usize>) {
        rows.clear();
        match self {
            Self::Rows(n) => rows.extend((0..*n).map(|_| rng.random_range(0..*n))),
            Self::Clusters(clusters) => {
                for _ in clusters {
                    rows.extend_from_slice(&clusters[rng.random_range(0..clusters.len())]);
                }
            }
            Self::Strata(strata) => {
                for stratum in strata {
                    rows.extend(stratum.iter().map(|_| stratum[rng.random_range(0..stratum.len())]));
                }
            }
        }
    }
}

fn by_number(of_row: &[u32]) -> Vec<Vec<usize>> {
    let mut rows = BTreeMap::<u32, Vec<usize>>::new();
    of_row.iter().enumerate().for_each(|(row, &number)| rows.entry(number).or_default().push(row));
    rows.into_values().collect()
}
