//! The geometry of one space on arrays.

use std::sync::Mutex;

use conifer::geometry::{ManifoldSpec, Root, Space, space};
use conifer::index::Ranking;
use conifer_index::score_rows;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{Float, FloatArray, Floats, RowKind, array, check_rows, shown};
use crate::error::exception;
use crate::threads;

/// Number of values below which a computation runs on the calling thread, because handing it to the pool would take
/// longer.
const SMALL: usize = 1 << 14;

/// A space. `conifer.Space` extends it.
#[pyclass(name = "Space", module = "conifer._conifer", subclass, frozen)]
pub(crate) struct SpaceObject {
    pub(crate) spec: ManifoldSpec,
    pub(crate) single: Box<dyn Space<f32>>,
    double: Box<dyn Space<f64>>,
}

/// An element type, and the geometry in this type of a [`SpaceObject`].
trait SpaceFloat: Float {
    fn geometry(space: &SpaceObject) -> &dyn Space<Self>;
}

impl SpaceFloat for f32 {
    fn geometry(space: &SpaceObject) -> &dyn Space<Self> {
        space.single.as_ref()
    }
}

impl SpaceFloat for f64 {
    fn geometry(space: &SpaceObject) -> &dyn Space<Self> {
        space.double.as_ref()
    }
}

/// Runs an expression with `$T` as the number type of an array.
macro_rules! with_type {
    ($array:expr, $T:ident, $body:expr) => {
        match $array.floats {
            Floats::Single(_) => {
                type $T = f32;
                $body
            }
            Floats::Double(_) => {
                type $T = f64;
                $body
            }
        }
    };
}

/// The results of a row-wise function.
struct RowResults<T> {
    values: Vec<T>,
    shape: Vec<usize>,
    is_torch: bool,
}

impl<T: Float> RowResults<T> {
    /// Converts a single number to a Python float if no argument was a torch tensor, and all other results to an array.
    fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let RowResults { values, shape, is_torch } = self;
        match values.first().filter(|_| shape.is_empty() && !is_torch) {
            Some(value) => Ok(value.to_f64().into_pyobject(py)?.into_any()),
            None => array(py, values, &shape, is_torch),
        }
    }
}

#[pymethods]
impl SpaceObject {
    #[new]
    #[pyo3(signature = (kind, dim, factors=1, curvatures=Vec::new()))]
    fn new(kind: &str, dim: usize, factors: usize, curvatures: Vec<f64>) -> PyResult<Self> {
        Self::of(ManifoldSpec { kind: kind.into(), dim, factors, curv: curvatures })
    }

    #[getter]
    fn kind(&self) -> &str {
        self.spec.kind.name()
    }

    #[getter]
    fn dim(&self) -> usize {
        self.spec.dim
    }

    #[getter]
    fn factors(&self) -> usize {
        self.spec.factors
    }

    #[getter]
    fn curvatures(&self) -> Vec<f64> {
        self.spec.curv.clone()
    }

    fn __str__(&self) -> String {
        self.spec.to_string()
    }

