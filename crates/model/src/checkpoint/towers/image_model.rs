//! Makes a model from an image encoder without a text encoder, so that every command can embed and evaluate
//! photographs.

use std::sync::Arc;

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_geometry::ManifoldSpec;

use super::super::state_dict::StateDict;
use super::super::{Manifest, TextFeed};
use super::{ImageTower, TOWER_FORMATS, TowerFormat};
use crate::Result;
use crate::encoders::{TextualConfig, VectorConfig};
use crate::head::{Head, HeadConfig, Tower};
use crate::model::{Model, ModelConfig};
use crate::params::Init;

/// The layout of a file that holds an image encoder and no text encoder.
pub(in super::super) fn image_format(stored: &StateDict) -> Option<&'static TowerFormat> {
    let mut found = TOWER_FORMATS.iter().filter(|format| stored.has(format.marks));
    let first = found.next()?;
    [first].into_iter().chain(found).all(|format| format.tower() == Tower::Image).then_some(first)
}

/// A model whose points are the features of `tower` on the unit sphere: its similarity is the cosine. The root is the
/// origin.
///
/// The text tower reads vectors of the same width. Embedding a text is an error, because no text has a vector.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) for an impossible width.
pub(in super::super) fn image_model(tower: ImageTower, method: &str, device: &Device) -> Result<(Model, Manifest)> {
    let ImageTower { encoder, config, pixels, images } = tower;
    let width = encoder.width();
    let described = ModelConfig {
        visual: config,
        textual: TextualConfig::Vectors(VectorConfig { width }),
        pixels,
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let mut init = Init::blank(device);
    let textual = described.textual.build(&mut init)?;
    let head_config = HeadConfig::default();
    let head = Head::new(&ManifoldSpec::sphere(width), &head_config, device)?;
    let model = Model::of_towers(&described, encoder, textual, head, &mut init)?.with_identity_projections();
    init.check()?;
    let end_of_text = Tokenizer::of_vectors(Arc::default()).end_of_text();
    let texts = TextFeed { tokenizer: None, end_of_text, padding: end_of_text };
    let mut manifest = Manifest::new(&model, &head_config, method, texts);
    manifest.images = images;
    Ok((model, manifest))
}
