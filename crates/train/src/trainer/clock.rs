//! Throughput, remaining time and peak memory of a run.

use std::time::Instant;

use super::state::TrainState;
use crate::log::StepRecord;
use crate::memory::peak_rss_mb;

/// Computes throughput since the last record and remaining time, and reads the peak memory.
pub(super) struct Clock {
    started: Instant,
    first_step: u64,
    since: Instant,
    samples: u64,
}

impl Clock {
    pub(super) fn start(state: &TrainState) -> Self {
        let now = Instant::now();
        Self { started: now, first_step: state.step, since: now, samples: state.samples }
    }

    pub(super) fn fill(&self, record: &mut StepRecord, steps: u64) {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        record.samples_per_second = (record.samples - self.samples) as f64 / seconds;
        record.peak_rss_mb = peak_rss_mb();
        let taken = record.step - self.first_step;
        record.eta_seconds = self.started.elapsed().as_secs_f64() / taken as f64 * (steps - record.step) as f64;
    }

    pub(super) fn restart(&mut self, record: &StepRecord) {
        self.since = Instant::now();
        self.samples = record.samples;
    }
}
