//! Converts the parameters of a model to flat arrays by name, the form in which a checkpoint stores a second copy.

use std::path::Path;

use burn::tensor::{Tensor, TensorData};
use conifer_model::model::Model;
use conifer_model::params::{ParamInfo, ParamKind, ParamMapper, ParamVisitor, map_params, visit_params};
use conifer_model::weight_array::{WeightArray, WeightValues, Weights};

use crate::error::{Error, Result};

/// Returns every parameter that a run may train, by its name with `prefix`.
pub(super) fn flat_params(model: &Model, prefix: &str) -> Weights {
    let mut flat = FlatParams { prefix, weights: Weights::new() };
    visit_params(model, &mut flat);
    flat.weights
}

/// Replaces the parameters of `model` by `weights`, in the form of [`flat_params`]. `path` is the file named in errors.
///
/// # Errors
/// [`Error::Format`] if a parameter is missing, unknown, or of another shape.
pub(super) fn with_flat_params(model: Model, weights: Weights, prefix: &str, path: &Path) -> Result<Model> {
    let params = flat_params(&model, prefix);
    for (name, expected) in &params {
        let wanted = &expected.shape;
        let detail = match weights.get(name) {
            Some(found) if found.shape == *wanted && found.floats().is_some() => continue,
            Some(found) => format!("`{name}` has shape {:?}; expected numbers of shape {wanted:?}", found.shape),
            None => format!("`{name}` is missing; expected numbers of shape {wanted:?}"),
        };
        return Err(Error::format(path, detail));
    }
    if let Some(name) = weights.keys().find(|name| !params.contains_key(*name)) {
        return Err(Error::format(path, format!("`{name}` is unknown; expected parameters of the model of this run")));
    }
    Ok(map_params(model, &mut StoredParams { prefix, weights }))
}

/// The elements of a tensor in row-major order.
pub(super) fn floats<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

struct FlatParams<'a> {
    prefix: &'a str,
    weights: Weights,
}

impl ParamVisitor for FlatParams<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if param.kind != ParamKind::Fixed {
            let values = floats(value);
            self.weights.insert(format!("{}{}", self.prefix, param.name), WeightArray::f32([values.len()], values));
        }
    }
}

/// Replaces parameters by their stored values, whose shapes were checked before.
struct StoredParams<'a> {
    prefix: &'a str,
    weights: Weights,
}

impl ParamMapper for StoredParams<'_> {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        match self.weights.remove(&format!("{}{}", self.prefix, param.name)).map(|array| array.values) {
            Some(WeightValues::F32(values)) => {
                let device = value.device().without_autodiff();
                Tensor::from_data(TensorData::new(values, value.shape()), &device)
            }
            _ => value,
        }
    }
}
