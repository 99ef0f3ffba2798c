//! The interface by which a server computes new layers of the map. The program implements it with its projections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::content::ServedMap;

/// Computes projections of the served set. The server calls it on one background thread at a time.
pub trait LayerMaker: Send + Sync {
    /// The methods, in the order of the page.
    fn methods(&self) -> Vec<LayerMethod>;

    /// Checks a recipe without computing anything. It is called before every [`LayerMaker::make`].
    ///
    /// # Errors
    /// A message for the client: the method does not exist or does not fit the space, or a number is out of range.
    fn check(&self, recipe: &LayerRecipe) -> Result<(), String>;

    /// Computes a layer on the current thread and its rayon pool, and writes it beside the set if possible. Returns
    /// `None` after `watch` was stopped. `fingerprint` is [`conifer_index::Snapshot::fingerprint`] of the served set.
    ///
    /// # Errors
    /// A message for the client, without paths: the computation is not possible, or the set has changed.
    fn make(&self, recipe: &LayerRecipe, fingerprint: &str, watch: &LayerWatch) -> Result<Option<MadeLayer>, String>;
}

/// A method of a [`LayerMaker`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerMethod {
    /// Name in requests.
    pub by: String,
    /// A short description.
    pub title: String,
    /// True if the method projects one factor of the space, which the recipe must name.
    pub needs_factor: bool,
    /// Why the method does not fit the set.
    pub refused: Option<String>,
}

/// The method and the rows that a client requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRecipe {
    /// Name of the new layer, and of its folder: letters, digits, `-`, `_` and `.`, not first.
    pub name: String,
    /// [`LayerMethod::by`].
    pub by: String,
    /// Factor of a product space, counted from 0.
    pub factor: Option<usize>,
    /// Number of rows drawn at random; all rows without it.
    pub sample: Option<usize>,
}

/// A computed layer.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeLayer {
    /// The points. Its name must be [`LayerRecipe::name`].
    pub map: ServedMap,
    /// Why the layer could not be written and is lost when the server ends; a message for the client, without paths.
    pub unsaved: Option<String>,
}

/// Progress of a computation, and the requests to stop it.
#[derive(Debug, Default)]
pub struct LayerWatch {
    stop: Arc<AtomicBool>,
    is_cancelled: AtomicBool,
    stage: Mutex<Option<LayerStage>>,
}

/// Progress of one stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerStage {
    /// Name of the steps.
    pub(crate) name: String,
    pub(crate) done: usize,
    pub(crate) total: usize,
    /// Number of steps that were done when the stage began, for example by an earlier process.
    first: usize,
    begun: Instant,
}

impl LayerWatch {
    /// The flag that is set when the computation has to stop.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// True if a client cancelled the computation. Its state is then of no further use. Otherwise the server is ending,
    /// and the next one can continue.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Reports that `done` of `total` steps of a stage are finished.
    pub fn report(&self, stage: &str, done: usize, total: usize) {
        let mut current = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match current.as_mut().filter(|it| it.name == stage) {
            Some(it) => (it.done, it.total) = (done, total),
            None => {
                let (name, begun) = (stage.to_owned(), Instant::now());
                *current = Some(LayerStage { name, done, total, first: done, begun });
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops because the server ends.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.stop();
    }

    pub(crate) fn stage(&self) -> Option<LayerStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LayerStage {
    /// Estimated time until the end of the stage, from the mean time of its steps; `None` before the first step.
    pub(crate) fn seconds_left(&self) -> Option<f64> {
        let here = self.done.saturating_sub(self.first);
        let left = self.total.saturating_sub(self.done);
        (here > 0).then(|| self.begun.elapsed().as_secs_f64() * left as f64 / here as f64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn time_left_counts_only_the_steps_of_this_process() {
        let watch = LayerWatch::default();
        assert_eq!(watch.stage(), None);
        watch.report("epochs", 60, 100);
        assert_eq!(watch.stage().unwrap().seconds_left(), None);
        std::thread::sleep(std::time::Duration::from_millis(20));
        watch.report("epochs", 70, 100);
        // Ten steps took at least 20 ms, so thirty take at least 60 ms. By all 70 steps it would be 9 ms.
        let left = watch.stage().unwrap().seconds_left().unwrap();
        assert!(left >= 0.06, "{left}");
        watch.report("steps", 0, 5);
        let stage = watch.stage().unwrap();
        assert_eq!((stage.name.as_str(), stage.done, stage.seconds_left()), ("steps", 0, None));
    }

    #[test]
    fn cancelling_also_stops() {
        let (ending, cancelled) = (LayerWatch::default(), LayerWatch::default());
        ending.stop();
        cancelled.cancel();
        assert!(ending.stop_flag().load(Ordering::Relaxed) && !ending.is_cancelled());
        assert!(cancelled.is_stopped() && cancelled.is_cancelled());
    }
}
