//! One forward and backward pass: from a batch to gradients.

use burn::tensor::{Device, Tensor};
use conifer_data::batch::Batch;

use crate::error::{Error, Result};
use crate::methods::{Embedded, Loss, Method};
use crate::model::{Model, pixels, tokens};
use crate::optim::GradientSet;

/// What one batch contributes to a step.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) gradients: GradientSet,
    pub(super) loss: f64,
    /// Mean of each term over its samples.
    pub(super) terms: Vec<(&'static str, f64)>,
}

/// Embeds `batch`, takes the loss of `method` and differentiates it. `step` is only for messages.
///
/// # Errors
/// A loss that is not finite, naming the term.
pub(super) fn pass(model: &Model, method: &dyn Method, batch: &Batch, device: &Device, step: u64) -> Result<Pass> {
    let Loss { total, terms } = method.loss(&embed(model, batch, device)?, &model.head.space()?)?;
    let terms: Vec<(&'static str, f64)> = terms.into_iter().map(|(name, values)| (name, mean(values))).collect();
    let loss = mean(total.clone());
    if !loss.is_finite() {
        let term = terms.iter().find(|(_, value)| !value.is_finite());
        let what =
            term.map_or("the loss".to_owned(), |(name, value)| format!("the loss; its term `{name}` is {value}"));
        return Err(not_finite(step, &what, loss));
    }
    let gradients = GradientSet::take(model, &mut total.backward());
    Ok(Pass { gradients, loss, terms })
}

/// The error of a run whose numbers ran away.
pub(super) fn not_finite(step: u64, what: &str, value: f64) -> Error {
    let name = format!("step {step}: {what}");
    Error::setting(
        name,
        value,
        "a finite number (the last checkpoint is kept; a lower optim.lr or optim.clip_norm = 1 may help)",
    )
}

/// Every part that the batch has, as points.
fn embed(model: &Model, batch: &Batch, device: &Device) -> Result<Embedded> {
    let image = |images: &Option<_>| images.as_ref().map(|it| model.embed_images(pixels(it, device))).transpose();
    let text = |texts: &Option<_>| texts.as_ref().map(|it| model.embed_texts(tokens(it, device))).transpose();
    Ok(Embedded {
        image: image(&batch.images)?,
        text: text(&batch.texts)?,
        box_image: image(&batch.box_images)?,
        box_text: text(&batch.box_texts)?,
    })
}

fn mean(values: Tensor<1>) -> f64 {
    f64::from(values.without_autodiff().mean().into_scalar::<f32>())
}
