//! Computes new layers of the map in the background, one at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::api::map_requests::LayerRequest;
use crate::api::replies::{LayerJobReply, LayerJobState};
use crate::error::{HttpError, HttpResult};
use crate::layer_maker::{LayerMaker, LayerRecipe, LayerWatch, MadeLayer};
use crate::reporter::Reporter;
use crate::set::layers::MapLayers;

/// How long the end of the server waits for the computation, which stops after its current step.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two looks at a computation that has to stop.
const STOP_POLL: Duration = Duration::from_millis(20);

/// The layer that is being computed, or the last one.
pub(crate) struct LayerJobs {
    /// The message explains why this server computes no layers.
    maker: Result<Arc<dyn LayerMaker>, String>,
    /// Fingerprint of the served set.
    fingerprint: String,
    layers: Arc<MapLayers>,
    reporter: Arc<dyn Reporter>,
    last: Mutex<Option<LayerJob>>,
}

struct LayerJob {
    recipe: LayerRecipe,
    watch: Arc<LayerWatch>,
    outcome: Arc<Mutex<Option<JobOutcome>>>,
    thread: Option<JoinHandle<()>>,
}

/// How a computation ended. Messages are for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JobOutcome {
    Done { unsaved: Option<String> },
    Stopped,
    Failed(String),
}

impl LayerJobs {
    pub(crate) fn new(
        maker: Result<Arc<dyn LayerMaker>, String>,
        fingerprint: String,
        layers: Arc<MapLayers>,
        reporter: Arc<dyn Reporter>,
    ) -> Self {
        LayerJobs { maker, fingerprint, layers, reporter, last: Mutex::new(None) }
    }

    /// # Errors
    /// Why this server computes no layers.
    pub(crate) fn maker(&self) -> Result<&dyn LayerMaker, &str> {
        self.maker.as_deref().map_err(String::as_str)
    }

    /// The current or last job.
    pub(crate) fn status(&self) -> Option<LayerJobReply> {
        self.lock().as_ref().map(LayerJob::reply)
    }

    /// Starts a computation.
    ///
    /// # Errors
    /// 403: this server computes no layers; 409: another one is running, or the name is taken; 422: the request is not
    /// valid.
    pub(crate) fn start(&self, request: LayerRequest) -> HttpResult<LayerJobReply> {
        let refused = |why: &String| HttpError::new(StatusCode::FORBIDDEN, why);
        let maker = Arc::clone(self.maker.as_ref().map_err(refused)?);
        let recipe = request.recipe()?;
        // Held until the job is stored, so that of two requests at the same time one is refused.
        let mut last = self.lock();
        if let Some(job) = last.as_ref().filter(|it| it.is_running()) {
            let name = &job.recipe.name;
            let message = format!(
                "the layer `{name}` is being computed; wait for it, or cancel it with DELETE /api/map/layers/{name}"
            );
            return Err(conflict(message));
        }
        if self.layers.find(Some(&recipe.name)).is_ok() {
            let message = format!("a layer `{}` exists; give another `name` to compute it again", recipe.name);
            return Err(conflict(message));
        }
        maker.check(&recipe).map_err(HttpError::invalid)?;
        let watch = Arc::new(LayerWatch::default());
        let outcome = Arc::new(Mutex::new(None));
        let mut job = LayerJob { recipe, watch, outcome, thread: None };
        let (recipe, watch, outcome) = (job.recipe.clone(), Arc::clone(&job.watch), Arc::clone(&job.outcome));
        let (fingerprint, layers) = (self.fingerprint.clone(), Arc::clone(&self.layers));
        let reporter = Arc::clone(&self.reporter);
        let work = move || {
            let found = run(maker.as_ref(), &recipe, &fingerprint, &watch, &layers);
            reporter.note(&format!("layer {}: {}", recipe.name, found.words()));
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        };
        let thread = std::thread::Builder::new().name("layer".to_owned()).spawn(work);
        job.thread = Some(thread.map_err(|error| HttpError::fault(error.to_string()))?);
        let reply = job.reply();
        *last = Some(job);
        Ok(reply)
    }

    /// Cancels a computation. Its thread stops after the current step.
    ///
    /// # Errors
    /// 404: no layer of this name is being computed.
    pub(crate) fn cancel(&self, name: &str) -> HttpResult<LayerJobReply> {
        let last = self.lock();
        let job = last.as_ref().filter(|it| it.recipe.name == name && it.is_running()).ok_or_else(|| {
            HttpError::absent(format!(
                "no layer `{name}` is being computed; GET /api/map/layers names the current one as `job`"
            ))
        })?;
        job.watch.cancel();
        Ok(job.reply())
    }

    /// Stops the current computation at the end of the server.
    pub(crate) fn stop(&self) {
        if let Some(job) = self.lock().as_ref() {
            job.watch.stop();
        }
    }

