//! Exact search and traversal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use conifer::index::{Cone, Filter, FlatIndex, Query, StopPlace, Traversal};
use conifer_index::Snapshot;
use conifer_search::{PathName, RankingName, RowConditions};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{FloatArray, array};
use crate::error::exception;
use crate::set::{RowMetadata, SetObject, check_rows, columns_of, modality_of, root_array};
use crate::threads;

/// An index over all rows of a set; `conifer.Index` wraps it.
#[pyclass(name = "Index", module = "conifer._conifer", frozen)]
pub(crate) struct IndexObject {
    rows: Snapshot,
    index: FlatIndex,
}

/// Conditions on rows, in the form in which the Python package passes them.
#[derive(FromPyObject)]
struct RowFilter<'py> {
    #[pyo3(item)]
    modality: Option<Vec<String>>,
    #[pyo3(item)]
    columns: BTreeMap<String, Vec<String>>,
    #[pyo3(item)]
    depth: Option<[f32; 2]>,
    #[pyo3(item)]
    inside: Vec<Bound<'py, PyAny>>,
    #[pyo3(item)]
    outside: Vec<Bound<'py, PyAny>>,
    /// One bool per row: false excludes the row.
    #[pyo3(item)]
    mask: Option<Bound<'py, PyArray1<bool>>>,
}

#[pymethods]
impl IndexObject {
    #[new]
    fn new(py: Python<'_>, set: &Bound<'_, SetObject>) -> PyResult<Self> {
        let set = Arc::clone(&set.get().set);
        Self::build(py, move || Snapshot::of(set.as_ref().clone()))
    }

    /// Opens a set or a store; the points of a store are memory-mapped.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::build(py, move || Snapshot::open(&path))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        threads::run(py, || self.rows.to_set().save(&path))?.map_err(exception)
    }

    fn to_set(&self, py: Python<'_>) -> PyResult<SetObject> {
        Ok(SetObject { set: Arc::new(threads::run(py, || self.rows.to_set())?) })
    }

    fn __len__(&self) -> usize {
        self.index.len()
    }

    #[getter]
    fn space_spec(&self) -> (String, usize, usize, Vec<f64>) {
        let spec = self.index.spec();
        (spec.kind.name().to_owned(), spec.dim, spec.factors, spec.curv.clone())
    }

    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        root_array(py, self.index.root())
    }

    #[getter]
    fn ids(&self) -> Vec<String> {
        self.rows.ids.clone()
    }

    /// Ids of the given rows.
    fn ids_of(&self, rows: Vec<usize>) -> PyResult<Vec<String>> {
        check_rows(&rows, self.index.len())?;
        Ok(rows.iter().map(|&row| self.rows.ids[row].clone()).collect())
    }

    /// Metadata of the given rows: modality and columns.
    fn metadata_of(&self, rows: Vec<usize>) -> PyResult<RowMetadata> {
        check_rows(&rows, self.index.len())?;
        let modality = rows.iter().map(|&row| self.rows.modality[row].name()).collect();
        Ok((modality, columns_of(&self.rows.columns, &rows)))
    }

    /// The best rows `[Q, min(k, N)]` of the N rows, and their scores. If fewer rows pass, the other places have row -1
    /// and score NaN.
    #[pyo3(signature = (queries, k, by, angle, within, filter))]
    #[expect(clippy::too_many_arguments, reason = "the Python package names them")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        k: usize,
        by: &str,
        angle: Option<f32>,
        within: Option<f32>,
        filter: Option<RowFilter<'py>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let ranking = ranking_name(by)?.ranking(angle, within, "").map_err(PyValueError::new_err)?;
        let points = FloatArray::points("queries", queries, self.index.spec().dim)?;
        // The index holds `f32`, so queries of this type are not copied.
        let converted = points.slice::<f32>().is_none().then(|| points.to_f32());
        let values = converted.as_deref().or_else(|| points.slice::<f32>()).unwrap_or_default();
        let conditions = filter.map(|it| self.conditions(it)).transpose()?;
        let count = values.len() / self.index.spec().dim;
        let found = threads::run(py, || -> Result<_, PyErr> {
            let passing = self.passing(conditions.as_ref())?;
            let filter = passing.as_deref().map_or(Filter::All, Filter::Set);
            let query = Query::new(self.index.spec(), values);
            let k = k.min(self.index.len());
            let hits = self.index.top_k(&query, ranking, k, &filter).map_err(exception)?;
            let (mut rows, mut scores) = (vec![-1_i64; count * k], vec![f32::NAN; count * k]);
            for (i, hits) in hits.iter().enumerate() {
                for (j, hit) in hits.iter().enumerate() {
                    (rows[i * k + j], scores[i * k + j]) = (hit.row as i64, hit.score);
                }
            }
            Ok((rows, scores, k))
        })??;
        let (rows, scores, k) = found;
        Ok((array(py, rows, &[count, k], false)?, array(py, scores, &[count, k], false)?))
    }

    /// The stops on a path: `(row or None for the root, position in [0, 1], similarity)`.
    #[pyo3(signature = (start, end, steps, path, cones, filter))]
    #[expect(clippy::too_many_arguments, reason = "the Python package names them")]
    fn traverse<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyAny>,
        end: Option<&Bound<'py, PyAny>>,
        steps: Option<usize>,
        path: Option<&str>,
        cones: Option<bool>,
        filter: Option<RowFilter<'py>>,
    ) -> PyResult<Vec<(Option<usize>, f32, f32)>> {
        let point = |name, value| -> PyResult<Vec<f32>> {
            Ok(FloatArray::points(name, value, self.index.spec().dim)?.to_f32())
        };
        let start = point("start", start)?;
        let end = end.map(|it| point("end", it)).transpose()?;
        let path = path.map(path_name).transpose()?;
        let defaults = if end.is_some() { Traversal::interpolation() } else { Traversal::default() };
        let settings = Traversal {
            steps: steps.unwrap_or(defaults.steps),
            path: path.map_or(defaults.path, Into::into),
            cone: cones.map_or(defaults.cone, |on| on.then(Cone::default)),
        };
        let conditions = filter.map(|it| self.conditions(it)).transpose()?;
        let stops = threads::run(py, || -> Result<_, PyErr> {
            let passing = self.passing(conditions.as_ref())?;
            let filter = passing.as_deref().map_or(Filter::All, Filter::Set);
            let spec = self.index.spec();
            let from = Query::new(spec, &start);
            match &end {
                None => self.index.traverse_to_root(&from, &settings, &filter),
                Some(end) => self.index.traverse_between(&from, &Query::new(spec, end), &settings, &filter),
            }
            .map_err(exception)
        })??;
        let place = |place| match place {
            StopPlace::Row(row) => Some(row),
            StopPlace::Root => None,
        };
        Ok(stops.iter().map(|stop| (place(stop.place), stop.at, stop.similarity)).collect())
    }
}

