use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::note;

/// Returns a flag that is set by Ctrl-C, SIGTERM and SIGHUP. A second signal ends the program immediately.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The order matters: the handler that exits must read the flag before the other handler sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop)).context("signal handler")?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signal handler")?;
    }
    Ok(stop)
}

/// Prints `text` when the program receives SIGTERM. A separate thread does this, because the other threads may wait for
/// a lost rank.
pub(crate) fn on_termination(text: String) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGTERM]).context("signal handler")?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            note(&text);
        }
    });
    Ok(())
}
