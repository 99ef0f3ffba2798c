//! The thread pool of the extension.
//!
//! After a fork, a new pool is created, because threads do not survive a fork. `rayon`'s global pool cannot be
//! replaced, so only `program::run`, which runs a whole command line, uses it. All other parallel work runs on
//! [`pool`], usually through [`run`].

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Stack size of each thread. It is large because backward passes through deep towers recurse.
const STACK_BYTES: usize = 8 << 20;

struct ProcessPool {
    /// Id of the process that created the pool.
    process: u32,
    pool: Arc<ThreadPool>,
}

/// Locked only while the interpreter lock is held, so no other thread holds it during a fork.
static POOL: Mutex<Option<ProcessPool>> = Mutex::new(None);

/// Runs `work` on the thread pool, without the interpreter lock.
pub(crate) fn run<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = pool()?;
    Ok(py.detach(|| pool.install(work)))
}

/// The thread pool of this process.
pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut current = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(it) = current.as_ref().filter(|it| it.process == process) {
        return Ok(Arc::clone(&it.pool));
    }
    // Do not drop the pool of the parent process, because its threads do not exist in this process.
    let threads = current.take().map_or(0, |parent| {
        let threads = parent.pool.current_num_threads();
        std::mem::forget(parent);
        threads
    });
    let pool = build(threads)?;
    *current = Some(ProcessPool { process, pool: Arc::clone(&pool) });
    Ok(pool)
}

/// Sets the number of threads. 0: the number in `RAYON_NUM_THREADS`, or else one per core.
#[pyfunction]
pub(crate) fn set_num_threads(threads: isize) -> PyResult<()> {
    let threads = usize::try_from(threads)
        .map_err(|_| PyValueError::new_err(format!("`threads` is {threads}; expected 0 (one per core) or more")))?;
    pool()?;
    let pool = build(threads)?;
    let mut current = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    *current = Some(ProcessPool { process: std::process::id(), pool });
    Ok(())
}

/// Number of threads in use.
#[pyfunction]
pub(crate) fn num_threads() -> PyResult<usize> {
    Ok(pool()?.current_num_threads())
}

fn build(threads: usize) -> PyResult<Arc<ThreadPool>> {
    let name = |i| format!("conifer-{i}");
    let built = ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK_BYTES).thread_name(name).build();
    built.map(Arc::new).map_err(|error| PyRuntimeError::new_err(format!("starting {threads} threads: {error}")))
}
