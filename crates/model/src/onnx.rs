//! ONNX models, run by the ONNX Runtime library of the user.
//!
//! The library is opened when the first model is loaded, so that neither the build nor a run without ONNX models needs
//! it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use conifer_embeddings::sha256_hex;
use ort::ErrorCode;
use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::{TensorElementType, TensorRef, ValueType};

use crate::{Error, Result};

/// Environment variable with the path of the ONNX Runtime library.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// A loaded ONNX model.
#[derive(Debug)]
pub(crate) struct OnnxGraph {
    path: PathBuf,
    /// SHA-256 of the file, in hex.
    sha256: String,
    inputs: Vec<OnnxPort>,
    outputs: Vec<OnnxPort>,
    session: Mutex<Session>,
}

/// An input or output of a graph.
#[derive(Clone, Debug)]
pub(crate) struct OnnxPort {
    pub(crate) name: String,
    pub(crate) element: OnnxElement,
    /// -1 for a size that may differ between runs.
    pub(crate) shape: Vec<i64>,
}

/// Type of the numbers of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnnxElement {
    F32,
    I32,
    I64,
    Other,
}

/// Values for an input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnnxValues<'a> {
    F32(&'a [f32]),
    /// Token ids; converted to `i32` if the graph declares it.
    Integers(&'a [i64]),
}

/// An input with its shape and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnnxInput<'a> {
    pub(crate) port: &'a OnnxPort,
    pub(crate) shape: &'a [usize],
    pub(crate) values: OnnxValues<'a>,
}

/// The values of an output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OnnxOutput {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl OnnxGraph {
    /// Loads a model. It runs with as many threads as Rayon's pool has.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the ONNX Runtime library is missing or too old; [`Error::Io`] if the file cannot be read;
    /// [`Error::Format`] for a file that is no ONNX model, has operators that the library lacks, or stores weights in
    /// other files.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        let environment = environment()?;
        let failed = |error: ort::Error| load_error(path, &error);
        // No spinning: waiting threads would take CPU time from the other threads of the program.
        let session = Session::builder(environment)
            .and_then(|builder| Ok(builder.with_intra_threads(rayon::current_num_threads())?))
            .and_then(|builder| Ok(builder.with_intra_op_spinning(false)?))
            .and_then(|mut builder| builder.commit_from_memory(&bytes))
            .map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            sha256: sha256_hex(&bytes),
            inputs: session.inputs().iter().map(|port| OnnxPort::new(port.name(), port.dtype())).collect(),
            outputs: session.outputs().iter().map(|port| OnnxPort::new(port.name(), port.dtype())).collect(),
            session: Mutex::new(session),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    pub(crate) fn inputs(&self) -> &[OnnxPort] {
        &self.inputs
    }

    pub(crate) fn outputs(&self) -> &[OnnxPort] {
        &self.outputs
    }

    /// The output `name`. Without a name, the only output.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the names of the outputs if none has this name, or if there are several and no name;
    /// [`Error::Format`] for an output of another type than f32.
    pub(crate) fn output(&self, section: &str, name: Option<&str>) -> Result<&OnnxPort> {
        let port = pick(&self.outputs, &format!("{section}.output"), name)?;
        if port.element != OnnxElement::F32 {
            return Err(Error::format(
                &self.path,
                format!("output `{}` has another type; expected float32", port.name),
            ));
        }
        Ok(port)
    }

    /// The input `name`. Without a name, the only input.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the names of the inputs if no input has this name, or if `name` is `None` and the model
    /// has not exactly one input.
    pub(crate) fn input(&self, setting: &str, name: Option<&str>) -> Result<&OnnxPort> {
        pick(&self.inputs, setting, name)
    }

    /// Runs the model on inputs of shape `shape` and returns the output `output`.
    ///
    /// # Errors
    /// [`Error::Format`] with the message of ONNX Runtime.
    pub(crate) fn run(
        &self,
        inputs: &[(&OnnxPort, OnnxValues<'_>)],
        shape: &[usize],
        output: &OnnxPort,
    ) -> Result<OnnxOutput> {
        let inputs: Vec<_> = inputs.iter().map(|&(port, values)| OnnxInput { port, shape, values }).collect();
        let found = self.run_outputs(&inputs, &[output])?.pop();
        found.ok_or_else(|| Error::format(&self.path, format!("output `{}` has no value", output.name)))
    }

    /// Runs the model and returns these outputs, in their order. Integers become f32.
    ///
    /// # Errors
    /// [`Error::Format`] with the message of ONNX Runtime.
    pub(crate) fn run_outputs(&self, inputs: &[OnnxInput<'_>], outputs: &[&OnnxPort]) -> Result<Vec<OnnxOutput>> {
        let failed = |error: ort::Error| {
            let shape = inputs.first().map_or(&[][..], |input| input.shape);
            let detail = format!("running the model on inputs of shape {shape:?} failed: {}", error.message());
            Error::format(&self.path, detail)
        };
        let narrow: Vec<Vec<i32>> = inputs
            .iter()
            .map(|input| match input.values {
                OnnxValues::Integers(ids) if input.port.element == OnnxElement::I32 => {
                    ids.iter().map(|&id| id as i32).collect()
                }
                _ => Vec::new(),
            })
            .collect();
        let mut values: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(inputs.len());
        for (OnnxInput { port, shape, values: numbers }, narrow) in inputs.iter().zip(&narrow) {
            let shape = *shape;
            let value: SessionInputValue<'_> = match *numbers {
                OnnxValues::F32(numbers) => TensorRef::from_array_view((shape, numbers)).map_err(failed)?.into(),
                OnnxValues::Integers(_) if port.element == OnnxElement::I32 => {
                    TensorRef::from_array_view((shape, narrow.as_slice())).map_err(failed)?.into()
                }
                OnnxValues::Integers(ids) => TensorRef::from_array_view((shape, ids)).map_err(failed)?.into(),
            };
            values.push((&port.name, value));
        }
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let found = session.run(values).map_err(failed)?;
        let read = |port: &&OnnxPort| {
            let value = &found[port.name.as_str()];
            let (shape, values) = match port.element {
                OnnxElement::I64 => value
                    .try_extract_tensor::<i64>()
                    .map(|(shape, values)| (shape, values.iter().map(|&value| value as f32).collect())),
                OnnxElement::I32 => value
                    .try_extract_tensor::<i32>()
                    .map(|(shape, values)| (shape, values.iter().map(|&value| value as f32).collect())),
                _ => value.try_extract_tensor::<f32>().map(|(shape, values)| (shape, values.to_vec())),
            }
            .map_err(failed)?;
            Ok(OnnxOutput { shape: shape.iter().map(|&size| size as usize).collect(), values })
        };
        outputs.iter().map(read).collect()
    }
}

impl OnnxPort {
    fn new(name: &str, dtype: &ValueType) -> Self {
        let (element, shape) = match dtype {
            ValueType::Tensor { ty, shape, .. } => (
                match ty {
                    TensorElementType::Float32 => OnnxElement::F32,
                    TensorElementType::Int32 => OnnxElement::I32,
                    TensorElementType::Int64 => OnnxElement::I64,
                    _ => OnnxElement::Other,
                },
                shape.to_vec(),
            ),
            _ => (OnnxElement::Other, Vec::new()),
        };
        Self { name: name.to_owned(), element, shape }
    }

    /// True if the port accepts this shape. A size that the graph leaves open accepts any size.
    pub(crate) fn accepts(&self, shape: &[Option<usize>]) -> bool {
        let fits = |(&own, size): (&i64, &Option<usize>)| own < 0 || size.is_some_and(|size| own == size as i64);
        self.shape.len() == shape.len() && self.shape.iter().zip(shape).all(fits)
    }
}

fn pick<'a>(ports: &'a [OnnxPort], setting: &str, name: Option<&str>) -> Result<&'a OnnxPort> {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    match (name, ports) {
        (Some(name), _) => ports.iter().find(|port| port.name == name).ok_or_else(|| {
            Error::invalid(setting, name, format!("one of the names in the ONNX file: {}", names.join(", ")))
        }),
        (None, [only]) => Ok(only),
        (None, _) => {
            let expected = format!("a name, because the ONNX file has several: {}", names.join(", "));
            Err(Error::invalid(setting, "absent", expected))
        }
    }
}

