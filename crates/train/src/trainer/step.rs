//! One forward and backward pass: computes the gradients of a batch.

use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use conifer_data::batch::{Batch, ChainBatch, EdgeBatch, ImageBatch, TokenBatch};
use conifer_data::loader::PhotoRegion;
use conifer_geometry_tensor::RootT;
use conifer_model::adapter::DropoutNoise;
use conifer_model::features::{FeatureBank, encode_texts};
use conifer_model::head::Tower;
use conifer_model::model::{Model, pixels, tokens};

use crate::error::{Error, Result};
use crate::methods::{BatchPoints, Chain, Edges, Loss, Method};
use crate::optim::GradientSet;
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
    /// The momentum encoder, for methods that read its points. The pass adds the batch to its queue.
    pub(super) momentum: Option<&'a mut MomentumEncoder>,
    /// The text whose embedding is the root of this step.
    pub(super) root: Option<&'a TokenBatch>,
    /// Features of frozen towers.
    pub(super) features: Option<&'a mut FeatureBank>,
    /// Dropout of the adapters.
    pub(super) noise: DropoutNoise,
    /// Id of the end-of-text token.
    pub(super) end_of_text: u32,
    pub(super) device: &'a Device,
}

impl PassInputs<'_> {
    /// Points of photos, from the stored features of `regions` if there are any, else from the pixels of `images`.
    fn images(
        &mut self,
        model: &Model,
        images: Option<&ImageBatch>,
        regions: Option<&[PhotoRegion]>,
    ) -> Result<Option<Tensor<2>>> {
        let features = match (images, regions, self.features.as_deref()) {
            (_, Some(regions), Some(bank)) => bank.regions(regions, self.device)?,
            (Some(images), ..) => model.image_features(pixels(images, self.device))?,
            _ => return Ok(None),
        };
        Ok(Some(model.embed_features(features, Tower::Image, Some(&self.noise))?))
    }

    /// Points of texts.
    fn texts(&mut self, model: &Model, texts: &TokenBatch) -> Result<Tensor<2>> {
        let features = self.text_features(model, texts)?;
        Ok(model.embed_features(features, Tower::Text, Some(&self.noise))?)
    }

    /// Features of texts: stored ones if there are any.
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
}

/// Embeds `batch`, computes the loss of the method and its gradients. `step` is used only in messages.
///
/// # Errors
/// [`Error::Diverged`] if the loss is not finite; [`Error::Setting`] if it depends on no trainable part.
pub(super) fn pass(model: &Model, batch: &Batch, inputs: &mut PassInputs<'_>, step: u64) -> Result<BackwardPass> {
    let mut space = model.head.space()?;
    if let Some(text) = inputs.root {
        space.root = RootT::Point(inputs.texts(model, text)?.squeeze_dim(0));
    }
    let mut embedded = embed(model, batch, inputs)?;
    if let (Some(frozen), Some(chains)) = (inputs.frozen, &batch.chains) {
        let here = inputs.device.clone().without_autodiff();
        // With stored features the text tower is frozen, so the initial model has the same features.
        let points = match inputs.features.as_ref().is_some_and(|bank| bank.has_texts()) {
            true => frozen.embed_features(inputs.text_features(model, &chains.texts)?, Tower::Text, None)?,
            false => frozen.embed_texts(tokens(&chains.texts, &here))?,
        };
        let chain = split_chain(points, chains);
        let beside = |points: Vec<Tensor<2>>| points.into_iter().map(|it| it.to_device(inputs.device)).collect();
        let (positive, negative) = (beside(chain.positive), beside(chain.negative));
        embedded.frozen_chain = Some(Chain { positive, negative, lengths: chain.lengths });
    }
    if let (Some(momentum), Some(edges)) = (inputs.momentum.as_deref(), &batch.edges) {
        embedded.keys = momentum.keys(edges, inputs.features.as_deref(), inputs.device)?;
    }
    let Loss { total, terms } = inputs.method.loss(&embedded, &space)?;
    let terms: Vec<(&'static str, f64)> = terms.into_iter().map(|(name, values)| (name, mean(values))).collect();
    let loss = mean(total.clone());
    if !loss.is_finite() {
        let term = terms.iter().find(|(_, value)| !value.is_finite());
        let what = term.map_or("the loss".to_owned(), |(name, value)| format!("the loss (term `{name}` is {value})"));
        return Err(Error::Diverged { step, what, value: loss });
    }
    if !total.is_tracked() {
        let expected = "at least one trainable part of the model that the loss of the method depends on";
        return Err(Error::setting("train.freeze", "every part that the loss depends on", expected));
    }
    let gradients = GradientSet::take(model, &mut total.backward());
    if let (Some(momentum), Some(keys)) = (inputs.momentum.as_deref_mut(), &embedded.keys) {
        momentum.push(keys);
    }
    Ok(BackwardPass { gradients, loss, terms })
}

/// Embeds every view that the batch has.
fn embed(model: &Model, batch: &Batch, inputs: &mut PassInputs<'_>) -> Result<BatchPoints> {
    Ok(BatchPoints {
        image: inputs.images(model, batch.images.as_ref(), batch.regions.as_deref())?,
        text: batch.texts.as_ref().map(|it| inputs.texts(model, it)).transpose()?,
        box_image: inputs.images(model, batch.box_images.as_ref(), batch.box_regions.as_deref())?,
        box_text: batch.box_texts.as_ref().map(|it| inputs.texts(model, it)).transpose()?,
        // All links in one pass of the text encoder.
        chain: match &batch.chains {
            Some(chains) => Some(split_chain(inputs.texts(model, &chains.texts)?, chains)),
            None => None,
        },
        frozen_chain: None,
        keys: None,
        edges: match &batch.edges {
            Some(edges) => embed_edges(model, edges, inputs)?,
            None => None,
        },
    })
}

fn embed_edges(model: &Model, edges: &EdgeBatch, inputs: &mut PassInputs<'_>) -> Result<Option<Edges>> {
    let EdgeBatch { images, regions, things, parts } = edges;
    let points = inputs.images(model, images.as_ref(), regions.as_deref())?;
    Ok(points.map(|points| Edges { points, things: things.clone(), parts: parts.clone() }))
}

/// The links of chains, positive and negative.
fn split_chain(points: Tensor<2>, chains: &ChainBatch) -> Chain {
    let links = if chains.negatives { 2 * chains.tiers } else { chains.tiers };
    let mut positive = points.chunk(links, 0);
    let negative = positive.split_off(chains.tiers);
    Chain { positive, negative, lengths: chains.lengths.clone() }
}

fn mean(values: Tensor<1>) -> f64 {
    f64::from(values.without_autodiff().mean().into_scalar::<f32>())
}
