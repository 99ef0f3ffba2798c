//! Differentiable functions of a space on Burn tensors, for `torch.autograd.Function`.
//!
//! The forward pass keeps no graph. The backward pass computes the function again with a graph.

use burn::tensor::{DType, Device, Tensor, TensorData};
use conifer::geometry::ManifoldSpec;
use conifer_geometry_tensor::{ConeShape, Manifold, RootT, manifold};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrays::{FloatArray, array, shown};
use crate::error::exception;
use crate::space::SpaceObject;
use crate::threads;

/// Borrowed numbers of one element type.
#[derive(Clone, Copy)]
enum FloatSlice<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
}

/// An input in a form that can be sent to the thread pool.
#[derive(Clone, Copy)]
pub(crate) struct TensorInput<'a> {
    numbers: FloatSlice<'a>,
    shape: &'a [usize],
}

/// Copied numbers of a result tensor.
pub(crate) enum FloatVec {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

/// The result of a function: one number or one vector per row.
enum OpResult {
    Numbers(Tensor<1>),
    Rows(Tensor<2>),
}

impl<'a> TensorInput<'a> {
    pub(crate) fn of(array: &'a FloatArray<'_>) -> Self {
        let single = array.slice::<f32>().map(FloatSlice::Single);
        let double = || FloatSlice::Double(array.slice::<f64>().unwrap_or_default());
        TensorInput { numbers: single.unwrap_or_else(double), shape: &array.shape }
    }

    /// Copies the numbers to a tensor. `D` must be the number of axes.
    pub(crate) fn tensor<const D: usize>(&self, device: &Device) -> Tensor<D> {
        let shape: [usize; D] = std::array::from_fn(|axis| self.shape[axis]);
        match self.numbers {
            FloatSlice::Single(values) => {
                Tensor::from_data(TensorData::new(values.to_vec(), shape), (device, DType::F32))
            }
            FloatSlice::Double(values) => {
                Tensor::from_data(TensorData::new(values.to_vec(), shape), (device, DType::F64))
            }
        }
    }

    pub(crate) fn zeros(&self) -> FloatVec {
        match self.numbers {
            FloatSlice::Single(values) => FloatVec::Single(vec![0.0; values.len()]),
            FloatSlice::Double(values) => FloatVec::Double(vec![0.0; values.len()]),
        }
    }
}

impl FloatVec {
    pub(crate) fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        match tensor.dtype() {
            DType::F64 => FloatVec::Double(tensor.into_data().iter::<f64>().collect()),
            _ => {
                let data = tensor.into_data();
                FloatVec::Single(data.iter::<f32>().collect())
            }
        }
    }

    pub(crate) fn into_array<'py>(self, py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            FloatVec::Single(values) => array(py, values, shape, false),
            FloatVec::Double(values) => array(py, values, shape, false),
        }
    }
}

/// Computes the function `name`. The inputs are `[N, dim]`; if the space is curved, the last input is the curvatures
/// `[K]`.
#[pyfunction]
pub(crate) fn tensor_op<'py>(
    py: Python<'py>,
    name: &str,
    space: &Bound<'py, SpaceObject>,
    inputs: Vec<Bound<'py, PyAny>>,
    settings: Vec<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let arrays = arrays(&inputs)?;
    let call = OpCall::new(name, &space.get().spec, &arrays, &settings)?;
    let (values, shape) = threads::run(py, || match call.compute(&Device::flex())?.1 {
        OpResult::Numbers(found) => Ok::<_, PyErr>((FloatVec::of(found.clone()), found.dims().to_vec())),
        OpResult::Rows(found) => Ok((FloatVec::of(found.clone()), found.dims().to_vec())),
    })??;
    values.into_array(py, &shape)
}

/// Computes the gradients of all inputs of [`tensor_op`] from the gradient of its result.
#[pyfunction]
pub(crate) fn tensor_op_backward<'py>(
    py: Python<'py>,
    name: &str,
    space: &Bound<'py, SpaceObject>,
    inputs: Vec<Bound<'py, PyAny>>,
    settings: Vec<f64>,
    gradient: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let arrays = arrays(&inputs)?;
    let call = OpCall::new(name, &space.get().spec, &arrays, &settings)?;
    let gradient = FloatArray::of("gradient", gradient)?;
    let seed = TensorInput::of(&gradient);
    let found = threads::run(py, || -> PyResult<Vec<FloatVec>> {
        let device = Device::flex().autodiff();
        let (leaves, result) = call.compute(&device)?;
        let gradients = match result {
            OpResult::Numbers(found) => (found * seed.tensor::<1>(&device)).sum().backward(),
            OpResult::Rows(found) => (found * seed.tensor::<2>(&device)).sum().backward(),
        };
        let of = |(leaf, input): (&OpLeaf, &TensorInput<'_>)| match leaf {
            OpLeaf::Rows(leaf) => leaf.grad(&gradients).map_or_else(|| input.zeros(), FloatVec::of),
            OpLeaf::Curvatures(leaf) => leaf.grad(&gradients).map_or_else(|| input.zeros(), FloatVec::of),
        };
        Ok(leaves.iter().zip(&call.inputs).map(of).collect())
    })??;
    found.into_iter().zip(&arrays).map(|(values, input)| values.into_array(py, &input.shape)).collect()
}

/// A checked call of a function.
struct OpCall<'a> {
    name: &'a str,
    spec: ManifoldSpec,
    inputs: Vec<TensorInput<'a>>,
    settings: &'a [f64],
}

enum OpLeaf {
    Rows(Tensor<2>),
    Curvatures(Tensor<1>),
}

