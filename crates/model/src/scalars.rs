//! Learnable positive scalars: curvature, feature scales, temperature.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::{Error, Result};

/// One or several positive numbers, learned in log space and kept in a range.
///
/// The stored parameter is `log v`, shape `[K]` (`K` = 1, or one entry per factor of a product space); the value used
/// in formulas is `v = exp(log v)`. Learning the logarithm keeps `v` positive and makes a step a relative change (MERU,
/// Sec. 3.2; HyCoCLIP App. B: "all of these scalar values are learned in the logarithmic space").
///
/// The range is enforced by [`BoundedScalar::project`] *after* a step, never inside the graph: a scalar at its bound
/// still receives the gradient that can bring it back. Scalars are never weight-decayed: decay would pull `v` to the
/// value 1. An optimiser recognises them by type, from [`Head::scalars`](crate::head::Head::scalars) or from the
/// container name `Struct:BoundedScalar` of a module visitor, not by the spelling of a parameter's name.
#[derive(Module, Debug)]
pub struct BoundedScalar {
    log: Param<Tensor<1>>,
    #[module(skip)]
    names: Vec<String>,
    #[module(skip)]
    range: [f64; 2],
}

/// Relative error in v from storing `log v` in f32: half an ulp of a logarithm up to 16 is 5e-7.
const ROUNDING: f64 = 1e-6;

impl BoundedScalar {
    /// Builds a scalar whose entries have the published `names`, the initial values `init` and the common `range`
    /// `[low, high]`.
    ///
    /// A `low` of 0 or an infinite `high` means no bound on that side. `learn = false` freezes the values.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the range is empty, has a negative end or ends at 0, if there is not one value per name,
    /// or if an initial value is out of range, 0 or not finite.
    pub fn new(names: Vec<String>, init: &[f64], range: [f64; 2], learn: bool, device: &Device) -> Result<Self> {
        let what = names.first().cloned().unwrap_or_default();
        let [low, high] = range;
        // The condition is written so that NaN fails, too.
        if !(low >= 0.0 && high > 0.0 && low <= high) {
            return Err(Error::invalid(
                format!("range of {what}"),
                format!("[{low}, {high}]"),
                "0 <= low <= high, high > 0",
            ));
        }
        if names.len() != init.len() || names.is_empty() {
            return Err(Error::invalid(what, format!("{} values", init.len()), format!("{} values", names.len())));
        }
        // A value restored from an f32 logarithm may exceed its bound by a rounding error.
        let near = |value: f64| value >= low * (1.0 - ROUNDING) && value <= high * (1.0 + ROUNDING);
        for (name, &value) in names.iter().zip(init) {
            if !(value.is_finite() && value > 0.0 && near(value)) {
                return Err(Error::invalid(name, value, format!("a positive number in [{low}, {high}]")));
            }
        }
        let log = init.iter().map(|value| value.clamp(low, high).ln() as f32).collect();
        Ok(Self { log: Param::from_tensor(vector(log, device)).set_require_grad(learn), names, range })
    }

    /// The values `exp(log v)`, `[K]`, differentiable with respect to the stored logarithms.
    pub fn value(&self) -> Tensor<1> {
        self.log.val().exp()
    }

    /// The values as numbers, for logs and manifests.
    pub fn values(&self) -> Vec<f64> {
        self.log_values().into_iter().map(|log| f64::from(log).exp()).collect()
    }

    /// The stored logarithms, one per name: what a published checkpoint holds.
    pub fn log_values(&self) -> Vec<f32> {
        self.log.val().into_data().iter::<f32>().collect()
    }

    /// Replaces the stored logarithms by those of a checkpoint. Values outside the range are kept, so that the
    /// checkpoint is reproduced exactly; the trainer moves them into the range after its first step.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one number per name, [`Error::Invalid`] if a number is not finite.
    pub fn with_log_values(mut self, logs: &[f32]) -> Result<Self> {
        if logs.len() != self.len() {
            return Err(Error::Shape {
                name: self.names[0].clone(),
                found: vec![logs.len()],
                expected: format!("[{}]", self.len()),
            });
        }
        if let Some((name, log)) = self.names.iter().zip(logs).find(|(_, log)| !log.is_finite()) {
            return Err(Error::invalid(name, log, "a finite logarithm"));
        }
        let loaded = logs.to_vec();
        self.log = self.log.map(|log| {
            let learn = log.is_require_grad();
            vector(loaded, &log.device()).set_require_grad(learn)
        });
        Ok(self)
    }

