//! Limits how many requests use a CPU core at the same time.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::{HttpError, HttpResult};

/// Permits for work on blocking threads. Searches and decoding have separate permits, because decoding large photos is
/// slow and searches must not wait for it.
pub(crate) struct Permits {
    searches: Arc<Semaphore>,
    decoders: Arc<Semaphore>,
}

impl Permits {
    /// Allows one search per core and half as many decoders, but at least one and at most `max_decoders`, because each
    /// holds a decoded photo in memory.
    pub(crate) fn new(cores: usize, max_decoders: usize) -> Self {
        let decoders = (cores / 2).clamp(1, max_decoders);
        Self { searches: Arc::new(Semaphore::new(cores)), decoders: Arc::new(Semaphore::new(decoders)) }
    }

    /// Runs work that uses a core, except the decoding of uploads. Permits are granted in order of arrival.
    pub(crate) async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> HttpResult<T> + Send + 'static,
    ) -> HttpResult<T> {
        run(&self.searches, work).await
    }

    /// Runs the decoding of an upload.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> HttpResult<T> + Send + 'static,
    ) -> HttpResult<T> {
        run(&self.decoders, work).await
    }
}

/// Waits for a permit and runs the work on a blocking thread. If the caller stops waiting, the work still runs to its
/// end and keeps its permit until then.
async fn run<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> HttpResult<T> + Send + 'static,
) -> HttpResult<T> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(|error| HttpError::fault(error.to_string()))?;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.map_err(|_| HttpError::fault("internal server error"))?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn searches_do_not_wait_for_decoders() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let permits = Arc::new(Permits::new(2, 4));
        let running = Arc::new(AtomicUsize::new(0));
        let (release, wait) = channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        runtime.block_on(async {
            // Start eight uploads. The upload that has the permit blocks until the test releases it.
            let uploads: Vec<_> = (0..8)
                .map(|_| {
                    let (permits, running, wait) = (Arc::clone(&permits), Arc::clone(&running), Arc::clone(&wait));
                    tokio::spawn(async move {
                        let work = move || {
                            running.fetch_add(1, Ordering::SeqCst);
                            _ = wait.lock().unwrap().recv();
                            Ok(())
                        };
                        permits.decode(work).await.is_ok()
                    })
                })
                .collect();
            while running.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // All searches run while the decoder permits are taken.
            for _ in 0..20 {
                let found = tokio::time::timeout(Duration::from_secs(30), permits.search(|| Ok(5))).await;
                assert!(matches!(found, Ok(Ok(5))));
            }
            assert_eq!(running.load(Ordering::SeqCst), 1, "one decoder on two cores");
            (0..8).for_each(|_| release.send(()).unwrap());
            for upload in uploads {
                assert!(upload.await.unwrap());
            }
        });
        assert_eq!(running.load(Ordering::SeqCst), 8);
    }
}
