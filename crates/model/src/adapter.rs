//! Adapters: small trainable networks between a tower and its projection, and the scaling of the tower's features.

use std::cell::Cell;

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData, activation};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::encoders::layers::Linear;
use crate::features::FeatureStatistics;
use crate::params::{Fill, Init, Statistic};
use crate::{Error, Result};

/// Architecture of an [`Adapter`]. Without `widths` it is linear: scaling, dropout, and then the projection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdapterConfig {
    /// Scaling of the features of the tower, before any layer. `standardise` needs a frozen tower.
    pub input: FeatureScaling,
    /// Width of each hidden layer between the encoder and its projection; empty: linear.
    pub widths: Vec<usize>,
    /// Non-linearity after each hidden layer.
    pub activation: AdapterActivation,
    /// Probability with which training sets a value to zero, before each hidden layer and before the projection; 0 or
    /// more and less than 1.
    pub dropout: f64,
    /// Add the input of a hidden layer to its output. All widths must then equal the width of the tower.
    pub residual: bool,
}

impl Default for AdapterConfig {
    fn default() -> Self {
        Self {
            input: FeatureScaling::None,
            widths: Vec::new(),
            activation: AdapterActivation::Gelu,
            dropout: 0.0,
            residual: false,
        }
    }
}

/// Scaling of features before an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeatureScaling {
    /// The features of the tower, unchanged.
    #[default]
    None,
    /// `(x - mean) / std` of each feature over the training data. The checkpoint stores mean and std. Needs a frozen
    /// tower.
    Standardise,
    /// `x / rms(x)`: each row is scaled to the Euclidean norm sqrt(width).
    Rms,
}