impl IndexObject {
    fn build(py: Python<'_>, open: impl FnOnce() -> conifer_index::Result<Snapshot> + Send) -> PyResult<Self> {
        let built = threads::run(py, || {
            let rows = open()?;
            let index = FlatIndex::on(&rows)?;
            Ok::<_, conifer_index::Error>(IndexObject { rows, index })
        })?;
        built.map_err(exception)
    }

    /// Converts the filter to row conditions and the rows of its mask.
    fn conditions(&self, filter: RowFilter<'_>) -> PyResult<(RowConditions, Option<Vec<usize>>)> {
        let RowFilter { modality, columns, depth, inside, outside, mask } = filter;
        let modality = modality.map(|all| all.iter().map(|it| modality_of(it)).collect::<PyResult<_>>()).transpose()?;
        let dim = self.index.spec().dim;
        let points = |name, all: Vec<Bound<'_, PyAny>>| -> PyResult<Vec<Vec<f32>>> {
            all.iter().map(|it| Ok(FloatArray::points(name, it, dim)?.to_f32())).collect()
        };
        let (inside, not) = (points("inside", inside)?, points("outside", outside)?);
        let mask = mask.map(|mask| self.masked(&mask)).transpose()?;
        Ok((RowConditions { modality, columns, depth, inside, not }, mask))
    }

    /// The rows that pass the conditions; `None` if there are no conditions.
    fn passing(&self, conditions: Option<&(RowConditions, Option<Vec<usize>>)>) -> PyResult<Option<Vec<usize>>> {
        let Some((conditions, mask)) = conditions else { return Ok(None) };
        let more = mask.as_deref().map(Filter::Set);
        conditions.rows(&self.index, &self.rows.columns, more).map_err(exception)
    }

    /// The rows whose value in `mask` is true.
    fn masked(&self, mask: &Bound<'_, PyArray1<bool>>) -> PyResult<Vec<usize>> {
        let mask = mask.try_readonly()?;
        let mask = mask.as_array();
        if mask.len() != self.index.len() {
            let (found, rows) = (mask.len(), self.index.len());
            return Err(PyValueError::new_err(format!("`where` has {found} values; expected {rows}, one per row")));
        }
        Ok(mask.iter().enumerate().filter_map(|(row, &keep)| keep.then_some(row)).collect())
    }
}

fn ranking_name(name: &str) -> PyResult<RankingName> {
    serde_json::from_value(name.into()).map_err(|_| {
        let known = conifer_search::RANKING_NAMES.join(", ");
        PyValueError::new_err(format!("`by` is `{name}`; expected one of {known}"))
    })
}

fn path_name(name: &str) -> PyResult<PathName> {
    serde_json::from_value(name.into())
        .map_err(|_| PyValueError::new_err(format!("`path` is `{name}`; expected `geodesic` or `tangent`")))
}
