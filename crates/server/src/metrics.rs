//! Request counts, latencies and gauges for Prometheus.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry, TextEncoder, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_with_registry,
};
use tracing_appender::non_blocking::ErrorCounter;

use crate::error::{HttpError, HttpResult};

/// Histogram bucket bounds in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    /// Requests in progress.
    pub(crate) in_flight: IntGauge,
    /// Searches and image jobs that wait for a permit or hold one.
    pub(crate) at_work: IntGauge,
    pub(crate) connections: IntGauge,
    /// Counts the lines that the request log dropped, if there is a log.
    dropped: Option<ErrorCounter>,
}

/// Increments a gauge, and decrements it when dropped.
pub(crate) struct GaugeGuard<'a>(&'a IntGauge);

impl<'a> GaugeGuard<'a> {
    pub(crate) fn new(gauge: &'a IntGauge) -> Self {
        gauge.inc();
        GaugeGuard(gauge)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// # Errors
    /// A name is invalid or used twice.
    pub(crate) fn new(dropped: Option<ErrorCounter>) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let gauge = |name: &str, help: &str| register_int_gauge_with_registry!(name, help, registry);
        Ok(Metrics {
            requests: register_int_counter_vec_with_registry!(
                "conifer_requests_total",
                "Finished requests.",
                &["route", "status"],
                registry
            )?,
            durations: register_histogram_vec_with_registry!(
                "conifer_request_duration_seconds",
                "Time to a response.",
                &["route"],
                BUCKETS.to_vec(),
                registry
            )?,
            in_flight: gauge("conifer_requests_in_flight", "Requests in progress.")?,
            at_work: gauge("conifer_jobs_in_flight", "Searches and image jobs that wait for a permit or hold one.")?,
            connections: gauge("conifer_connections", "Open connections.")?,
            dropped,
            registry,
        })
    }

    /// Counts a finished request. `route` is a route pattern and never a path from a client, which bounds the number of
    /// label values.
    pub(crate) fn count(&self, route: &str, status: u16, took: Duration) {
        self.requests.with_label_values(&[route, &status.to_string()]).inc();
        self.durations.with_label_values(&[route]).observe(took.as_secs_f64());
    }

    /// All metrics in the text format of Prometheus. `more` has additional values: name, help text, value.
    /// Values whose names end in `_total` are counters; all others are gauges.
    pub(crate) fn text(&self, more: &[(&str, &str, usize)]) -> HttpResult<String> {
        let encoded = || {
            let mut families = self.registry.gather();
            let dropped = self.dropped.as_ref().map_or(0, ErrorCounter::dropped_lines);
            let dropped = ("conifer_log_lines_dropped_total", "Log lines dropped from a full queue.", dropped);
            for (name, help, value) in more.iter().chain([&dropped]) {
                families.extend(if name.ends_with("_total") {
                    let counter = IntCounter::new(*name, *help)?;
                    counter.inc_by(*value as u64);
                    counter.collect()
                } else {
                    let gauge = IntGauge::new(*name, *help)?;
                    gauge.set(i64::try_from(*value).unwrap_or(i64::MAX));
                    gauge.collect()
                });
            }
            TextEncoder::new().encode_to_string(&families)
        };
        encoded().map_err(|error| HttpError::fault(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn metrics_have_the_text_format_of_prometheus() {
        let metrics = Metrics::new(None).unwrap();
        metrics.count("/a", 200, Duration::from_millis(2));
        metrics.count("/a", 404, Duration::from_secs(60));
        let guard = GaugeGuard::new(&metrics.in_flight);
        let text = metrics.text(&[("conifer_rows", "Rows.", 7)]).unwrap();
        for line in [
            "conifer_requests_total{route=\"/a\",status=\"200\"} 1",
            "conifer_requests_total{route=\"/a\",status=\"404\"} 1",
            "conifer_request_duration_seconds_bucket{route=\"/a\",le=\"0.001\"} 0",
            "conifer_request_duration_seconds_bucket{route=\"/a\",le=\"5\"} 1",
            "conifer_request_duration_seconds_count{route=\"/a\"} 2",
            "# TYPE conifer_log_lines_dropped_total counter",
            "conifer_requests_in_flight 1",
            "conifer_rows 7",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        drop(guard);
        assert!(metrics.text(&[]).unwrap().contains("conifer_requests_in_flight 0"));
    }
}
