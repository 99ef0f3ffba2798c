//! The losses of all methods on points, with their gradients.

use burn::tensor::{Device, Gradients, Tensor};
use conifer::train::{BatchPoints, BatchSpace, METHODS, RowShare};
use conifer_geometry_tensor::{RootT, manifold};
use conifer_train::methods::{Chain, Edges, entry};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{FloatArray, shown};
use crate::error::exception;
use crate::space::SpaceObject;
use crate::tensor_ops::{FloatVec, TensorInput, check_types, with_curvatures};
use crate::threads;

/// Names of the inputs of shape `[B, dim]`. The names of chains may repeat: one input per link, from general to
/// specific.
const VIEWS: [&str; 9] =
    ["image", "text", "box_image", "box_text", "chain", "wrong_chain", "frozen_chain", "frozen_wrong_chain", "edges"];
/// Names of the inputs with one axis.
const VECTORS: [&str; 3] = ["curvature", "logit_scale", "root"];

/// Returns the loss, its terms (means over their samples) and, with `gradients`, the gradient of each input in order.
///
/// `settings` is the `[method]` table as JSON. `lengths` are the lengths of chains, `things` and `parts` the labels of
/// `edges`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python package names them")]
pub(crate) fn loss<'py>(
    py: Python<'py>,
    method: &str,
    settings: &str,
    space: &Bound<'py, SpaceObject>,
    inputs: Vec<(String, Bound<'py, PyAny>)>,
    lengths: Vec<usize>,
    things: Vec<u32>,
    parts: Vec<[u32; 2]>,
    gradients: bool,
) -> PyResult<(f64, Bound<'py, PyDict>, Vec<Bound<'py, PyAny>>)> {
    let entry = entry(method).map_err(exception)?;
    let table = serde_json::from_str::<toml::Table>(settings)
        .map_err(|error| PyValueError::new_err(format!("the settings of {method}: {error}")))?;
    let objective = (entry.from_config)(&table).map_err(exception)?;
    let spec = &space.get().spec;
    let mut names = Vec::new();
    let mut arrays = Vec::new();
    for (name, value) in &inputs {
        let (name, axes) = input_name(method, name)?;
        let array = FloatArray::of(name, value)?;
        if array.shape.len() != axes || axes == 2 && array.shape[1] != spec.dim {
            let expected = if axes == 2 { format!("(B, {})", spec.dim) } else { "one axis".to_owned() };
            let found = shown(&array.shape);
            return Err(PyValueError::new_err(format!("{method}: {name} has shape {found}; expected {expected}")));
        }
        if name == "root" && array.shape != [spec.dim] {
            let found = shown(&array.shape);
            return Err(PyValueError::new_err(format!("{method}: root has shape {found}; expected ({},)", spec.dim)));
        }
        names.push(name);
        arrays.push(array);
    }
    check_types(&arrays)?;
    check_chains(method, &names, &arrays)?;
    let at = |wanted: &str| names.iter().position(|name| *name == wanted);
    let scales = objective.temperatures().len().max(1);
    let found = at("logit_scale").map_or_else(|| "missing".to_owned(), |i| shown(&arrays[i].shape));
    if found != shown(&[scales]) {
        return Err(PyValueError::new_err(format!(
            "{method}: logit_scale is {found}; expected 1 / temperature of shape ({scales},)"
        )));
    }
    let spec = with_curvatures(spec, at("curvature").map(|i| &arrays[i]))?;
    if let Some(found) = things.iter().chain(parts.iter().flatten()).max().filter(|_| at("edges").is_none()) {
        return Err(PyValueError::new_err(format!("{method}: labels up to {found}, but no edges; expected edges")));
    }
    let tensor_inputs: Vec<TensorInput<'_>> = arrays.iter().map(TensorInput::of).collect();
    let computed = threads::run(py, || -> PyResult<_> {
        let device = if gradients { Device::flex().autodiff() } else { Device::flex() };
        let leaves = Leaves::new(&names, &tensor_inputs, &device, gradients);
        let batch = leaves.batch(&lengths, &things, &parts);
        let curv = leaves.vector("curvature");
        let space = BatchSpace {
            manifold: manifold(&spec, curv.clone()).map_err(exception)?,
            root: leaves.vector("root").map_or(RootT::Origin, RootT::Point),
            curv,
            logit_scale: leaves.vector("logit_scale").unwrap_or_else(|| Tensor::ones([1], &device)),
            rows: RowShare::default(),
        };
        let loss = objective.loss(&batch, &space).map_err(exception)?;
        let mean = |values: &Tensor<1>| values.clone().mean().into_data().iter::<f64>().next().unwrap_or(f64::NAN);
        let terms: Vec<(&str, f64)> = loss.terms.iter().map(|(name, values)| (*name, mean(values))).collect();
        let total = mean(&loss.total);
        let found = if gradients { leaves.gradients(&loss.total.backward(), &tensor_inputs) } else { Vec::new() };
        Ok((total, terms, found))
    })??;
    let (total, found_terms, found) = computed;
    let terms = PyDict::new(py);
    for (name, value) in found_terms {
        terms.set_item(name, value)?;
    }
    let found = found.into_iter().zip(&arrays).map(|(values, input)| values.into_array(py, &input.shape));
    Ok((total, terms, found.collect::<PyResult<_>>()?))
}

