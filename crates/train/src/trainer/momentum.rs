//! The momentum encoder of a run and the queue of its points, for methods with
//! [`Method::momentum`](crate::methods::Method::momentum).
//!
//! The encoder is a copy of the model whose trained parameters follow those of the model
//! ([`methods::momentum`](crate::methods::momentum) has the formula). Frozen parameters are equal in both. Encoder and
//! queue are part of the checkpoint, in `momentum.safetensors`: `model.<parameter>`, flat, and `queue`, `[Q, D]`.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module as _;
use burn::tensor::{Device, Tensor, TensorData};
use conifer_data::batch::EdgeBatch;
use conifer_model::checkpoint::run_folder::MOMENTUM;
use conifer_model::checkpoint::{load_weights, save_weights};
use conifer_model::features::{FeatureBank, FeatureStatistics};
use conifer_model::head::Tower;
use conifer_model::model::{Model, pixel_rows};
use conifer_model::params::{ParamInfo, ParamKind, ParamMapper, ParamVisitor, map_params, visit_params};
use conifer_model::weight_array::{WeightArray, WeightValues, Weights};

use super::key_queue::KeyQueue;
use crate::error::{Error, Result};
use crate::methods::edges::part_rows;
use crate::methods::{MomentumKeys, MomentumSettings};

/// Key of the queue in the file. Parameters have the prefix [`PARAMETER`].
const QUEUE: &str = "queue";
const PARAMETER: &str = "model.";

/// The moving average of a model, and the queue of its points.
pub(super) struct MomentumEncoder {
    /// Without autodiff.
    model: Model,
    momentum: f64,
    queue: KeyQueue,
}

impl MomentumEncoder {
    /// A copy of `model` with an empty queue.
    pub(super) fn new(settings: MomentumSettings, model: &Model) -> Self {
        let MomentumSettings { momentum, queue_size } = settings;
        Self { model: model.valid(), momentum, queue: KeyQueue::new(queue_size) }
    }

    /// Sets the feature statistics that the adapters of the model received when the run started.
    pub(super) fn set_feature_statistics(&mut self, statistics: [Option<FeatureStatistics>; 2], device: &Device) {
        let plain = device.clone().without_autodiff();
        self.model = self.model.clone().with_feature_statistics(statistics, &plain);
    }

    /// Points of the parts of a batch, and the queue, on `device`. `None` if the batch has no part. A call of the image
    /// tower embeds at most `micro_batch` parts.
    ///
    /// # Errors
    /// As [`Model::image_features`] and [`FeatureBank::regions`].
    pub(super) fn keys(
        &self,
        edges: &EdgeBatch,
        features: Option<&FeatureBank>,
        micro_batch: Option<usize>,
        device: &Device,
    ) -> Result<Option<MomentumKeys>> {
        let EdgeBatch { images, regions, things, parts } = edges;
        let rows = part_rows(things, parts);
        if rows.is_empty() {
            return Ok(None);
        }
        let mut points = Vec::new();
        for rows in rows.chunks(micro_batch.unwrap_or(rows.len()).max(1)) {
            let features = match (images, regions, features) {
                (_, Some(regions), Some(bank)) => {
                    let regions: Vec<_> = rows.iter().map(|&row| regions[row as usize]).collect();
                    bank.regions(&regions, device)?
                }
                (Some(images), ..) => {
                    let bytes = |&row: &u32| images.rows(row as usize..row as usize + 1);
                    let bytes: Vec<u8> = rows.iter().flat_map(bytes).copied().collect();
                    self.model.image_features(pixel_rows(&bytes, images.size, device))?
                }
                _ => return Ok(None),
            };
            // Without dropout: the keys are constants.
            points.push(self.model.embed_features(features, Tower::Image, None)?);
        }
        let points = Tensor::cat(points, 0);
        let beside = |points: &Tensor<2>| points.clone().to_device(device);
        Ok(Some(MomentumKeys { parts: beside(&points), queue: self.queue.points().map(beside) }))
    }

    /// Appends the keys of a batch to the queue.
    pub(super) fn push(&mut self, keys: &MomentumKeys) {
        self.queue.push(keys.parts.clone().without_autodiff());
    }

    /// Moves the parameters towards those of `model`, after its update.
    pub(super) fn follow(&mut self, model: &Model) {
        let mut trained = TrainedParams::default();
        visit_params(model, &mut trained);
        self.model = map_params(self.model.clone(), &mut Average { momentum: self.momentum, trained: trained.0 });
    }

