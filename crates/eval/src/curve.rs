use serde::Serialize;

use crate::metrics::ThresholdCurveSums;
use crate::record::RecordKey;

/// A precision-recall curve over the thresholds of a score, averaged over queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrecisionRecallCurve {
    /// Name of the benchmark ([`crate::Record::benchmark`]).
    pub benchmark: String,
    /// Part of the data ([`crate::Record::split`]).
    pub split: String,
    /// Variant of the protocol ([`crate::Record::protocol`]).
    pub protocol: String,
    /// How the queries are averaged.
    pub average: CurveAverage,
    /// The points, from the strictest threshold on.
    pub points: Vec<CurvePoint>,
}

/// How the curves of several queries are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CurveAverage {
    /// Mean precision and mean recall of the queries at each threshold.
    Mean,
    /// Precision and recall of the candidates of all queries together.
    Pooled,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The threshold, in the unit of the score.
    pub threshold: f64,
    /// Right candidates that pass the threshold, divided by all right candidates.
    pub recall: f64,
    /// Right candidates that pass the threshold, divided by all candidates that pass. `None` if none passes.
    pub precision: Option<f64>,
    /// Number of queries for which at least one candidate passes, among the queries with a right candidate.
    pub queries: u64,
}

impl CurveAverage {
    /// All averages.
    pub const ALL: [Self; 2] = [Self::Mean, Self::Pooled];

    /// Name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Pooled => "pooled",
        }
    }
}

impl PrecisionRecallCurve {
    /// Returns both averages of the queries in `sums`. `threshold` converts a threshold in [0, 1], where 0 is the
    /// strictest, to the unit of the score. The metric of `key` is not used.
    pub(crate) fn both(key: RecordKey<'_>, sums: &ThresholdCurveSums, threshold: impl Fn(f64) -> f64) -> [Self; 2] {
        CurveAverage::ALL.map(|average| Self {
            benchmark: key.benchmark.into(),
            split: key.split.into(),
            protocol: key.protocol.into(),
            average,
            points: sums.points(average).map(|it| CurvePoint { threshold: threshold(it.threshold), ..it }).collect(),
        })
    }
}
