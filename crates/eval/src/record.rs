use serde::{Deserialize, Serialize};

use crate::Outcomes;

/// One measured number, with what is needed to trust it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the benchmark in [`crate::BENCHMARKS`].
    pub benchmark: String,
    /// Which part of the data: `text_to_image`, `all`, a rank ...
    pub split: String,
    /// Which variant of the protocol, where published evaluators differ.
    pub protocol: String,
    /// Name of the metric, e.g. `recall@10`.
    pub metric: String,
    /// The value; rates in `[0, 1]`.
    pub value: f64,
    /// 95 % bootstrap interval of the value over the queries.
    pub interval: Option<[f64; 2]>,
    /// Number of queries behind the value.
    pub n: usize,
    /// What a trivial answer gets on the same data.
    pub baseline: Option<Baseline>,
    /// What each query contributed, where the value is a statistic over queries: for paired comparisons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<Outcomes>,
    /// Which queries hang together, a number for each: the photo of a caption. Absent where each stands for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Vec<u32>>,
}

/// Where a number belongs: the names of a [`Record`].
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// As in [`Record::benchmark`].
    pub benchmark: &'a str,
    /// As in [`Record::split`].
    pub split: &'a str,
    /// As in [`Record::protocol`].
    pub protocol: &'a str,
    /// As in [`Record::metric`].
    pub metric: &'a str,
}

impl Record {
    /// The record of a statistic over queries, with its interval.
    pub fn of(place: Place<'_>, outcomes: impl Into<Outcomes>, baseline: Option<Baseline>, seed: u64) -> Self {
        Self::with(place, outcomes.into(), None, baseline, seed)
    }

    /// The same for queries that hang together: `clusters` has a number for each, and the interval draws whole clusters.
    pub fn clustered(
        place: Place<'_>,
        outcomes: impl Into<Outcomes>,
        clusters: Vec<u32>,
        baseline: Option<Baseline>,
        seed: u64,
    ) -> Self {
        Self::with(place, outcomes.into(), Some(clusters), baseline, seed)
    }

    fn with(
        place: Place<'_>,
        outcomes: Outcomes,
        clusters: Option<Vec<u32>>,
        baseline: Option<Baseline>,
        seed: u64,
    ) -> Self {
        let units = outcomes.units(clusters.as_deref());
        Self {
            benchmark: place.benchmark.into(),
            split: place.split.into(),
            protocol: place.protocol.into(),
            metric: place.metric.into(),
            value: outcomes.value(),
            interval: outcomes.interval(&units, seed),
            n: outcomes.len(),
            baseline,
            outcomes: Some(outcomes),
            clusters,
        }
    }

    /// The same without what each query gave, for a reader who wants the numbers.
    #[must_use]
    pub fn without_outcomes(&self) -> Self {
        Self { outcomes: None, clusters: None, ..self.clone() }
    }
}

/// What a trivial answer gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The trivial answer: `chance`, `caption length (words)` ...
    pub name: String,
    /// Its value of the same metric.
    pub value: f64,
}

impl Baseline {
    /// Expected value of a uniformly random answer.
    pub fn chance(value: f64) -> Option<Self> {
        Self::named("chance", value)
    }

    /// The value of a trivial answer that has a name.
    pub fn named(name: &str, value: f64) -> Option<Self> {
        Some(Self { name: name.into(), value })
    }
}

/// Rows of cells for people, the head first.
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
