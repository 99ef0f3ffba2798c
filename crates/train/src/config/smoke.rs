//! Shrinks an experiment to a test of a few seconds.

use std::collections::BTreeMap;

use conifer_model::encoders::{TextualConfig, VisualConfig};

use conifer_data::loader::DataConfig;

use super::{Config, ModelSection, TokenizerConfig, TrainConfig};
use crate::error::Result;

impl Config {
    /// Shrinks the experiment to run in seconds on toy data, to test that the config works at all. Method, space, head
    /// and optimiser keep their settings, except that the space has at most 4 factors and the warm-up is shorter.
    /// Towers, embedding dimension, data, batch and number of steps become small.
    ///
    /// # Errors
    /// The errors of [`Config::check`].
    pub fn smoke(mut self) -> Result<Self> {
        let visual = VisualConfig::preset("vit_nano")?.with("image_size", 32)?.with("depth", 2)?;
        let textual = TextualConfig::preset("text_nano")?.with("context", 24)?.with("depth", 2)?;
        // The largest divisor of the reduced dimension that is at most 4 and at most the number of factors.
        let factors = match self.space()?.factors {
            0..=1 => 1,
            2..=3 => 2,
            _ => 4,
        };
        let steps = self.train.steps.min(20);
        self.model = ModelSection {
            init: None,
            init_visual: None,
            init_image_size: None,
            init_textual: None,
            visual_adapter: None,
            textual_adapter: None,
            visual_lora: None,
            textual_lora: None,
            new_projection: false,
            embed_dim: 32,
            visual,
            textual,
            ..self.model
        };
        self.manifold.factors = Some(factors);
        self.manifold.curv.truncate(factors);
        self.tokenizer = TokenizerConfig::Train { vocab_size: 600 };
        self.data = DataConfig {
            kind: "toy".to_owned(),
            path: None,
            split: None,
            roots: Vec::new(),
            options: BTreeMap::from([("size".to_owned(), 64.into()), ("resolution".to_owned(), 48.into())]),
            // In the toy data only samples of animals and plants have a taxon, so many samples may count as broken.
            max_broken_share: 1.0,
            ..self.data
        };
        self.optim.warmup_steps = self.optim.warmup_steps.min(steps / 5);
        self.train = TrainConfig {
            steps,
            batch_size: self.train.batch_size.min(8),
            // Three rows leave several micro-batches in the smaller batch.
            micro_batch: self.train.micro_batch.map(|rows| rows.min(3).min(self.train.batch_size)),
            log_every: 1,
            checkpoint_every: 10,
            features: Some(false),
            feature_store: None,
            ..self.train
        };
        if let Some(unfreeze) = &mut self.train.unfreeze {
            unfreeze.every = unfreeze.every.min((steps / 4).max(1));
        }
        self.eval.every = 0;
        self.check()?;
        Ok(self)
    }
}
