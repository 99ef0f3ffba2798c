//! One TOML file per experiment: the data, the model, the objective, the optimiser and the run.
//!
//! ```toml
//! extends = "base.toml"          # optional; relative to this file, tables are merged key by key
//! seed = 0
//! [data]
//! kind = "toy"
//! [model]
//! embed_dim = 64
//! visual = { preset = "vit_nano" }
//! textual = { preset = "text_nano" }
//! [method]
//! kind = "phyclip"
//! ```
//!
//! Every key has a default, no unknown key is accepted, and what is not said is filled in ([`Config::resolve`]) before it is stored
//! beside the result. The keys are listed by [`schema`].
//!
//! Some facts stand in one place only: the image size is that of the image encoder, the context that of the text encoder, the
//! vocabulary that of the tokenizer, and the views are those that the method reads.

mod defaults;
mod keys;
mod load;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use conifer_data::loader::{CachePixels, CaptionChoice, ChainChoice, EdgeChoice, LoaderConfig};
use conifer_data::transform::{Augment, EvalCrop};
use conifer_data::{PixelLimits, SourceSpec, View};
use conifer_space::ManifoldSpec;
use serde::{Deserialize, Serialize};

pub use keys::{KeyRow, edits, schema};

use crate::encoders::{TextualConfig, VisualConfig};
use crate::error::{Error, Result};
use crate::head::HeadConfig;
use crate::methods::{self, Method};
use crate::model::{ModelConfig, Part, PixelStatistics};
use crate::root::{Apex, RootKind};
use crate::schedule::Schedule;

/// One experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Of the initial weights, the order of the data and the augmentation.
    pub seed: u64,
    /// The released systems' behaviour wherever it differs from the papers: the default of `method.reference`, `head.reference` and
    /// `optim.reference`. (Read when a file is loaded; afterwards those three count.)
    pub reference: bool,
    /// Where the samples come from and how they become batches.
    pub data: DataConfig,
    /// How texts become tokens.
    pub tokenizer: TokenizerConfig,
    /// The two towers.
    pub model: ModelSection,
    /// The space of the embeddings.
    pub manifold: ManifoldSection,
    /// The apex of the cones.
    pub root: RootSection,
    /// Curvature, feature scales and temperature.
    pub head: HeadConfig,
    /// The objective.
    pub method: MethodSection,
    /// The optimiser.
    pub optim: OptimConfig,
    /// The run.
    pub train: TrainConfig,
    /// Measuring while it runs.
    pub eval: EvalConfig,
}

/// `[data]`: a source ([`SourceSpec`]) and the loader's settings ([`LoaderConfig`]), those that are not decided elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Kind of source, a name in [`SOURCES`](conifer_data::SOURCES).
    pub kind: String,
    /// File, folder or pattern of shards, from the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Keep only the samples of this split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, besides that of the data file, in which the photos may be that its records name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// Settings of this kind of source.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
    /// How training photos are varied.
    pub augment: Augment,
    /// Which of a photo's captions.
    pub caption: CaptionChoice,
    /// Which chain of texts.
    pub chain: ChainChoice,
    /// Which boxes, and what they are parts of.
    pub edges: EdgeChoice,
    /// Smaller boxes are not used.
    pub min_box_pixels: u32,
    /// Which photos are accepted.
    pub limits: PixelLimits,
    /// Leave the last, smaller batch of each epoch away.
    pub drop_last: bool,
    /// A run stops when more than this share of the samples was broken.
    pub max_broken_share: f64,
    /// Keep decoded photos in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_pixels: Option<CachePixels>,
    /// Threads that read; 0 is one per core.
    pub workers: usize,
    /// Batches that may be ready or in the making at a time.
    pub prefetch: usize,
}

/// `[tokenizer]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TokenizerConfig {
    /// Byte pairs of CLIP's family, learnt from the captions and phrases of the data.
    Train {
        /// Largest number of tokens.
        vocab_size: usize,
    },
    /// A `tokenizer.json`.
    File {
        /// The file.
        path: PathBuf,
    },
    /// CLIP's own list of merges, `bpe_simple_vocab_16e6.txt.gz`.
    ClipMerges {
        /// The file.
        path: PathBuf,
        /// Number of tokens; absent: CLIP's 49,408.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vocab_size: Option<usize>,
    },
}

