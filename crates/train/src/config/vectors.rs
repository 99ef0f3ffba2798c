//! Completes and checks the config of towers without trained parameters: towers that read stored vectors of photos or
//! texts, and ONNX models.

use conifer_data::Source;
use conifer_data::sources::features;
use conifer_model::encoders::{TextualConfig, VectorConfig, VisualConfig};
use conifer_model::model::ModelPart;

use super::{Config, ModelSection, TokenizerConfig};
use crate::error::{Error, Result};

impl Config {
    /// Replaces towers that are absent from the config by towers that read vectors, if the data has vectors. Such a
    /// tower has no parameters, so it counts as frozen, as an ONNX model does.
    pub(super) fn resolve_vectors(&mut self) {
        let default = ModelSection::default();
        let is_given = |option: &str| self.data.kind == features::KIND && self.data.options.contains_key(option);
        let model = &mut self.model;
        if is_given(features::IMAGES) && model.init_visual.is_none() && model.visual == default.visual {
            model.visual = VisualConfig::Vectors(VectorConfig::default());
        }
        if is_given(features::TEXTS) && model.init_textual.is_none() && model.textual == default.textual {
            model.textual = TextualConfig::Vectors(VectorConfig::default());
        }
        let ModelSection { visual, textual, .. } = &self.model;
        let frozen = [
            (ModelPart::Visual, visual.vector_width().is_some() || visual.onnx_file().is_some()),
            (ModelPart::Textual, textual.vector_width().is_some() || textual.onnx_file().is_some()),
        ];
        for (part, is_frozen) in frozen {
            if is_frozen && !self.train.freeze.contains(&part) {
                self.train.freeze.push(part);
            }
        }
    }

    /// Checks that the config names a tokenizer file for an ONNX text encoder. An encoder from a checkpoint brings its
    /// own tokenizer.
    pub(super) fn check_onnx(&self) -> Result<()> {
        let ModelSection { textual, init, init_textual, .. } = &self.model;
        let is_own = textual.onnx_file().is_some() && init.is_none() && init_textual.is_none();
        match self.tokenizer {
            TokenizerConfig::Train { .. } if is_own => {
                let expected =
                    "file with tokenizer.path, because an ONNX text encoder reads the ids of its own tokenizer";
                Err(Error::invalid("tokenizer.kind", "train", expected))
            }
            _ => Ok(()),
        }
    }

    /// The config with the widths of the vectors of `source`, for towers that read vectors.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a tower reads vectors and the data has none, or vectors of another width.
    pub(crate) fn with_vector_widths(mut self, source: &dyn Source) -> Result<Self> {
        if let VisualConfig::Vectors(config) = &mut self.model.visual {
            let mut images = (0..source.len()).filter_map(|index| source.get(index).ok()?.image);
            let found = images.find_map(|image| match image {
                conifer_data::ImageRef::Vector(values) => Some(values.len()),
                _ => None,
            });
            config.width = width("model.visual", config.width, found, features::IMAGES)?;
        }
        if let TextualConfig::Vectors(config) = &mut self.model.textual {
            let found = source.text_vectors().map(|texts| texts.width());
            config.width = width("model.textual", config.width, found, features::TEXTS)?;
        }
        Ok(self)
    }
}

/// Returns the width of the vectors in the data for a tower that reads vectors. `given` is the width in the config (0:
/// not given), which must equal it.
fn width(section: &str, given: usize, found: Option<usize>, option: &str) -> Result<usize> {
    match (given, found) {
        (_, None) => {
            let expected =
                format!("an encoder, or data with vectors (data.kind = \"features\", data.options.{option})");
            Err(Error::invalid(format!("{section}.kind"), "vectors", expected))
        }
        (0, Some(found)) => Ok(found),
        (given, Some(found)) if given == found => Ok(found),
        (given, Some(found)) => {
            let expected = format!("{found}, the width of the vectors of the data");
            Err(Error::invalid(format!("{section}.width"), given, expected))
        }
    }
}
