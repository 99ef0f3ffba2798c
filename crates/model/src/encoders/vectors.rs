//! Towers without an encoder, for models that read vectors which another program computed (CLIP, SigLIP, DINO, a text
//! embedder). Adapter and projection are applied to these vectors.

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{Encoder, ImageInputFormat, TextInputFormat, TextualConfig, Tokens, VisualConfig, check_positive};
use crate::params::Init;
use crate::{Error, Result};

/// Width of the vectors that a tower reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VectorConfig {
    /// Number of values of a vector. In the config of a new run, 0 means the width of the vectors in the data.
    pub width: usize,
}

/// A tower that reads vectors of photos.
#[derive(Module, Debug)]
pub struct ImageVectorInput {
    #[module(skip)]
    width: usize,
}

/// A tower that reads vectors of texts.
#[derive(Module, Debug)]
pub struct TextVectorInput {
    #[module(skip)]
    width: usize,
}

impl VisualConfig {
    /// Width of the vectors that this tower reads instead of photos; `None` for an encoder.
    pub fn vector_width(&self) -> Option<usize> {
        match self {
            Self::Vectors(config) => Some(config.width),
            _ => None,
        }
    }
}

impl TextualConfig {
    /// Width of the vectors that this tower reads instead of texts; `None` for an encoder.
    pub fn vector_width(&self) -> Option<usize> {
        match self {
            Self::Vectors(config) => Some(config.width),
            _ => None,
        }
    }
}

impl Encoder for ImageVectorInput {
    type Config = VectorConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;
    const PRESETS: &'static [(&'static str, Self::Config)] = &[];

    fn new(config: &Self::Config, _: &mut Init) -> Result<Self> {
        check_positive("visual", &[("width", config.width)])?;
        Ok(Self { width: config.width })
    }

    fn reads(_: &Self::Config) -> Self::Reads {
        ImageInputFormat { image_size: 1 }
    }

    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, _: Self::Input) -> Result<Tensor<2>> {
        Err(no_encoder("image", "a photo", self.width))
    }
}

impl Encoder for TextVectorInput {
    type Config = VectorConfig;
    type Input = Tokens;
    type Reads = TextInputFormat;
    const PRESETS: &'static [(&'static str, Self::Config)] = &[];

    fn new(config: &Self::Config, _: &mut Init) -> Result<Self> {
        check_positive("textual", &[("width", config.width)])?;
        Ok(Self { width: config.width })
    }

    /// One id per text. The number of texts is not limited.
    fn reads(_: &Self::Config) -> Self::Reads {
        TextInputFormat { context: 1, vocabulary: u32::MAX as usize }
    }

    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, _: Self::Input) -> Result<Tensor<2>> {
        Err(no_encoder("text", "a text", self.width))
    }
}

fn no_encoder(tower: &str, found: &str, width: usize) -> Error {
    let expected = format!("a vector of width {width}: this model reads vectors; it has no {tower} encoder");
    Error::invalid(format!("input of the {tower} tower"), found, expected)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn pixels_are_refused() {
        let device = Device::flex();
        let table: toml::Table = toml::from_str("kind = 'vectors'\nwidth = 7").unwrap();
        let config = VisualConfig::try_from(table.clone()).unwrap();
        assert_eq!((config.vector_width(), config.reads().image_size), (Some(7), 1));
        let encoder = config.build(&mut Init::seeded(1, &device)).unwrap();
        assert_eq!((encoder.width(), encoder.num_params()), (7, 0));
        let message = encoder.forward(Tensor::zeros([1, 3, 1, 1], &device)).unwrap_err().to_string();
        assert!(message.contains("expected a vector of width 7: this model reads vectors; it has no image encoder"));

        let config = TextualConfig::try_from(table).unwrap();
        assert_eq!((config.vector_width(), config.reads().context), (Some(7), 1));
        let none = VisualConfig::Vectors(VectorConfig::default());
        let message = none.build(&mut Init::blank(&device)).unwrap_err().to_string();
        assert!(message.contains("`visual.width` is 0; expected 1 to"), "{message}");
    }
}