    /// Writes encoder and queue into the existing `folder`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let mut weights = self.params();
        if let Some(points) = self.queue.points() {
            weights.insert(QUEUE.to_owned(), WeightArray::f32(points.dims(), floats(points)));
        }
        Ok(save_weights(&weights, &folder.join(MOMENTUM))?)
    }

    /// Reads what [`MomentumEncoder::write`] wrote, into an encoder of the same architecture and an empty queue.
    ///
    /// # Errors
    /// If the file cannot be read, or does not belong to this model or queue. The encoder is then unchanged.
    pub(super) fn read(&mut self, folder: &Path, device: &Device) -> Result<()> {
        let path = folder.join(MOMENTUM);
        if !path.is_file() {
            let detail = "missing; expected the momentum encoder and the queue of the run (method.momentum)";
            return Err(Error::format(path, detail));
        }
        let mut weights = load_weights(&path)?;
        let points = weights.remove(QUEUE).map(|array| self.stored_points(array, &path, device)).transpose()?;
        let params = self.params();
        for (name, expected) in &params {
            let wanted = &expected.shape;
            let detail = match weights.get(name) {
                Some(found) if found.shape == *wanted && found.floats().is_some() => continue,
                Some(found) => format!("`{name}` has shape {:?}; expected numbers of shape {wanted:?}", found.shape),
                None => format!("`{name}` is missing; expected numbers of shape {wanted:?}"),
            };
            return Err(Error::format(&path, detail));
        }
        if let Some(name) = weights.keys().find(|name| !params.contains_key(*name)) {
            return Err(Error::format(
                &path,
                format!("`{name}` is unknown; expected parameters of the model of this run"),
            ));
        }
        self.model = map_params(self.model.clone(), &mut Stored(weights));
        if let Some(points) = points {
            self.queue.push(points);
        }
        Ok(())
    }

    /// The stored queue.
    fn stored_points(&self, array: WeightArray, path: &Path, device: &Device) -> Result<Tensor<2>> {
        let (dim, capacity) = (self.model.head.spec().dim, self.queue.capacity());
        let WeightArray { shape, values } = array;
        match (values, shape.as_slice()) {
            (WeightValues::F32(values), &[rows, width]) if width == dim && (1..=capacity).contains(&rows) => {
                let plain = device.clone().without_autodiff();
                Ok(Tensor::from_data(TensorData::new(values, [rows, width]), &plain))
            }
            (_, shape) => {
                let expected = format!("numbers of shape [N, {dim}] with N from 1 to {capacity}");
                Err(Error::format(path, format!("`{QUEUE}` has shape {shape:?}; expected {expected}")))
            }
        }
    }

    /// The parameters of the encoder, flat, by their key in the file.
    pub(super) fn params(&self) -> Weights {
        let mut flat = FlatParams::default();
        visit_params(&self.model, &mut flat);
        flat.0
    }
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

/// Every parameter that a run may train, flat, by its key in the file.
#[derive(Default)]
struct FlatParams(Weights);

impl ParamVisitor for FlatParams {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if param.kind != ParamKind::Fixed {
            let values = floats(value);
            self.0.insert(format!("{PARAMETER}{}", param.name), WeightArray::f32([values.len()], values));
        }
    }
}

/// Replaces parameters by their values in the file, which were checked before.
struct Stored(Weights);

impl ParamMapper for Stored {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        match self.0.remove(&format!("{PARAMETER}{}", param.name)).map(|array| array.values) {
            Some(WeightValues::F32(values)) => {
                Tensor::from_data(TensorData::new(values, value.shape()), &value.device())
            }
            _ => value,
        }
    }
}

/// Replaces each parameter k that `trained` names by `momentum k + (1 - momentum) q`.
struct Average {
    momentum: f64,
    trained: BTreeMap<String, Tensor<1>>,
}

impl ParamMapper for Average {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        match self.trained.remove(param.name) {
            Some(trained) => {
                let shape = value.shape();
                average(value, trained.reshape(shape), self.momentum)
            }
            None => value,
        }
    }
}

fn average<const D: usize>(kept: Tensor<D>, trained: Tensor<D>, momentum: f64) -> Tensor<D> {
    kept * momentum + trained * (1.0 - momentum)
}

fn floats<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

#[cfg(test)]
mod tests;
