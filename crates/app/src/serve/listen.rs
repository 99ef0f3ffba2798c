//! Accepts connections and limits their number.
//!
//! Request heads and unread responses have timeouts. At the connection limit, a new connection replaces the one that
//! has been idle for the longest time.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::metrics::{Metrics, Raised};
use super::pulse::{Ambiguous, Pulse, TAKEN, Watched};

/// Timeout for the head of a request, counted from the start of the connection or the end of the previous response.
const HEAD: Duration = Duration::from_secs(10);
/// How long a shutdown waits for open connections.
const LAST: Duration = Duration::from_secs(10);
/// A connection that was active within this time is not closed in favour of a new one.
const SPARED: Duration = Duration::from_millis(500);
/// Maximum size of a request head in bytes.
const HEAD_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Connections {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: BTreeMap<u64, Arc<Pulse>>,
}

/// Serves requests until `stop` completes, then finishes the requests in progress.
///
/// # Errors
/// The listener cannot be registered with the async runtime.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    most: usize,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let connections = Arc::new(Connections::default());
    let (ending, ended) = watch::channel(false);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, _)) = accepted else {
            // Either the process is out of file descriptors or the client has disconnected. Wait, then accept the next
            // connection.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        match connections.enter(most) {
            Some((number, pulse)) => {
                let (connections, metrics) = (Arc::clone(&connections), Arc::clone(&metrics));
                let (router, ended) = (router.clone(), ended.clone());
                tokio::spawn(async move {
                    let raised = Raised::new(&metrics.connections);
                    attend(stream, router, &pulse, ended).await;
                    connections.leave(number);
                    drop(raised);
                });
            }
            None => {
                tokio::spawn(turn_away(stream, most));
            }
        }
    }
    drop(listener);
    // The send fails only if there is no receiver; then there is no connection to end.
    _ = ending.send(true);
    let patience = Instant::now() + LAST;
    while !connections.is_empty() && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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

async fn attend(stream: TcpStream, router: Router, pulse: &Arc<Pulse>, mut ended: watch::Receiver<bool>) {
    // Send small responses without delay. An error is harmless, because this is only an optimisation.
    _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: hyper::Request<hyper::body::Incoming>| {
        // The gate marks the connection as busy while it handles a request.
        request.extensions_mut().insert(Arc::clone(pulse));
        if pulse.next_is_ambiguous() {
            request.extensions_mut().insert(Ambiguous);
        }
        router.call(request.map(Body::new))
    });
    let stream = Watched::new(stream, Arc::clone(pulse), TAKEN);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut ending = false;
    loop {
        tokio::select! {
            // An error of the connection ends only this connection.
            _ = connection.as_mut() => return,
            () = pulse.close.notified() => return,
            _ = ended.changed(), if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Answers 503, because the connection limit is reached.
async fn turn_away(mut stream: TcpStream, most: usize) {
    let body = format!(
        r#"{{"error":{{"status":503,"message":"the limit of {most} open connections is reached; retry later"}}}}"#
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{body}",
        body.len()
    );
    // Give up if the client does not read the response within a second.
    _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(answer.as_bytes())).await;
}

impl Connections {
    /// Registers a new connection. At the limit, closes the connection that has been idle longest; returns `None` if
    /// none has been idle for [`SPARED`].
    fn enter(&self, most: usize) -> Option<(u64, Arc<Pulse>)> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all.len() >= most {
            let idle = open.all.iter().filter_map(|(number, it)| Some((it.idle()?, *number)));
            let (idle, idlest) = idle.max()?;
            if idle < SPARED {
                return None;
            }
            if let Some(given_up) = open.all.remove(&idlest) {
                given_up.close.notify_one();
            }
        }
        let (number, pulse) = (open.next, Arc::new(Pulse::new()));
        open.next += 1;
        open.all.insert(number, Arc::clone(&pulse));
        Some((number, pulse))
    }

    fn leave(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).all.remove(&number);
    }

    fn is_empty(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).all.is_empty()
    }
}
