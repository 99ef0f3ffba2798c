//! Training runs with callbacks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use conifer::data::open;
use conifer::model::Device;
use conifer::train::{Config, Event, Outcome, Trainer};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::{exception, exception_of_command};
use crate::threads;

/// Time between two checks for Ctrl-C.
const PAUSE: Duration = Duration::from_millis(50);

/// The run to start or to resume.
enum RunSource {
    /// A config file.
    File(PathBuf),
    /// A config as TOML.
    Text(String),
    /// The folder of a run to resume.
    Run(PathBuf),
}

/// The result of a run.
struct RunSummary {
    out: PathBuf,
    step: u64,
    loss: f64,
    stopped: bool,
}

/// Trains and returns a summary as JSON. `on_event` receives each event as JSON on the calling thread, in order, while
/// the run continues. If `on_event` raises or returns `False`, or on Ctrl-C, the run saves a checkpoint and stops.
#[pyfunction]
#[pyo3(signature = (path, config, resume, overrides, out, smoke, on_event))]
#[expect(clippy::too_many_arguments, reason = "the Python package names them")]
pub(crate) fn train(
    py: Python<'_>,
    path: Option<PathBuf>,
    config: Option<&str>,
    resume: Option<PathBuf>,
    overrides: Vec<String>,
    out: Option<PathBuf>,
    smoke: bool,
    on_event: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let source = match (path, config, resume) {
        (Some(path), None, None) => RunSource::File(path),
        (None, Some(json), None) => RunSource::Text(toml_of(json)?),
        (None, None, Some(run)) => RunSource::Run(run),
        _ => return Err(PyValueError::new_err("no experiment or several; expected a config or `resume`")),
    };
    let pool = threads::pool()?;
    let stop = AtomicBool::new(false);
    let (sender, receiver) = channel();
    let (result, raised) = std::thread::scope(|scope| {
        let stop = &stop;
        let worker = scope.spawn(move || pool.install(|| run(source, &overrides, out, smoke, stop, &sender)));
        let raised = watch(py, receiver, stop, on_event);
        (py.detach(|| worker.join()), raised)
    });
    let result = result.map_err(|_| PyRuntimeError::new_err("training panicked; the message is on stderr"))?;
    if let Some(error) = raised {
        return Err(error);
    }
    let RunSummary { out, step, loss, stopped } = result?;
    Ok(json!({ "out": out, "step": step, "loss": loss, "stopped": stopped }).to_string())
}

/// Passes events to Python until the run ends. Returns the exception that stopped the run.
fn watch(
    py: Python<'_>,
    mut receiver: Receiver<Value>,
    stop: &AtomicBool,
    on_event: &Bound<'_, PyAny>,
) -> Option<PyErr> {
    let mut raised = None;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(PAUSE);
            (receiver, received)
        });
        let answer = match received {
            Err(RecvTimeoutError::Disconnected) => return raised,
            Err(RecvTimeoutError::Timeout) => py.check_signals().map(|()| false),
            // After the first exception, only wait for the end of the run.
            Ok(_) if raised.is_some() => Ok(false),
            Ok(event) => py.check_signals().and_then(|()| {
                let answer = on_event.call1((event.to_string(),))?;
                Ok(answer.extract::<bool>().is_ok_and(|go_on| !go_on))
            }),
        };
        match answer {
            Ok(false) => {}
            Ok(true) => stop.store(true, Ordering::SeqCst),
            Err(error) => {
                stop.store(true, Ordering::SeqCst);
                raised = raised.or(Some(error));
            }
        }
    }
}

/// Executes the run. Called on the thread pool.
fn run(
    source: RunSource,
    overrides: &[String],
    out: Option<PathBuf>,
    smoke: bool,
    stop: &AtomicBool,
    events: &Sender<Value>,
) -> PyResult<RunSummary> {
    let data = |config: &Config| open(&config.source()).map(Arc::from).map_err(exception);
    let device = Device::flex();
    let started = |mut config: Config| -> PyResult<Trainer> {
        if smoke {
            config = config.smoke().map_err(exception)?;
        }
        if let Some(out) = out {
            config.train.out = out;
        }
        let source = data(&config)?;
        Trainer::new(config, source, &device).map_err(exception)
    };
    let mut trainer = match source {
        RunSource::File(path) => started(Config::load(&path, overrides).map_err(exception)?)?,
        RunSource::Text(text) => started(Config::parse("config", &text, overrides).map_err(exception)?)?,
        RunSource::Run(run) => {
            let config = Config::of_run(&run).map_err(exception)?;
            Trainer::resume(&run, data(&config)?, &device).map_err(exception)?
        }
    };
    trainer.keep_features(conifer_cli::feature_store(trainer.config()));
    let mut send = |event: &Event<'_>| {
        // `send` cannot fail, because the receiver lives until the sender is dropped.
        _ = events.send(event_json(event));
    };
    let (outcome, loss) = conifer_cli::watch_training(&mut trainer, stop, &mut send).map_err(exception_of_command)?;
    let out = trainer.config().train.out.clone();
    Ok(RunSummary { out, step: trainer.step(), loss, stopped: outcome == Outcome::Stopped })
}

fn event_json(event: &Event<'_>) -> Value {
    match event {
        Event::Started { step, steps, parameters, samples, batches_per_epoch } => json!({
            "event": "started", "step": step, "steps": steps, "parameters": parameters, "samples": samples,
            "batches_per_epoch": batches_per_epoch,
        }),
        Event::Features { done, total, .. } => json!({ "event": "features", "done": done, "total": total }),
        Event::Step(record) => {
            let mut value = json!({ "event": "step" });
            if let (Value::Object(fields), Ok(Value::Object(record))) = (&mut value, serde_json::to_value(record)) {
                fields.extend(record);
            }
            value
        }
        Event::Checkpoint { step, path } => json!({ "event": "checkpoint", "step": step, "path": path }),
        Event::Stopped { step, path } => json!({ "event": "stopped", "step": step, "path": path }),
        Event::Finished { step, path } => json!({ "event": "finished", "step": step, "path": path }),
    }
}

/// Converts a config from JSON to TOML.
fn toml_of(json: &str) -> PyResult<String> {
    let table: toml::Table = serde_json::from_str(json).map_err(|error| {
        PyValueError::new_err(format!("config: {error}; expected tables of texts, numbers and lists"))
    })?;
    Ok(table.to_string())
}