    /// Geodesic distance of x and y, row by row: (N, dim), (N, dim) -> (N,).
    ///
    /// One point (dim,) is compared with every row of the other argument; two points give a float, or a tensor without
    /// axes if one of them is a tensor. On the sphere it is the arc in radians, on a product the mean (l1) or root mean
    /// square (l2) of the distances in the factors.
    fn distance<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        y: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("x", x)?, self.points("y", y)?];
        with_type!(inputs[0], T, {
            self.rows::<T, 2>(py, &inputs, RowKind::Point, None, |space, [x, y], out| out[0] = space.dist(x, y))?
                .into_object(py)
        })
    }

    /// Inner product of the ambient space, row by row: (N, dim), (N, dim) -> (N,).
    ///
    /// Lorentz: <x, y> - t(x) t(y), with the time t(x) = sqrt(1/c + |x|^2); summed over the factors of a product.
    fn inner<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>, y: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("x", x)?, self.points("y", y)?];
        with_type!(inputs[0], T, {
            self.rows::<T, 2>(py, &inputs, RowKind::Point, None, |space, [x, y], out| out[0] = space.inner(x, y))?
                .into_object(py)
        })
    }

    /// Angle at parent between the continuation of the line from the root and the line to child, in radians, 0 to pi:
    /// (N, dim), (N, dim) -> (N,). It is 0 if child lies straight behind parent as seen from the root.
    ///
    /// root: a point (dim,); default: the origin.
    #[pyo3(signature = (parent, child, root=None))]
    fn exterior_angle<'py>(
        &self,
        py: Python<'py>,
        parent: &Bound<'py, PyAny>,
        child: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("parent", parent)?, self.points("child", child)?];
        let root = self.root(root)?;
        with_type!(inputs[0], T, {
            self.rows::<T, 2>(py, &inputs, RowKind::Point, None, |space, [parent, child], out| {
                out[0] = space.exterior_angle(parent, child, &root);
            })?
            .into_object(py)
        })
    }

    /// Half aperture of the cone at each parent, in radians, up to pi/2: (N, dim) -> (N,).
    ///
    /// Lorentz: asin(2 min_radius / sinh(sqrt(c) d)), with d the distance to the root. Product: the mean of the
    /// factors.
    #[pyo3(signature = (parent, min_radius=0.1, root=None))]
    fn half_aperture<'py>(
        &self,
        py: Python<'py>,
        parent: &Bound<'py, PyAny>,
        min_radius: f64,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_positive("min_radius", min_radius)?;
        let inputs = [self.points("parent", parent)?];
        let root = self.root(root)?;
        with_type!(inputs[0], T, {
            self.rows::<T, 1>(py, &inputs, RowKind::Point, None, |space, [parent], out| {
                out[0] = space.half_aperture(parent, from_f64(min_radius), &root);
            })?
            .into_object(py)
        })
    }

    /// exterior_angle - aperture_scale * half_aperture, in radians, row by row: at most 0 if child lies in the cone.
    ///
    /// Product: the mean of the positive excesses of the factors, or the largest excess if none is positive.
    #[pyo3(signature = (parent, child, min_radius=0.1, aperture_scale=1.0, root=None))]
    fn cone_excess<'py>(
        &self,
        py: Python<'py>,
        parent: &Bound<'py, PyAny>,
        child: &Bound<'py, PyAny>,
        min_radius: f64,
        aperture_scale: f64,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_positive("min_radius", min_radius)?;
        check_positive("aperture_scale", aperture_scale)?;
        let inputs = [self.points("parent", parent)?, self.points("child", child)?];
        let root = self.root(root)?;
        with_type!(inputs[0], T, {
            self.rows::<T, 2>(py, &inputs, RowKind::Point, None, |space, [parent, child], out| {
                out[0] = space.cone_excess(parent, child, from_f64(min_radius), from_f64(aperture_scale), &root);
            })?
            .into_object(py)
        })
    }

    /// Distance to the root: (N, dim) -> (N,). On the sphere it is the chord |x - root|.
    #[pyo3(signature = (x, root=None))]
    fn depth<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        root: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("x", x)?];
        let root = self.root(root)?;
        with_type!(inputs[0], T, {
            self.rows::<T, 1>(py, &inputs, RowKind::Point, None, |space, [x], out| out[0] = space.depth(x, &root))?
                .into_object(py)
        })
    }

    /// Exponential map at the origin: tangent vectors (N, dim) to points (N, dim). Sphere: v / |v|.
    fn exp0<'py>(&self, py: Python<'py>, v: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("v", v)?];
        let width = Some(self.spec.dim);
        with_type!(inputs[0], T, {
            self.rows::<T, 1>(py, &inputs, RowKind::Vector, width, |space, [v], out| space.lift(v, out))?
                .into_object(py)
        })
    }

    /// Logarithm at the origin, the inverse of exp0: points (N, dim) to tangent vectors (N, dim). Sphere: x.
    fn log0<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("x", x)?];
        let width = Some(self.spec.dim);
        with_type!(inputs[0], T, {
            self.rows::<T, 1>(py, &inputs, RowKind::Point, width, |space, [x], out| space.unlift(x, out))?
                .into_object(py)
        })
    }

    /// The point of the space that is nearest to each vector: (N, dim) -> (N, dim). Sphere: v / |v|; elsewhere v.
    fn project<'py>(&self, py: Python<'py>, v: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let inputs = [self.points("v", v)?];
        let width = Some(self.spec.dim);
        with_type!(inputs[0], T, {
            self.rows::<T, 1>(py, &inputs, RowKind::Vector, width, |space, [v], out| space.project(v, out))?
                .into_object(py)
        })
    }

    /// The point of the geodesic from x to y at fraction t of its length, row by row: (N, dim), (N, dim) -> (N, dim).
    ///
    /// t: 0 for x, 1 for y. tangent: follow the straight line between the tangent vectors at the origin instead.
    #[pyo3(signature = (x, y, t, tangent=false))]
    fn geodesic<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        y: &Bound<'py, PyAny>,
        t: f64,
        tangent: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !t.is_finite() {
            return Err(PyValueError::new_err(format!(
                "`t` is {t}; expected a finite number, 0 for `x` and 1 for `y`"
            )));
        }
        let inputs = [self.points("x", x)?, self.points("y", y)?];
        let width = Some(self.spec.dim);
        with_type!(inputs[0], T, {
            self.rows::<T, 2>(py, &inputs, RowKind::Point, width, |space, [x, y], out| match tangent {
                true => space.tangent_line(x, y, from_f64(t), out),
                false => space.geodesic(x, y, from_f64(t), out),
            })?
            .into_object(py)
        })
    }

    /// Centroid of the points: (N, dim) -> (dim,). Hyperboloid: the sum in the ambient space, projected back.
    fn centroid<'py>(&self, py: Python<'py>, points: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let input = self.points("points", points)?;
        if !input.has_rows() || input.shape[0] == 0 {
            let found = shown(&input.shape);
            return Err(PyValueError::new_err(format!(
                "points has shape {found}; expected (N, dim) with N at least 1"
            )));
        }
        with_type!(input, T, {
            let (geometry, values) = (T::geometry(self), input.same_type::<T>(&input)?);
            check_rows(input.name, geometry, values, RowKind::Point).map_err(PyValueError::new_err)?;
            let rows: Vec<&[T]> = values.chunks_exact(self.spec.dim).collect();
            let mut out = vec![0.0; self.spec.dim];
            threads::run(py, || geometry.centroid(&rows, &mut out))?;
            array(py, out, &[self.spec.dim], input.is_torch)
        })
    }

    /// Geodesic distances of all pairs: (M, dim), (N, dim) -> (M, N).
    ///
    /// In float32, distances in hyperbolic and Euclidean spaces are computed from dot products. The error of
    /// cosh(sqrt(c) d) is then a few units in the last place of c |x| |y|, so tiny distances far from the origin lose
    /// digits.
    fn pairwise_distance<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        y: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (x, y) = (self.matrix("x", x)?, self.matrix("y", y)?);
        let (rows, columns) = (x.shape[0], y.shape[0]);
        let torch = x.is_torch || y.is_torch;
        match x.floats {
            Floats::Single(_) => {
                let (a, b) = (x.same_type::<f32>(&x)?, y.same_type::<f32>(&x)?);
                let found = threads::run(py, || -> Result<Vec<f32>, PyErr> {
                    self.check(&[(x.name, a), (y.name, b)])?;
                    // In other spaces the distances are computed pair by pair, as in `f64`.
                    if self.single.score_form().is_some() && self.spec.kind.name() != "sphere" {
                        return scored(&self.spec, a, b).map_err(exception);
                    }
                    Ok(pairs(self.single.as_ref(), a, b))
                })??;
                array(py, found, &[rows, columns], torch)
            }
            Floats::Double(_) => {
                let (a, b) = (x.same_type::<f64>(&x)?, y.same_type::<f64>(&x)?);
                let found = threads::run(py, || -> Result<Vec<f64>, PyErr> {
                    self.check(&[(x.name, a), (y.name, b)])?;
                    Ok(pairs(self.double.as_ref(), a, b))
                })??;
                array(py, found, &[rows, columns], torch)
            }
        }
    }
}

