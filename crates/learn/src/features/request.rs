//! The data whose features are collected: the inputs of a run, or a whole source.

use std::sync::Arc;

use burn::tensor::Device;
use conifer_data::loader::{Loader, LoaderConfig};
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::EvalCrop;
use conifer_data::{Source, View};

use crate::checkpoint::Manifest;
use crate::config::Config;
use crate::model::{Model, ModelPart};
use crate::train::begin;
use crate::{Error, Result};

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
    /// Augmented copies of each photo and box; 0: one row with the crop of an evaluation.
    pub copies: u32,
    /// Collect features of photos.
    pub images: bool,
    /// Collect features of texts.
    pub texts: bool,
}

impl FeatureRequest {
    /// The inputs of the frozen towers in a run of `config`, whose method reads `views`.
    pub(crate) fn of_run(config: &Config, views: &[View], source: Arc<dyn Source>, tokenizer: Tokenizer) -> Self {
        let frozen = |part| config.train.freeze.contains(&part);
        Self {
            source,
            loader: config.loader(views),
            tokenizer,
            crop: config.model.crop.unwrap_or_default(),
            copies: config.data.augment.copies,
            images: frozen(ModelPart::Visual) && reads_images(views),
            texts: frozen(ModelPart::Textual) && reads_texts(views),
        }
    }
}

/// False for chains of texts alone, whose samples may have no photos.
fn reads_images(views: &[View]) -> bool {
    views.iter().any(|view| *view != View::Chain)
}

/// False for part-of edges alone.
fn reads_texts(views: &[View]) -> bool {
    views.iter().any(|view| *view != View::Edges)
}

/// The model of a new run of `config`, before its first step, and the inputs of its frozen towers.
///
/// # Errors
/// As [`Trainer::new`](crate::train::Trainer::new), except that the folder of the run is not looked at;
/// [`Error::Setting`] if no tower with an encoder is frozen.
pub fn config_features(config: Config, source: Arc<dyn Source>, device: &Device) -> Result<(Model, FeatureRequest)> {
    let config = config.resolve()?.with_vector_widths(source.as_ref())?;
    config.check()?;
    let frozen = |part| config.train.freeze.contains(&part);
    let visual = frozen(ModelPart::Visual) && config.model.visual.vector_width().is_none();
    let textual = frozen(ModelPart::Textual) && config.model.textual.vector_width().is_none();
    if !config.uses_features() || !(visual || textual) {
        let expected = "visual or textual, with an encoder, and train.features = true: only the features of a frozen \
                        encoder are stored";
        return Err(Error::setting("train.freeze", format!("{:?}", config.train.freeze), expected));
    }
    let (config, tokenizer, model) = begin(config, source.as_ref(), device)?;
    let views = config.method()?.views();
    // Reports a source that lacks a view, as a run does.
    Loader::new(source.clone(), tokenizer.clone(), config.loader(views))?;
    let request = FeatureRequest::of_run(&config, views, source, tokenizer);
    let (images, texts) = (visual && request.images, textual && request.texts);
    Ok((model, FeatureRequest { images, texts, ..request }))
}

/// Every photo, box, caption, phrase, tier and taxon of `source`, for both encoders of a model. A run with
/// `model.init` on these data finds them, unless it changes the settings of boxes or crops.
pub fn model_features(
    model: &Model,
    manifest: &Manifest,
    tokenizer: Tokenizer,
    source: Arc<dyn Source>,
) -> FeatureRequest {
    let (visual, textual) = (&model.config().visual, &model.config().textual);
    let views = source.views().to_vec();
    let loader = LoaderConfig {
        image_size: visual.reads().image_size,
        context: textual.reads().context,
        views,
        ..LoaderConfig::default()
    };
    let images = reads_images(&loader.views) && visual.vector_width().is_none();
    let texts = textual.vector_width().is_none();
    FeatureRequest { source, loader, tokenizer, crop: manifest.images.crop, copies: 0, images, texts }
}