/// `[model]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSection {
    /// Start from this checkpoint folder, the newest checkpoint of this run, or this published model (its file, its folder, or its name on
    /// the hub): its towers, projections, tokenizer and pixel statistics take the place of what is said below, and where its space is that
    /// of the method, its head comes along. A published model without a `tokenizer.json` takes the one of `[tokenizer]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
    /// Without `init`: the image encoder comes from this checkpoint of MoCo v2, in the place of `visual`, whose image size it keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_visual: Option<PathBuf>,
    /// With `init`: new projections of dimension `embed_dim` in place of those of the checkpoint, and with them a new head (Wang et al.
    /// project CLIP's features to 128 dimensions).
    pub new_projection: bool,
    /// Dimension D of the embeddings, over all factors.
    pub embed_dim: usize,
    /// The image encoder.
    pub visual: VisualConfig,
    /// The text encoder. Its vocabulary becomes that of the tokenizer.
    pub textual: TextualConfig,
    /// Normalisation of the pixels.
    pub pixels: PixelStatistics,
    /// Compute cheap activations again in the backward pass instead of keeping them.
    pub gradient_checkpointing: bool,
}

/// `[manifold]`: what is absent is the method's own choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ManifoldSection {
    /// A name in [`SPACES`](conifer_space::SPACES).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Number of factors of a product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factors: Option<usize>,
    /// First curvature of each factor; empty: `head.curv` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curv: Vec<f64>,
}

/// `[root]`: what is absent is the method's own choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RootSection {
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RootKind>,
    /// The text of a root that is, or was at first, an embedding. Empty (HierarCaps), or the name of the highest rank (RCME).
    pub text: String,
}

/// `[method]`: a name in [`METHODS`](methods::METHODS) and the settings of that method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MethodSection {
    /// The name.
    pub kind: String,
    /// Its settings, checked by the method.
    #[serde(flatten)]
    pub settings: toml::Table,
}

/// `[optim]`: AdamW and its schedule. Defaults: those of MERU, HyCoCLIP and PHyCLIP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimConfig {
    /// Peak learning rate.
    pub lr: f64,
    /// Decay of the two running means.
    pub betas: [f64; 2],
    /// Added to the root of the second mean.
    pub eps: f64,
    /// Decay of the weights, times the learning rate.
    pub weight_decay: f64,
    /// Learning rate after the warm-up, a name in [`SCHEDULES`](crate::schedule::SCHEDULES).
    pub schedule: String,
    /// Steps of the linear rise at the start.
    pub warmup_steps: u64,
    /// Largest norm over all gradients; 0: no clipping, as published.
    pub clip_norm: f64,
    /// Batches whose gradients are averaged for one step. Each batch contrasts within itself.
    pub accumulate: usize,
    /// As the released code: norms, biases and per-factor scalars are decayed too, and the first step has learning rate 0.
    pub reference: bool,
}

/// `[train]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Updates of the optimiser.
    pub steps: u64,
    /// Samples in a batch.
    pub batch_size: usize,
    /// A record in the logs every so many steps.
    pub log_every: u64,
    /// A checkpoint every so many steps; 0: only at the end or when stopped.
    pub checkpoint_every: u64,
    /// Number of checkpoints that are kept; older ones are removed.
    pub keep: usize,
    /// Parts of the model that stay as they are: visual, textual, visual_proj, textual_proj, head. They cost no optimiser memory.
    pub freeze: Vec<Part>,
    /// Folder of the run.
    pub out: PathBuf,
}

/// `[eval]`: benchmarks on held-out data while the run goes on. This crate says when; the program that watches the run measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvalConfig {
    /// Steps between two evaluations; 0: never.
    pub every: u64,
    /// Names of the benchmarks (`conifer benchmarks`).
    pub benchmarks: Vec<String>,
    /// Kind of source; absent: that of `[data]`, with its path and its options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// File, folder or pattern of shards; absent: that of `[data]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The held-out split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Settings of this kind of source, over those of `[data]` where that is the source.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
    /// File of `parent child` edges, for benchmarks that need a tree of classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
    /// Prompt templates: a named set, or a file.
    pub prompts: String,
    /// How photos are cut.
    pub crop: EvalCrop,
}

impl Config {
    /// The method with its settings.
    ///
    /// # Errors
    /// An unknown method, or a setting that it refuses.
    pub fn method(&self) -> Result<Box<dyn Method>> {
        (methods::entry(&self.method.kind)?.from_config)(&self.method.settings)
    }

    /// The space: what `[manifold]` says, and the method's own choice for what it does not. The list of curvatures stays empty where
    /// the head is to fill it.
    ///
    /// # Errors
    /// An unknown method or kind of space.
    pub fn space(&self) -> Result<ManifoldSpec> {
        let own = (methods::entry(&self.method.kind)?.manifold)(self.model.embed_dim);
        let kind = self.manifold.kind.clone().unwrap_or_else(|| own.kind.clone());
        let factored = conifer_space::entry(&kind)?.factored;
        let factors = match self.manifold.factors {
            Some(factors) => factors,
            None if kind == own.kind => own.factors,
            // The published factors have eight dimensions each (PHyCLIP Sec. 4.1).
            None if factored => (self.model.embed_dim / 8).max(1),
            None => 1,
        };
        Ok(ManifoldSpec { kind, dim: self.model.embed_dim, factors, curv: self.manifold.curv.clone() })
    }

