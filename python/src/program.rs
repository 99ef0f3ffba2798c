//! Runs commands of the program `conifer`.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::error::exception_of_command;
use crate::threads;

/// Runs a command line and returns the exit status. The first word is the name of the program.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| conifer_cli::run(words))
}

/// Runs `conifer eval run` with these arguments and returns the records, one JSON text per line.
#[pyfunction]
pub(crate) fn evaluate(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<String> {
    threads::run(py, || conifer_cli::evaluate(arguments))?.map_err(exception_of_command)
}

/// Runs `conifer export` with these arguments and returns the number of rows.
#[pyfunction]
pub(crate) fn export(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<usize> {
    threads::run(py, || conifer_cli::export(arguments))?.map_err(exception_of_command)
}