/// Opens the ONNX Runtime library, once.
fn environment() -> Result<&'static Environment> {
    static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();
    let open = || {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let default = || format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX).into();
        let builder = ort::init_from(named.unwrap_or_else(default)).map_err(|error| error.to_string())?;
        builder.with_telemetry(false).build().map_err(|error| error.message().to_owned())
    };
    ENVIRONMENT.get_or_init(open).as_ref().map_err(|found| missing_library(found))
}

fn missing_library(found: &str) -> Error {
    let expected = "the path of the ONNX Runtime library, version 1.17 or later. Install ONNX Runtime (for example the \
                    Python package onnxruntime, whose folder onnxruntime/capi holds libonnxruntime.so) and set \
                    ORT_DYLIB_PATH to the library file";
    Error::invalid(format!("environment variable {LIBRARY_VARIABLE}"), found, expected)
}

fn load_error(path: &Path, error: &ort::Error) -> Error {
    let expected = match error.code() {
        ErrorCode::InvalidProtobuf | ErrorCode::NoModel => "an ONNX file",
        ErrorCode::NotImplemented | ErrorCode::InvalidGraph => {
            "operators and types that this version of ONNX Runtime supports"
        }
        _ => "an ONNX model in one file, with operators that this version of ONNX Runtime supports",
    };
    Error::format(path, format!("ONNX Runtime cannot load this file: {}; expected {expected}", error.message()))
}

/// True if tests can run ONNX models. Otherwise the reason is printed.
#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn runtime_for_tests() -> bool {
    match environment() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_missing_library_names_the_variable() {
        let message = missing_library("failed to load from `x.so`").to_string();
        assert!(message.contains("`environment variable ORT_DYLIB_PATH` is failed to load from `x.so`"), "{message}");
        assert!(message.contains("expected the path of the ONNX Runtime library, version 1.17 or later"), "{message}");
    }

    #[test]
    fn sizes_that_the_graph_leaves_open_fit() {
        let port = OnnxPort { name: "x".into(), element: OnnxElement::F32, shape: vec![-1, 3, 32, -1] };
        assert!(port.accepts(&[None, Some(3), Some(32), Some(7)]));
        assert!(!port.accepts(&[None, Some(3), Some(31), Some(7)]));
        assert!(!port.accepts(&[None, Some(3), Some(32)]));
        // A port with a fixed batch size does not accept a dynamic one.
        assert!(!OnnxPort { shape: vec![1, 3], ..port }.accepts(&[None, Some(3)]));
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        assert!(matches!(OnnxGraph::open(&path), Err(Error::Io { .. })));
        if !runtime_for_tests() {
            return;
        }
        std::fs::write(&path, b"no protocol buffer").unwrap();
        let message = OnnxGraph::open(&path).unwrap_err().to_string();
        assert!(message.contains("model.onnx: ONNX Runtime cannot load this file: "), "{message}");
        assert!(message.ends_with("expected an ONNX file"), "{message}");
    }
}
