use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Resamples drawn for an interval; the percentile error at 1000 is far below the intervals' width.
const RESAMPLES: u64 = 1000;

/// 95 % percentile bootstrap interval of the mean of `values` (Efron 1979), resampling values with replacement.
///
/// `None` for fewer than two values. Deterministic in `seed`.
pub fn bootstrap_mean(values: &[f64], seed: u64) -> Option<[f64; 2]> {
    bootstrap_statistic(values.len(), seed, |rows| rows.iter().map(|&i| values[i]).sum::<f64>() / rows.len() as f64)
}

/// 95 % percentile bootstrap interval of any `statistic` of `n` resampled row indices.
///
/// `None` for `n < 2`. Deterministic in `seed`.
pub fn bootstrap_statistic(n: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64 + Sync) -> Option<[f64; 2]> {
    bootstrap_units(&Units::Rows(n), seed, statistic)
}

/// The same with `units` drawn, whole. `None` for fewer than two.
pub fn bootstrap_units(units: &Units, seed: u64, statistic: impl Fn(&[usize]) -> f64 + Sync) -> Option<[f64; 2]> {
    if units.len() < 2 {
        return None;
    }
    let mut values: Vec<f64> = (0..RESAMPLES)
        .into_par_iter()
        .map_init(Vec::new, |rows, resample| {
            // Each resample has a stream of its own: the result does not depend on the threads.
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

/// What a bootstrap draws with replacement.
#[derive(Clone, Debug)]
pub enum Units {
    /// Rows `0..n`, one by one.
    Rows(usize),
    /// Whole clusters of rows that hang together, such as the five captions of a photo, whose answers are no five
    /// independent answers (Davison and Hinkley 1997, section 3.8).
    Clusters(Vec<Vec<usize>>),
    /// Rows one by one, as many of each stratum as it has.
    Strata(Vec<Vec<usize>>),
}

impl Units {
    /// Of rows with a number each: those of one number are drawn together.
    pub fn clusters(of_row: &[u32]) -> Self {
        Self::Clusters(by_number(of_row))
    }

    /// Of rows with a number each: those of one number are a stratum.
    pub fn strata(of_row: &[u32]) -> Self {
        Self::Strata(by_number(of_row))
    }

    /// Number of draws.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(n) => *n,
            Self::Clusters(clusters) => clusters.len(),
            Self::Strata(strata) => strata.iter().map(Vec::len).sum(),
        }
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As many units as there are, drawn with replacement: their rows.
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
