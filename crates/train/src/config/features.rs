//! Checks of the settings for stored features of frozen towers.

use std::path::PathBuf;

use conifer_model::adapter::FeatureScaling;
use conifer_model::model::ModelPart;

use super::{Config, ModelSection};
use crate::error::{Error, Result};

impl Config {
    /// True if training reads stored features, or if a tower reads vectors.
    pub fn uses_features(&self) -> bool {
        if self.model.visual.vector_width().is_some() || self.model.textual.vector_width().is_some() {
            return true;
        }
        let frozen = |part, init: &Option<PathBuf>| init.is_some() && self.train.freeze.contains(&part);
        let ModelSection { init_visual, init_textual, .. } = &self.model;
        let is_onnx = self.model.visual.onnx_file().is_some() || self.model.textual.onnx_file().is_some();
        let automatic = is_onnx || frozen(ModelPart::Visual, init_visual) || frozen(ModelPart::Textual, init_textual);
        self.train.features.unwrap_or(automatic)
    }

    /// Checks the settings for stored features. An adapter that standardises needs a frozen tower whose features are
    /// stored, unless the model starts from a checkpoint. `train.feature_store` needs stored features, and stored
    /// features need a frozen tower.
    pub(super) fn check_features(&self) -> Result<()> {
        let frozen = |part| self.train.freeze.contains(&part);
        let towers = [
            ("visual", ModelPart::Visual, &self.model.visual_adapter),
            ("textual", ModelPart::Textual, &self.model.textual_adapter),
        ];
        for (tower, part, adapter) in towers {
            // A model that starts from a checkpoint keeps the feature statistics of the checkpoint.
            let computes = self.model.init.is_none();
            let standardises = adapter.as_ref().is_some_and(|it| it.input == FeatureScaling::Standardise);
            if standardises && computes && !(frozen(part) && self.uses_features()) {
                let expected = format!(
                    "rms or none, or {tower} in train.freeze and train.features = true: mean and standard deviation are \
                     those of the stored features"
                );
                return Err(Error::invalid(format!("model.{tower}_adapter.input"), "standardise", expected));
            }
        }
        if !self.uses_features() {
            return match &self.train.feature_store {
                Some(folder) => {
                    let expected = "no value, or train.features = true: this run reads no stored features";
                    Err(Error::invalid("train.feature_store", folder.display(), expected))
                }
                None => Ok(()),
            };
        }
        if !frozen(ModelPart::Visual) && !frozen(ModelPart::Textual) {
            let expected = "visual or textual in train.freeze: only the features of a frozen tower can be stored";
            return Err(Error::invalid("train.features", true, expected));
        }
        Ok(())
    }
}
