//! Request log: writes one line of JSON to stdout per request.
//!
//! A separate thread writes the lines, so that a slow or stopped reader of stdout does not delay responses.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::metrics::Metrics;
use crate::output::print_json;

/// Capacity of the queue of lines.
const QUEUE_LINES: usize = 1024;
/// How long a shutdown waits for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct RequestLog {
    /// `None` ends the thread.
    lines: SyncSender<Option<Value>>,
    /// Disconnected when the thread ends.
    ended: Mutex<Receiver<()>>,
    metrics: Arc<Metrics>,
}

impl RequestLog {
    /// # Errors
    /// The thread cannot be spawned.
    pub(crate) fn start(metrics: &Arc<Metrics>) -> anyhow::Result<Self> {
        let (lines, waiting) = sync_channel::<Option<Value>>(QUEUE_LINES);
        let (end, ended) = channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            let _end = end;
            while let Ok(Some(line)) = waiting.recv() {
                // Ignore write errors, so that the server keeps running without a reader of its log.
                _ = print_json(&line);
            }
        })?;
        Ok(RequestLog { lines, ended: Mutex::new(ended), metrics: Arc::clone(metrics) })
    }

    /// Queues a line. If the queue is full, drops the line and counts it in the metric `conifer_unlogged`.
    pub(crate) fn push(&self, line: Value) {
        if self.lines.try_send(Some(line)).is_err() {
            self.metrics.unlogged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the queued lines are written, but at most [`FLUSH_TIMEOUT`], and not at all if the queue is full.
    pub(crate) fn end(&self) {
        if self.lines.try_send(None).is_ok() {
            _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(FLUSH_TIMEOUT);
        }
    }
}
