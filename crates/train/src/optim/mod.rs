//! AdamW with PyTorch's semantics: decoupled weight decay, bias correction, epsilon outside the square root.
//!
//! ```text
//! p <- p (1 - lr * decay)
//! m <- b1 m + (1 - b1) g                       v <- b2 v + (1 - b2) g^2
//! p <- p - lr / (1 - b1^t) * m / ( sqrt(v) / sqrt(1 - b2^t) + eps )
//! ```
//!
//! Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, Algorithm 2 (with the schedule multiplied
//! into the decay, as in PyTorch). Burn's AdamW has other defaults and clips each tensor separately; published recipes
//! clip by one norm over all gradients ([`GradientSet::norm`]).

mod gradients;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use conifer_model::params::{ParamInfo, ParamMapper, map_params};
use conifer_model::weight_array::{WeightArray, WeightValues, Weights};
use rayon::prelude::*;

pub use gradients::{GradientSet, clip_factor};

use crate::error::{Error, Result};

/// Inputs of one update besides the gradients.
#[derive(Clone, Copy)]
pub struct Update<'a> {
    /// Learning rate of this step.
    pub lr: f64,
    /// beta1 of this step, if the schedule sets it; `None`: beta1 of the optimiser. The bias correction is `1 -
    /// beta1^t` with this value, as if all earlier steps had used it, too (as in PyTorch).
    pub beta1: Option<f64>,
    /// Factor on every gradient (clipping, mean over accumulated batches); 1 changes nothing.
    pub gradient_scale: f64,
    /// Weight decay of a parameter, given its number of elements; 0 for none.
    pub decay: &'a dyn Fn(&ParamInfo<'_>, usize) -> f64,
    /// Learning-rate factor and first update of a parameter; [`whole_run_schedule`] if they are the same for all
    /// parameters.
    pub schedule: &'a dyn Fn(&ParamInfo<'_>) -> ParamSchedule,
}

/// Learning rate and first update of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamSchedule {
    /// Factor on the learning rate.
    pub lr_factor: f64,
    /// Number of optimiser updates that were made while this parameter was still frozen. As in PyTorch, the bias
    /// correction does not count them.
    pub start: u64,
}

/// The schedule of parameters that are trained from the first update on, at the learning rate of the step.
pub fn whole_run_schedule(_: &ParamInfo<'_>) -> ParamSchedule {
    ParamSchedule { lr_factor: 1.0, start: 0 }
}

/// The optimiser: settings, step count and the two moments of every parameter.
#[derive(Debug)]
pub struct AdamW {
    betas: [f64; 2],
    eps: f64,
    updates: u64,
    moments: BTreeMap<String, Moments>,
}

/// Running means of the gradient and of its square; flat, on the parameter's device.
#[derive(Clone, Debug)]
struct Moments {
    first: Tensor<1>,
    second: Tensor<1>,
}

impl AdamW {
    /// A new optimiser. `betas` in [0, 1), `eps` > 0 (checked by the configuration).
    pub fn new(betas: [f64; 2], eps: f64) -> Self {
        Self { betas, eps, updates: 0, moments: BTreeMap::new() }
    }

    /// Number of updates made so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Updates every parameter that has a gradient. The others are neither updated nor decayed, as in PyTorch.
    pub fn step<M: Module>(&mut self, model: M, gradients: GradientSet, update: Update<'_>) -> M {
        self.updates += 1;
        let Self { betas: [beta1, beta2], eps, updates, .. } = *self;
        let betas = [update.beta1.unwrap_or(beta1), beta2];
        map_params(model, &mut Stepper { moments: &mut self.moments, gradients, update, betas, eps, updates })
    }

    /// The moments as flat arrays by name: `first.<parameter>` and `second.<parameter>`.
    pub fn state(&self) -> Weights {
        let mut state = Weights::new();
        let flat = |moment: &Tensor<1>| WeightArray::f32(moment.dims(), moment.to_data().iter::<f32>().collect());
        for (name, moments) in &self.moments {
            state.insert(format!("first.{name}"), flat(&moments.first));
            state.insert(format!("second.{name}"), flat(&moments.second));
        }
        state
    }

    /// Restores the [`state`](Self::state) that was saved after `updates` updates.
    ///
    /// # Errors
    /// If a name or an array does not have the form of [`state`](Self::state), a moment lacks its counterpart, or the
    /// lengths of a pair differ. The optimiser is then unchanged.
    pub fn load_state(&mut self, updates: u64, mut state: Weights, device: &Device) -> Result<()> {
        let device = device.clone().without_autodiff();
        let flat = |name: &str, array: WeightArray| match array.values {
            WeightValues::F32(values) => Ok(Tensor::<1>::from_data(TensorData::new(values, array.shape), &device)),
            WeightValues::Bool(_) => Err(Error::invalid(name, "a boolean tensor", "a moment of the optimiser")),
        };
        let mut moments = BTreeMap::new();
        while let Some((name, first)) = state.pop_first() {
            let Some(parameter) = name.strip_prefix("first.") else {
                return Err(Error::invalid(name, "unpaired", "`first.<parameter>` and `second.<parameter>`"));
            };
            let second_name = format!("second.{parameter}");
            let Some(second) = state.remove(&second_name) else {
                return Err(Error::invalid(second_name, "missing", "a second moment for each first moment"));
            };
            if first.shape.len() != 1 || first.shape != second.shape {
                let expected = format!("{:?}, the shape of its first moment", first.shape);
                return Err(Error::Shape { name: second_name, found: second.shape, expected });
            }
            let pair = Moments { first: flat(&name, first)?, second: flat(&second_name, second)? };
            moments.insert(parameter.to_owned(), pair);
        }
        self.moments = moments;
        self.updates = updates;
        Ok(())
    }

