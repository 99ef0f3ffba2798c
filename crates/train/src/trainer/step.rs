//! One forward and backward pass: computes the gradients of a batch.

use std::ops::Range;

use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use conifer_data::batch::{Batch, ChainBatch, TokenBatch};
use conifer_geometry_tensor::RootT;
use conifer_model::adapter::DropoutNoise;
use conifer_model::features::{FeatureBank, encode_texts};
use conifer_model::head::Tower;
use conifer_model::model::{Model, pixel_rows, tokens};

use crate::error::{Error, Result};
use crate::methods::{BatchPoints, BatchSpace, Chain, Edges, Loss, Method, RowShare};
use crate::optim::GradientSet;
use crate::ranks::Ranks;
use crate::trainer::micro_batch::{BatchRows, TowerCalls, ViewRows, calls, gathered};
use crate::trainer::momentum::MomentumEncoder;

/// Result of a pass over one batch.
#[derive(Debug)]
pub(super) struct BackwardPass {
    pub(super) gradients: GradientSet,
    pub(super) loss: f64,
    /// Mean of each term over its samples.
    pub(super) terms: Vec<(&'static str, f64)>,
}

/// Inputs of a pass besides the model and the batch.
pub(super) struct PassInputs<'a> {
    pub(super) method: &'a dyn Method,
    /// The model before its first step, without autodiff, for methods that compare with it.
    pub(super) frozen: Option<&'a Model>,
    /// The momentum encoder, for methods that read its points. The pass appends the keys of the batch to its queue.
    pub(super) momentum: Option<&'a mut MomentumEncoder>,
    /// The text whose embedding is the root in this step; `None` for other roots.
    pub(super) root: Option<&'a TokenBatch>,
    /// Features of frozen towers.
    pub(super) features: Option<&'a mut FeatureBank>,
    /// Noise for the dropout of the adapters.
    pub(super) noise: DropoutNoise,
    /// Id of the end-of-text token.
    pub(super) end_of_text: u32,
    /// Largest number of rows in a call of a tower (`train.micro_batch`).
    pub(super) micro_batch: Option<usize>,
    /// The rows of the loss that this rank computes (`train.loss_rows`).
    pub(super) loss_rows: RowShare,
    pub(super) ranks: &'a Ranks,
    pub(super) device: &'a Device,
}

impl PassInputs<'_> {
    /// Returns the features of some rows of a view: stored features if available, else computed ones.
    ///
    /// # Errors
    /// The errors of [`FeatureBank::regions`], [`FeatureBank::texts`], [`Model::image_features`] and
    /// [`Model::text_features`].
    pub(super) fn features_of(&mut self, model: &Model, rows: ViewRows<'_>, range: Range<usize>) -> Result<Tensor<2>> {
        Ok(match rows {
            ViewRows::Pixels(images) => {
                model.image_features(pixel_rows(images.rows(range), images.size, self.device))?
            }
            ViewRows::Regions(regions) => {
                let missing = || Error::invalid("features", "missing", "stored features of photos");
                self.features.as_deref().ok_or_else(missing)?.regions(&regions[range], self.device)?
            }
            ViewRows::Texts(texts) => self.text_features(model, &texts.rows(range))?,
        })
    }

    fn text_features(&mut self, model: &Model, texts: &TokenBatch) -> Result<Tensor<2>> {
        Ok(match self.features.as_deref_mut().filter(|bank| bank.has_texts()) {
            Some(bank) => {
                let end_of_text = self.end_of_text;
                let plain = self.device.clone().without_autodiff();
                bank.texts(texts, self.device, |rows| encode_texts(&model.valid(), rows, end_of_text, &plain))?
            }
            None => model.text_features(tokens(texts, self.device))?,
        })
    }

    /// Returns the points of the chain texts under the initial model `frozen`. `model` is the model in training.
    fn frozen_chain(&mut self, frozen: &Model, model: &Model, chains: &ChainBatch) -> Result<Chain> {
        let values = self.ranks.agree(self.own_frozen_chain(frozen, model, chains))?;
        let points = gathered(values, frozen, self.ranks, self.device);
        Ok(split_chain(points, chains))
    }

    /// Computes the values of the points of this rank's texts.
    fn own_frozen_chain(&mut self, frozen: &Model, model: &Model, chains: &ChainBatch) -> Result<Vec<f32>> {
        // With stored features the text tower is frozen, so the initial model has the same features.
        let encoder = if self.features.as_ref().is_some_and(|bank| bank.has_texts()) { model } else { frozen };
        let mut values = Vec::new();
        for range in calls(self.ranks.share(chains.texts.n), self.micro_batch) {
            let features = self.features_of(encoder, ViewRows::Texts(&chains.texts), range)?;
            let points = frozen.embed_features(features.without_autodiff(), Tower::Text, None)?;
            values.extend(points.into_data().iter::<f32>());
        }
        Ok(values)
    }
}