    /// The apex of the cones: what `[root]` says, else the method's own choice.
    ///
    /// # Errors
    /// An unknown method.
    pub fn root_kind(&self) -> Result<RootKind> {
        Ok(self.root.kind.unwrap_or(methods::entry(&self.method.kind)?.root))
    }

    /// The apex of the finished model, where it is no point beside the weights. A method whose own root is the origin looks at no root on a
    /// sphere (CLIP); what its cones would be is left to who measures it.
    ///
    /// # Errors
    /// An unknown method.
    pub fn apex(&self) -> Result<Option<Apex>> {
        let own = methods::entry(&self.method.kind)?.root;
        Ok(match self.root_kind()? {
            RootKind::Text => Some(Apex::Text(self.root.text.clone())),
            RootKind::Origin if own != RootKind::Origin => Some(Apex::Origin),
            _ => None,
        })
    }

    /// The source of the training samples.
    pub fn source(&self) -> SourceSpec {
        SourceSpec {
            kind: self.data.kind.clone(),
            path: self.data.path.clone(),
            split: self.data.split.clone(),
            roots: self.data.roots.clone(),
            options: self.data.options.clone(),
        }
    }

    /// The source of the samples that `[eval]` measures on.
    pub fn eval_source(&self) -> SourceSpec {
        let EvalConfig { kind, path, split, options, .. } = self.eval.clone();
        let mut spec = match &kind {
            Some(kind) => SourceSpec { kind: kind.clone(), roots: self.data.roots.clone(), ..SourceSpec::default() },
            None => self.source(),
        };
        spec.path = path.or(spec.path);
        spec.split = split;
        spec.options.extend(options);
        spec
    }

    /// Settings of the loader for a method that reads `views`.
    pub fn loader(&self, views: &[View]) -> LoaderConfig {
        let data = self.data.clone();
        LoaderConfig {
            views: views.to_vec(),
            batch_size: self.train.batch_size,
            seed: self.seed,
            image_size: self.model.visual.reads().image_size,
            context: self.model.textual.reads().context,
            augment: data.augment,
            caption: data.caption,
            chain: data.chain,
            edges: data.edges,
            min_box_pixels: data.min_box_pixels,
            limits: data.limits,
            drop_last: data.drop_last,
            max_broken_share: data.max_broken_share,
            cache_pixels: data.cache_pixels,
            workers: data.workers,
            prefetch: data.prefetch,
        }
    }

    /// The architecture, with the vocabulary of the tokenizer.
    ///
    /// # Errors
    /// A text encoder that takes no vocabulary.
    pub fn architecture(&self, vocabulary: usize) -> Result<ModelConfig> {
        let textual = self.model.textual.with("vocabulary", vocabulary as i64)?;
        Ok(ModelConfig { visual: self.model.visual.clone(), textual, pixels: self.model.pixels })
    }

    /// The schedule of the learning rate.
    ///
    /// # Errors
    /// An unknown name.
    pub fn schedule(&self) -> Result<Schedule> {
        let OptimConfig { schedule, lr, warmup_steps, reference, .. } = &self.optim;
        Schedule::new(schedule, *lr, *warmup_steps, self.train.steps, *reference)
    }

    /// The same experiment with every choice written out: the space, the settings of the method.
    ///
    /// # Errors
    /// As [`Config::method`] and [`Config::space`].
    pub fn resolve(mut self) -> Result<Self> {
        self.method.settings = (methods::entry(&self.method.kind)?.resolve)(&self.method.settings)?;
        let space = self.space()?;
        self.manifold.kind = Some(space.kind);
        self.manifold.factors = Some(space.factors);
        self.root.kind = Some(self.root_kind()?);
        Ok(self)
    }

