//! Lists the inputs whose features a run with frozen towers stores.

use std::sync::Arc;

use burn::tensor::Device;
use conifer_data::loader::Loader;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::{Source, View};
use conifer_model::features::{FeatureRequest, reads_images, reads_texts};
use conifer_model::model::{Model, ModelPart};

use crate::config::Config;
use crate::trainer::begin;
use crate::{Error, Result};

/// The model of a new run of `config`, before its first step, and the inputs of its frozen towers for a feature store.
///
/// # Errors
/// The errors of [`Trainer::new`](crate::trainer::Trainer::new), except that the folder of the run is not checked;
/// [`Error::Invalid`] if `train.features` is off, or if no tower with an encoder is frozen.
pub fn config_features(config: Config, source: Arc<dyn Source>, device: &Device) -> Result<(Model, FeatureRequest)> {
    let config = config.resolve()?.with_vector_widths(source.as_ref())?;
    config.check()?;
    let frozen = |part| config.train.freeze.contains(&part);
    let visual = frozen(ModelPart::Visual) && config.model.visual.vector_width().is_none();
    let textual = frozen(ModelPart::Textual) && config.model.textual.vector_width().is_none();
    if !config.uses_features() || !(visual || textual) {
        let expected = "visual or textual, with an encoder, and train.features = true: only the features of a frozen \
                        encoder are stored";
        return Err(Error::invalid("train.freeze", format!("{:?}", config.train.freeze), expected));
    }
    let (config, tokenizer, model) = begin(config, source.as_ref(), device)?;
    let views = config.method()?.views();
    // A loader rejects a source that lacks a view of the method.
    Loader::new(source.clone(), tokenizer.clone(), config.loader(views))?;
    let request = run_features(&config, views, source, tokenizer);
    let (images, texts) = (visual && request.images, textual && request.texts);
    Ok((model, FeatureRequest { images, texts, ..request }))
}

/// The inputs of the frozen towers in a run of `config`, whose method reads `views`.
pub(crate) fn run_features(
    config: &Config,
    views: &[View],
    source: Arc<dyn Source>,
    tokenizer: Tokenizer,
) -> FeatureRequest {
    let frozen = |part| config.train.freeze.contains(&part);
    FeatureRequest {
        source,
        loader: config.loader(views),
        tokenizer,
        crop: config.model.crop.unwrap_or_default(),
        copies: config.data.augment.copies,
        images: frozen(ModelPart::Visual) && reads_images(views),
        texts: frozen(ModelPart::Textual) && reads_texts(views),
    }
}
