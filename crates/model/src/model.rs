//! The model: two towers and a head, which map pixels and tokens to points.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use conifer_data::batch::{ImageBatch, TokenBatch};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::adapter::{Adapter, AdapterConfig, DropoutNoise};
use crate::encoders::{TextualConfig, TextualEncoder, Tokens, VisualConfig, VisualEncoder};
use crate::features::FeatureStatistics;
use crate::head::{Head, Tower};
use crate::lora::LoraConfig;
use crate::params::{Fill, Init, LinearWeight, set_trainable};

/// Architecture of the two towers, and the pixel statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The image encoder.
    pub visual: VisualConfig,
    /// The text encoder.
    pub textual: TextualConfig,
    /// Pixel normalisation, applied inside the model.
    #[serde(default)]
    pub pixels: PixelStatistics,
    /// Network between the image encoder and its projection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual_adapter: Option<AdapterConfig>,
    /// Network between the text encoder and its projection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub textual_adapter: Option<AdapterConfig>,
    /// Low-rank updates of the image encoder. Absent once they are merged into its weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual_lora: Option<LoraConfig>,
    /// Low-rank updates of the text encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub textual_lora: Option<LoraConfig>,
}

/// Mean and standard deviation of each channel, for pixels in `[0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PixelStatistics {
    /// Subtracted from each channel of pixels in [0, 1].
    pub mean: [f32; 3],
    /// Divisor of each channel, after the mean is subtracted; more than 0.
    pub std: [f32; 3],
}

impl Default for PixelStatistics {
    /// The statistics of ImageNet, which the whole MERU family uses instead of those of CLIP.
    fn default() -> Self {
        Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
    }
}

/// An image encoder, a text encoder, for each an optional [`Adapter`] and a linear projection into the tangent space at
/// the origin, and the [`Head`] that scales and lifts.
///
/// A Burn module. [`visit_params`](crate::params::visit_params) and [`map_params`](crate::params::map_params) iterate
/// over its parameters in a fixed order and give the name and the kind of each.
///
/// **Training.** Build the model on a device with autodiff. With `device.autodiff().gradient_checkpointing()` the
/// backward pass recomputes cheap results instead of storing them (Burn's balanced strategy, and the hidden layer of
/// feed-forward blocks): less memory and more time, with the same gradients. Inputs may be on the device without
/// autodiff, because they need no gradient.
///
/// **Inference.** [`Module::valid`] returns the model without autodiff. It stores no graph. On the CPU, BERT and
/// EfficientNet-Lite then run with packed weights.
#[derive(Module, Debug)]
pub struct Model {
    /// Image encoder.
    pub visual: VisualEncoder,
    /// Text encoder.
    pub textual: TextualEncoder,
    /// Scaling and hidden layers between image encoder and projection.
    pub visual_adapter: Option<Adapter>,
    /// Scaling and hidden layers between text encoder and projection.
    pub textual_adapter: Option<Adapter>,
    /// Maps image features to the tangent space at the origin.
    pub visual_proj: Projection,
    /// Maps text features to the tangent space at the origin.
    pub textual_proj: Projection,
    /// Scales, curvature, temperature.
    pub head: Head,
    #[module(skip)]
    config: ModelConfig,
}

/// Linear map without bias, `[B, width] -> [B, D]`.
#[derive(Module, Debug)]
pub struct Projection {
    weight: LinearWeight,
}

/// A part of a model that can be frozen, by its field name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelPart {
    /// The image encoder.
    Visual,
    /// The text encoder.
    Textual,
    /// The adapter of the image encoder.
    VisualAdapter,
    /// The adapter of the text encoder.
    TextualAdapter,
    /// The projection of photographs.
    VisualProj,
    /// The projection of texts.
    TextualProj,
    /// Scales, curvature, temperature.
    Head,
}

impl Model {
    /// Freezes `parts`: their parameters become constants, except for a learned root in the head. A tower with low-rank
    /// updates that is not in `parts` learns only its updates.
    #[must_use]
    pub fn freeze(mut self, parts: &[ModelPart]) -> Self {
        for part in parts {
            match part {
                ModelPart::Visual => self.visual = self.visual.no_grad(),
                ModelPart::Textual => self.textual = self.textual.no_grad(),
                ModelPart::VisualAdapter => self.visual_adapter = self.visual_adapter.map(Adapter::no_grad),
                ModelPart::TextualAdapter => self.textual_adapter = self.textual_adapter.map(Adapter::no_grad),
                ModelPart::VisualProj => self.visual_proj = self.visual_proj.no_grad(),
                ModelPart::TextualProj => self.textual_proj = self.textual_proj.no_grad(),
                ModelPart::Head => self.head = self.head.freeze_scalars(),
            }
        }
        if self.config.visual_lora.is_some() && !parts.contains(&ModelPart::Visual) {
            self.visual = set_trainable(self.visual, |param| param.low_rank);
        }
        if self.config.textual_lora.is_some() && !parts.contains(&ModelPart::Textual) {
            self.textual = set_trainable(self.textual, |param| param.low_rank);
        }
        self
    }

