//! A parallel map with bounded lookahead that preserves order, so that batches do not depend on the number of
//! threads.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};

/// Results of `work` on each of `jobs`, in the order of the jobs, computed ahead of time by several threads.
pub(super) struct OrderedParallelMap<J, O> {
    jobs: Box<dyn Iterator<Item = J> + Send>,
    /// Maximum number of jobs that are handed out but not yet returned. This bounds memory.
    ahead: usize,
    todo: Option<Sender<(u64, J)>>,
    done: Receiver<(u64, std::thread::Result<O>)>,
    /// Finished results whose predecessors are still running.
    waiting: BTreeMap<u64, std::thread::Result<O>>,
    handed_out: u64,
    returned: u64,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static, O: Send + 'static> OrderedParallelMap<J, O> {
    /// Starts `workers` threads (0: one per core). At most `ahead` jobs are running or finished but not returned. No
    /// job starts before the first call of `next`.
    pub(super) fn new(
        jobs: impl Iterator<Item = J> + Send + 'static,
        workers: usize,
        ahead: usize,
        work: impl Fn(J) -> O + Send + Sync + 'static,
    ) -> Self {
        let (todo, next_job) = unbounded::<(u64, J)>();
        let (finished, done) = unbounded();
        let work = Arc::new(work);
        let start = |_| {
            let (next_job, finished, work) = (next_job.clone(), finished.clone(), work.clone());
            let begun = std::thread::Builder::new().spawn(move || {
                for (number, job) in next_job {
                    // Forward a panic to the caller, which would otherwise wait forever for this result.
                    let result = catch_unwind(AssertUnwindSafe(|| work(job)));
                    if finished.send((number, result)).is_err() {
                        return;
                    }
                }
            });
            // If a thread cannot be started, continue with the others.
            begun.ok()
        };
        let threads = match workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let threads: Vec<_> = (0..threads).map_while(start).collect();
        // Without any thread, the iterator would silently end at once.
        assert!(!threads.is_empty(), "cannot start a thread to read data");
        Self {
            jobs: Box::new(jobs),
            ahead: ahead.max(1),
            todo: Some(todo),
            done,
            waiting: BTreeMap::new(),
            handed_out: 0,
            returned: 0,
            threads,
        }
    }

    fn hand_out(&mut self) {
        let Some(todo) = &self.todo else { return };
        while self.handed_out - self.returned < self.ahead as u64
            && let Some(job) = self.jobs.next()
            && todo.send((self.handed_out, job)).is_ok()
        {
            self.handed_out += 1;
        }
    }
}

impl<J: Send + 'static, O: Send + 'static> Iterator for OrderedParallelMap<J, O> {
    type Item = O;

    fn next(&mut self) -> Option<O> {
        self.hand_out();
        if self.returned == self.handed_out {
            return None;
        }
        let result = loop {
            if let Some(result) = self.waiting.remove(&self.returned) {
                break result;
            }
            let (number, result) = self.done.recv().ok()?;
            self.waiting.insert(number, result);
        };
        self.returned += 1;
        match result {
            Ok(result) => {
                self.hand_out();
                Some(result)
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Waits for running jobs, at most one per thread. Jobs that have not started are dropped.
impl<J, O> Drop for OrderedParallelMap<J, O> {
    fn drop(&mut self) {
        // Idle threads get no more jobs. Busy threads stop after their current job, because their result has no
        // receiver.
        self.todo = None;
        self.done = crossbeam_channel::never();
        for thread in self.threads.drain(..) {
            let _: Result<(), Box<dyn Any + Send>> = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn order_does_not_depend_on_duration() {
        for threads in [0, 1, 4] {
            let work = |n: u64| {
                std::thread::sleep(Duration::from_micros(200 * (n % 3)));
                n * n
            };
            let squares: Vec<_> = OrderedParallelMap::new(0..50, threads, 8, work).collect();
            assert_eq!(squares, (0..50).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lookahead_is_bounded() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = begun.clone();
        let mut results = OrderedParallelMap::new(0..1000, 4, 5, move |n: u32| {
            counter.fetch_add(1, Ordering::SeqCst);
            n
        });
        assert_eq!(results.next(), Some(0));
        std::thread::sleep(Duration::from_millis(20));
        assert!(begun.load(Ordering::SeqCst) <= 6);
        drop(results);
        assert!(begun.load(Ordering::SeqCst) <= 6);
    }

    #[test]
    #[should_panic(expected = "job 3 is bad")]
    fn a_panic_reaches_the_caller() {
        let results = OrderedParallelMap::new(0..10, 2, 4, |n: u32| {
            assert!(n != 3, "job {n} is bad");
            n
        });
        assert_eq!(results.count(), 10);
    }
}
