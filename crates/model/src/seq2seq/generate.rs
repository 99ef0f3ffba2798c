//! Samples texts from a [`T5Model`], one token at a time.

use burn::tensor::{Int, Tensor, TensorData, module};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::T5Model;
use crate::encoders::Tokens;
use crate::{Error, Result};

/// A text to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawRequest {
    /// Row of the input.
    pub input: usize,
    /// Seed of the random choices of this text. They do not depend on the other texts of a batch.
    pub seed: [u8; 32],
}

/// Settings of [`T5Model::generate`].
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingSettings {
    /// Logits are divided by this number before the softmax; 0: always the most probable token.
    pub temperature: f64,
    /// Maximum number of tokens, end included.
    pub longest: usize,
    /// Ids besides the end of a text at which a text ends.
    pub stop: Vec<u32>,
}

/// The tokens of a sampled text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedIds {
    /// The ids, without start, end and stop ids.
    pub ids: Vec<u32>,
    /// False if the text reached the maximum length before its end.
    pub ended: bool,
}

impl SamplingSettings {
    fn check(&self) -> Result<()> {
        if !(0.0..=1e3).contains(&self.temperature) {
            return Err(Error::invalid("temperature", self.temperature, "0 to 1000"));
        }
        if self.longest == 0 {
            return Err(Error::invalid("longest", 0, "at least 1 token"));
        }
        Ok(())
    }
}

impl T5Model {
    /// Samples one text for each of `draws`. Each input is encoded once. A text ends with the end id or one of
    /// `settings.stop`. Of equally probable tokens, temperature 0 takes the one with the smallest id.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a setting outside its range, an input that is not in `inputs`, or logits that are not
    /// finite; [`Error::Shape`] if an input exceeds the context.
    pub fn generate(
        &self,
        inputs: Tokens,
        draws: &[DrawRequest],
        settings: &SamplingSettings,
    ) -> Result<Vec<GeneratedIds>> {
        settings.check()?;
        let [rows, _] = inputs.check(self.config.context)?;
        if let Some(draw) = draws.iter().find(|draw| draw.input >= rows) {
            return Err(Error::invalid("draws.input", draw.input, format!("less than {rows}, the number of inputs")));
        }
        let mut texts = vec![GeneratedIds { ids: Vec::new(), ended: false }; draws.len()];
        if draws.is_empty() {
            return Ok(texts);
        }
        let config = self.config.stack(self.config.decoder_depth);
        let hidden = inputs.after_end();
        let mut cache = self.decoder.start(&self.encode(inputs), &hidden, &config);
        cache.select(&draws.iter().map(|draw| draw.input).collect::<Vec<_>>());
        let mut generators: Vec<_> = draws.iter().map(|draw| ChaCha8Rng::from_seed(draw.seed)).collect();
        // Numbers of the texts in the rows of the batch; texts that ended may still be there.
        let mut batch: Vec<usize> = (0..draws.len()).collect();
        let mut last = vec![self.config.start; draws.len()];
        for position in 0..settings.longest {
            let logits = self.output(self.decoder.extend(self.words(&last), &mut cache, &config));
            let logits: Vec<f32> = logits.into_data().iter::<f32>().collect();
            let rows = batch.iter().zip(&mut last).zip(logits.chunks(self.config.vocabulary));
            for ((&text, last), logits) in rows {
                if texts[text].ended {
                    continue;
                }
                let id = sampled(logits, settings.temperature, &mut generators[text])?;
                *last = id;
                if id == self.config.end || settings.stop.contains(&id) {
                    texts[text].ended = true;
                } else {
                    texts[text].ids.push(id);
                }
            }
            let growing: Vec<usize> = (0..batch.len()).filter(|&row| !texts[batch[row]].ended).collect();
            if growing.is_empty() || position + 1 == settings.longest {
                break;
            }
            // Selecting rows copies all keys and values, so it is done only if it halves the batch.
            if growing.len() * 2 <= batch.len() {
                cache.select(&growing);
                batch = growing.iter().map(|&row| batch[row]).collect();
                last = growing.iter().map(|&row| last[row]).collect();
            }
        }
        Ok(texts)
    }

    /// Rows of the word table, `[N, width]`.
    pub(super) fn words(&self, ids: &[u32]) -> Tensor<2> {
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let count = ids.len();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [count, 1]), &self.device().without_autodiff());
        module::embedding(self.shared.weight.val(), ids).reshape([count, self.config.width])
    }
}

/// Draws an id from softmax(logits / temperature), by one uniform number in [0, 1).
fn sampled(logits: &[f32], temperature: f64, rng: &mut ChaCha8Rng) -> Result<u32> {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if !logit.is_finite() {
            return Err(Error::invalid("logits of the decoder", logit, "finite numbers; the weights are damaged"));
        }
        if *logit > logits[best] {
            best = id;
        }
    }
    if temperature == 0.0 {
        return Ok(best as u32);
    }
    // The largest exponent is 0, so the sum is at least 1.
    let weight = |logit: f32| (f64::from(logit - logits[best]) / temperature).exp();
    let total: f64 = logits.iter().map(|&logit| weight(logit)).sum();
    let uniform = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut rest = uniform * total;
    for (id, &logit) in logits.iter().enumerate() {
        rest -= weight(logit);
        if rest < 0.0 {
            return Ok(id as u32);
        }
    }
    // Reached only if the rounding errors of the sum exceed its last terms.
    Ok(best as u32)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Shares of 40,000 draws against the softmax; four standard deviations are 0.01.
    #[test]
    fn tokens_are_drawn_with_the_probabilities_of_the_softmax() {
        let logits = [1.0_f32, -0.5, 0.25, f32::MIN];
        let mut rng = ChaCha8Rng::from_seed([3; 32]);
        for temperature in [0.5, 1.0, 2.0] {
            let mut counts = [0_u32; 4];
            for _ in 0..40_000 {
                counts[sampled(&logits, temperature, &mut rng).unwrap() as usize] += 1;
            }
            let weights = logits.map(|logit| (f64::from(logit) / temperature).exp());
            let total: f64 = weights.iter().sum();
            for (count, weight) in counts.into_iter().zip(weights) {
                let (found, expected) = (f64::from(count) / 40_000.0, weight / total);
                assert!((found - expected).abs() < 0.01, "temperature {temperature}: {found} instead of {expected}");
            }
        }
        assert_eq!(sampled(&[0.0, 2.0, 2.0], 0.0, &mut rng).unwrap(), 1);
        let error = sampled(&[0.0, f32::NAN], 1.0, &mut rng).unwrap_err().to_string();
        assert!(error.contains("`logits of the decoder` is NaN"), "{error}");
    }
}
