//! Vectors for search engines that rank by Euclidean distance; see [`conifer_index::export`].

use std::borrow::Cow;
use std::iter;

use conifer_index::export::Augmented;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{FloatArray, RowKind, array, check_rows};
use crate::error::exception;
use crate::set::SetObject;
use crate::space::SpaceObject;
use crate::threads;

/// The vector of every row of a set, `[N, width]`, float32.
#[pyfunction]
pub(crate) fn row_vectors<'py>(py: Python<'py>, set: &Bound<'py, SetObject>) -> PyResult<Bound<'py, PyAny>> {
    let set = &set.get().set;
    let (vectors, width) = threads::run(py, || -> conifer_index::Result<_> {
        let form = Augmented::around(&set.spec, set.rows().map(Cow::Borrowed))?;
        let mut vectors = Vec::with_capacity(set.len() * form.dim());
        for point in set.rows() {
            vectors.extend(form.row(point)?);
        }
        Ok((vectors, form.dim()))
    })?
    .map_err(exception)?;
    array(py, vectors, &[set.len(), width], false)
}

/// The vector of every query, `[Q, width]`, float32. It does not depend on the rows.
#[pyfunction]
pub(crate) fn query_vectors<'py>(
    py: Python<'py>,
    space: &Bound<'py, SpaceObject>,
    queries: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let space = space.get();
    let values = FloatArray::points("queries", queries, space.spec.dim)?.to_f32();
    check_rows("queries", space.single.as_ref(), &values, RowKind::Point).map_err(PyValueError::new_err)?;
    let form = Augmented::around(&space.spec, iter::empty()).map_err(exception)?;
    let vectors: Vec<f32> = values.chunks_exact(space.spec.dim).flat_map(|point| form.query(point)).collect();
    array(py, vectors, &[values.len() / space.spec.dim, form.dim()], false)
}