/// Non-linearity of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterActivation {
    /// `x Phi(x)`.
    #[default]
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `x sigmoid(x)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
}

/// A perceptron on the features of a tower: `[B, width] -> [B, out]`.
///
/// `x = scale(features)`, then for each hidden layer `h = activation(dropout(x) W + b)` and `x = h`, or `x + h` with
/// `residual`, then `dropout(x)`. Dropout is active only in training ([`DropoutNoise`]). Weights start uniform in
/// +-1/sqrt(inputs), as PyTorch's linear layers do.
#[derive(Module, Debug)]
pub struct Adapter {
    mean: Option<Statistic>,
    std: Option<Statistic>,
    layers: Vec<Linear>,
    #[module(skip)]
    config: AdapterConfig,
    #[module(skip)]
    width: usize,
}

impl Adapter {
    /// An adapter for features of this `width`. `section` names it in messages: `model.visual_adapter`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a dropout outside [0, 1), a width outside [1, 2^20], or widths that `residual` does not
    /// allow.
    pub fn new(section: &str, config: &AdapterConfig, width: usize, init: &mut Init) -> Result<Self> {
        if !(0.0..1.0).contains(&config.dropout) {
            return Err(Error::invalid(format!("{section}.dropout"), config.dropout, "0 or more and less than 1"));
        }
        let wrong = |it: &&usize| !(1..=1 << 20).contains(*it) || config.residual && **it != width;
        if let Some(found) = config.widths.iter().find(wrong) {
            let expected = match config.residual {
                true => format!("{width}, the width of the tower, with residual = true"),
                false => "1 to 1048576".to_owned(),
            };
            return Err(Error::invalid(format!("{section}.widths"), found, expected));
        }
        let standardised = config.input == FeatureScaling::Standardise;
        let widths: Vec<usize> = [width].iter().chain(&config.widths).copied().collect();
        let layer = |pair: &[usize]| {
            let bound = Fill::Uniform((pair[0] as f64).powf(-0.5));
            Linear::new(init, pair[0], pair[1], bound, bound)
        };
        let layers = widths.windows(2).map(layer).collect();
        Ok(Self {
            mean: standardised.then(|| init.statistic(width, 0.0)),
            std: standardised.then(|| init.statistic(width, 1.0)),
            layers,
            config: config.clone(),
            width,
        })
    }

    /// Width of the output.
    pub fn width(&self) -> usize {
        self.config.widths.last().copied().unwrap_or(self.width)
    }

    /// Sets mean and standard deviation of the features, for [`FeatureScaling::Standardise`]; no effect otherwise. Each
    /// standard deviation is increased by 1e-6, so a constant feature causes no division by 0.
    #[must_use]
    pub(crate) fn with_statistics(mut self, statistics: &FeatureStatistics, device: &Device) -> Self {
        let set = |old: Option<Statistic>, values: Vec<f32>| {
            let tensor = |values: Vec<f32>| {
                let shape = [values.len()];
                Tensor::from_data(TensorData::new(values, shape), device)
            };
            old.map(|_| Statistic { value: Param::from_tensor(tensor(values)).set_require_grad(false) })
        };
        self.mean = set(self.mean, statistics.mean.clone());
        self.std = set(self.std, statistics.std.iter().map(|std| std + 1e-6).collect());
        self
    }

    /// `[B, width] -> [B, out]`. `noise` enables dropout; `None` for inference.
    pub fn forward(&self, features: Tensor<2>, noise: Option<&DropoutNoise>) -> Tensor<2> {
        let mut x = features.cast(DType::F32);
        if let (Some(mean), Some(std)) = (&self.mean, &self.std) {
            x = (x - mean.value.val().unsqueeze()) / std.value.val().unsqueeze();
        }
        if self.config.input == FeatureScaling::Rms {
            let rms = x.clone().powi_scalar(2).mean_dim(1).sqrt().clamp_min(1e-12);
            x = x / rms;
        }
        for layer in &self.layers {
            let hidden = layer.forward(self.drop(x.clone(), noise));
            let hidden = match self.config.activation {
                AdapterActivation::Gelu => conifer_kernels::gelu(hidden),
                AdapterActivation::Relu => activation::relu(hidden),
                AdapterActivation::Silu => activation::silu(hidden),
                AdapterActivation::Tanh => activation::tanh(hidden),
            };
            x = if self.config.residual { x + hidden } else { hidden };
        }
        self.drop(x, noise)
    }

    fn drop(&self, x: Tensor<2>, noise: Option<&DropoutNoise>) -> Tensor<2> {
        match noise {
            Some(noise) if self.config.dropout > 0.0 => {
                x.clone() * noise.mask(x.dims(), self.config.dropout, &x.device())
            }
            _ => x,
        }
    }
}

/// Random numbers for dropout. They depend on the seed, the step, the batch, the number of masks drawn before and the
/// row, not on threads or on other random draws.
#[derive(Debug)]
pub struct DropoutNoise {
    seed: u64,
    masks: Cell<u64>,
    first_row: usize,
}

impl DropoutNoise {
    /// The noise of one forward pass: `seed` of the run, number of the training `step`, and number of the `batch`
    /// within the step.
    pub fn new(seed: u64, step: u64, batch: u64) -> Self {
        let seed = [step, batch].into_iter().fold(mix(seed), |state, value| mix(state ^ mix(value)));
        Self { seed, masks: Cell::new(0), first_row: 0 }
    }

    /// Number of masks drawn so far.
    pub fn masks_drawn(&self) -> u64 {
        self.masks.get()
    }

    /// The same noise after `masks_drawn` masks, for features whose first row is row `first_row` of the whole matrix.
    /// A matrix that is processed in parts thereby gets the same masks as the whole matrix.
    #[must_use]
    pub fn at(&self, masks_drawn: u64, first_row: usize) -> Self {
        Self { seed: self.seed, masks: Cell::new(masks_drawn), first_row }
    }

    /// 0 with probability `rate`, else `1 / (1 - rate)`.
    fn mask(&self, shape: [usize; 2], rate: f64, device: &Device) -> Tensor<2> {
        let number = self.masks.replace(self.masks.get() + 1);
        let base = mix(self.seed ^ mix(number.wrapping_add(1)));
        let threshold = (rate * 2_f64.powi(32)) as u64;
        let kept = (1.0 / (1.0 - rate)) as f32;
        // Each 64-bit number gives two values of the whole matrix. The first value of this part may be the second of a
        // pair.
        let before = self.first_row * shape[1];
        let odd = before % 2;
        let mut values = vec![0.0_f32; odd + shape[0] * shape[1]];
        values.par_chunks_mut(1 << 12).enumerate().for_each(|(chunk, values)| {
            for (i, pair) in values.chunks_mut(2).enumerate() {
                let bits = mix(base.wrapping_add((before / 2 + (chunk << 11) + i) as u64));
                for (value, bits) in pair.iter_mut().zip([bits & 0xffff_ffff, bits >> 32]) {
                    *value = if bits < threshold { 0.0 } else { kept };
                }
            }
        });
        values.drain(..odd);
        Tensor::from_data(TensorData::new(values, shape), &device.clone().without_autodiff())
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rows(values: &[f32], width: usize) -> Tensor<2> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len() / width, width]), &Device::flex())
    }

    fn floats(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    #[test]
    fn features_are_scaled_as_configured() {
        let mut init = Init::seeded(1, &Device::flex());
        let config = |input| AdapterConfig { input, ..AdapterConfig::default() };
        let rms = Adapter::new("a", &config(FeatureScaling::Rms), 2, &mut init).unwrap();
        // The root mean square of 3 and 4 is sqrt(12.5).
        let expected = [3.0 / 12.5_f32.sqrt(), 4.0 / 12.5_f32.sqrt()];
        let found = floats(rms.forward(rows(&[3.0, 4.0], 2), None));
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        assert!(floats(rms.forward(rows(&[0.0, 0.0], 2), None)).iter().all(|x| *x == 0.0), "a zero row stays zero");
        let standard = Adapter::new("a", &config(FeatureScaling::Standardise), 2, &mut init).unwrap();
        let statistics = FeatureStatistics { mean: vec![1.0, 2.0], std: vec![2.0, 0.5] };
        let standard = standard.with_statistics(&statistics, &Device::flex());
        let found = floats(standard.forward(rows(&[3.0, 4.0], 2), None));
        assert!((found[0] - 1.0).abs() < 1e-5 && (found[1] - 4.0).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn dropout_keeps_the_mean_and_repeats_for_the_same_step() {
        let config = AdapterConfig { dropout: 0.3, ..AdapterConfig::default() };
        let adapter = Adapter::new("a", &config, 100, &mut Init::seeded(1, &Device::flex())).unwrap();
        let ones = rows(&vec![1.0; 100 * 200], 100);
        let draw =
            |seed, step, batch| floats(adapter.forward(ones.clone(), Some(&DropoutNoise::new(seed, step, batch))));
        let first = draw(0, 1, 0);
        assert_eq!(first, draw(0, 1, 0));
        for other in [draw(1, 1, 0), draw(0, 2, 0), draw(0, 1, 1)] {
            assert_ne!(first, other);
        }
        let zeros = first.iter().filter(|x| **x == 0.0).count() as f64 / first.len() as f64;
        // The tolerance is four standard errors of a share of .3 in 20,000 draws.
        assert!((zeros - 0.3).abs() < 0.013, "{zeros}");
        assert!(first.iter().all(|x| *x == 0.0 || (x - 1.0 / 0.7).abs() < 1e-6));
        assert_eq!(floats(adapter.forward(ones.clone(), None)), vec![1.0; 20_000]);
        let noise = DropoutNoise::new(0, 1, 0);
        let twice = [(); 2].map(|()| floats(adapter.forward(ones.clone(), Some(&noise))));
        assert_ne!(twice[0], twice[1], "two masks of one step differ");
    }

    #[test]
    fn features_in_parts_get_the_masks_of_the_whole() {
        for width in [6, 7] {
            let config = AdapterConfig { widths: vec![5], dropout: 0.4, ..AdapterConfig::default() };
            let adapter = Adapter::new("a", &config, width, &mut Init::seeded(1, &Device::flex())).unwrap();
            let all: Vec<f32> = (0..9 * width).map(|i| (i % 11) as f32 - 5.0).collect();
            let noise = DropoutNoise::new(3, 1, 0);
            let mut whole = Vec::new();
            for _ in 0..2 {
                whole.push(floats(adapter.forward(rows(&all, width), Some(&noise))));
            }
            // Each pass draws one mask before the hidden layer and one after it.
            assert_eq!(noise.masks_drawn(), 4);
            let part = |drawn: u64, from: usize, to: usize| {
                let features = rows(&all[from * width..to * width], width);
                floats(adapter.forward(features, Some(&noise.at(drawn, from))))
            };
            for (drawn, whole) in [(0, &whole[0]), (2, &whole[1])] {
                for cuts in [vec![0, 9], vec![0, 3, 4, 9], vec![0, 5, 9]] {
                    let parts: Vec<f32> = cuts.windows(2).flat_map(|cut| part(drawn, cut[0], cut[1])).collect();
                    let near = parts.iter().zip(whole).all(|(a, b)| (a - b).abs() <= 1e-5);
                    assert!(parts.len() == whole.len() && near, "{cuts:?}");
                }
            }
            assert_ne!(part(0, 1, 3), part(2, 1, 3));
        }
    }

    #[test]
    fn impossible_adapters_are_refused() {
        let mut init = Init::blank(&Device::flex());
        let mut message = |config| Adapter::new("model.visual_adapter", &config, 8, &mut init).unwrap_err().to_string();
        let found = message(AdapterConfig { dropout: 1.0, ..AdapterConfig::default() });
        assert!(found.contains("`model.visual_adapter.dropout` is 1; expected 0 or more and less than 1"), "{found}");
        let found = message(AdapterConfig { widths: vec![8, 9], residual: true, ..AdapterConfig::default() });
        assert!(found.contains("`model.visual_adapter.widths` is 9; expected 8"), "{found}");
        let found = message(AdapterConfig { widths: vec![0], ..AdapterConfig::default() });
        assert!(found.contains("expected 1 to 1048576"), "{found}");
    }
}
