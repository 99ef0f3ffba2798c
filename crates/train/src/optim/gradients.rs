//! The gradients of one step by parameter name, summed over calls, batches and ranks.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use conifer_model::params::{ParamInfo, ParamVisitor, visit_params};
use rayon::prelude::*;

use super::on_host;
use crate::ranks::Ranks;

/// One flat gradient per parameter that received one, keyed by the parameter's path in the module
/// (`visual.blocks.0.norm1.weight`).
///
/// Sums run in a fixed order over blocks of fixed length, so the results are the same for any number of threads.
#[derive(Debug, Default)]
pub struct GradientSet {
    by_name: BTreeMap<String, Tensor<1>>,
}

impl GradientSet {
    /// Takes the gradients of `model`'s parameters out of a backward pass.
    pub fn take<M: Module>(model: &M, gradients: &mut Gradients) -> Self {
        let mut collector = GradientCollector { gradients, by_name: BTreeMap::new() };
        visit_params(model, &mut collector);
        Self { by_name: collector.by_name }
    }

    /// True if no parameter has a gradient.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The elements of each gradient by name, in order of the names.
    #[cfg(test)]
    pub(crate) fn values(&self) -> BTreeMap<&str, Vec<f32>> {
        let floats = |gradient: &Tensor<1>| gradient.to_data().iter::<f32>().collect();
        self.by_name.iter().map(|(name, gradient)| (name.as_str(), floats(gradient))).collect()
    }

    /// Adds the gradients of another batch or call of an encoder. A parameter that is missing on one side counts as
    /// zero there.
    pub fn add(&mut self, other: Self) {
        for (name, gradient) in other.by_name {
            let sum = match self.by_name.remove(&name) {
                Some(mine) => mine + gradient,
                None => gradient,
            };
            self.by_name.insert(name, sum);
        }
    }

    /// Sums the gradients over all ranks, each of which has the gradients of its rows. A parameter without a gradient
    /// on any rank stays without one.
    pub fn sum_over<M: Module>(&mut self, ranks: &Ranks, model: &M) {
        if ranks.size() == 1 {
            return;
        }
        let mut params = ParamLengths::default();
        visit_params(model, &mut params);
        let mine: Vec<bool> = params.0.iter().map(|(name, ..)| self.by_name.contains_key(name)).collect();
        let found = ranks.any_of(&mine);
        let present: Vec<_> = params.0.into_iter().zip(found).filter(|(_, found)| *found).map(|(it, _)| it).collect();
        let mut rest = present.as_slice();
        while !rest.is_empty() {
            // Take at least one parameter, and as many more as fit into the bucket.
            let mut length = 0;
            let fitting = rest.iter().take_while(|(_, elements, _)| {
                length += elements;
                length <= BUCKET
            });
            let (bucket, later) = rest.split_at(fitting.count().max(1));
            self.sum_bucket(ranks, bucket);
            rest = later;
        }
    }

    /// All-reduces the gradients of `params` with one call of [`Ranks::sum`].
    fn sum_bucket(&mut self, ranks: &Ranks, params: &[(String, usize, Device)]) {
        let mut values = Vec::with_capacity(params.iter().map(|(_, elements, _)| elements).sum());
        for (name, elements, _) in params {
            let length = values.len() + elements;
            if let Some(gradient) = self.by_name.remove(name) {
                values.extend(gradient.into_data().iter::<f32>());
            }
            values.resize(length, 0.0);
        }
        ranks.sum(&mut values);
        let mut rest = values.as_slice();
        for (name, elements, device) in params {
            let (sums, later) = rest.split_at(*elements);
            let sums = TensorData::new(sums.to_vec(), [*elements]);
            self.by_name.insert(name.clone(), Tensor::from_data(sums, device));
            rest = later;
        }
    }

    /// Euclidean norm over all elements of all gradients (one norm, as in PyTorch's `clip_grad_norm_`).
    ///
    /// The sum is accumulated in f64 on the host. On other devices each tensor is reduced there in f32, and the sums
    /// are added in f64.
    pub fn norm(&mut self) -> f64 {
        let mut total = 0.0;
        for gradient in self.by_name.values_mut() {
            total += sum_of_squares(gradient);
        }
        total.sqrt()
    }

    /// Name of the first parameter whose gradient has a non-finite sum of squares.
    pub fn first_non_finite(&mut self) -> Option<&str> {
        let mut found = None;
        for (name, gradient) in &mut self.by_name {
            if found.is_none() && !sum_of_squares(gradient).is_finite() {
                found = Some(name.as_str());
            }
        }
        found
    }

    /// The norm of each gradient by name, in order of the names.
    pub fn norms(&mut self) -> Vec<(&str, f64)> {
        let squares = self.by_name.iter_mut().map(|(name, gradient)| (name.as_str(), sum_of_squares(gradient).sqrt()));
        squares.collect()
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Tensor<1>> {
        self.by_name.remove(name)
    }
}

/// Factor that reduces gradients of global `norm` to `max`: min(1, max / (norm + 1e-6)), as in PyTorch.
pub fn clip_factor(norm: f64, max: f64) -> f64 {
    // PyTorch adds 1e-6 against a norm of zero. The same constant gives the same clipping.
    (max / (norm + 1e-6)).min(1.0)
}

/// Length of the blocks that are summed separately. It is fixed, because the rounding depends on it.
const BLOCK: usize = 1 << 14;

fn sum_of_squares(gradient: &mut Tensor<1>) -> f64 {
    if gradient.device() != Device::flex() {
        let square = gradient.clone() * gradient.clone();
        return f64::from(square.sum().into_scalar::<f32>());
    }
    on_host(gradient, |values| {
        let blocks: Vec<f64> = values
            .par_chunks(BLOCK)
            .map(|block| block.iter().map(|&value| f64::from(value) * f64::from(value)).sum())
            .collect();
        blocks.iter().sum()
    })
}

/// Maximum number of gradient values per call of [`Ranks::sum`]. A parameter with more values is summed in a
/// separate call.
const BUCKET: usize = 1 << 22;

/// Name, number of elements and device (without autodiff) of every parameter.
#[derive(Default)]
struct ParamLengths(Vec<(String, usize, Device)>);

impl ParamVisitor for ParamLengths {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        let device = value.device().without_autodiff();
        self.0.push((param.name.to_owned(), value.shape().num_elements(), device));
    }
}

/// Collects gradients by the names of their parameters.
struct GradientCollector<'a> {
    gradients: &'a mut Gradients,
    by_name: BTreeMap<String, Tensor<1>>,
}

impl ParamVisitor for GradientCollector<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if let Some(gradient) = value.grad_remove(self.gradients) {
            let elements = gradient.shape().num_elements();
            self.by_name.insert(param.name.to_owned(), gradient.reshape([elements]));
        }
    }
}