    /// Adds low-rank updates to the towers. The model must not have any.
    ///
    /// # Errors
    /// The errors of [`LoraConfig::attach`].
    pub fn with_lora(
        mut self,
        visual: Option<&LoraConfig>,
        textual: Option<&LoraConfig>,
        init: &mut Init,
    ) -> Result<Self> {
        if let Some(lora) = visual {
            self.visual = self.visual.with_lora("model.visual_lora", lora, init)?;
        }
        if let Some(lora) = textual {
            self.textual = self.textual.with_lora("model.textual_lora", lora, init)?;
        }
        self.config.visual_lora = visual.cloned();
        self.config.textual_lora = textual.cloned();
        Ok(self)
    }

    /// The same model with its low-rank updates added to the weights: the published architecture, for inference and as
    /// the start of another run.
    #[must_use]
    pub fn merged(mut self) -> Self {
        self.config.visual_lora = None;
        self.config.textual_lora = None;
        self.materialize()
    }

    /// Builds a model with the published initialisation: that in the docs of each encoder, and N(0, 1/width) for the
    /// projections.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an impossible architecture, or one that is larger than `init`
    /// allows; the errors of the encoders.
    pub fn new(config: &ModelConfig, head: Head, init: &mut Init) -> Result<Self> {
        let dim = head.spec().dim;
        let visual = config.visual.build(init)?;
        let textual = config.textual.build(init)?;
        let model = Self::of_towers(config, visual, textual, head, init)?;
        init.check()?;
        debug_assert_eq!(model.head.spec().dim, dim);
        Ok(model)
    }

    /// A model with the given towers, and with new adapters, projections and low-rank updates. `config` describes the
    /// towers too.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an impossible adapter or update.
    pub fn of_towers(
        config: &ModelConfig,
        visual: VisualEncoder,
        textual: TextualEncoder,
        head: Head,
        init: &mut Init,
    ) -> Result<Self> {
        let dim = head.spec().dim;
        let mut adapter = |section: &str, config: &Option<AdapterConfig>, width: usize| -> Result<Option<Adapter>> {
            config.as_ref().map(|config| Adapter::new(section, config, width, init)).transpose()
        };
        let visual_adapter = adapter("model.visual_adapter", &config.visual_adapter, visual.width())?;
        let textual_adapter = adapter("model.textual_adapter", &config.textual_adapter, textual.width())?;
        let widths = [
            visual_adapter.as_ref().map_or(visual.width(), Adapter::width),
            textual_adapter.as_ref().map_or(textual.width(), Adapter::width),
        ];
        let model = Self {
            visual_proj: Projection::new(init, widths[0], dim),
            textual_proj: Projection::new(init, widths[1], dim),
            visual_adapter,
            textual_adapter,
            visual,
            textual,
            head,
            config: config.clone(),
        };
        // Low-rank updates are added last, so that the other initial values are the same with and without them.
        model.with_lora(config.visual_lora.as_ref(), config.textual_lora.as_ref(), init)
    }

    /// Replaces the head, both projections and both adapters, for the space of `head` and the adapters of `config`. The
    /// towers stay, with their low-rank updates merged.
    ///
    /// # Errors
    /// The errors of [`Model::of_towers`].
    pub fn with_new_projections(self, config: &ModelConfig, head: Head, init: &mut Init) -> Result<Self> {
        let merged = self.merged();
        let config = ModelConfig {
            visual_adapter: config.visual_adapter.clone(),
            textual_adapter: config.textual_adapter.clone(),
            ..merged.config
        };
        Self::of_towers(&config, merged.visual, merged.textual, head, init)
    }