    /// Clamps the stored logarithms into `[log low, log high]`. Call it after each optimiser step.
    #[must_use]
    pub fn project(mut self) -> Self {
        let [low, high] = self.range.map(f64::ln);
        self.log = self.log.map(|log| {
            let learn = log.is_require_grad();
            // Detach before the clamp and return a fresh leaf, so that the clamp is not part of the next step's graph.
            log.set_require_grad(false).clamp(low, high).set_require_grad(false).set_require_grad(learn)
        });
        self
    }

    /// Number of entries K.
    #[allow(clippy::len_without_is_empty, reason = "a scalar has at least one entry")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Published name of each entry: `["curv"]`, or `["curvs.0", "curvs.1", ...]`. Each is exported as a 0-dim tensor.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Range of the values, `[low, high]`.
    pub fn range(&self) -> [f64; 2] {
        self.range
    }

    /// True if a step may change the values.
    pub fn is_learned(&self) -> bool {
        self.log.is_require_grad()
    }

    /// The gradient of the stored logarithms, `[K]`, if a backward pass reached them.
    #[cfg(test)]
    pub(crate) fn grad(&self, grads: &burn::tensor::Gradients) -> Option<Tensor<1>> {
        self.log.val().grad(grads)
    }
}

/// A tensor in f32, regardless of the device's default dtype.
fn vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn scalar(init: f64, learn: bool) -> BoundedScalar {
        let device = Device::flex().autodiff();
        BoundedScalar::new(vec!["curv".into()], &[init], [0.1, 10.0], learn, &device).unwrap()
    }

    #[test]
    fn value_is_the_exponential_of_the_stored_logarithm() {
        let c = scalar(2.5, true);
        assert!((c.values()[0] - 2.5).abs() < 1e-6);
        assert_eq!(c.log_values(), vec![2.5f64.ln() as f32]);
    }

    #[test]
    fn project_clamps_and_keeps_the_parameter_trainable() {
        for (log, want) in [(-5.0, 0.1f64.ln()), (5.0, 10f64.ln()), (0.5, 0.5)] {
            let c = scalar(1.0, true);
            let id = c.log.id;
            let c = c.with_log_values(&[log]).unwrap().project();
            assert_eq!(c.log_values(), vec![want as f32]);
            assert_eq!(c.log.id, id, "optimiser state is found by this id");
            let grads = c.value().sum().backward();
            // d exp(l) / dl = exp(l), also at a bound.
            let grad: f32 = c.grad(&grads).unwrap().into_scalar();
            assert!((f64::from(grad) - want.exp()).abs() < 1e-5 * want.exp());
        }
    }

    #[test]
    fn a_frozen_scalar_stays_frozen_through_project_and_load() {
        let c = scalar(1.0, false).with_log_values(&[3.0]).unwrap().project();
        assert!(!c.is_learned());
    }

    #[test]
    fn a_range_may_have_no_lower_bound() {
        let device = Device::flex();
        let s = BoundedScalar::new(vec!["visual_alpha".into()], &[0.5], [0.0, 1.0], true, &device).unwrap();
        let s = s.with_log_values(&[-40.0]).unwrap().project();
        assert_eq!(s.log_values(), vec![-40.0]);
        assert_eq!(s.with_log_values(&[2.0]).unwrap().project().log_values(), vec![0.0]);
    }

    #[test]
    fn a_value_at_its_bound_round_trips() {
        let device = Device::flex();
        for bound in [0.1, 10.0, 100.0, 1e6] {
            let range = [0.1_f64.min(bound), bound];
            let new = |init: f64| BoundedScalar::new(vec!["v".into()], &[init], range, true, &device);
            let stored = new(bound).unwrap().values()[0];
            assert_eq!(new(stored).unwrap().log_values(), new(bound).unwrap().log_values(), "{bound} {stored}");
        }
    }

    #[test]
    fn invalid_values_are_rejected_with_their_name() {
        let device = Device::flex();
        let make = |init: &[f64], range| BoundedScalar::new(vec!["curv".into()], init, range, true, &device);
        for (result, word) in [
            (make(&[20.0], [0.1, 10.0]), "`curv` is 20"),
            (make(&[f64::NAN], [0.1, 10.0]), "`curv` is NaN"),
            (make(&[1.0], [2.0, 1.0]), "range of curv"),
            (make(&[1.0, 2.0], [0.1, 10.0]), "2 values"),
            (make(&[1.0], [0.1, 10.0]).and_then(|c| c.with_log_values(&[f32::INFINITY])), "inf"),
            (make(&[1.0], [0.1, 10.0]).and_then(|c| c.with_log_values(&[0.0, 0.0])), "[2]"),
        ] {
            let message = result.err().unwrap().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