    /// Waits until the computation has stopped and stored its state.
    pub(crate) fn wait(&self) {
        let Some(LayerJob { recipe, thread: Some(thread), .. }) = self.lock().take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() > STOP_TIMEOUT {
                // The thread ends with the process. Layers and states are renamed when they are complete.
                self.reporter.note(&format!("layer {}: its current step takes too long; it is lost", recipe.name));
                return;
            }
            std::thread::sleep(STOP_POLL);
        }
        // A panic of the thread was already turned into an outcome.
        _ = thread.join();
    }

    fn lock(&self) -> MutexGuard<'_, Option<LayerJob>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LayerJob {
    fn outcome(&self) -> Option<JobOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_running(&self) -> bool {
        self.outcome().is_none()
    }

    fn reply(&self) -> LayerJobReply {
        let (state, message) = match self.outcome() {
            None if self.watch.is_stopped() => (LayerJobState::Stopping, None),
            None => (LayerJobState::Computing, None),
            Some(JobOutcome::Done { unsaved }) => (LayerJobState::Done, unsaved),
            Some(JobOutcome::Stopped) => (LayerJobState::Cancelled, None),
            Some(JobOutcome::Failed(message)) => (LayerJobState::Failed, Some(message)),
        };
        let stage = self.watch.stage().filter(|_| state == LayerJobState::Computing);
        let LayerRecipe { name, by, factor, sample } = self.recipe.clone();
        LayerJobReply {
            name,
            by,
            factor,
            sample,
            state,
            seconds_left: stage.as_ref().and_then(|it| it.seconds_left()),
            step: stage.as_ref().map(|it| it.done),
            steps: stage.as_ref().map(|it| it.total),
            stage: stage.map(|it| it.name),
            message,
        }
    }
}

impl JobOutcome {
    fn words(&self) -> String {
        match self {
            JobOutcome::Done { unsaved: None } => "computed".to_owned(),
            JobOutcome::Done { unsaved: Some(why) } => format!("computed; {why}"),
            JobOutcome::Stopped => "stopped".to_owned(),
            JobOutcome::Failed(message) => format!("failed: {message}"),
        }
    }
}

/// Computes a layer on one thread: requests have the other cores. Adds it to the layers of the map.
fn run(
    maker: &dyn LayerMaker,
    recipe: &LayerRecipe,
    fingerprint: &str,
    watch: &LayerWatch,
    layers: &MapLayers,
) -> JobOutcome {
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "layer".to_owned()).build() {
        Ok(pool) => pool,
        Err(error) => return JobOutcome::Failed(error.to_string()),
    };
    let made = catch_unwind(AssertUnwindSafe(|| pool.install(|| maker.make(recipe, fingerprint, watch))));
    match made {
        // The server must stay up, and the next computation must be possible.
        Err(_) => JobOutcome::Failed("internal error of the projection".to_owned()),
        Ok(Err(message)) => JobOutcome::Failed(message),
        Ok(Ok(None)) => JobOutcome::Stopped,
        Ok(Ok(Some(MadeLayer { map, unsaved }))) => match layers.add(map) {
            Ok(()) => JobOutcome::Done { unsaved },
            Err(error) => JobOutcome::Failed(error.to_string()),
        },
    }
}