/// For each function: its name, the number of `[N, dim]` inputs, the number of settings, and whether it is computed row
/// by row, which requires equally many rows in all inputs.
const OPS: [(&str, usize, usize, bool); 8] = [
    ("exp0", 1, 0, true),
    ("log0", 1, 0, true),
    ("distance", 2, 0, true),
    ("pairwise_distance", 2, 0, false),
    ("exterior_angle", 2, 0, true),
    ("pairwise_exterior_angle", 2, 0, false),
    ("half_aperture", 1, 1, true),
    ("cone_hinge", 2, 2, true),
];

impl<'a> OpCall<'a> {
    fn new(name: &'a str, spec: &ManifoldSpec, arrays: &'a [FloatArray<'_>], settings: &'a [f64]) -> PyResult<Self> {
        let Some((_, rows, numbers, aligned)) = OPS.into_iter().find(|it| it.0 == name) else {
            let known = OPS.map(|it| it.0).join(", ");
            return Err(PyValueError::new_err(format!("function `{name}`; expected one of {known}")));
        };
        let expected = rows + usize::from(!spec.curv.is_empty());
        if arrays.len() != expected || settings.len() != numbers {
            return Err(PyValueError::new_err(format!(
                "{name}: {} inputs and {} settings; expected {expected} and {numbers}",
                arrays.len(),
                settings.len()
            )));
        }
        for (i, array) in arrays[..rows].iter().enumerate() {
            let fits = matches!(array.shape[..], [count, width] if width == spec.dim && (!aligned || count == arrays[0].shape[0]));
            if !fits {
                let count = if aligned && i > 0 { arrays[0].shape[0].to_string() } else { "N".to_owned() };
                return Err(PyValueError::new_err(format!(
                    "{name}: input {i} has shape {}; expected ({count}, {})",
                    shown(&array.shape),
                    spec.dim
                )));
            }
        }
        let spec = with_curvatures(spec, arrays.get(rows))?;
        Ok(OpCall { name, spec, inputs: arrays.iter().map(TensorInput::of).collect(), settings })
    }

    /// Computes the result. Returns it with the leaves, which require gradients on an autodiff device.
    fn compute(&self, device: &Device) -> PyResult<(Vec<OpLeaf>, OpResult)> {
        let curved = !self.spec.curv.is_empty();
        let (rows, curvatures) = self.inputs.split_at(self.inputs.len() - usize::from(curved));
        let mut points: Vec<Tensor<2>> = rows.iter().map(|it| it.tensor(device)).collect();
        let mut curv: Option<Tensor<1>> = curvatures.first().map(|it| it.tensor(device));
        if device.is_autodiff() {
            points = points.into_iter().map(Tensor::require_grad).collect();
            curv = curv.map(Tensor::require_grad);
        }
        let space = manifold(&self.spec, curv.clone()).map_err(exception)?;
        let result = self.apply(space.as_ref(), &points);
        let leaves = points.into_iter().map(OpLeaf::Rows).chain(curv.map(OpLeaf::Curvatures)).collect();
        Ok((leaves, result))
    }

    fn apply(&self, space: &dyn Manifold, points: &[Tensor<2>]) -> OpResult {
        let x = || points[0].clone();
        let y = || points[1].clone();
        let root = &RootT::Origin;
        match self.name {
            "exp0" => OpResult::Rows(space.lift(x())),
            "log0" => OpResult::Rows(space.unlift(x())),
            "distance" => OpResult::Numbers(space.dist(x(), y())),
            "pairwise_distance" => OpResult::Rows(space.pairwise_dist(x(), y())),
            "exterior_angle" => OpResult::Numbers(space.exterior_angle(x(), y(), root)),
            "pairwise_exterior_angle" => OpResult::Rows(space.pairwise_exterior_angle(x(), y(), root)),
            "half_aperture" => OpResult::Numbers(space.half_aperture(x(), self.settings[0], root)),
            _ => {
                let [min_radius, aperture_scale] = [self.settings[0], self.settings[1]];
                let shape = ConeShape { min_radius, aperture_scale, max_aperture: None };
                OpResult::Numbers(space.cone_hinge(x(), y(), &shape, root))
            }
        }
    }
}

/// The spec with the curvatures of the argument, if there is one. Checks the curvatures.
pub(crate) fn with_curvatures(spec: &ManifoldSpec, curvatures: Option<&FloatArray<'_>>) -> PyResult<ManifoldSpec> {
    let Some(found) = curvatures.filter(|_| !spec.curv.is_empty()) else { return Ok(spec.clone()) };
    if found.shape != [spec.factors] {
        let shape = shown(&found.shape);
        return Err(PyValueError::new_err(format!("curvature has shape {shape}; expected ({},)", spec.factors)));
    }
    let spec = ManifoldSpec { curv: found.to_f64(), ..spec.clone() };
    spec.check().map_err(exception)?;
    Ok(spec)
}

/// Borrows arrays, which must have the same dtype.
fn arrays<'py>(inputs: &[Bound<'py, PyAny>]) -> PyResult<Vec<FloatArray<'py>>> {
    let arrays: Vec<FloatArray<'py>> =
        inputs.iter().map(|it| FloatArray::of("an input", it)).collect::<PyResult<_>>()?;
    check_types(&arrays)?;
    Ok(arrays)
}

/// # Errors
/// `TypeError` if the dtypes differ.
pub(crate) fn check_types(arrays: &[FloatArray<'_>]) -> PyResult<()> {
    let Some(first) = arrays.first() else { return Ok(()) };
    match arrays.iter().find(|it| it.dtype() != first.dtype()) {
        None => Ok(()),
        Some(other) => Err(PyTypeError::new_err(format!(
            "{} is {} and {} is {}; expected equal dtypes",
            other.name,
            other.dtype(),
            first.name,
            first.dtype()
        ))),
    }
}
