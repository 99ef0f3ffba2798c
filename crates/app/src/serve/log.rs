//! A line of JSON on stdout for every request. A thread of its own writes them: whoever reads them slowly, or not at all, holds up no
//! answer.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::metrics::Metrics;
use crate::output::print_json;

/// Lines that wait to be written.
const WAITING: usize = 1024;
/// How long the last lines are waited for when the program ends.
const LAST: Duration = Duration::from_secs(1);

pub(crate) struct Log {
    /// `None` is the end.
    lines: SyncSender<Option<Value>>,
    /// Closed by the thread when it ends.
    ended: Mutex<Receiver<()>>,
    metrics: Arc<Metrics>,
}

impl Log {
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(metrics: &Arc<Metrics>) -> anyhow::Result<Self> {
        let (lines, waiting) = sync_channel::<Option<Value>>(WAITING);
        let (end, ended) = channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            let _end = end;
            while let Ok(Some(line)) = waiting.recv() {
                // A log that nobody reads any more is no reason to stop.
                _ = print_json(&line);
            }
        })?;
        Ok(Log { lines, ended: Mutex::new(ended), metrics: Arc::clone(metrics) })
    }

    /// A line; it is left out, and counted, where too many wait.
    pub(crate) fn tell(&self, line: Value) {
        if self.lines.try_send(Some(line)).is_err() {
            self.metrics.unlogged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The lines that wait are written, if somebody takes them.
    pub(crate) fn end(&self) {
        if self.lines.try_send(None).is_ok() {
            _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LAST);
        }
    }
}