/// Embeds `batch`, and computes the loss of the method and this rank's part of the gradients. `step` is used only in
/// messages.
///
/// # Errors
/// [`Error::Diverged`] if the loss is not finite; the errors of the encoders and of the method.
pub(super) fn pass(model: &Model, batch: &Batch, inputs: &mut PassInputs<'_>, step: u64) -> Result<BackwardPass> {
    let rows = BatchRows::new(batch, inputs.root, inputs.features.is_some());
    let mut towers = TowerCalls::new(model, inputs.micro_batch, &rows, inputs.ranks);
    let mut space = BatchSpace { rows: inputs.loss_rows, ..model.head.space()? };
    if let Some(text) = rows.root {
        space.root = RootT::Point(towers.points(text, inputs)?.squeeze_dim(0));
    }
    let mut embedded = embed(&mut towers, &rows, batch, inputs)?;
    if let (Some(frozen), Some(chains)) = (inputs.frozen, &batch.chains) {
        embedded.frozen_chain = Some(inputs.frozen_chain(frozen, model, chains)?);
    }
    if let (Some(momentum), Some(edges)) = (inputs.momentum.as_deref(), &batch.edges) {
        let PassInputs { micro_batch, ranks, device, .. } = *inputs;
        embedded.keys = momentum.keys(edges, inputs.features.as_deref(), micro_batch, ranks, device)?;
    }
    let ranks = inputs.ranks;
    let found = ranks.agree(gradients(model, towers, &embedded, &space, inputs, step))?;
    if let (Some(momentum), Some(keys)) = (inputs.momentum.as_deref_mut(), &embedded.keys) {
        momentum.push(keys);
    }
    Ok(found)
}

/// The loss of embedded views, and the gradients that this rank contributes.
fn gradients(
    model: &Model,
    towers: TowerCalls<'_>,
    embedded: &BatchPoints,
    space: &BatchSpace,
    inputs: &mut PassInputs<'_>,
    step: u64,
) -> Result<BackwardPass> {
    let ranks = inputs.ranks;
    let Loss { total, terms } = ranks.agree(inputs.method.loss(embedded, space))?;
    let (names, values): (Vec<_>, Vec<_>) = terms.into_iter().unzip();
    let mut numbers: Vec<f64> = std::iter::once(total.clone()).chain(values).map(mean).collect();
    let has_part = !space.rows.is_whole();
    if has_part {
        numbers = ranks.sum_numbers(&numbers);
    }
    let loss = numbers.remove(0);
    let terms: Vec<(&'static str, f64)> = names.into_iter().zip(numbers).collect();
    if !loss.is_finite() {
        let term = terms.iter().find(|(_, value)| !value.is_finite());
        let what = term.map_or("the loss".to_owned(), |(name, value)| format!("the loss (term `{name}` is {value})"));
        return Err(Error::Diverged { step, what, value: loss });
    }
    let mut gradients = GradientSet::default();
    // A part of the loss without rows has no graph.
    let mut by_loss = total.is_tracked().then(|| total.backward());
    // The direct gradient of the whole loss is the same on every rank, so only rank 0 adds it. If each rank computes
    // only its part of the loss, every rank adds the gradient of that part.
    if let Some(by_loss) = by_loss.as_mut().filter(|_| has_part || ranks.leads()) {
        gradients = GradientSet::take(model, by_loss);
    }
    towers.backward(by_loss.as_ref(), has_part, inputs, &mut gradients)?;
    Ok(BackwardPass { gradients, loss, terms })
}

/// Embeds every view that the batch has.
fn embed<'a>(
    towers: &mut TowerCalls<'a>,
    rows: &BatchRows<'a>,
    batch: &Batch,
    inputs: &mut PassInputs<'_>,
) -> Result<BatchPoints> {
    let mut points = |rows: Option<ViewRows<'a>>| rows.map(|rows| towers.points(rows, inputs)).transpose();
    Ok(BatchPoints {
        image: points(rows.image)?,
        text: points(rows.text)?,
        box_image: points(rows.box_image)?,
        box_text: points(rows.box_text)?,
        // All links are embedded as one view.
        chain: points(rows.chain)?.zip(batch.chains.as_ref()).map(|(points, chains)| split_chain(points, chains)),
        frozen_chain: None,
        keys: None,
        edges: points(rows.edges)?.zip(batch.edges.as_ref()).map(|(points, edges)| Edges {
            points,
            things: edges.things.clone(),
            parts: edges.parts.clone(),
        }),
    })
}

/// Splits the points of a chain view into positive and negative links.
fn split_chain(points: Tensor<2>, chains: &ChainBatch) -> Chain {
    let links = if chains.negatives { 2 * chains.tiers } else { chains.tiers };
    let mut positive = points.chunk(links, 0);
    let negative = positive.split_off(chains.tiers);
    Chain { positive, negative, lengths: chains.lengths.clone() }
}

fn mean(values: Tensor<1>) -> f64 {
    f64::from(values.without_autodiff().mean().into_scalar::<f32>())
}
