use serde::{Deserialize, Serialize};

use crate::Outcomes;

/// A measured number with its sample size, interval and baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the benchmark in [`crate::BENCHMARKS`].
    pub benchmark: String,
    /// Part of the data, such as `text_to_image`, `all`, or the name of a rank.
    pub split: String,
    /// Variant of the protocol, where published evaluators differ.
    pub protocol: String,
    /// Name of the metric, e.g. `recall@10`.
    pub metric: String,
    /// The value. Rates are in `[0, 1]`.
    pub value: f64,
    /// 95 % bootstrap interval of the value over the queries.
    pub interval: Option<[f64; 2]>,
    /// Number of queries.
    pub n: usize,
    /// Value of a trivial answer on the same data.
    pub baseline: Option<Baseline>,
    /// Per-query values, for paired comparisons. Absent if the value is not a statistic over queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<Outcomes>,
    /// Cluster id of each query, e.g. the photo of a caption. Absent if the queries are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Vec<u32>>,
}

/// Names that identify a [`Record`].
#[derive(Clone, Copy, Debug)]
pub struct RecordKey<'a> {
    /// Name of the benchmark ([`Record::benchmark`]).
    pub benchmark: &'a str,
    /// Part of the data ([`Record::split`]).
    pub split: &'a str,
    /// Variant of the protocol ([`Record::protocol`]).
    pub protocol: &'a str,
    /// Name of the metric ([`Record::metric`]).
    pub metric: &'a str,
}

impl Record {
    /// Creates the record of a statistic over queries, with its interval.
    pub fn of(key: RecordKey<'_>, outcomes: impl Into<Outcomes>, baseline: Option<Baseline>, seed: u64) -> Self {
        Self::with(key, outcomes.into(), None, baseline, seed)
    }

    /// Like [`Record::of`], for dependent queries: `clusters` has the cluster id of each query, and the bootstrap draws
    /// whole clusters.
    pub fn clustered(
        key: RecordKey<'_>,
        outcomes: impl Into<Outcomes>,
        clusters: Vec<u32>,
        baseline: Option<Baseline>,
        seed: u64,
    ) -> Self {
        Self::with(key, outcomes.into(), Some(clusters), baseline, seed)
    }

    fn with(
        key: RecordKey<'_>,
        outcomes: Outcomes,
        clusters: Option<Vec<u32>>,
        baseline: Option<Baseline>,
        seed: u64,
    ) -> Self {
        let units = outcomes.units(clusters.as_deref());
        Self {
            benchmark: key.benchmark.into(),
            split: key.split.into(),
            protocol: key.protocol.into(),
            metric: key.metric.into(),
            value: outcomes.value(),
            interval: outcomes.interval(&units, seed),
            n: outcomes.len(),
            baseline,
            outcomes: Some(outcomes),
            clusters,
        }
    }

    /// Returns a copy without the per-query values.
    #[must_use]
    pub fn without_outcomes(&self) -> Self {
        Self { outcomes: None, clusters: None, ..self.clone() }
    }
}

/// Value of a trivial answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Name of the trivial answer, e.g. `chance` or `caption length (words)`.
    pub name: String,
    /// Value of the trivial answer, in the metric of the record.
    pub value: f64,
}

impl Baseline {
    /// Expected value of a uniformly random answer.
    pub fn chance(value: f64) -> Option<Self> {
        Self::named("chance", value)
    }

    /// The value of a named trivial answer.
    pub fn named(name: &str, value: f64) -> Option<Self> {
        Some(Self { name: name.into(), value })
    }
}

/// Table for display. The first row is the header.
pub fn table(records: &[Record]) -> Vec<Vec<String>> {
    let head = ["benchmark", "split", "protocol", "metric", "value", "95 % interval", "n", "baseline"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(records.iter().map(|it| {
        vec![
            it.benchmark.clone(),
            it.split.clone(),
            it.protocol.clone(),
            it.metric.clone(),
            format!("{:.4}", it.value),
            it.interval.map_or_else(String::new, |[lo, hi]| format!("{lo:.4} .. {hi:.4}")),
            it.n.to_string(),
            it.baseline.as_ref().map_or_else(String::new, |b| format!("{:.4} ({})", b.value, b.name)),
        ]
    }));
    rows
}
