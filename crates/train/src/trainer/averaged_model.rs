//! A copy of the trained model whose parameters are a moving average of the trained ones.
//!
//! After each update, with the parameters q of the trained model and k of its copy:
//!
//! ```text
//! k <- decay k + (1 - decay) q
//! ```
//!
//! Frozen parameters are equal in both models. `train.ema` evaluates and publishes such a copy. A momentum encoder is
//! another use.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use conifer_model::features::FeatureStatistics;
use conifer_model::model::Model;
use conifer_model::params::{ParamInfo, ParamMapper, ParamVisitor, map_params, visit_params};
use conifer_model::weight_array::Weights;

use super::flat_params::{flat_params, with_flat_params};
use crate::error::Result;

/// The moving average of a model.
pub(super) struct AveragedModel {
    /// The parameters are tensors without autodiff.
    model: Model,
}

impl AveragedModel {
    /// A copy of `model`.
    pub(super) fn new(model: &Model) -> Self {
        Self { model: model.valid() }
    }

    /// The average, without autodiff.
    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    /// Sets the feature statistics that the adapters of the trained model received at the start of the run.
    pub(super) fn set_feature_statistics(&mut self, statistics: [Option<FeatureStatistics>; 2], device: &Device) {
        let plain = device.clone().without_autodiff();
        self.model = self.model.clone().with_feature_statistics(statistics, &plain);
    }

    /// Moves the average towards `model`. Call it after each optimiser step.
    pub(super) fn follow(&mut self, model: &Model, decay: f64) {
        let mut trained = TrainedParams::default();
        visit_params(model, &mut trained);
        self.model = map_params(self.model.clone(), &mut Average { decay, trained: trained.0 });
    }

    /// Returns the parameters as flat arrays, by name with `prefix`.
    pub(super) fn params(&self, prefix: &str) -> Weights {
        flat_params(&self.model, prefix)
    }

    /// Replaces the parameters by those of `weights`, which were read from `path`.
    ///
    /// # Errors
    /// The errors of [`with_flat_params`]. The average is then unchanged.
    pub(super) fn load(&mut self, weights: Weights, prefix: &str, path: &Path) -> Result<()> {
        self.model = with_flat_params(self.model.clone(), weights, prefix, path)?;
        Ok(())
    }
}

/// The decay d of the update with this number, counted from 1, for `decay` = `train.ema`. It is smaller in the first
/// updates; otherwise the random initial weights would dominate the average of a short run.
pub(super) fn ema_decay(decay: f64, update: u64) -> f64 {
    decay.min((1.0 + update as f64) / (10.0 + update as f64))
}

/// Flat values of the parameters that require a gradient, by name.
#[derive(Default)]
struct TrainedParams(BTreeMap<String, Tensor<1>>);

impl ParamVisitor for TrainedParams {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if value.is_require_grad() {
            let elements = value.shape().num_elements();
            self.0.insert(param.name.to_owned(), value.clone().without_autodiff().reshape([elements]));
        }
    }
}

/// Moves each parameter that `trained` contains.
struct Average {
    decay: f64,
    trained: BTreeMap<String, Tensor<1>>,
}

impl ParamMapper for Average {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        match self.trained.remove(param.name) {
            Some(trained) => {
                let shape = value.shape();
                average(value, trained.reshape(shape), self.decay)
            }
            None => value,
        }
    }
}

pub(super) fn average<const D: usize>(kept: Tensor<D>, trained: Tensor<D>, decay: f64) -> Tensor<D> {
    kept * decay + trained * (1.0 - decay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decay_grows_to_its_limit() {
        // (1 + t) / (10 + t), by hand: 2/11, 11/20, 991/1000.
        for (update, decay) in [(1, 2.0 / 11.0), (10, 0.55), (990, 0.991), (1_000_000, 0.9999)] {
            assert!((ema_decay(0.9999, update) - decay).abs() < 1e-15, "{update}");
        }
        assert_eq!(ema_decay(0.0, 5), 0.0);
    }
}
