//! Projection into the Poincare disc.

use std::borrow::Cow;

use conifer::viz::PoincareDisc;
use pyo3::prelude::*;

use crate::arrays::array;
use crate::error::exception;
use crate::set::SetObject;
use crate::threads;

/// Projects a set into the Poincare disc. Returns the selected rows (int64), and their x, y and depths (float64).
#[pyfunction]
pub(crate) fn project_disc<'py>(
    py: Python<'py>,
    set: &Bound<'py, SetObject>,
    limit: usize,
) -> PyResult<[Bound<'py, PyAny>; 4]> {
    let set = &set.get().set;
    let map = threads::run(py, || {
        let row = |i: usize| Cow::Borrowed(set.row(i));
        PoincareDisc::new(&set.spec, &set.root, set.len(), row).map(|disc| disc.map(set.len(), row, limit))
    })?;
    let map = map.map_err(exception)?;
    let count = map.rows.len();
    let rows: Vec<i64> = map.rows.iter().map(|&row| row as i64).collect();
    Ok([
        array(py, rows, &[count], false)?,
        array(py, map.x, &[count], false)?,
        array(py, map.y, &[count], false)?,
        array(py, map.depth, &[count], false)?,
    ])
}