/// Name, summary and reference of every method.
#[pyfunction]
pub(crate) fn methods() -> Vec<(&'static str, &'static str, &'static str)> {
    METHODS.iter().map(|entry| (entry.name, entry.summary, entry.reference)).collect()
}

/// The known input name equal to `name`, and its number of axes.
fn input_name(method: &str, name: &str) -> PyResult<(&'static str, usize)> {
    let of = |known: &[&'static str], axes| known.iter().find(|it| **it == name).map(|it| (*it, axes));
    of(&VIEWS, 2).or_else(|| of(&VECTORS, 1)).ok_or_else(|| {
        let known = VIEWS.iter().chain(&VECTORS).copied().collect::<Vec<_>>().join(", ");
        PyValueError::new_err(format!("{method}: input `{name}`; expected one of {known}"))
    })
}

/// Checks that all links of chains have the same number of rows, and that a frozen chain has as many links as the
/// current one.
fn check_chains(method: &str, names: &[&str], arrays: &[FloatArray<'_>]) -> PyResult<()> {
    let links = |name: &str| names.iter().filter(|it| **it == name).count();
    for (frozen, current) in [("frozen_chain", "chain"), ("frozen_wrong_chain", "wrong_chain")] {
        let (found, expected) = (links(frozen), links(current));
        if found != 0 && found != expected {
            return Err(PyValueError::new_err(format!(
                "{method}: {frozen} has {found} links; expected none or {expected}, as {current}"
            )));
        }
    }
    let mut rows = None;
    for (name, array) in names.iter().zip(arrays).filter(|(name, _)| name.ends_with("chain")) {
        let expected = *rows.get_or_insert(array.shape[0]);
        if array.shape[0] != expected {
            let found = array.shape[0];
            return Err(PyValueError::new_err(format!("{method}: {name} has {found} rows; expected {expected}")));
        }
    }
    Ok(())
}

/// The inputs as tensors, in the order of the arguments.
struct Leaves<'a> {
    names: &'a [&'static str],
    tensors: Vec<Leaf>,
}

enum Leaf {
    Rows(Tensor<2>),
    Vector(Tensor<1>),
}

impl<'a> Leaves<'a> {
    fn new(names: &'a [&'static str], inputs: &[TensorInput<'_>], device: &Device, gradients: bool) -> Self {
        let leaf = |(name, input): (&&str, &TensorInput<'_>)| match (VECTORS.contains(name), gradients) {
            (true, true) => Leaf::Vector(input.tensor(device).require_grad()),
            (true, false) => Leaf::Vector(input.tensor(device)),
            (false, true) => Leaf::Rows(input.tensor(device).require_grad()),
            (false, false) => Leaf::Rows(input.tensor(device)),
        };
        Leaves { names, tensors: names.iter().zip(inputs).map(leaf).collect() }
    }

    fn all(&self, name: &str) -> Vec<Tensor<2>> {
        let named = self.names.iter().zip(&self.tensors).filter(|(it, _)| **it == name);
        named.filter_map(|(_, leaf)| if let Leaf::Rows(rows) = leaf { Some(rows.clone()) } else { None }).collect()
    }

    fn rows(&self, name: &str) -> Option<Tensor<2>> {
        self.all(name).into_iter().next()
    }

    fn vector(&self, name: &str) -> Option<Tensor<1>> {
        let named = self.names.iter().zip(&self.tensors).find(|(it, _)| **it == name);
        named.and_then(|(_, leaf)| if let Leaf::Vector(values) = leaf { Some(values.clone()) } else { None })
    }

    fn batch(&self, lengths: &[usize], things: &[u32], parts: &[[u32; 2]]) -> BatchPoints {
        let chain = |positive, negative| {
            let (positive, negative) = (self.all(positive), self.all(negative));
            (!positive.is_empty()).then(|| Chain { positive, negative, lengths: lengths.to_vec() })
        };
        BatchPoints {
            image: self.rows("image"),
            text: self.rows("text"),
            box_image: self.rows("box_image"),
            box_text: self.rows("box_text"),
            chain: chain("chain", "wrong_chain"),
            // The points of the initial model are constants.
            frozen_chain: chain("frozen_chain", "frozen_wrong_chain").map(|it| Chain {
                positive: it.positive.into_iter().map(Tensor::detach).collect(),
                negative: it.negative.into_iter().map(Tensor::detach).collect(),
                ..it
            }),
            edges: self.rows("edges").map(|points| Edges { points, things: things.to_vec(), parts: parts.to_vec() }),
            keys: None,
        }
    }

    fn gradients(&self, gradients: &Gradients, inputs: &[TensorInput<'_>]) -> Vec<FloatVec> {
        let of = |(leaf, input): (&Leaf, &TensorInput<'_>)| match leaf {
            Leaf::Rows(leaf) => leaf.grad(gradients).map_or_else(|| input.zeros(), FloatVec::of),
            Leaf::Vector(leaf) => leaf.grad(gradients).map_or_else(|| input.zeros(), FloatVec::of),
        };
        self.tensors.iter().zip(inputs).map(of).collect()
    }
}
