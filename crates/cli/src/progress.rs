use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on stderr with rate and ETA; hidden if stderr is not a terminal.
pub(crate) fn bar(what: &str, total: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} [{bar:28}] {pos}/{len}  {per_sec}  ETA {eta}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total as u64).with_style(style).with_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
