//! Logs of a run: `metrics.jsonl` and TensorBoard events, with one record per logged step.

mod metrics;
mod tensorboard;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use metrics::{METRICS_FILE, MetricsFile, read_metrics};
pub use tensorboard::EventFile;

use crate::error::Result;

/// Measurements of one optimiser step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// Number of updates, including this one (the first step is 1).
    pub step: u64,
    /// Epoch of the first sample of this step, counted from 0.
    pub epoch: u64,
    /// Learning rate of this step.
    pub lr: f64,
    /// Decay rate of the first moment, if the schedule sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta1: Option<f64>,
    /// Total loss, mean over the accumulated batches.
    pub loss: f64,
    /// Each term of the loss by name: its mean over its samples.
    pub terms: serde_json::Map<String, serde_json::Value>,
    /// Value of each learnable scalar by name (not its logarithm), before the update: one number, or one per factor.
    pub scalars: serde_json::Map<String, serde_json::Value>,
    /// Euclidean norm over all gradients, before clipping.
    pub gradient_norm: f64,
    /// Samples seen so far.
    pub samples: u64,
    /// Throughput since the last record.
    pub samples_per_second: f64,
    /// Estimated seconds until the end of the run.
    pub eta_seconds: f64,
    /// Broken samples replaced so far.
    pub broken: u64,
    /// Number of samples used so far whose taxon lacks a rank, by rank name; empty if there are none.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub missing_ranks: serde_json::Map<String, serde_json::Value>,
    /// Peak memory of the process, MiB; absent if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_mb: Option<f64>,
    /// Results of an evaluation after this step, by name; empty if there was none.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub eval: serde_json::Map<String, serde_json::Value>,
}

/// The two logs of a run: `metrics.jsonl` and the TensorBoard events.
#[derive(Debug)]
pub struct RunLog {
    metrics: MetricsFile,
    events: EventFile,
}

impl RunLog {
    /// Opens the logs in `folder` to continue after `step` updates (0: from the start). Records of later steps are
    /// removed from `metrics.jsonl`, and TensorBoard ignores them: the run wrote them after the checkpoint from which
    /// it now resumes.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn open(folder: &Path, step: u64) -> Result<Self> {
        Ok(Self { metrics: MetricsFile::open(folder, step)?, events: EventFile::create(folder, step)? })
    }

    /// Appends one record to both logs.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&mut self, record: &StepRecord) -> Result<()> {
        self.metrics.append(record)?;
        self.events.scalars(record.step, &tags(record))
    }
}

/// Converts a record to TensorBoard tags. A scalar with one value per factor becomes its minimum, mean and maximum,
/// because hundreds of curves are unreadable; `metrics.jsonl` has all values.
fn tags(record: &StepRecord) -> Vec<(String, f64)> {
    let mut tags = vec![
        ("optim/lr".to_owned(), record.lr),
        ("optim/gradient_norm".to_owned(), record.gradient_norm),
        ("loss/total".to_owned(), record.loss),
        ("speed/samples_per_second".to_owned(), record.samples_per_second),
        ("data/broken".to_owned(), record.broken as f64),
    ];
    if let Some(beta1) = record.beta1 {
        tags.push(("optim/beta1".to_owned(), beta1));
    }
    if let Some(peak) = record.peak_rss_mb {
        tags.push(("memory/peak_rss_mb".to_owned(), peak));
    }
    for (name, value) in &record.missing_ranks {
        tags.push((format!("data/missing_rank/{name}"), value.as_f64().unwrap_or(f64::NAN)));
    }
    for (name, value) in &record.terms {
        tags.push((format!("loss/{name}"), value.as_f64().unwrap_or(f64::NAN)));
    }
    for (name, value) in &record.eval {
        tags.push((format!("eval/{name}"), value.as_f64().unwrap_or(f64::NAN)));
    }
    for (name, value) in &record.scalars {
        match value.as_array() {
            None => tags.push((format!("scalar/{name}"), value.as_f64().unwrap_or(f64::NAN))),
            Some(values) => {
                let values: Vec<f64> = values.iter().filter_map(serde_json::Value::as_f64).collect();
                let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
                tags.push((format!("scalar/{name}/min"), values.iter().copied().fold(f64::INFINITY, f64::min)));
                tags.push((format!("scalar/{name}/mean"), mean));
                tags.push((format!("scalar/{name}/max"), values.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
            }
        }
    }
    tags
}
