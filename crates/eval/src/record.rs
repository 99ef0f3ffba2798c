use serde::{Deserialize, Serialize};

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
        Some(Self { name: "chance".into(), value })
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
