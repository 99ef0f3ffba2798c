//! Converts errors of the crates to Python exceptions. The messages are those of the command line.

use std::error::Error;
use std::io::ErrorKind;

use pyo3::PyErr;
use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyOSError, PyPermissionError, PyValueError};

/// Converts an error: to an `OSError` if a file operation failed, otherwise to a `ValueError`.
pub(crate) fn exception(error: impl Error + 'static) -> PyErr {
    of_chain(&error)
}

/// Like [`exception`], for an error of the command-line crate.
pub(crate) fn exception_of_command(error: anyhow::Error) -> PyErr {
    of_chain(error.as_ref())
}

fn of_chain(error: &(dyn Error + 'static)) -> PyErr {
    let mut text = String::new();
    let mut operation = None;
    let mut next = Some(error);
    while let Some(cause) = next {
        let said = cause.to_string();
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        operation = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind).or(operation);
        next = cause.source();
    }
    match operation {
        None => PyValueError::new_err(text),
        Some(ErrorKind::NotFound) => PyFileNotFoundError::new_err(text),
        Some(ErrorKind::PermissionDenied) => PyPermissionError::new_err(text),
        Some(ErrorKind::AlreadyExists) => PyFileExistsError::new_err(text),
        Some(_) => PyOSError::new_err(text),
    }
}
