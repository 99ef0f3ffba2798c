//! Request log: one line per request on stdout.
//!
//! A separate thread writes the lines, so that a slow or stopped reader of stdout does not delay responses. Lines that
//! do not fit into its queue are dropped and counted.

use std::io::stdout;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;

use crate::settings::LogFormat;

/// Target of the events of requests. Events of libraries are not logged.
pub(crate) const REQUESTS: &str = "conifer::requests";
/// Capacity of the queue of lines.
const QUEUE_LINES: usize = 1024;

/// The writing thread. Dropping it waits until the queued lines are written, but at most about a second.
pub(crate) struct RequestLog {
    dropped: ErrorCounter,
    _worker: WorkerGuard,
}

impl RequestLog {
    /// # Errors
    /// The process already has a log.
    pub(crate) fn start(format: LogFormat) -> Result<Self, SetGlobalDefaultError> {
        let (writer, worker) = NonBlockingBuilder::default().buffered_lines_limit(QUEUE_LINES).finish(stdout());
        let dropped = writer.error_counter();
        let lines = fmt::layer().with_target(false).with_writer(writer);
        let lines = match format {
            LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
            LogFormat::Text => lines.with_ansi(false).boxed(),
        };
        let filter = Targets::new().with_target(REQUESTS, Level::INFO).with_default(LevelFilter::OFF);
        tracing::subscriber::set_global_default(registry().with(lines.with_filter(filter)))?;
        Ok(Self { dropped, _worker: worker })
    }

    /// Counts the lines that were dropped because the queue was full.
    pub(crate) fn dropped(&self) -> ErrorCounter {
        self.dropped.clone()
    }
}