    /// Whether every value is in its range and the sections fit together.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the first key that is not, with its value and what is expected.
    pub fn check(&self) -> Result<()> {
        let method = self.method()?;
        let mut space = self.space()?;
        if conifer_space::entry(&space.kind)?.curved && space.curv.is_empty() {
            space.curv = vec![self.head.curv; space.factors];
        }
        space.check()?;
        self.loader(method.views()).check()?;
        self.schedule()?;
        let OptimConfig { lr, betas: [beta1, beta2], eps, weight_decay, clip_norm, accumulate, .. } = self.optim;
        within("optim.lr", lr, |x| x > 0.0, "more than 0")?;
        within("optim.betas[0]", beta1, |x| (0.0..1.0).contains(&x), "0 or more and less than 1")?;
        within("optim.betas[1]", beta2, |x| (0.0..1.0).contains(&x), "0 or more and less than 1")?;
        within("optim.eps", eps, |x| x > 0.0, "more than 0")?;
        within("optim.weight_decay", weight_decay, |x| x >= 0.0, "0 or more")?;
        within("optim.clip_norm", clip_norm, |x| x >= 0.0, "0 (no clipping) or more")?;
        at_least_one("optim.accumulate", accumulate as u64)?;
        at_least_one("model.embed_dim", self.model.embed_dim as u64)?;
        if let (Some(_), Some(visual)) = (&self.model.init, &self.model.init_visual) {
            return Err(Error::setting(
                "model.init_visual",
                visual.display(),
                "none beside model.init, which has an image encoder",
            ));
        }
        if self.model.embed_dim > 1 << 16 {
            return Err(Error::setting("model.embed_dim", self.model.embed_dim, "at most 65536"));
        }
        for (index, &std) in self.model.pixels.std.iter().enumerate() {
            within(&format!("model.pixels.std[{index}]"), f64::from(std), |x| x > 0.0, "more than 0")?;
            within(
                &format!("model.pixels.mean[{index}]"),
                f64::from(self.model.pixels.mean[index]),
                |_| true,
                "a number",
            )?;
        }
        for kind in [Some(&self.data.kind), self.eval.kind.as_ref()].into_iter().flatten() {
            conifer_data::sources::entry(kind)?;
        }
        at_least_one("train.steps", self.train.steps)?;
        at_least_one("train.log_every", self.train.log_every)?;
        at_least_one("train.keep", self.train.keep as u64)?;
        if self.eval.every > 0 && self.eval.benchmarks.is_empty() {
            return Err(Error::setting("eval.benchmarks", "empty", "at least one benchmark where eval.every is not 0"));
        }
        if self.train.batch_size < 2 {
            return Err(Error::setting(
                "train.batch_size",
                self.train.batch_size,
                "at least 2: a contrast needs a negative",
            ));
        }
        if self.optim.warmup_steps > self.train.steps {
            let steps = self.train.steps;
            let expected = format!("at most train.steps = {steps}, such as --set optim.warmup_steps={}", steps / 10);
            return Err(Error::setting("optim.warmup_steps", self.optim.warmup_steps, expected));
        }
        Ok(())
    }

    /// Whether there are enough samples for the settings, before anything is built or read.
    ///
    /// # Errors
    /// [`Error::Setting`] that says what would do.
    pub fn check_samples(&self, samples: usize) -> Result<()> {
        let batch = self.train.batch_size;
        if !self.data.drop_last || batch <= samples {
            return Ok(());
        }
        let expected = match samples {
            0 | 1 => "data of two samples or more".to_owned(),
            _ => {
                // A power of two, as batches usually are.
                let fitting = 1_usize << samples.ilog2();
                format!("at most {samples}, the number of samples, such as --set train.batch_size={fitting}")
            }
        };
        Err(Error::setting("train.batch_size", batch, expected))
    }

    /// The same experiment shrunk to run in seconds on the toy world: does it work at all? Method, space, head and optimiser keep their
    /// kinds and settings; the towers, the data and the number of steps are the smallest that make sense.
    ///
    /// # Errors
    /// None for a config that was checked.
    pub fn smoke(mut self) -> Result<Self> {
        let visual = VisualConfig::preset("vit_nano")?.with("image_size", 32)?.with("depth", 2)?;
        let textual = TextualConfig::preset("text_nano")?.with("context", 24)?.with("depth", 2)?;
        let factors = self.space()?.factors.min(4);
        let steps = self.train.steps.min(20);
        self.model = ModelSection {
            init: None,
            init_visual: None,
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
            // Only what lives has a taxon there.
            max_broken_share: 1.0,
            ..self.data
        };
        self.optim.warmup_steps = self.optim.warmup_steps.min(steps / 5);
        self.train = TrainConfig {
            steps,
            batch_size: self.train.batch_size.min(8),
            log_every: 1,
            checkpoint_every: 10,
            ..self.train
        };
        self.eval.every = 0;
        self.check()?;
        Ok(self)
    }
}

fn within(key: &str, found: f64, accept: impl Fn(f64) -> bool, expected: &str) -> Result<()> {
    if found.is_finite() && accept(found) {
        return Ok(());
    }
    Err(Error::setting(key, found, expected))
}

fn at_least_one(key: &str, found: u64) -> Result<()> {
    if found >= 1 { Ok(()) } else { Err(Error::setting(key, found, "at least 1")) }
}
