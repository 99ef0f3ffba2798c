//! Sets up a run: tokenizer, model, root, and the frozen copy of the initial model.

use std::path::{Path, PathBuf};

use burn::module::Module as _;
use burn::tensor::Device;
use conifer_data::batch::TokenBatch;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::{Source, View};
use conifer_model::checkpoint::published::ImportOptions;
use conifer_model::checkpoint::towers::{self, ImageTower, TextTower};
use conifer_model::checkpoint::{self, Manifest, OpenedModel};
use conifer_model::embed::Embedder;
use conifer_model::head::Head;
use conifer_model::model::{Model, ModelConfig};
use conifer_model::params::Init;

use crate::config::{Config, ModelSection, TokenizerConfig};
use crate::error::{Error, Result};
use crate::root::RootKind;

/// Creates the tokenizer and model of a new run, and completes the config with the values that they determine. With
/// `model.init` tokenizer and model come from a checkpoint.
///
/// # Errors
/// If a checkpoint or tokenizer cannot be read, or the architecture is impossible.
pub(crate) fn begin(config: Config, source: &dyn Source, device: &Device) -> Result<(Config, Tokenizer, Model)> {
    match config.model.init.clone() {
        Some(init) => {
            let (config, tokenizer, model) = from_checkpoint(config, &init, Some(source), device)?;
            Ok((config.with_vector_widths(source)?, tokenizer, model))
        }
        None if config.model.new_projection => {
            let expected = "model.init to be set too, because new towers always have new projections";
            Err(Error::invalid("model.new_projection", true, expected))
        }
        None => {
            let towers = InitTowers::open(&config, device)?;
            let mut config = towers.described(config);
            let tokenizer = match &towers.textual {
                Some(tower) => tower.tokenizer.clone(),
                None if config.model.textual.vector_width().is_some() => tokenizer_of_vectors(source)?,
                None => tokenizer(&config, Some(source))?,
            };
            let model = fresh(&config, tokenizer.vocab_size(), towers, device)?;
            config.model.textual = model.config().textual.clone();
            Ok((config, tokenizer, model))
        }
    }
}

/// The towers that `model.visual.init` and `model.textual.init` name.
struct InitTowers {
    visual: Option<ImageTower>,
    textual: Option<TextTower>,
}

impl InitTowers {
    /// # Errors
    /// The errors of [`towers::open_image`] and [`towers::open_text`].
    fn open(config: &Config, device: &Device) -> Result<Self> {
        let ModelSection { init_visual, init_textual, init_image_size, visual, .. } = &config.model;
        let image = |path: &PathBuf| {
            let tower = towers::open_image(path, visual.reads().image_size, device)?;
            match init_image_size {
                Some(size) => tower.with_image_size(*size),
                None => Ok(tower),
            }
        };
        let text = |path: &PathBuf| towers::open_text(path, device);
        Ok(Self {
            visual: init_visual.as_ref().map(image).transpose()?,
            textual: init_textual.as_ref().map(text).transpose()?,
        })
    }

    /// Returns `config` with the architectures of these towers.
    fn described(&self, mut config: Config) -> Config {
        if let Some(tower) = &self.visual {
            config.model.visual = tower.config.clone();
            config.model.pixels = tower.pixels;
            config.model.crop.get_or_insert(tower.images.crop);
        }
        if let Some(tower) = &self.textual {
            config.model.textual = tower.config.clone();
        }
        config
    }
}