fn conflict(message: String) -> HttpError {
    HttpError::new(StatusCode::CONFLICT, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::content::ServedMap;
    use crate::layer_maker::LayerMethod;

    /// A maker that takes one step for every message of the test.
    struct SteppedMaker {
        steps: Mutex<Receiver<()>>,
    }

    struct Silent;

    impl Reporter for Silent {}

    impl LayerMaker for SteppedMaker {
        fn methods(&self) -> Vec<LayerMethod> {
            Vec::new()
        }

        fn check(&self, recipe: &LayerRecipe) -> Result<(), String> {
            if recipe.by == "guess" { Err("`by` is `guess`".to_owned()) } else { Ok(()) }
        }

        fn make(
            &self,
            recipe: &LayerRecipe,
            fingerprint: &str,
            watch: &LayerWatch,
        ) -> Result<Option<MadeLayer>, String> {
            assert_eq!((fingerprint, rayon::current_num_threads()), ("abc", 1));
            assert!(recipe.by != "panic", "a fault");
            let rows = if recipe.by == "wrong" { vec![9] } else { vec![2] };
            for step in 0..3 {
                watch.report("epochs", step, 3);
                if watch.is_stopped() {
                    return Ok(None);
                }
                self.steps.lock().unwrap().recv().map_err(|_| "no further steps".to_owned())?;
            }
            let (name, title) = (recipe.name.clone(), recipe.by.clone());
            let map = ServedMap { name, title, rows, positions: vec![[0.5, 0.0]], is_disc: false, root: None };
            Ok(Some(MadeLayer { map, unsaved: Some("kept in memory".to_owned()) }))
        }
    }

    fn jobs() -> (LayerJobs, Sender<()>) {
        let (send, receive) = channel();
        let maker: Arc<dyn LayerMaker> = Arc::new(SteppedMaker { steps: Mutex::new(receive) });
        let layers = Arc::new(MapLayers::new(Vec::new(), 3, None).unwrap());
        (LayerJobs::new(Ok(maker), "abc".to_owned(), layers, Arc::new(Silent)), send)
    }

    fn request(by: &str) -> LayerRequest {
        serde_json::from_value(serde_json::json!({ "by": by })).unwrap()
    }

    /// The job when `found` is true of it, at most ten seconds later.
    fn when(jobs: &LayerJobs, found: impl Fn(&LayerJobReply) -> bool) -> LayerJobReply {
        let begun = Instant::now();
        loop {
            let job = jobs.status().unwrap();
            if found(&job) {
                return job;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{job:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn ended(jobs: &LayerJobs) -> LayerJobReply {
        when(jobs, |it| !matches!(it.state, LayerJobState::Computing | LayerJobState::Stopping))
    }

    #[test]
    fn computed_layer_is_shown_and_its_name_is_taken() {
        let (jobs, step) = jobs();
        assert!(jobs.status().is_none());
        assert_eq!(jobs.start(request("umap")).unwrap().state, LayerJobState::Computing);
        when(&jobs, |it| it.step == Some(0) && it.steps == Some(3) && it.stage.as_deref() == Some("epochs"));
        let error = jobs.start(request("horopca")).unwrap_err();
        assert_eq!(error.status, StatusCode::CONFLICT);
        assert!(error.message.contains("`umap` is being computed") && error.message.contains("DELETE"), "{error:?}");
        step.send(()).unwrap();
        assert!(when(&jobs, |it| it.step == Some(1)).seconds_left.is_some());
        assert!(jobs.layers.find(Some("umap")).is_err());
        (0..2).for_each(|_| step.send(()).unwrap());
        let job = ended(&jobs);
        assert_eq!((job.state, job.message.as_deref(), job.step), (LayerJobState::Done, Some("kept in memory"), None));
        assert!(jobs.layers.find(Some("umap")).is_ok());
        let error = jobs.start(request("umap")).unwrap_err();
        assert!(error.status == StatusCode::CONFLICT && error.message.contains("a layer `umap` exists"), "{error:?}");
        (0..3).for_each(|_| step.send(()).unwrap());
        jobs.start(LayerRequest { name: Some("again".to_owned()), ..request("umap") }).unwrap();
        assert_eq!(ended(&jobs).state, LayerJobState::Done);
    }

    #[test]
    fn cancelled_and_failed_jobs_make_room_for_the_next() {
        let (jobs, step) = jobs();
        assert_eq!(jobs.cancel("umap").unwrap_err().status, StatusCode::NOT_FOUND);
        jobs.start(request("umap")).unwrap();
        when(&jobs, |it| it.step == Some(0));
        assert_eq!(jobs.cancel("horopca").unwrap_err().status, StatusCode::NOT_FOUND);
        assert_eq!(jobs.cancel("umap").unwrap().state, LayerJobState::Stopping);
        // The thread is still in its step, so the server is still at work.
        assert_eq!(jobs.cancel("umap").unwrap().state, LayerJobState::Stopping);
        assert_eq!(jobs.start(request("umap")).unwrap_err().status, StatusCode::CONFLICT);
        step.send(()).unwrap();
        assert_eq!(ended(&jobs).state, LayerJobState::Cancelled);
        assert_eq!(jobs.cancel("umap").unwrap_err().status, StatusCode::NOT_FOUND);
        jobs.start(request("panic")).unwrap();
        assert_eq!(ended(&jobs).message.unwrap(), "internal error of the projection");
        (0..3).for_each(|_| step.send(()).unwrap());
        jobs.start(request("wrong")).unwrap();
        let job = ended(&jobs);
        assert!(job.state == LayerJobState::Failed && job.message.as_ref().unwrap().contains("row 9"), "{job:?}");
        drop(step);
        jobs.start(request("umap")).unwrap();
        assert_eq!(ended(&jobs).message.unwrap(), "no further steps");
        assert_eq!(jobs.start(request("guess")).unwrap_err().status, StatusCode::UNPROCESSABLE_ENTITY);
    }

    #[test]
    fn end_of_the_server_stops_the_computation() {
        let (jobs, step) = jobs();
        jobs.stop();
        jobs.wait();
        jobs.start(request("umap")).unwrap();
        when(&jobs, |it| it.step == Some(0));
        jobs.stop();
        step.send(()).unwrap();
        let layers = Arc::clone(&jobs.layers);
        jobs.wait();
        assert!(jobs.status().is_none() && layers.find(Some("umap")).is_err());
        let why = "this server is public".to_owned();
        let none = LayerJobs::new(Err(why.clone()), String::new(), layers, Arc::new(Silent));
        let error = none.start(request("umap")).unwrap_err();
        assert_eq!((error.status, &error.message), (StatusCode::FORBIDDEN, &why));
    }
}
