//! Arguments and results as NumPy arrays or torch CPU tensors. Arguments are borrowed, not copied.

use conifer_geometry::{Real, Space, safe};
use numpy::{
    Element, IntoPyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// An element type of arrays: f32 or f64.
pub(crate) trait Float: Real + Element {
    /// Returns the numbers of an array if it has this element type, else `None`.
    fn of<'a>(floats: &'a Floats<'_>) -> Option<&'a [Self]>;
}

/// The borrowed numbers of a C-contiguous array.
pub(crate) enum Floats<'py> {
    Single(PyReadonlyArrayDyn<'py, f32>),
    Double(PyReadonlyArrayDyn<'py, f64>),
}

/// An array argument of a Python function.
pub(crate) struct FloatArray<'py> {
    pub(crate) name: &'static str,
    pub(crate) floats: Floats<'py>,
    pub(crate) shape: Vec<usize>,
    /// True for a torch tensor; results are then torch tensors, too.
    pub(crate) is_torch: bool,
}

/// Condition that the rows of an argument must satisfy.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RowKind {
    /// Points of the space.
    Point,
    /// Vectors of finite numbers.
    Vector,
}

impl Float for f32 {
    fn of<'a>(floats: &'a Floats<'_>) -> Option<&'a [Self]> {
        match floats {
            Floats::Single(array) => array.as_slice().ok(),
            Floats::Double(_) => None,
        }
    }
}

impl Float for f64 {
    fn of<'a>(floats: &'a Floats<'_>) -> Option<&'a [Self]> {
        match floats {
            Floats::Double(array) => array.as_slice().ok(),
            Floats::Single(_) => None,
        }
    }
}