/// `source` is needed only for a model that reads vectors of texts.
fn from_checkpoint(
    mut config: Config,
    init: &Path,
    source: Option<&dyn Source>,
    device: &Device,
) -> Result<(Config, Tokenizer, Model)> {
    let (mut model, manifest, tokenizer) = open(&config, init, source, device)?;
    let new_projection = config.model.new_projection;
    if !new_projection {
        config.model.embed_dim = manifest.manifold.dim;
    }
    config.model.visual = manifest.model.visual.clone();
    config.model.textual = manifest.model.textual.clone();
    config.model.pixels = manifest.model.pixels;
    config.model.crop.get_or_insert(manifest.images.crop);
    if !new_projection {
        config.model.visual_adapter = manifest.model.visual_adapter.clone();
        config.model.textual_adapter = manifest.model.textual_adapter.clone();
    }
    // The number of factors may have been derived from another dimension, before the checkpoint was read.
    let factors = config.manifold.factors.take();
    config.manifold.factors = factors.filter(|&it| it > 0 && config.model.embed_dim.is_multiple_of(it));
    let space = config.space()?;
    let same = space.kind == manifest.manifold.kind && space.factors == manifest.manifold.factors;
    let random = &mut Init::seeded(config.seed, device);
    match (new_projection, same) {
        (true, _) => {
            let head = Head::new(&space, &config.head, device)?;
            let adapters = ModelConfig {
                visual_adapter: config.model.visual_adapter.clone(),
                textual_adapter: config.model.textual_adapter.clone(),
                ..manifest.model.clone()
            };
            model = model.with_new_projections(&adapters, head, random)?;
        }
        (false, true) => config.head = manifest.head,
        (false, false) => model.head = Head::new(&space, &config.head, device)?,
    }
    let ModelSection { visual_lora, textual_lora, .. } = &config.model;
    model = model.with_lora(visual_lora.as_ref(), textual_lora.as_ref(), random)?;
    config.manifold.factors = Some(space.factors);
    config.check()?;
    Ok((config, tokenizer, model))
}

/// Opens the model at `init`. A published model without a tokenizer uses the tokenizer of the config.
fn open(
    config: &Config,
    init: &Path,
    source: Option<&dyn Source>,
    device: &Device,
) -> Result<(Model, Manifest, Tokenizer)> {
    let opened = checkpoint::open(init, &ImportOptions::default(), device)?;
    let tokenizer = match (opened.tokenizer()?, opened.manifest.model.textual.vector_width(), source) {
        (Some(tokenizer), ..) => tokenizer,
        (None, Some(_), Some(source)) => tokenizer_of_vectors(source)?,
        (None, Some(_), None) => opened.need_tokenizer()?,
        (None, None, _) => tokenizer(config, None)?,
    };
    let OpenedModel { model, manifest, .. } = opened;
    manifest.check_tokenizer(&tokenizer)?;
    Ok((model, manifest, tokenizer))
}

/// Creates the model before its first step, on a device without autodiff. It is built from the checkpoints that the
/// config names and from the seed, so a resumed run gets the same model.
///
/// # Errors
/// If a checkpoint can no longer be read.
pub(super) fn frozen(config: &Config, device: &Device) -> Result<Model> {
    let device = device.clone().without_autodiff();
    let model = match &config.model.init {
        Some(init) => from_checkpoint(config.clone(), init, None, &device)?.2,
        None => fresh(config, config.model.textual.reads().vocabulary, InitTowers::open(config, &device)?, &device)?,
    };
    Ok(model.valid().merged())
}

/// A new model with random weights, except for the given towers.
fn fresh(config: &Config, vocabulary: usize, towers: InitTowers, device: &Device) -> Result<Model> {
    let head = Head::new(&config.space()?, &config.head, device)?;
    let architecture = match &towers.textual {
        // The embedding table of the text tower may have more rows than the tokenizer has ids.
        Some(tower) => {
            ModelConfig { textual: tower.config.clone(), ..config.architecture(tower.config.reads().vocabulary)? }
        }
        None => config.architecture(vocabulary)?,
    };
    let init = &mut Init::seeded(config.seed, device);
    let visual = match towers.visual {
        Some(tower) => tower.encoder,
        None => architecture.visual.build(init)?,
    };
    let textual = match towers.textual {
        Some(tower) => tower.encoder,
        None => architecture.textual.build(init)?,
    };
    let model = Model::of_towers(&architecture, visual, textual, head, init)?;
    init.check()?;
    Ok(model)
}

/// The tokens of `root.text`, as a batch of one text.
///
/// # Errors
/// If the tokenizer cannot encode it.
pub(super) fn root_tokens(config: &Config, tokenizer: &Tokenizer) -> Result<TokenBatch> {
    let row = tokenizer.encode(&config.root.text, config.model.textual.reads().context)?;
    Ok(TokenBatch::from_rows(&[row], tokenizer.end_of_text()))
}

