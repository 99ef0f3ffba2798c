//! Embedding sets in memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use conifer::embeddings::{EmbeddingSet, Modality, Provenance};
use conifer::geometry::Root;
use conifer_index::Snapshot;
use numpy::ndarray::ArrayView2;
use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::arrays::{FloatArray, shown};
use crate::error::exception;
use crate::space::{SpaceObject, root_of};
use crate::threads;

/// The modalities of some rows, and their values by column name.
pub(crate) type RowMetadata = (Vec<&'static str>, BTreeMap<String, Vec<String>>);

/// An embedding set in memory; `conifer.EmbeddingSet` wraps it.
#[pyclass(name = "EmbeddingSet", module = "conifer._conifer", frozen)]
pub(crate) struct SetObject {
    pub(crate) set: Arc<EmbeddingSet>,
}

#[pymethods]
impl SetObject {
    #[new]
    #[pyo3(signature = (points, space, ids, modality, columns, root, model, data))]
    #[expect(clippy::too_many_arguments, reason = "the Python package names them")]
    fn new(
        py: Python<'_>,
        points: &Bound<'_, PyAny>,
        space: &Bound<'_, SpaceObject>,
        ids: Vec<String>,
        modality: Vec<String>,
        columns: BTreeMap<String, Vec<String>>,
        root: Option<&Bound<'_, PyAny>>,
        model: String,
        data: String,
    ) -> PyResult<Self> {
        let spec = space.get().spec.clone();
        let rows = FloatArray::points("points", points, spec.dim)?;
        if !rows.has_rows() {
            let found = shown(&rows.shape);
            return Err(PyValueError::new_err(format!("points has shape {found}; expected (N, {})", spec.dim)));
        }
        let set = EmbeddingSet {
            root: root_of(&spec, root)?,
            spec,
            ids,
            modality: modality.iter().map(|it| modality_of(it)).collect::<PyResult<_>>()?,
            points: rows.to_f32(),
            columns,
            source: Provenance { model, data, conifer: env!("CARGO_PKG_VERSION").to_owned(), ..Provenance::default() },
        };
        threads::run(py, || set.check())?.map_err(exception)?;
        Ok(SetObject { set: Arc::new(set) })
    }

    /// Opens a set or the newest version of a store.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let set = threads::run(py, || Snapshot::open(&path).map(|rows| rows.to_set()))?.map_err(exception)?;
        Ok(SetObject { set: Arc::new(set) })
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        threads::run(py, || self.set.save(&path))?.map_err(exception)
    }

    fn __len__(&self) -> usize {
        self.set.len()
    }

    /// The points `[N, dim]`, float32, as a read-only view of the memory of the set.
    #[getter]
    fn points<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let set = &this.get().set;
        let view = ArrayView2::from_shape((set.len(), set.spec.dim), &set.points)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        #[expect(unsafe_code, reason = "the only way to lend memory of a Rust object to NumPy")]
        // SAFETY: the array keeps `this` alive. `this` is frozen and nothing changes the points of a shared set, so
        // they neither move nor change while the array lives. The array is made read-only before it is returned.
        let array = unsafe { PyArray2::borrow_from_array(&view, this.clone().into_any()) };
        Ok(array.readwrite().make_nonwriteable().as_any().clone())
    }

    #[getter]
    fn space_spec(&self) -> (String, usize, usize, Vec<f64>) {
        let spec = &self.set.spec;
        (spec.kind.name().to_owned(), spec.dim, spec.factors, spec.curv.clone())
    }

    #[getter]
    fn ids(&self) -> Vec<String> {
        self.set.ids.clone()
    }

    #[getter]
    fn modality(&self) -> Vec<&'static str> {
        self.set.modality.iter().map(|it| it.name()).collect()
    }

    #[getter]
    fn columns(&self) -> BTreeMap<String, Vec<String>> {
        self.set.columns.clone()
    }

    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        root_array(py, &self.set.root)
    }

    /// Provenance: model, data, hash, version of conifer, hash of the weights.
    #[getter]
    fn source(&self) -> BTreeMap<&'static str, String> {
        let Provenance { model, data, hash, conifer, weights } = self.set.source.clone();
        BTreeMap::from([("model", model), ("data", data), ("hash", hash), ("conifer", conifer), ("weights", weights)])
    }

    /// Ids of the given rows.
    fn ids_of(&self, rows: Vec<usize>) -> PyResult<Vec<String>> {
        check_rows(&rows, self.set.len())?;
        Ok(rows.iter().map(|&row| self.set.ids[row].clone()).collect())
    }

    /// Metadata of the given rows: modality and columns.
    fn metadata_of(&self, rows: Vec<usize>) -> PyResult<RowMetadata> {
        check_rows(&rows, self.set.len())?;
        let modality = rows.iter().map(|&row| self.set.modality[row].name()).collect();
        Ok((modality, columns_of(&self.set.columns, &rows)))
    }

    fn select(&self, rows: Vec<isize>) -> PyResult<Self> {
        let count = self.set.len();
        let row = |row: &isize| {
            let at = if *row < 0 { row.checked_add_unsigned(count) } else { Some(*row) };
            let found = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < count);
            found.ok_or_else(|| {
                let last = count as i64 - 1;
                PyIndexError::new_err(format!("row {row}; expected a row from -{count} to {last}"))
            })
        };
        let rows: Vec<usize> = rows.iter().map(row).collect::<PyResult<_>>()?;
        Ok(SetObject { set: Arc::new(self.set.select(&rows).map_err(exception)?) })
    }

    #[staticmethod]
    fn concat(sets: Vec<Bound<'_, SetObject>>) -> PyResult<Self> {
        let sets: Vec<&EmbeddingSet> = sets.iter().map(|it| it.get().set.as_ref()).collect();
        Ok(SetObject { set: Arc::new(EmbeddingSet::concat(&sets).map_err(exception)?) })
    }
}

/// # Errors
/// `ValueError` unless every row is below `count`.
pub(crate) fn check_rows(rows: &[usize], count: usize) -> PyResult<()> {
    match rows.iter().find(|row| **row >= count) {
        None => Ok(()),
        Some(row) => Err(PyValueError::new_err(format!("row {row}; expected a row below {count}"))),
    }
}

/// The values of the given rows, by column name.
pub(crate) fn columns_of(columns: &BTreeMap<String, Vec<String>>, rows: &[usize]) -> BTreeMap<String, Vec<String>> {
    let chosen = |values: &Vec<String>| rows.iter().map(|&row| values[row].clone()).collect();
    columns.iter().map(|(name, values)| (name.clone(), chosen(values))).collect()
}

/// Returns the modality called `name`.
pub(crate) fn modality_of(name: &str) -> PyResult<Modality> {
    const ALL: [Modality; 4] = [Modality::Image, Modality::Text, Modality::BoxImage, Modality::BoxText];
    ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
        let known = ALL.map(Modality::name).join(", ");
        PyValueError::new_err(format!("`modality` is `{name}`; expected one of {known}"))
    })
}

/// The root as an array of float64; `None` for the origin.
pub(crate) fn root_array<'py>(py: Python<'py>, root: &Root) -> Option<Bound<'py, PyAny>> {
    match root {
        Root::Origin => None,
        Root::Point(point) => Some(point.clone().into_pyarray(py).into_any()),
    }
}
