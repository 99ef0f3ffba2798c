//! One update of the parameters: the gradients of its batches, clipping, the optimiser and the averages.

use conifer_data::batch::Batch;
use conifer_model::adapter::DropoutNoise;
use conifer_model::model::Model;
use conifer_model::params::ParamKind;
use conifer_model::scalars::BoundedScalar;

use super::averaged_model::ema_decay;
use super::{Trainer, step};
use crate::config::LossRows;
use crate::error::{Error, Result};
use crate::log::StepRecord;
use crate::methods::RowShare;
use crate::optim::{GradientSet, Update, clip_factor};

impl Trainer {
    /// Makes one update. The caller adds throughput, memory and evaluation results to the record.
    pub(super) fn take_step(&mut self) -> Result<StepRecord> {
        let next = self.state.step + 1;
        if self.schedules.changes_at(self.state.step) {
            self.model = self.schedules.unfreeze(self.model.clone(), self.state.step);
        }
        let batches = self.config.optim.accumulate;
        let fraction = 1.0 / batches as f64;
        let mut record = StepRecord {
            step: next,
            lr: self.schedule.lr(self.state.step),
            beta1: self.schedule.beta1(self.state.step),
            scalars: scalars(&self.model),
            epoch: self.loader.state().epoch,
            ..StepRecord::default()
        };
        let mut gradients = GradientSet::default();
        let mut terms: Vec<(&'static str, f64)> = Vec::new();
        for number in 0..batches {
            let batch = self.next_batch()?;
            self.state.samples += batch.ids.len() as u64;
            let mut inputs = step::PassInputs {
                method: self.method.as_ref(),
                frozen: self.frozen.as_ref(),
                momentum: self.momentum.as_mut(),
                root: self.root_text.as_ref(),
                features: self.features.as_mut(),
                noise: DropoutNoise::new(self.config.seed, next, number as u64),
                end_of_text: self.tokenizer.end_of_text(),
                micro_batch: self.config.train.micro_batch,
                loss_rows: match self.config.train.loss_rows {
                    LossRows::All => RowShare::default(),
                    LossRows::Own => self.ranks.row_share(),
                },
                ranks: &self.ranks,
                device: &self.device,
            };
            let pass = step::pass(&self.model, &batch, &mut inputs, next)?;
            gradients.add(pass.gradients);
            record.loss += fraction * pass.loss;
            for (name, value) in pass.terms {
                match terms.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += fraction * value,
                    None => terms.push((name, fraction * value)),
                }
            }
        }
        gradients.sum_over(&self.ranks, &self.model);
        if gradients.is_empty() {
            let expected = "at least one trainable part of the model that the loss of the method depends on";
            return Err(Error::invalid("train.freeze", "every part that the loss depends on", expected));
        }
        record.terms = terms.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        record.gradient_norm = fraction * gradients.norm();
        if !record.gradient_norm.is_finite() {
            let parameter = gradients.first_non_finite().unwrap_or("all parameters together").to_owned();
            let what = format!("the gradient of `{parameter}`");
            return Err(Error::Diverged { step: next, what, value: record.gradient_norm });
        }
        let optim = &self.config.optim;
        let clip = if optim.clip_norm > 0.0 { clip_factor(record.gradient_norm, optim.clip_norm) } else { 1.0 };
        let update = Update {
            lr: record.lr,
            beta1: record.beta1,
            gradient_scale: fraction * clip,
            decay: &|param, elements| {
                if decays(param.kind, elements, optim.reference) { optim.weight_decay } else { 0.0 }
            },
            schedule: &|param| self.schedules.of(param.name),
        };
        self.model = self.optimiser.step(self.model.clone(), gradients, update);
        self.model.head = self.model.head.clone().project();
        if let Some(momentum) = &mut self.momentum {
            momentum.follow(&self.model);
        }
        if let (Some(average), Some(decay)) = (&mut self.average, self.config.train.ema) {
            average.follow(&self.model, ema_decay(decay, next));
        }
        self.state.step = next;
        self.state.data = self.loader.state();
        self.state.broken = self.broken_before + self.loader.report().broken();
        self.state.missing_ranks.clone_from(&self.missing_ranks_before);
        for (rank, count) in &self.loader.report().missing_ranks {
            *self.state.missing_ranks.entry(rank.name.clone()).or_default() += count;
        }
        record.samples = self.state.samples;
        record.broken = self.state.broken;
        let ranks = self.state.missing_ranks.iter();
        record.missing_ranks = ranks.map(|(rank, count)| (rank.clone(), (*count).into())).collect();
        Ok(record)
    }

    /// Returns the next batch. Each rank has read only its own rows.
    fn next_batch(&mut self) -> Result<Batch> {
        let ranks = self.ranks.clone();
        let batch = self.loader.next_joined(&mut |mine| ranks.gather_bytes(mine));
        ranks.agree(batch.map_err(Error::from))
    }
}

/// True if weight decay applies to a parameter. The papers decay weights only. The released code (`reference`) also
/// decays norms and biases, and the per-factor scalars of PHyCLIP, because its rule that excludes scalars does not
/// match their names (DEVIATIONS.md).
pub(super) fn decays(kind: ParamKind, elements: usize, reference: bool) -> bool {
    match kind {
        ParamKind::Weight => true,
        ParamKind::Bias | ParamKind::Norm => reference,
        ParamKind::Scalar => reference && elements > 1,
        ParamKind::Fixed => false,
    }
}

/// The values of the learnable scalars by name: one number, or a list with one per factor.
fn scalars(model: &Model) -> serde_json::Map<String, serde_json::Value> {
    let entry = |scalar: &BoundedScalar| {
        let first = scalar.names()[0].as_str();
        match first.strip_suffix(".0") {
            Some(list) => (list.to_owned(), scalar.values().into()),
            None => (first.to_owned(), scalar.values()[0].into()),
        }
    };
    model.head.scalars().into_iter().map(entry).collect()
}
