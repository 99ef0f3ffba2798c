//! The momentum encoder of a run and the queue of its points, for methods with
//! [`Method::momentum`](crate::methods::Method::momentum).
//!
//! The encoder is a copy of the model whose trained parameters follow those of the model
//! ([`methods::momentum`](crate::methods::momentum) has the formula). Frozen parameters are equal in both. Encoder and
//! queue are part of the checkpoint, in `momentum.safetensors`: `model.<parameter>`, flat, and `queue`, `[Q, D]`.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use conifer_data::batch::EdgeBatch;
use conifer_model::checkpoint::run_folder::MOMENTUM;
use conifer_model::checkpoint::{load_weights, save_weights};
use conifer_model::features::{FeatureBank, FeatureStatistics};
use conifer_model::head::Tower;
use conifer_model::model::{Model, pixel_rows};
use conifer_model::weight_array::{WeightArray, WeightValues, Weights};

use super::averaged_model::AveragedModel;
use super::flat_params::floats;
use super::key_queue::KeyQueue;
use super::micro_batch::gathered;
use crate::error::{Error, Result};
use crate::methods::edges::part_rows;
use crate::methods::{MomentumKeys, MomentumSettings};
use crate::ranks::Ranks;

/// Key of the queue in the file. Parameters have the prefix [`PARAMETER`].
const QUEUE: &str = "queue";
const PARAMETER: &str = "model.";

/// The moving average of a model, and the queue of its points.
pub(super) struct MomentumEncoder {
    average: AveragedModel,
    momentum: f64,
    queue: KeyQueue,
}

impl MomentumEncoder {
    /// A copy of `model` with an empty queue.
    pub(super) fn new(settings: MomentumSettings, model: &Model) -> Self {
        let MomentumSettings { momentum, queue_size } = settings;
        Self { average: AveragedModel::new(model), momentum, queue: KeyQueue::new(queue_size) }
    }

    /// Sets the feature statistics that the adapters of the model received when the run started.
    pub(super) fn set_feature_statistics(&mut self, statistics: [Option<FeatureStatistics>; 2], device: &Device) {
        self.average.set_feature_statistics(statistics, device);
    }

    /// Returns the momentum encoder's points of the parts of a batch, and the queue, on `device`; `None` if the batch
    /// has no part. The image tower embeds at most `micro_batch` parts per call.
    ///
    /// # Errors
    /// The errors of [`Model::image_features`] and [`FeatureBank::regions`].
    pub(super) fn keys(
        &self,
        edges: &EdgeBatch,
        features: Option<&FeatureBank>,
        micro_batch: Option<usize>,
        ranks: &Ranks,
        device: &Device,
    ) -> Result<Option<MomentumKeys>> {
        let rows = part_rows(&edges.things, &edges.parts);
        if rows.is_empty() {
            return Ok(None);
        }
        // `rows` is ascending, and the ranks hold consecutive crops.
        let own: Vec<u32> = match &edges.images {
            Some(images) => rows.iter().copied().filter(|row| images.held.contains(&(*row as usize))).collect(),
            None => rows[ranks.share(rows.len())].to_vec(),
        };
        let values = ranks.agree(self.own_keys(edges, &own, features, micro_batch, device))?;
        let parts = gathered(values, self.average.model(), ranks, device);
        let beside = |points: &Tensor<2>| points.clone().to_device(device);
        Ok(Some(MomentumKeys { parts, queue: self.queue.points().map(beside) }))
    }

    /// Embeds the crops `rows` and returns the values of the points.
    fn own_keys(
        &self,
        edges: &EdgeBatch,
        rows: &[u32],
        features: Option<&FeatureBank>,
        micro_batch: Option<usize>,
        device: &Device,
    ) -> Result<Vec<f32>> {
        let EdgeBatch { images, regions, .. } = edges;
        let mut values = Vec::new();
        for rows in rows.chunks(micro_batch.unwrap_or(rows.len()).max(1)) {
            let features = match (images, regions, features) {
                (_, Some(regions), Some(bank)) => {
                    let regions: Vec<_> = rows.iter().map(|&row| regions[row as usize]).collect();
                    bank.regions(&regions, device)?
                }
                (Some(images), ..) => {
                    let bytes = |&row: &u32| images.rows(row as usize..row as usize + 1);
                    let bytes: Vec<u8> = rows.iter().flat_map(bytes).copied().collect();
                    self.average.model().image_features(pixel_rows(&bytes, images.size, device))?
                }
                _ => {
                    let expected = "pixels or stored features of the crops";
                    return Err(Error::invalid("edges of the batch", "without photos", expected));
                }
            };
            // No dropout: no gradient flows through the keys, so it would only add noise to them.
            let points = self.average.model().embed_features(features, Tower::Image, None)?;
            values.extend(points.into_data().iter::<f32>());
        }
        Ok(values)
    }

    /// Appends the keys of a batch to the queue.
    pub(super) fn push(&mut self, keys: &MomentumKeys) {
        self.queue.push(keys.parts.clone().without_autodiff());
    }

    /// Moves the parameters towards those of `model` (exponential moving average). Call it after each optimiser step.
    pub(super) fn follow(&mut self, model: &Model) {
        self.average.follow(model, self.momentum);
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

    /// Reads the file of [`MomentumEncoder::write`] into an encoder of the same architecture and an empty queue.
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
        self.average.load(weights, PARAMETER, &path)?;
        if let Some(points) = points {
            self.queue.push(points);
        }
        Ok(())
    }

    /// Checks the shape of the stored queue and converts it to a tensor.
    fn stored_points(&self, array: WeightArray, path: &Path, device: &Device) -> Result<Tensor<2>> {
        let (dim, capacity) = (self.average.model().head.spec().dim, self.queue.capacity());
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

    /// The parameters of the encoder as flat arrays, by their key in the file.
    pub(super) fn params(&self) -> Weights {
        self.average.params(PARAMETER)
    }
}

#[cfg(test)]
mod tests;
