use serde::{Deserialize, Serialize};

use crate::metrics::{BootstrapUnits, DetectionRanking, RocRanking, SpearmanRanks, bootstrap_units};

/// A statistic of the rows with the given indices.
pub(crate) type RowStatistic<'a> = Box<dyn Fn(&[usize]) -> f64 + Sync + 'a>;

/// Per-query values of a metric, with the statistic that combines them. The value of a record, its interval and the
/// paired comparison of two models are computed from these values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "statistic", rename_all = "snake_case")]
pub enum Outcomes {
    /// The number is the mean of the values.
    Mean {
        /// One value per query.
        values: Vec<f64>,
    },
    /// The number is the mean over groups of the mean within each group, e.g. macro accuracy with classes as groups.
    MeanOfGroups {
        /// One value per query.
        values: Vec<f64>,
        /// The group of each query.
        groups: Vec<u32>,
    },
    /// The number is the harmonic mean of two means, e.g. F1 of mean precision and mean recall.
    HarmonicMean {
        /// First value of each query.
        first: Vec<f64>,
        /// Second value of each query.
        second: Vec<f64>,
    },
    /// The number is Spearman's rank correlation, or 0 if one side is constant.
    Spearman {
        /// Score of the model for each query.
        found: Vec<f64>,
        /// Human grade of each query.
        truth: Vec<f64>,
    },
    /// The number is the average precision of a ranking in all-points form, [`crate::metrics::average_precision`].
    AveragePrecision {
        /// Score of the model for each query.
        scores: Vec<f64>,
        /// Whether the query belongs to the positive class.
        positive: Vec<bool>,
    },
    /// The number is the area under the ROC curve, [`crate::metrics::roc_auc`].
    RocAuc {
        /// Score of the model for each query.
        scores: Vec<f64>,
        /// Whether the query belongs to the positive class.
        positive: Vec<bool>,
    },
}

impl Outcomes {
    /// Number of queries.
    pub fn len(&self) -> usize {
        match self {
            Self::Mean { values } | Self::MeanOfGroups { values, .. } => values.len(),
            Self::HarmonicMean { first, .. } => first.len(),
            Self::Spearman { found, .. } => found.len(),
            Self::AveragePrecision { scores, .. } | Self::RocAuc { scores, .. } => scores.len(),
        }
    }

    /// Returns true if there are no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statistic over all queries.
    pub fn value(&self) -> f64 {
        self.over(&(0..self.len()).collect::<Vec<_>>())
    }

    /// The number over the given queries, each below [`Outcomes::len`]. NaN if `rows` is empty.
    pub fn over(&self, rows: &[usize]) -> f64 {
        self.draws()(rows)
    }