impl<'py> FloatArray<'py> {
    /// Borrows an argument as an array.
    ///
    /// # Errors
    /// `TypeError` for another type or dtype; `ValueError` for an array that is not C-contiguous or not aligned, a
    /// tensor on another device, or a tensor that requires a gradient.
    pub(crate) fn of(name: &'static str, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        if value.cast::<PyUntypedArray>().is_ok() {
            return Self::of_numpy(name, value, false);
        }
        if !(value.hasattr("detach")? && value.hasattr("requires_grad")?) {
            let found = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{name} is a {found}; expected a NumPy array or a torch tensor of float32 or float64"
            )));
        }
        if value.getattr("requires_grad")?.extract::<bool>()? {
            return Err(PyValueError::new_err(format!(
                "{name} requires a gradient; expected a tensor without one: this function computes no gradients. Use \
                 conifer.torch, or pass {name}.detach()"
            )));
        }
        let device = value.getattr("device")?.getattr("type")?.extract::<String>()?;
        if device != "cpu" {
            return Err(PyValueError::new_err(format!(
                "{name} is on device {device}; expected a CPU tensor, such as {name}.cpu()"
            )));
        }
        // NumPy has no bfloat16, so check before the conversion.
        let dtype = value.getattr("dtype")?.str()?.to_string();
        if dtype != "torch.float32" && dtype != "torch.float64" {
            return Err(wrong_dtype(name, dtype.trim_start_matches("torch.")));
        }
        Self::of_numpy(name, &value.call_method0("numpy")?, true)
    }

    fn of_numpy(name: &'static str, value: &Bound<'py, PyAny>, is_torch: bool) -> PyResult<Self> {
        let array = value.cast::<PyUntypedArray>()?;
        let shape = array.shape().to_vec();
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err(format!(
                "{name} is not contiguous; expected rows one after the other, such as numpy.ascontiguousarray({name})"
            )));
        }
        let floats = if let Ok(array) = value.cast::<PyArrayDyn<f32>>() {
            Floats::Single(array.try_readonly()?)
        } else if let Ok(array) = value.cast::<PyArrayDyn<f64>>() {
            Floats::Double(array.try_readonly()?)
        } else {
            return Err(wrong_dtype(name, &array.dtype().str()?.to_string()));
        };
        let array = FloatArray { name, floats, shape, is_torch };
        if array.slice::<f32>().is_none() && array.slice::<f64>().is_none() {
            return Err(PyValueError::new_err(format!(
                "{name} is not aligned; expected a copy, such as {name}.copy()"
            )));
        }
        Ok(array)
    }

    /// Borrows an argument as one point `[dim]` or as rows of points `[N, dim]`.
    ///
    /// # Errors
    /// The errors of [`FloatArray::of`]; `ValueError` for another shape.
    pub(crate) fn points(name: &'static str, value: &Bound<'py, PyAny>, dim: usize) -> PyResult<Self> {
        let array = Self::of(name, value)?;
        match array.shape[..] {
            [width] | [_, width] if width == dim => Ok(array),
            _ => {
                let expected = format!("({dim},) or (N, {dim})");
                Err(PyValueError::new_err(format!("{name} has shape {}; expected {expected}", shown(&array.shape))))
            }
        }
    }

    /// The numbers if the array has this element type, else `None`.
    pub(crate) fn slice<T: Float>(&self) -> Option<&[T]> {
        T::of(&self.floats)
    }

    /// The numbers of an array that must have the element type of `like`.
    pub(crate) fn same_type<T: Float>(&self, like: &FloatArray<'_>) -> PyResult<&[T]> {
        self.slice::<T>().ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{} is {} and {} is {}; expected equal dtypes",
                self.name,
                self.dtype(),
                like.name,
                like.dtype()
            ))
        })
    }

    pub(crate) fn dtype(&self) -> &'static str {
        match self.floats {
            Floats::Single(_) => "float32",
            Floats::Double(_) => "float64",
        }
    }

    /// True for an array of rows, false for one point.
    pub(crate) fn has_rows(&self) -> bool {
        self.shape.len() > 1
    }

    /// Copies the numbers to `f32`.
    pub(crate) fn to_f32(&self) -> Vec<f32> {
        match (self.slice::<f32>(), self.slice::<f64>()) {
            (Some(values), _) => values.to_vec(),
            (_, Some(values)) => values.iter().map(|&v| v as f32).collect(),
            _ => Vec::new(),
        }
    }

    /// Copies the numbers to `f64`.
    pub(crate) fn to_f64(&self) -> Vec<f64> {
        match (self.slice::<f32>(), self.slice::<f64>()) {
            (Some(values), _) => values.iter().map(|&v| f64::from(v)).collect(),
            (_, Some(values)) => values.to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Checks the rows of an argument. The messages have the same form as those of the command line.
pub(crate) fn check_rows<T: Real>(name: &str, space: &dyn Space<T>, values: &[T], kind: RowKind) -> Result<(), String> {
    let spec = space.spec();
    for (i, row) in values.chunks_exact(spec.dim).enumerate() {
        if let Some(at) = row.iter().position(|v| !v.is_finite()) {
            return Err(format!("{name}: component {at} of row {i} is {}; expected a finite number", row[at]));
        }
        if kind == RowKind::Vector {
            continue;
        }
        for (factor, part) in row.chunks_exact(spec.factor_dim()).enumerate() {
            let scale = spec.curv.get(factor).map_or(1.0, |c| c.sqrt());
            let reach = scale * conifer_geometry::slices::norm(part).to_f64();
            if reach > f64::from(safe::FARTHEST) {
                let most = safe::FARTHEST;
                return Err(format!("{name}: `sqrt(c) |x|` of row {i} is {reach:e}; expected at most {most:e}"));
            }
        }
        let off = space.off_manifold(row).to_f64();
        if off > safe::UNIT_TOLERANCE {
            let most = safe::UNIT_TOLERANCE;
            return Err(format!(
                "{name}: row {i} is {off} away from the {spec}; expected at most {most}: was it lifted?"
            ));
        }
    }
    Ok(())
}

/// Returns numbers as a NumPy array or torch tensor of this shape. The array takes over the memory of the vector.
pub(crate) fn array<'py, T: Element>(
    py: Python<'py>,
    values: Vec<T>,
    shape: &[usize],
    is_torch: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let array = values.into_pyarray(py).reshape(shape.to_vec())?.into_any();
    match is_torch {
        true => py.import("torch")?.call_method1("from_numpy", (array,)),
        false => Ok(array),
    }
}

/// Formats a shape as Python does.
pub(crate) fn shown(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn wrong_dtype(name: &str, found: &str) -> PyErr {
    PyTypeError::new_err(format!("{name} has dtype {found}; expected float32 or float64"))
}
