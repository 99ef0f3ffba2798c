use std::time::Duration;

use conifer_model::features::FeatureStage;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// A progress bar on stderr with rate and ETA; hidden if stderr is not a terminal.
pub(crate) fn bar(what: &str, total: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} [{bar:28}] {pos}/{len}  {per_sec}  ETA {eta}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total as u64).with_style(style).with_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Progress bars for the features of frozen encoders, one for each stage.
#[derive(Default)]
pub(crate) struct FeatureBars {
    shown: Option<(FeatureStage, ProgressBar)>,
}

impl FeatureBars {
    /// Shows that `done` of the `total` items of a stage are finished.
    pub(crate) fn set(&mut self, stage: FeatureStage, done: usize, total: usize) {
        let label = match stage {
            FeatureStage::Reading => "reading photos",
            FeatureStage::Photos => "encoding photos and boxes",
            FeatureStage::Texts => "encoding texts",
        };
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != stage) {
            self.finish();
            self.shown = Some((stage, bar(label, total)));
        }
        let Some((_, bar)) = &self.shown else { return };
        bar.set_position(done as u64);
        let hidden = bar.is_hidden();
        if done == total {
            self.finish();
            if hidden {
                note(&format!("{label}: {total} done"));
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&mut self) {
        if let Some((_, bar)) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}
