//! One forward and backward pass: computes the gradients of a batch.

use burn::tensor::{Device, Tensor};
use conifer_data::batch::{Batch, ChainBatch, EdgeBatch, TokenBatch};
use conifer_geometry::RootT;

use crate::error::{Error, Result};
use crate::methods::{BatchPoints, Chain, Edges, Loss, Method};
use crate::model::{Model, pixels, tokens};
use crate::optim::GradientSet;

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
    /// The text whose embedding is the root of this step.
    pub(super) root: Option<&'a TokenBatch>,
    pub(super) device: &'a Device,
}

/// Embeds `batch`, computes the loss of the method and its gradients. `step` is used only in messages.
///
/// # Errors
/// If the loss is not finite (the message names the term), or depends on no trainable part.
pub(super) fn pass(model: &Model, batch: &Batch, inputs: &PassInputs<'_>, step: u64) -> Result<BackwardPass> {
    let mut space = model.head.space()?;
    if let Some(text) = inputs.root {
        space.root = RootT::Point(model.embed_texts(tokens(text, inputs.device))?.squeeze_dim(0));
    }
    let mut embedded = embed(model, batch, inputs.device)?;
    if let (Some(frozen), Some(chains)) = (inputs.frozen, &batch.chains) {
        let here = inputs.device.clone().without_autodiff();
        let chain = embed_chain(frozen, chains, &here)?;
        let beside = |points: Vec<Tensor<2>>| points.into_iter().map(|it| it.to_device(inputs.device)).collect();
        embedded.frozen_chain = Some(Chain { positive: beside(chain.positive), negative: beside(chain.negative) });
    }
    let Loss { total, terms } = inputs.method.loss(&embedded, &space)?;
    let terms: Vec<(&'static str, f64)> = terms.into_iter().map(|(name, values)| (name, mean(values))).collect();
    let loss = mean(total.clone());
    if !loss.is_finite() {
        let term = terms.iter().find(|(_, value)| !value.is_finite());
        let what = term.map_or("the loss".to_owned(), |(name, value)| format!("the loss (term `{name}` is {value})"));
        return Err(not_finite(step, &what, loss));
    }
    if !total.is_tracked() {
        let expected = "at least one trainable part of the model that the loss of the method depends on";
        return Err(Error::setting("train.freeze", "every part that the loss depends on", expected));
    }
    let gradients = GradientSet::take(model, &mut total.backward());
    Ok(BackwardPass { gradients, loss, terms })
}

/// The error of a run with a value that is not finite.
pub(super) fn not_finite(step: u64, what: &str, value: f64) -> Error {
    let name = format!("step {step}: {what}");
    Error::setting(
        name,
        value,
        "a finite number (the last checkpoint is kept; a lower optim.lr or optim.clip_norm = 1 may help)",
    )
}

/// Embeds every view that the batch has.
fn embed(model: &Model, batch: &Batch, device: &Device) -> Result<BatchPoints> {
    let image = |images: &Option<_>| images.as_ref().map(|it| model.embed_images(pixels(it, device))).transpose();
    let text = |texts: &Option<_>| texts.as_ref().map(|it| model.embed_texts(tokens(it, device))).transpose();
    Ok(BatchPoints {
        image: image(&batch.images)?,
        text: text(&batch.texts)?,
        box_image: image(&batch.box_images)?,
        box_text: text(&batch.box_texts)?,
        chain: batch.chains.as_ref().map(|it| embed_chain(model, it, device)).transpose()?,
        frozen_chain: None,
        edges: batch.edges.as_ref().map(|it| embed_edges(model, it, device)).transpose()?,
    })
}

fn embed_edges(model: &Model, edges: &EdgeBatch, device: &Device) -> Result<Edges> {
    let points = model.embed_images(pixels(&edges.images, device))?;
    Ok(Edges { points, things: edges.things.clone(), parts: edges.parts.clone() })
}

/// Embeds all links in one pass of the text encoder, then splits them.
fn embed_chain(model: &Model, chains: &ChainBatch, device: &Device) -> Result<Chain> {
    let points = model.embed_texts(tokens(&chains.texts, device))?;
    let links = if chains.negatives { 2 * chains.tiers } else { chains.tiers };
    let mut positive = points.chunk(links, 0);
    let negative = positive.split_off(chains.tiers);
    Ok(Chain { positive, negative })
}

fn mean(values: Tensor<1>) -> f64 {
    f64::from(values.without_autodiff().mean().into_scalar::<f32>())
}
