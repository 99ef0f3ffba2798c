//! Request counts and latencies in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Histogram bucket bounds in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

#[derive(Default)]
pub(crate) struct Metrics {
    /// Requests in progress.
    pub(crate) in_flight: AtomicUsize,
    /// Searches and image jobs that wait for a permit or hold one.
    pub(crate) at_work: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    /// Log lines that were dropped because the log queue was full.
    pub(crate) unlogged: AtomicUsize,
    routes: Mutex<BTreeMap<String, RouteMetrics>>,
}

#[derive(Default)]
struct RouteMetrics {
    statuses: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

/// Increments a gauge while it lives.
pub(crate) struct GaugeGuard<'a>(&'a AtomicUsize);

impl<'a> GaugeGuard<'a> {
    pub(crate) fn new(number: &'a AtomicUsize) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(number)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a finished request. `route` is a route pattern and never a path from a client, which bounds the number of
    /// label values.
    pub(crate) fn count(&self, route: &str, status: u16, took: Duration) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let route = routes.entry(route.to_owned()).or_default();
        *route.statuses.entry(status).or_insert(0) += 1;
        let seconds = took.as_secs_f64();
        route.count += 1;
        route.seconds += seconds;
        for (end, count) in BUCKETS.iter().zip(&mut route.buckets) {
            *count += u64::from(seconds <= *end);
        }
    }

    /// Formats all metrics. `more` has additional gauges: name, help text, value.
    pub(crate) fn text(&self, more: &[(&str, &str, usize)]) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let mut line = |text: std::fmt::Arguments<'_>| _ = writeln!(out, "{text}");
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        line(format_args!("# HELP conifer_requests_total Finished requests.\n# TYPE conifer_requests_total counter"));
        for (name, route) in routes.iter() {
            for (status, count) in &route.statuses {
                line(format_args!("conifer_requests_total{{route=\"{name}\",status=\"{status}\"}} {count}"));
            }
        }
        line(format_args!(
            "# HELP conifer_request_seconds Time to a response.\n# TYPE conifer_request_seconds histogram"
        ));
        for (name, route) in routes.iter() {
            for (end, count) in BUCKETS.iter().zip(&route.buckets) {
                line(format_args!("conifer_request_seconds_bucket{{route=\"{name}\",le=\"{end}\"}} {count}"));
            }
            let RouteMetrics { count, seconds, .. } = route;
            line(format_args!("conifer_request_seconds_bucket{{route=\"{name}\",le=\"+Inf\"}} {count}"));
            line(format_args!("conifer_request_seconds_sum{{route=\"{name}\"}} {seconds}"));
            line(format_args!("conifer_request_seconds_count{{route=\"{name}\"}} {count}"));
        }
        let now = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let own = [
            ("conifer_in_flight", "Requests in progress.", now(&self.in_flight)),
            ("conifer_at_work", "Searches and image jobs that wait for a permit or hold one.", now(&self.at_work)),
            ("conifer_connections", "Open connections.", now(&self.connections)),
            ("conifer_unlogged", "Dropped log lines.", now(&self.unlogged)),
        ];
        for (name, help, value) in own.iter().chain(more) {
            line(format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let metrics = Metrics::default();
        metrics.count("/a", 200, Duration::from_millis(2));
        metrics.count("/a", 404, Duration::from_secs(60));
        let guard = GaugeGuard::new(&metrics.in_flight);
        let text = metrics.text(&[("conifer_rows", "Rows.", 7)]);
        for line in [
            "conifer_requests_total{route=\"/a\",status=\"200\"} 1",
            "conifer_requests_total{route=\"/a\",status=\"404\"} 1",
            "conifer_request_seconds_bucket{route=\"/a\",le=\"0.001\"} 0",
            "conifer_request_seconds_bucket{route=\"/a\",le=\"0.0025\"} 1",
            "conifer_request_seconds_bucket{route=\"/a\",le=\"5\"} 1",
            "conifer_request_seconds_bucket{route=\"/a\",le=\"+Inf\"} 2",
            "conifer_in_flight 1",
            "conifer_rows 7",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        drop(guard);
        assert!(metrics.text(&[]).contains("conifer_in_flight 0"));
    }
}
