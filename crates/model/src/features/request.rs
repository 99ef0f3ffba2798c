//! The data whose features are collected: the inputs of a run, or a whole source.

use std::sync::Arc;

use conifer_data::loader::LoaderConfig;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use conifer_data::{Source, View};

use crate::checkpoint::Manifest;
use crate::model::Model;

/// The data of a run and the features to collect from it.
#[derive(Clone)]
pub struct FeatureRequest {
    /// The samples.
    pub source: Arc<dyn Source>,
    /// Views, crops of boxes, limits and augmentation of the batches.
    pub loader: LoaderConfig,
    /// The tokenizer of the text encoder.
    pub tokenizer: Tokenizer,
    /// Crop of photos if there are no augmented copies.
    pub crop: EvalCrop,
    /// Number of augmented copies of each photo and box; 0: one row with the crop of an evaluation.
    pub copies: u32,
    /// Collect features of photos.
    pub images: bool,
    /// Collect features of texts.
    pub texts: bool,
}

/// True if a method that reads `views` needs photos: false for chains of texts alone, whose samples may have no photos.
pub fn reads_images(views: &[View]) -> bool {
    views.iter().any(|view| *view != View::Chain)
}

/// True if a method that reads `views` needs texts: false for photos and part-of edges alone.
pub fn reads_texts(views: &[View]) -> bool {
    views.iter().any(|view| !matches!(view, View::Edges | View::Photo))
}

/// Requests the features of every photo, box, caption, phrase, tier and taxon of `source`, for the encoders of a model.
/// A tower that reads vectors has no encoder. A run with `model.init` on the same data finds these features in the
/// store, unless it changes the settings of boxes or crops.
pub fn model_features(
    model: &Model,
    manifest: &Manifest,
    tokenizer: Tokenizer,
    source: Arc<dyn Source>,
) -> FeatureRequest {
    let (visual, textual) = (&model.config().visual, &model.config().textual);
    let mut views = source.views().to_vec();
    let images = reads_images(&views) && visual.vector_width().is_none();
    // A source of captions without photos has no pairs, but its captions are read, too.
    if !views.contains(&View::Pair) {
        views.push(View::Pair);
    }
    let loader = LoaderConfig {
        image_size: visual.reads().image_size,
        context: textual.reads().context,
        views,
        ..LoaderConfig::default()
    };
    let texts = textual.vector_width().is_none();
    FeatureRequest { source, loader, tokenizer, crop: manifest.images.crop, copies: 0, images, texts }
}
