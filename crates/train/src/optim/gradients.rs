//! The gradients of one step by parameter name: collected, summed over micro-batches, measured.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor};
use conifer_model::params::{ParamInfo, ParamVisitor, visit_params};
use rayon::prelude::*;

use super::on_host;

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

    /// Adds the gradients of another micro-batch; a parameter missing on one side counts as zero there.
    pub fn add(&mut self, other: Self) {
        for (name, gradient) in other.by_name {
            let sum = match self.by_name.remove(&name) {
                Some(mine) => mine + gradient,
                None => gradient,
            };
            self.by_name.insert(name, sum);
        }
    }

    /// Euclidean norm over all elements of all gradients (one norm, as in PyTorch's `clip_grad_norm_`).
    ///
    /// Accumulated in f64 on the host; on other devices each tensor is reduced there in f32 and the sums are added in
    /// f64.
    pub fn norm(&mut self) -> f64 {
        let mut total = 0.0;
        for gradient in self.by_name.values_mut() {
            total += sum_of_squares(gradient);
        }
        total.sqrt()
    }

    /// Name of the first parameter whose gradient has a sum of squares that is not finite.
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
    // The 1e-6 is PyTorch's guard against a norm of zero. It is kept so that gradients are clipped as in PyTorch.
    (max / (norm + 1e-6)).min(1.0)
}

/// Length of the blocks that are summed separately. It is fixed, so that the result does not depend on the number of
/// threads.
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