    /// Makes both projections the identity, for towers without adapters whose width is the dimension of the space.
    #[must_use]
    pub(crate) fn with_identity_projections(mut self) -> Self {
        self.visual_proj = self.visual_proj.identity();
        self.textual_proj = self.textual_proj.identity();
        self
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Features of the image encoder for pixels in `[0, 1]`: `[B, 3, H, W]` to `[B, width]`. Normalises the pixels
    /// first.
    ///
    /// # Errors
    /// The errors of [`VisualEncoder::forward`], such as a wrong image size.
    pub fn image_features(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        let device = pixels.device();
        let channels =
            |values: [f32; 3]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), [1, 3, 1, 1]), &device);
        let PixelStatistics { mean, std } = self.config.pixels;
        self.visual.forward((pixels - channels(mean)) / channels(std))
    }

    /// Features of the text encoder, `[B, width]`.
    ///
    /// # Errors
    /// The errors of [`TextualEncoder::forward`], such as a text that is longer than the context.
    pub fn text_features(&self, tokens: Tokens) -> Result<Tensor<2>> {
        self.textual.forward(tokens)
    }

    /// Maps features of one encoder to f32 tangent vectors before scaling, `[B, width]` to `[B, D]`: adapter and
    /// projection. `noise` enables the dropout of the adapter; `None` for inference.
    pub fn project(&self, features: Tensor<2>, tower: Tower, noise: Option<&DropoutNoise>) -> Tensor<2> {
        let (adapter, projection) = match tower {
            Tower::Image => (&self.visual_adapter, &self.visual_proj),
            Tower::Text => (&self.textual_adapter, &self.textual_proj),
        };
        projection.forward(match adapter {
            Some(adapter) => adapter.forward(features, noise),
            None => features,
        })
    }

    /// Maps features of one encoder to points (space components), `[B, width]` to `[B, D]`.
    ///
    /// # Errors
    /// The errors of [`Head::lift`].
    pub fn embed_features(&self, features: Tensor<2>, tower: Tower, noise: Option<&DropoutNoise>) -> Result<Tensor<2>> {
        self.head.lift(self.project(features, tower, noise), tower)
    }

    /// Maps pixels in `[0, 1]`, `[B, 3, H, W]`, to f32 tangent vectors before scaling, `[B, D]`.
    ///
    /// # Errors
    /// The errors of [`Model::image_features`].
    pub fn encode_images(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        Ok(self.project(self.image_features(pixels)?, Tower::Image, None))
    }

    /// Maps token ids to f32 tangent vectors before scaling, `[B, D]`.
    ///
    /// # Errors
    /// The errors of [`Model::text_features`].
    pub fn encode_texts(&self, tokens: Tokens) -> Result<Tensor<2>> {
        Ok(self.project(self.text_features(tokens)?, Tower::Text, None))
    }

    /// Maps photographs to points (space components), `[B, D]`.
    ///
    /// # Errors
    /// The errors of [`Model::image_features`].
    pub fn embed_images(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        self.head.lift(self.encode_images(pixels)?, Tower::Image)
    }

    /// Maps texts to points (space components), `[B, D]`.
    ///
    /// # Errors
    /// The errors of [`Model::text_features`].
    pub fn embed_texts(&self, tokens: Tokens) -> Result<Tensor<2>> {
        self.head.lift(self.encode_texts(tokens)?, Tower::Text)
    }

    /// Stores mean and standard deviation of the training features in the adapters that standardise.
    #[must_use]
    pub fn with_feature_statistics(mut self, [images, texts]: [Option<FeatureStatistics>; 2], device: &Device) -> Self {
        let set = |adapter: Option<Adapter>, statistics: Option<FeatureStatistics>| match statistics {
            Some(statistics) => adapter.map(|adapter| adapter.with_statistics(&statistics, device)),
            None => adapter,
        };
        self.visual_adapter = set(self.visual_adapter, images);
        self.textual_adapter = set(self.textual_adapter, texts);
        self
    }
}

impl Projection {
    fn new(init: &mut Init, width: usize, dim: usize) -> Self {
        Self { weight: init.matrix(width, dim, Fill::Normal((width as f64).powf(-0.5))) }
    }

    /// A projection of the same shape whose output is the first features, unchanged.
    fn identity(&self) -> Self {
        let weight = self.weight.value.val();
        let [width, dim] = weight.dims();
        let values: Vec<f32> = (0..width * dim).map(|i| f32::from(u8::from(i / dim == i % dim))).collect();
        let weight = Tensor::from_data(TensorData::new(values, [width, dim]), &weight.device());
        Self { weight: LinearWeight { value: Param::from_tensor(weight) } }
    }

    /// `[B, width] -> [B, D]`. The result is f32 in any encoder precision.
    fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        features.matmul(self.weight.value.val()).cast(DType::F32)
    }
}

/// Pixels of a batch, `[B, 3, size, size]` in `[0, 1]`, on `device` without autodiff, because they need no gradient.
pub fn pixels(batch: &ImageBatch, device: &Device) -> Tensor<4> {
    pixel_rows(&batch.data, batch.size, device)
}

/// Like [`pixels`], for the bytes of whole pictures of this `size` ([`ImageBatch::rows`]).
pub fn pixel_rows(data: &[u8], size: usize, device: &Device) -> Tensor<4> {
    let values: Vec<f32> = data.par_iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let shape = [data.len() / (3 * size * size).max(1), 3, size, size];
    Tensor::from_data(TensorData::new(values, shape), &device.clone().without_autodiff())
}

/// Tokens of a batch, on `device` without autodiff.
pub fn tokens(batch: &TokenBatch, device: &Device) -> Tokens {
    let device = device.clone().without_autodiff();
    let integers = |ids: &[u32]| ids.iter().map(|&id| id as i32).collect::<Vec<_>>();
    Tokens {
        ids: Tensor::from_data(TensorData::new(integers(&batch.ids), [batch.n, batch.len]), &device),
        end: Tensor::from_data(TensorData::new(integers(&batch.end), [batch.n]), &device),
    }
}
