//! Tracks the activity of a connection, and closes it if the client does not read its response.

use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Sleep;

use crate::limits::framing::Framing;

/// Maximum time from the first write that returns `Pending` to the next flush.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The idle timer is reset once per this many transferred bytes. Occasional single bytes must not keep a connection
/// open.
const ACTIVITY_BYTES: u64 = 16 << 10;

/// The activity of an open connection.
pub(crate) struct ConnectionActivity {
    opened: Instant,
    /// Milliseconds from `opened` to the last activity.
    last: AtomicU64,
    /// Bytes read and written.
    bytes: AtomicU64,
    /// Requests of this connection in progress.
    at_work: AtomicUsize,
    pub(crate) close: Notify,
    /// Requests passed to the router.
    requests: AtomicU64,
    /// Index of the request whose head is ambiguous ([`Framing`]); `u64::MAX` if there is none.
    ambiguous: AtomicU64,
}

/// Extension of a request whose head has both `Content-Length` and `Transfer-Encoding`.
#[derive(Clone, Copy)]
pub(crate) struct AmbiguousHead;

/// Guard of a request in progress. While it lives, the connection is not idle.
pub(crate) struct RequestGuard(Arc<ConnectionActivity>);

impl ConnectionActivity {
    pub(crate) fn new() -> Self {
        let (last, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        ConnectionActivity {
            opened: Instant::now(),
            last,
            bytes,
            at_work: AtomicUsize::new(0),
            close: Notify::new(),
            requests: AtomicU64::new(0),
            ambiguous: AtomicU64::new(u64::MAX),
        }
    }

    /// Counts the next request of the connection, and returns true if its head is ambiguous.
    pub(crate) fn next_is_ambiguous(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) == self.ambiguous.load(Ordering::Relaxed)
    }

    /// Time since the last activity; `None` while a request is in progress.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        (self.at_work.load(Ordering::Relaxed) == 0).then(|| self.opened.elapsed().saturating_sub(last))
    }

    pub(crate) fn at_work(self: Arc<Self>) -> RequestGuard {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        RequestGuard(self)
    }

    fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    fn add_bytes(&self, bytes: usize) {
        let before = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before / ACTIVITY_BYTES != (before + bytes as u64) / ACTIVITY_BYTES {
            self.touch();
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that records its activity, and fails if the client does not receive written data in time.
pub(crate) struct MonitoredStream {
    stream: TcpStream,
    activity: Arc<ConnectionActivity>,
    timeout: Duration,
    framing: Framing,
    /// Write timeout: started by the first write that returns `Pending`, cleared by the next flush.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl MonitoredStream {
    pub(crate) fn new(stream: TcpStream, activity: Arc<ConnectionActivity>, timeout: Duration) -> Self {
        MonitoredStream { stream, activity, timeout, framing: Framing::default(), deadline: None }
    }

    fn written(&mut self, context: &mut Context<'_>, result: Poll<Result<usize, Error>>) -> Poll<Result<usize, Error>> {
        if let Poll::Ready(result) = result {
            self.activity.add_bytes(*result.as_ref().unwrap_or(&0));
            return Poll::Ready(result);
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.framing.feed(&into.filled()[before..]);
        if let Some(number) = self.framing.ambiguous() {
            self.activity.ambiguous.store(number, Ordering::Relaxed);
        }
        self.activity.add_bytes(into.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Error>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.written(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when all ready data is written, so the deadline is cleared. The next blocked write starts a new
    /// one.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read as _;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the monitored server end of a connection, its activity, and the client end.
    async fn pair(timeout: Duration) -> (MonitoredStream, Arc<ConnectionActivity>, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let activity = Arc::new(ConnectionActivity::new());
        (MonitoredStream::new(listener.accept().await.unwrap().0, Arc::clone(&activity), timeout), activity, client)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
    }

    #[test]
    fn slow_readers_are_disconnected() {
        run(async {
            let bytes = vec![7; 64 << 20];
            let (mut ours, _, _client) = pair(Duration::from_millis(200)).await;
            assert_eq!(ours.write_all(&bytes).await.unwrap_err().kind(), ErrorKind::TimedOut);

            // The timeout applies to each piece, not to the whole transfer.
            let (mut ours, _, mut client) = pair(Duration::from_secs(20)).await;
            let reader = std::thread::spawn(move || {
                let mut taken = vec![0; 4 << 20];
                (0..16).for_each(|_| client.read_exact(&mut taken).unwrap());
            });
            for piece in bytes.chunks(64 << 10) {
                ours.write_all(piece).await.unwrap();
                ours.flush().await.unwrap();
                assert!(ours.deadline.is_none());
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn single_bytes_do_not_reset_the_idle_timer() {
        run(async {
            let (mut ours, activity, _client) = pair(WRITE_TIMEOUT).await;
            std::thread::sleep(Duration::from_millis(300));
            ours.write_all(b"a").await.unwrap();
            assert!(activity.idle().unwrap() >= Duration::from_millis(300));
            ours.write_all(&vec![7; ACTIVITY_BYTES as usize]).await.unwrap();
            let idle = activity.idle().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            assert!(idle < activity.opened.elapsed() - Duration::from_millis(300));
            // The connection is not idle during a request, and the end of the request resets the idle timer.
            let work = Arc::clone(&activity).at_work();
            assert_eq!(activity.idle(), None);
            drop(work);
            assert!(activity.idle().unwrap() < activity.opened.elapsed() - Duration::from_millis(300));
        });
    }
}
