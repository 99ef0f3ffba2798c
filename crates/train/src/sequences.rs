//! Fine-tuning of an encoder-decoder on pairs of texts, by teacher forcing.

use burn::tensor::Tensor;
use conifer_data::batch::TokenBatch;
use conifer_model::model::tokens;
use conifer_model::seq2seq::T5Model;

use crate::error::{Error, Result};
use crate::optim::{AdamW, GradientSet, Update, whole_run_schedule};

/// Token ids of an input and of the text that the model should write; both end with the end id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencePair {
    /// Ids that the encoder reads.
    pub input: Vec<u32>,
    /// Ids that the decoder should write.
    pub label: Vec<u32>,
}

/// Fine-tunes a [`T5Model`] with AdamW (PyTorch's betas 0.9 and 0.999, epsilon 1e-8) at a constant learning rate,
/// without weight decay, clipping and dropout.
pub struct SequenceTrainer {
    model: T5Model,
    optimiser: AdamW,
    lr: f64,
}

impl SequenceTrainer {
    /// A trainer of `model`, which must be on a device with autodiff.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `lr` is not in (0, 1].
    pub fn new(model: T5Model, lr: f64) -> Result<Self> {
        if !(lr > 0.0 && lr <= 1.0) {
            return Err(Error::invalid("learning rate", lr, "more than 0, at most 1"));
        }
        Ok(Self { model, optimiser: AdamW::new([0.9, 0.999], 1e-8), lr })
    }

    /// One update on a batch. Returns the trainer and the mean cross entropy of the batch before the update, in nats
    /// per token.
    ///
    /// # Errors
    /// A sequence exceeds the context of the model; [`Error::Invalid`] for an empty batch or a loss that is not finite.
    pub fn step(self, batch: &[SequencePair]) -> Result<(Self, f64)> {
        if batch.is_empty() {
            return Err(Error::invalid("batch", "empty", "at least one pair of texts"));
        }
        let Self { model, mut optimiser, lr } = self;
        let (device, end) = (model.device(), model.config().end);
        let side = |of: fn(&SequencePair) -> &Vec<u32>| {
            tokens(&TokenBatch::from_rows(&batch.iter().map(of).collect::<Vec<_>>(), end), &device)
        };
        let loss: Tensor<1> = model.loss(side(|it| &it.input), side(|it| &it.label))?;
        let value = f64::from(loss.clone().into_scalar::<f32>());
        if !value.is_finite() {
            let expected = "a finite number; try a smaller learning rate";
            return Err(Error::invalid(format!("loss of update {}", optimiser.updates() + 1), value, expected));
        }
        let mut gradients = loss.backward();
        let gradients = GradientSet::take(&model, &mut gradients);
        let update = Update { lr, beta1: None, gradient_scale: 1.0, decay: &|_, _| 0.0, schedule: &whole_run_schedule };
        let model = optimiser.step(model, gradients, update);
        Ok((Self { model, optimiser, lr }, value))
    }

    /// The model after the updates so far.
    pub fn model(&self) -> &T5Model {
        &self.model
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use burn::tensor::Device;
    use conifer_model::checkpoint::t5_folder;
    use safetensors::SafeTensors;

    use super::*;

    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sequences").join(name)
    }

    /// Rows of ids without padding, which is 0 in the inputs and -100 in the labels.
    fn rows(file: &SafeTensors<'_>, name: &str) -> Vec<Vec<u32>> {
        let view = file.tensor(name).unwrap();
        let ids: Vec<i64> = view.data().chunks(8).map(|it| i64::from_le_bytes(it.try_into().unwrap())).collect();
        ids.chunks(view.shape()[1])
            .map(|row| row.iter().take_while(|&&id| id > 0).map(|&id| id as u32).collect())
            .collect()
    }

    /// Losses of ten updates of PyTorch's AdamW (`fixtures/sequences/RECIPE.md`).
    #[test]
    fn ten_updates_follow_pytorch() {
        for name in ["t5_relu_tied", "t5_gated_untied"] {
            let folder = fixture(name);
            let bytes = std::fs::read(folder.join("io.safetensors")).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let pairs = rows(&file, "in.input_ids").into_iter().zip(rows(&file, "in.labels"));
            let pairs: Vec<_> = pairs.map(|(input, label)| SequencePair { input, label }).collect();
            let expected = file.tensor("out.losses").unwrap();
            let expected = expected.data().chunks(4).map(|it| f64::from(f32::from_le_bytes(it.try_into().unwrap())));
            let model = t5_folder::open_model(&folder, &Device::flex().autodiff()).unwrap();
            let mut trainer = SequenceTrainer::new(model, 1e-3).unwrap();
            let mut largest = 0.0_f64;
            for expected in expected {
                let loss;
                (trainer, loss) = trainer.step(&pairs).unwrap();
                largest = largest.max((loss - expected).abs() / expected);
            }
            eprintln!("{name}: largest relative difference of ten losses {largest:.1e}");
            assert!(largest < 1e-4, "{name}: {largest:e}");
        }
    }

    #[test]
    fn impossible_updates_are_refused_by_name() {
        let model = || t5_folder::open_model(&fixture("t5_relu_tied"), &Device::flex().autodiff()).unwrap();
        let error = SequenceTrainer::new(model(), f64::NAN).err().unwrap().to_string();
        assert!(error.contains("`learning rate` is NaN; expected more than 0"), "{error}");
        let step = |pairs: &[SequencePair]| {
            SequenceTrainer::new(model(), 1e-3).unwrap().step(pairs).err().unwrap().to_string()
        };
        assert!(step(&[]).contains("`batch` is empty"));
        let long = SequencePair { input: vec![5; 25], label: vec![1] };
        assert!(step(&[long]).contains("expected ids [B, L] with 1 <= L <= 24"));
    }
}