impl SpaceObject {
    pub(crate) fn of(spec: ManifoldSpec) -> PyResult<Self> {
        let single = space::<f32>(&spec).map_err(exception)?;
        let double = space::<f64>(&spec).map_err(exception)?;
        Ok(SpaceObject { spec, single, double })
    }

    fn points<'py>(&self, name: &'static str, value: &Bound<'py, PyAny>) -> PyResult<FloatArray<'py>> {
        FloatArray::points(name, value, self.spec.dim)
    }

    /// Returns the argument as rows of points. One point becomes one row.
    fn matrix<'py>(&self, name: &'static str, value: &Bound<'py, PyAny>) -> PyResult<FloatArray<'py>> {
        let mut points = self.points(name, value)?;
        if !points.has_rows() {
            points.shape.insert(0, 1);
        }
        Ok(points)
    }

    fn root(&self, root: Option<&Bound<'_, PyAny>>) -> PyResult<Root> {
        root_of(&self.spec, root)
    }

    fn check<T: SpaceFloat>(&self, inputs: &[(&str, &[T])]) -> PyResult<()> {
        for (name, values) in inputs {
            check_rows(name, T::geometry(self), values, RowKind::Point).map_err(PyValueError::new_err)?;
        }
        Ok(())
    }

    /// Applies `f` to every row of the inputs; one point is compared with every row of the other input. `width` is the
    /// number of results per row, `None` for one number without an axis.
    fn rows<T: SpaceFloat, const N: usize>(
        &self,
        py: Python<'_>,
        inputs: &[FloatArray<'_>; N],
        kind: RowKind,
        width: Option<usize>,
        f: impl Fn(&dyn Space<T>, [&[T]; N], &mut [T]) + Sync,
    ) -> PyResult<RowResults<T>> {
        let mut count: Option<(usize, &str)> = None;
        for input in inputs.iter().filter(|it| it.has_rows()) {
            let (rows, name) = *count.get_or_insert((input.shape[0], input.name));
            if rows != input.shape[0] {
                return Err(PyValueError::new_err(format!(
                    "{} has {} rows; expected {rows} as {name}, or one point of shape ({},)",
                    input.name, input.shape[0], self.spec.dim
                )));
            }
        }
        let mut slices: [(&str, &[T], bool); N] = [("", &[], false); N];
        for (slice, input) in slices.iter_mut().zip(inputs) {
            *slice = (input.name, input.same_type::<T>(&inputs[0])?, input.has_rows());
        }
        let (rows, dim, geometry) = (count.map_or(1, |it| it.0), self.spec.dim, T::geometry(self));
        let out_width = width.unwrap_or(1);
        let mut values = vec![T::ZERO; rows * out_width];
        let mut compute = || -> Result<(), String> {
            for (name, slice, _) in slices {
                check_rows(name, geometry, slice, kind)?;
            }
            let one = |(i, out): (usize, &mut [T])| {
                f(geometry, slices.map(|(_, slice, many)| &slice[if many { i * dim } else { 0 }..][..dim]), out);
            };
            if rows * dim <= SMALL {
                values.chunks_exact_mut(out_width).enumerate().for_each(one);
            } else {
                values.par_chunks_exact_mut(out_width).enumerate().with_min_len(1 + 512 / dim).for_each(one);
            }
            Ok(())
        };
        let done = if rows * dim <= SMALL { compute() } else { threads::run(py, compute)? };
        done.map_err(PyValueError::new_err)?;
        let shape = count.map(|it| it.0).into_iter().chain(width).collect();
        Ok(RowResults { values, shape, is_torch: inputs.iter().any(|it| it.is_torch) })
    }
}

/// Converts the argument `root` to a root; `None` is the origin.
pub(crate) fn root_of(spec: &ManifoldSpec, root: Option<&Bound<'_, PyAny>>) -> PyResult<Root> {
    let Some(value) = root else { return Ok(Root::Origin) };
    let point = FloatArray::of("root", value)?;
    if point.shape != [spec.dim] {
        let found = shown(&point.shape);
        return Err(PyValueError::new_err(format!("root has shape {found}; expected ({},)", spec.dim)));
    }
    let root = Root::Point(point.to_f64());
    root.check(spec).map_err(exception)?;
    Ok(root)
}

/// Distances of all pairs, computed from dot products in blocks.
fn scored(spec: &ManifoldSpec, x: &[f32], y: &[f32]) -> conifer_index::Result<Vec<f32>> {
    let columns = y.len() / spec.dim;
    let mut out = vec![0.0; x.len() / spec.dim * columns];
    if out.is_empty() {
        return Ok(out);
    }
    // `score_rows` passes each row to exactly one call, so no lock is contended.
    let rows: Vec<Mutex<&mut [f32]>> = out.chunks_exact_mut(columns).map(Mutex::new).collect();
    score_rows(spec, Ranking::Distance, x, y, |i, scores| {
        if let Ok(mut row) = rows[i].lock() {
            row.copy_from_slice(scores);
        }
    })?;
    drop(rows);
    Ok(out)
}

/// Distances of all pairs, computed one by one.
fn pairs<T: SpaceFloat>(space: &dyn Space<T>, x: &[T], y: &[T]) -> Vec<T> {
    let dim = space.spec().dim;
    let columns = y.len() / dim;
    let mut out = vec![T::ZERO; x.len() / dim * columns];
    if columns > 0 {
        out.par_chunks_exact_mut(columns).zip(x.par_chunks_exact(dim)).for_each(|(row, x)| {
            row.iter_mut().zip(y.chunks_exact(dim)).for_each(|(out, y)| *out = space.dist(x, y));
        });
    }
    out
}

fn from_f64<T: Float>(value: f64) -> T {
    T::from_f64(value)
}

fn check_positive(name: &str, value: f64) -> PyResult<()> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("`{name}` is {value}; expected a positive number"))),
    }
}