/// The initial value of a root that is stored beside the weights; `None` for other roots.
///
/// # Errors
/// If the texts cannot be embedded, or there are no texts for the mean.
pub(super) fn stored_root(
    config: &Config,
    kind: RootKind,
    model: &Model,
    tokenizer: &Tokenizer,
    source: &dyn Source,
) -> Result<Option<Vec<f64>>> {
    if !kind.is_stored() {
        return Ok(None);
    }
    let texts = match kind {
        RootKind::FixedMean => chain_texts(source).collect(),
        _ => vec![config.root.text.clone()],
    };
    if texts.is_empty() {
        return Err(Error::invalid("root.kind", "fixed_mean", "data with texts"));
    }
    let feed = checkpoint::TextFeed { tokenizer: None, end_of_text: tokenizer.end_of_text(), padding: 0 };
    let manifest = Manifest::new(model, &config.head, &config.method.kind, feed);
    let embedder = Embedder::new("the first weights", model, manifest, tokenizer.clone())?;
    let points = embedder.texts(&texts, &mut |_, _| {})?;
    let dim = embedder.spec().dim;
    let mut mean = vec![0.0; dim];
    for point in points.chunks_exact(dim) {
        mean.iter_mut().zip(point).for_each(|(sum, &x)| *sum += f64::from(x) / texts.len() as f64);
    }
    Ok(Some(mean))
}

/// The texts of the data: captions and phrases; with `chains` also the tiers, their wrong texts and the most specific
/// text of the taxon. Broken samples are skipped; the loader counts them.
fn texts(source: &dyn Source, chains: bool) -> impl Iterator<Item = String> + '_ {
    let samples = (0..source.len()).filter_map(|index| source.get(index).ok());
    samples.flat_map(move |sample| {
        // The last, most specific text of a taxon contains the words of the other texts.
        let taxon = sample.taxon_texts().pop().filter(|_| chains);
        let phrases = sample.phrases.into_iter().map(|phrase| phrase.text);
        let tiers = sample
            .tiers
            .filter(|_| chains)
            .into_iter()
            .flat_map(|tiers| tiers.positive.into_iter().chain(tiers.negative));
        sample.captions.into_iter().chain(phrases).chain(tiers).chain(taxon)
    })
}

/// Every text of the chains, including repetitions. A sample without a chain contributes its captions.
fn chain_texts(source: &dyn Source) -> impl Iterator<Item = String> + '_ {
    let samples = (0..source.len()).filter_map(|index| source.get(index).ok());
    samples.flat_map(|sample| match &sample.tiers {
        Some(tiers) => tiers.positive.iter().chain(&tiers.negative).cloned().collect(),
        None if sample.taxon.is_empty() => sample.captions,
        None => sample.taxon_texts(),
    })
}

/// The tokenizer for a model that reads the vectors of the texts of `source`.
///
/// # Errors
/// [`Error::Invalid`] if the source has no vectors of texts.
pub(super) fn tokenizer_of_vectors(source: &dyn Source) -> Result<Tokenizer> {
    let texts = source.text_vectors().ok_or_else(|| {
        let expected = "data with vectors of texts (data.kind = \"features\", data.options.texts)";
        Error::invalid("data.kind", source.name(), expected)
    })?;
    Ok(Tokenizer::of_vectors(texts))
}

/// Opens the tokenizer of the config, or trains one on the texts of `source`.
///
/// # Errors
/// An error of the tokenizer; [`Error::Invalid`] if the tokenizer has to be trained but `source` is `None`: a model from
/// a checkpoint needs its original tokens.
fn tokenizer(config: &Config, source: Option<&dyn Source>) -> Result<Tokenizer> {
    Ok(match &config.tokenizer {
        TokenizerConfig::File { path } => Tokenizer::from_tokenizer_json(path)?,
        TokenizerConfig::ClipMerges { path, vocab_size } => Tokenizer::from_merges(path, *vocab_size)?,
        TokenizerConfig::Train { vocab_size } => {
            let source = source.ok_or_else(|| {
                let expected = "`file` or `clip_merges`, because the model of model.init has no tokenizer.json";
                Error::invalid("tokenizer.kind", "train", expected)
            })?;
            let chains = config.method()?.views().contains(&View::Chain);
            Tokenizer::train(texts(source, chains), *vocab_size)?
        }
    })
}