    /// Like [`Outcomes::over`], for many resamples: work that all resamples share is done once.
    pub(crate) fn draws(&self) -> RowStatistic<'_> {
        match self {
            Self::Mean { values } => Box::new(|rows| mean(values, rows)),
            Self::MeanOfGroups { values, groups } => {
                let group_count = groups.iter().max().map_or(0, |&last| last as usize + 1);
                Box::new(move |rows| mean_of_groups(values, groups, group_count, rows))
            }
            Self::HarmonicMean { first, second } => Box::new(|rows| {
                let (a, b) = (mean(first, rows), mean(second, rows));
                if a + b > 0.0 { 2.0 * a * b / (a + b) } else { 0.0 }
            }),
            Self::Spearman { found, truth } => {
                let ranks = SpearmanRanks::new(found, truth);
                Box::new(move |rows| {
                    let rho = ranks.over(rows);
                    // Undefined if all values are equal, as in a resample of one query. The correlation of a constant
                    // score counts as 0.
                    if rho.is_nan() && !rows.is_empty() { 0.0 } else { rho }
                })
            }
            Self::AveragePrecision { scores, positive } => {
                let entries = (0..).zip(scores).zip(positive);
                let ranking = DetectionRanking::new(entries.map(|((row, &score), &right)| (row, score as f32, right)));
                Box::new(move |rows| {
                    let counts = counts(rows, scores.len());
                    let positives = positive.iter().zip(&counts).filter(|it| *it.0).map(|it| it.1).sum();
                    ranking.average_precision(positives, |row| counts[row as usize])[0]
                })
            }
            Self::RocAuc { scores, positive } => {
                let ranking = RocRanking::new(scores, positive);
                Box::new(move |rows| {
                    let counts = counts(rows, scores.len());
                    ranking.area(|row| counts[row])
                })
            }
        }
    }

    /// The units that a resample draws: whole `clusters` if queries are dependent, otherwise queries. For a mean of
    /// groups, queries are drawn within their groups, so no group is missing from a resample.
    pub fn units(&self, clusters: Option<&[u32]>) -> BootstrapUnits {
        match (clusters, self) {
            (Some(clusters), _) => BootstrapUnits::clusters(clusters),
            (None, Self::MeanOfGroups { groups, .. }) => BootstrapUnits::strata(groups),
            _ => BootstrapUnits::Rows(self.len()),
        }
    }

    /// 95 % percentile bootstrap interval of the value, drawing `units`; see [`crate::metrics::bootstrap_units`].
    ///
    /// If a mean or a mean of groups has at least two values, and all are 1 or all are 0, all resamples are equal. The
    /// interval is then the exact binomial bound (Clopper and Pearson 1934) with one answer per unit. In all other
    /// cases it is `None` for fewer than two units.
    pub fn interval(&self, units: &BootstrapUnits, seed: u64) -> Option<[f64; 2]> {
        let exact = 0.025_f64.powf(1.0 / units.len() as f64);
        match self {
            Self::Mean { values } | Self::MeanOfGroups { values, .. } if values.len() > 1 => {
                if values.iter().all(|&it| it == 1.0) {
                    return Some([exact, 1.0]);
                }
                if values.iter().all(|&it| it == 0.0) {
                    return Some([0.0, 1.0 - exact]);
                }
            }
            _ => {}
        }
        bootstrap_units(units, seed, self.draws())
    }

    /// Returns true if `other` can come from the same queries: the statistic and the number of queries are equal, and
    /// so are the groups, the grades or the classes.
    pub fn pairs_with(&self, other: &Self) -> bool {
        self.len() == other.len()
            && match (self, other) {
                (Self::Mean { .. }, Self::Mean { .. }) | (Self::HarmonicMean { .. }, Self::HarmonicMean { .. }) => true,
                (Self::MeanOfGroups { groups: a, .. }, Self::MeanOfGroups { groups: b, .. }) => a == b,
                (Self::Spearman { truth: a, .. }, Self::Spearman { truth: b, .. }) => a == b,
                (Self::AveragePrecision { positive: a, .. }, Self::AveragePrecision { positive: b, .. })
                | (Self::RocAuc { positive: a, .. }, Self::RocAuc { positive: b, .. }) => a == b,
                _ => false,
            }
    }
}

/// How often each of `0..len` occurs in `rows`.
fn counts(rows: &[usize], len: usize) -> Vec<f64> {
    let mut counts = vec![0.0; len];
    rows.iter().for_each(|&row| counts[row] += 1.0);
    counts
}

fn mean(values: &[f64], rows: &[usize]) -> f64 {
    rows.iter().map(|&row| values[row]).sum::<f64>() / rows.len() as f64
}

/// Group indices are less than `group_count`. Groups without a row are left out.
fn mean_of_groups(values: &[f64], groups: &[u32], group_count: usize, rows: &[usize]) -> f64 {
    let mut sums = vec![(0.0, 0usize); group_count];
    for &row in rows {
        let (sum, count) = &mut sums[groups[row] as usize];
        *sum += values[row];
        *count += 1;
    }
    let means: Vec<f64> = sums.iter().filter(|it| it.1 > 0).map(|&(sum, count)| sum / count as f64).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

impl From<Vec<f64>> for Outcomes {
    fn from(values: Vec<f64>) -> Self {
        Self::Mean { values }
    }
}

impl FromIterator<bool> for Outcomes {
    fn from_iter<I: IntoIterator<Item = bool>>(hits: I) -> Self {
        Self::Mean { values: hits.into_iter().map(|hit| f64::from(u8::from(hit))).collect() }
    }
}