    /// Name and length of each pair of moments, to check them against the parameters of a model.
    pub fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.moments.iter().map(|(name, moments)| (name.as_str(), moments.first.dims()[0]))
    }
}

/// Constants of one step of one parameter, in the working precision.
#[derive(Clone, Copy)]
struct AdamCoefficients {
    beta1: f32,
    beta2: f32,
    /// 1 - beta1, computed in f64 and rounded once (1 - 0.98 in f32 would lose five bits).
    new1: f32,
    new2: f32,
    /// lr / (1 - b1^t)
    step: f32,
    /// sqrt(1 - b2^t)
    root: f32,
    eps: f32,
    scale: f32,
    /// 1 - lr * decay
    keep: f32,
}

struct Stepper<'a> {
    moments: &'a mut BTreeMap<String, Moments>,
    gradients: GradientSet,
    update: Update<'a>,
    betas: [f64; 2],
    eps: f64,
    updates: u64,
}

impl Stepper<'_> {
    fn coefficients(&self, param: &ParamInfo<'_>, elements: usize) -> AdamCoefficients {
        let ParamSchedule { lr_factor, start } = (self.update.schedule)(param);
        let lr = self.update.lr * lr_factor;
        // Number of updates of this parameter, including this one.
        let t = self.updates.saturating_sub(start).max(1) as f64;
        AdamCoefficients {
            beta1: self.betas[0] as f32,
            beta2: self.betas[1] as f32,
            new1: (1.0 - self.betas[0]) as f32,
            new2: (1.0 - self.betas[1]) as f32,
            step: (lr / (1.0 - self.betas[0].powf(t))) as f32,
            root: (1.0 - self.betas[1].powf(t)).sqrt() as f32,
            eps: self.eps as f32,
            scale: self.update.gradient_scale as f32,
            keep: (1.0 - lr * (self.update.decay)(param, elements)) as f32,
        }
    }
}

impl ParamMapper for Stepper<'_> {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        let Some(gradient) = self.gradients.remove(param.name) else {
            return value;
        };
        let value = value.without_autodiff();
        let shape = value.shape();
        let elements = shape.num_elements();
        let moments = self
            .moments
            .remove(param.name)
            .unwrap_or_else(|| Moments { first: gradient.zeros_like(), second: gradient.zeros_like() });
        let coefficients = self.coefficients(param, elements);
        let parameter = value.reshape([elements]);
        let (parameter, moments) = if parameter.device() == Device::flex() {
            step_on_slices(parameter, gradient, moments, coefficients)
        } else {
            step_on_tensors(parameter, gradient, moments, coefficients)
        };
        self.moments.insert(param.name.to_owned(), moments);
        parameter.reshape(shape)
    }
}

/// Elements per parallel task. The update is elementwise, so any value gives the same result.
const CHUNK: usize = 1 << 14;

/// The update in host memory: one parallel pass over the four arrays.
fn step_on_slices(
    mut parameter: Tensor<1>,
    mut gradient: Tensor<1>,
    mut moments: Moments,
    c: AdamCoefficients,
) -> (Tensor<1>, Moments) {
    on_host(&mut parameter, |p| {
        on_host(&mut gradient, |g| {
            on_host(&mut moments.first, |m| {
                on_host(&mut moments.second, |v| {
                    p.par_chunks_mut(CHUNK)
                        .zip(g.par_chunks(CHUNK))
                        .zip(m.par_chunks_mut(CHUNK).zip(v.par_chunks_mut(CHUNK)))
                        .for_each(|((p, g), (m, v))| step_chunk(p, g, m, v, c));
                });
            });
        });
    });
    (parameter, moments)
}

fn step_chunk(p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], c: AdamCoefficients) {
    for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
        let g = g * c.scale;
        *m = *m * c.beta1 + g * c.new1;
        *v = *v * c.beta2 + g * g * c.new2;
        let denominator = v.sqrt() / c.root + c.eps;
        *p = *p * c.keep - *m / denominator * c.step;
    }
}

/// The same update as tensor operations, for devices whose memory the host cannot access. A test compares both.
fn step_on_tensors(
    parameter: Tensor<1>,
    gradient: Tensor<1>,
    moments: Moments,
    c: AdamCoefficients,
) -> (Tensor<1>, Moments) {
    let gradient = gradient * c.scale;
    let first = moments.first * c.beta1 + gradient.clone() * c.new1;
    let second = moments.second * c.beta2 + gradient.clone() * gradient * c.new2;
    let denominator = second.clone().sqrt() / c.root + c.eps;
    let parameter = parameter * c.keep - first.clone() / denominator * c.step;
    (parameter, Moments { first, second })
}

/// Runs `work` on the elements of a flat f32 tensor in host memory and stores the result back on its device. On the CPU
/// backend the storage is moved, not copied, if it is not shared.
fn on_host<R>(tensor: &mut Tensor<1>, work: impl FnOnce(&mut [f32]) -> R) -> R {
    let device = tensor.device();
    let hollow = Tensor::empty([0], &device);
    let mut data = std::mem::replace(tensor, hollow).into_data();
    let result = work(data.as_mut_slice().expect("parameters, gradients and moments are f32"));
    *tensor = Tensor::from_data(data, &device);
    result
}
