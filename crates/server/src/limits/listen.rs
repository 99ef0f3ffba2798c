//! Accepts connections and limits their number.
//!
//! Request heads and unread responses have timeouts. At the connection limit, a new connection replaces the one that
//! has been idle for the longest time.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::error::RETRY_SECONDS;
use crate::limits::activity::{AmbiguousHead, ConnectionActivity, MonitoredStream, WRITE_TIMEOUT};
use crate::metrics::{GaugeGuard, Metrics};

/// Timeout for the head of a request, counted from the start of the connection or the end of the previous response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a shutdown waits for open connections.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum idle time of a connection that is closed in favour of a new one.
const MIN_IDLE: Duration = Duration::from_millis(500);
/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The open connections by number.
#[derive(Default)]
struct ConnectionTable {
    next: u64,
    open: BTreeMap<u64, Arc<ConnectionActivity>>,
}

/// Serves requests until `stop` completes, then finishes the requests in progress.
///
/// # Errors
/// The listener cannot be registered with the async runtime.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    max_connections: usize,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let table = Arc::new(Mutex::new(ConnectionTable::default()));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, _)) = accepted else {
            // For example, the process is out of file descriptors or the client has disconnected. Wait, then accept
            // again.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Some((number, activity)) = lock(&table).enter(max_connections) else {
            tokio::spawn(reject(stream, max_connections));
            continue;
        };
        let connection = graceful.watch(connection(stream, router.clone(), Arc::clone(&activity)));
        let (table, metrics) = (Arc::clone(&table), Arc::clone(&metrics));
        tokio::spawn(async move {
            let _open = GaugeGuard::new(&metrics.connections);
            tokio::select! {
                // An error of the connection ends only this connection.
                _ = connection => {}
                () = activity.close.notified() => {}
            }
            lock(&table).open.remove(&number);
        });
    }
    drop(listener);
    // Connections that are still open after the timeout are closed when the runtime ends.
    _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
    Ok(())
}

/// Completes on Ctrl-C or SIGTERM.
pub(crate) async fn stopped() {
    let interrupt = async {
        // If the handler cannot be installed, the default action of the system still ends the program.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

fn connection(
    stream: TcpStream,
    router: Router,
    activity: Arc<ConnectionActivity>,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    // Send small responses without delay. An error is harmless, because this is only an optimisation.
    _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let stream = MonitoredStream::new(stream, Arc::clone(&activity), WRITE_TIMEOUT);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        // The gate marks the connection as busy while it handles a request.
        request.extensions_mut().insert(Arc::clone(&activity));
        if activity.next_is_ambiguous() {
            request.extensions_mut().insert(AmbiguousHead);
        }
        router.call(request.map(Body::new))
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
}

/// Answers 503, because the connection limit is reached.
async fn reject(mut stream: TcpStream, max_connections: usize) {
    let body = format!(
        r#"{{"error":{{"status":503,"message":"the limit of {max_connections} open connections is reached; retry later"}}}}"#
    );
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\nretry-after: {RETRY_SECONDS}\r\n\r\n{body}",
        body.len()
    );
    // Give up if the client does not read the response within a second.
    _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(response.as_bytes())).await;
}

fn lock(table: &Mutex<ConnectionTable>) -> MutexGuard<'_, ConnectionTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionTable {
    /// Registers a new connection. At the limit, closes the connection that has been idle longest; returns `None` if
    /// none has been idle for [`MIN_IDLE`].
    fn enter(&mut self, max_connections: usize) -> Option<(u64, Arc<ConnectionActivity>)> {
        if self.open.len() >= max_connections {
            let (idle, idlest) = self.open.iter().filter_map(|(number, it)| Some((it.idle()?, *number))).max()?;
            if idle < MIN_IDLE {
                return None;
            }
            if let Some(closed) = self.open.remove(&idlest) {
                closed.close.notify_one();
            }
        }
        let (number, activity) = (self.next, Arc::new(ConnectionActivity::new()));
        self.next += 1;
        self.open.insert(number, Arc::clone(&activity));
        Some((number, activity))
    }
}
