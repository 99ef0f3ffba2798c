use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A flag that Ctrl-C, SIGTERM and a terminal that closes raise. A second Ctrl-C ends the program at once.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Order matters: the handler that exits looks at the flag before the next one raises it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop)).context("signal handler")?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signal handler")?;
    }
    Ok(stop)
}
