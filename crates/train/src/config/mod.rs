//! The configuration of an experiment: one TOML file for the data, the model, the objective, the optimiser and the run.
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
//! Every section has defaults, and unknown keys are rejected. [`Config::resolve`] writes out all defaults before the
//! config is stored beside the result. [`schema()`] lists the keys.
//!
//! Some values are set in one place and derived everywhere else: the image encoder sets the image size, the text
//! encoder the context length, the tokenizer the vocabulary size, and the method the views.

mod adaptation;
mod batch_size;
mod defaults;
mod features;
mod key_list;
mod load;
mod smoke;
#[cfg(test)]
mod tests;
mod vectors;

use std::collections::BTreeMap;
use std::path::PathBuf;

use conifer_data::loader::{DataConfig, LoaderConfig};
use conifer_data::transform::EvalCrop;
use conifer_data::{SourceSpec, View};
use conifer_geometry::{ManifoldKind, ManifoldSpec};
use conifer_model::adapter::AdapterConfig;
use conifer_model::apex::Apex;
use conifer_model::encoders::{TextualConfig, VisualConfig};
use conifer_model::head::HeadConfig;
use conifer_model::lora::LoraConfig;
use conifer_model::model::{ModelConfig, ModelPart, PixelStatistics};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use key_list::{KeyRow, schema};

use crate::error::{Error, Result};
use crate::methods::{self, Method};
use crate::root::RootKind;
use crate::schedule::Schedule;
use crate::unfreeze::UnfreezeConfig;

/// The configuration of one experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Seed of the initial weights, the data order and the augmentation.
    pub seed: u64,
    /// Follow the released code where it differs from the papers. Default of `method.reference`, `head.reference` and
    /// `optim.reference`; read only when a file is loaded.
    pub reference: bool,
    /// Source of the samples, and how they are batched.
    pub data: DataConfig,
    /// Where the tokenizer comes from.
    pub tokenizer: TokenizerConfig,
    /// The two towers, their adapters and their projections.
    pub model: ModelSection,
    /// The space of the embeddings.
    pub manifold: ManifoldSection,
    /// The root of the cones.
    pub root: RootSection,
    /// Curvature, feature scales and temperature.
    pub head: HeadConfig,
    /// The objective, called method.
    pub method: MethodSection,
    /// The optimiser and its schedule.
    pub optim: OptimConfig,
    /// Length, batches, checkpoints and folder of the run.
    pub train: TrainConfig,
    /// Evaluation during training.
    pub eval: EvalConfig,
}

/// The section `[tokenizer]`: where the tokenizer comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TokenizerConfig {
    /// Byte-pair encoding as in CLIP, trained on the captions and phrases of the data.
    Train {
        /// For `train`: largest number of tokens, at least 514.
        vocab_size: usize,
    },
    /// A `tokenizer.json` in the format of Hugging Face.
    File {
        /// For `file`: path of the `tokenizer.json`.
        path: PathBuf,
    },
    /// CLIP's own list of merges, `bpe_simple_vocab_16e6.txt.gz`.
    ClipMerges {
        /// For `clip_merges`: path of `bpe_simple_vocab_16e6.txt.gz`.
        path: PathBuf,
        /// For `clip_merges`: number of tokens, at least 514; default: CLIP's 49,408.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vocab_size: Option<usize>,
    },
}

/// The section `[model]`: the two encoders and the layers between them and the space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSection {
    /// Start from this checkpoint folder, the newest checkpoint of this run, or this published model (its file, its
    /// folder, or its name on the hub). The towers, projections, tokenizer and pixel statistics of the checkpoint
    /// replace the settings below. Its head is used too if its space has the kind and the number of factors that
    /// `[manifold]` selects. For a published model without a `tokenizer.json`, `[tokenizer]` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
    /// Only without `init`: take the image encoder and its pixel statistics from here instead of `visual`: a file, a
    /// folder or a name on the hub (`conifer encoders --long` lists the formats), or a whole model. The key in a config
    /// file is `model.visual.init`. A MoCo checkpoint is used at the image size of `visual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_visual: Option<PathBuf>,
    /// Only with `init_visual`: side of the square photos, in pixels, if it differs from that of the encoder. Only
    /// convolutional encoders (EfficientNet, ResNet, ConvNeXt) read another size. The key in a config file is
    /// `model.visual.image_size`, next to `model.visual.init`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_image_size: Option<usize>,
    /// Only without `init`: take the text encoder and its tokenizer from here instead of `textual` and `[tokenizer]`: a
    /// folder or a name on the hub. The key in a config file is `model.textual.init`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_textual: Option<PathBuf>,
    /// With `init`: replace the checkpoint's projections and head by new ones of dimension `embed_dim` (Wang et al.
    /// project CLIP's features to 128 dimensions).
    pub new_projection: bool,
    /// Dimension D of the embeddings, over all factors, 1 to 65,536.
    pub embed_dim: usize,
    /// The image encoder. If it is absent and `[data]` has vectors of photos, the tower reads these.
    #[schemars(skip)]
    pub visual: VisualConfig,
    /// The text encoder. Its vocabulary size is set to that of the tokenizer. If it is absent and `[data]` has vectors
    /// of texts, the tower reads these.
    #[schemars(skip)]
    pub textual: TextualConfig,
    /// Statistics that normalise the pixels.
    pub pixels: PixelStatistics,
    /// Crop of photos in an evaluation and for stored features; absent: the crop in the image encoder's checkpoint, or
    /// else the centre crop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<EvalCrop>,
    /// Network between the image encoder and its projection; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visual_adapter: Option<AdapterConfig>,
    /// Network between the text encoder and its projection; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub textual_adapter: Option<AdapterConfig>,
    /// Low-rank updates of the image encoder; its other parameters are then frozen. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visual_lora: Option<LoraConfig>,
    /// Low-rank updates of the text encoder; its other parameters are then frozen. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub textual_lora: Option<LoraConfig>,
    /// Recompute cheap activations in the backward pass instead of storing them: a step of ViT-S needs a sixth (batch
    /// 8) to a fifth (batch 32) less memory and about a tenth more time, with the same results.
    pub gradient_checkpointing: bool,
}

/// `[manifold]`: absent keys take the method's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ManifoldSection {
    /// Kind of space: sphere, euclidean, lorentz, product_l1 or product_l2; absent: the method's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub kind: Option<ManifoldKind>,
    /// Number of factors of a product, a divisor of `model.embed_dim`; absent: the method's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factors: Option<usize>,
    /// Initial curvature of each factor, in `head.curv_range`; empty: `head.curv` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curv: Vec<f64>,
}

/// The section `[root]`: the root of the cones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RootSection {
    /// Source of the root of the cones; absent: the method's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RootKind>,
    /// Text of a root that is, or is initialised as, a text embedding: empty (HierarCaps), or the name of the highest
    /// rank (RCME).
    pub text: String,
}

/// `[method]`: a name in [`METHODS`](methods::METHODS) and the settings of that method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MethodSection {
    /// Name of the method (`conifer methods` lists them). Its settings are keys of the same table.
    pub kind: String,
    /// Settings of the method, which checks them.
    #[serde(flatten)]
    #[schemars(skip)]
    pub settings: toml::Table,
}

/// `[optim]`: AdamW and its schedule. The defaults are those of MERU, HyCoCLIP and PHyCLIP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OptimConfig {
    /// Peak learning rate, more than 0.
    pub lr: f64,
    /// Decay rates of AdamW's two running means, 0 or more and less than 1. The schedule `one_cycle` replaces the first
    /// one in every step.
    pub betas: [f64; 2],
    /// Epsilon, added to the square root of the second mean; more than 0.
    pub eps: f64,
    /// Weight decay, multiplied by the learning rate; 0 or more.
    pub weight_decay: f64,
    /// Learning rate after the warm-up: cosine, linear, one_cycle or constant.
    pub schedule: String,
    /// Length of the linear warm-up, in steps, at most `train.steps`. Default: 4000, or a tenth of a run of fewer than
    /// 4000 steps.
    pub warmup_steps: u64,
    /// Gradient clipping: maximum norm over all gradients together. 0 (as published): no clipping.
    pub clip_norm: f64,
    /// Factor on the learning rate of both encoders, more than 0.
    pub tower_lr_factor: f64,
    /// Factor on the learning rate from each layer of an encoder to the one before it, more than 0, at most 1; 1: none.
    /// Layer l of an encoder with L blocks has `layer_decay^(L + 1 - l)` times the learning rate of the encoder
    /// (ELECTRA, Clark et al., ICLR 2020; BEiT, Bao et al., ICLR 2022).
    pub layer_decay: f64,
    /// Number of batches whose gradients are averaged per step, at least 1. Each batch has its own loss: negatives are
    /// samples of the same batch. `train.micro_batch` instead keeps one loss over a batch that exceeds the memory.
    pub accumulate: usize,
    /// Follow the released code: norms, biases and per-factor scalars are decayed too, and the first step has learning
    /// rate 0.
    pub reference: bool,
}

/// The section `[train]`: length, batches, memory, logs and checkpoints of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Number of optimiser updates, at least 1.
    pub steps: u64,
    /// Samples in a batch, at least 2. The loss compares all of them.
    pub batch_size: usize,
    /// Largest number of rows (photos, boxes or texts) in one call of an encoder, 1 to `batch_size`. A batch with more
    /// rows is embedded twice: without gradients for the loss, which still compares the whole batch, and again, one
    /// micro-batch after the other, for the gradients (GradCache, Gao et al., arXiv 2101.06983). The results are the
    /// same up to rounding. A step needs the memory of one micro-batch and one more forward pass. Absent: one call for
    /// each view of the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<usize>,
    /// The rows of the loss that each process of an MPI job computes (docs/scale.md): `all`, or `own`, its part of
    /// them. The results are the same up to rounding. With `own`, the contrastive tables of B samples on n processes
    /// have `B^2 / n` numbers instead of `B^2`, but gradients of the points are exchanged, too.
    pub loss_rows: LossRows,
    /// Decay d of a moving average of the weights, 0 or more and less than 1, such as 0.9999; absent: no average. After
    /// update t, the average is `d' average + (1 - d') weights` with `d' = min(d, (1 + t) / (10 + t))`. Evaluations and
    /// checkpoints use the average (`weights.safetensors`); training continues from `trained.safetensors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ema: Option<f64>,
    /// Steps between two log records, at least 1.
    pub log_every: u64,
    /// Steps between two checkpoints; 0: only at the end or when stopped.
    pub checkpoint_every: u64,
    /// Number of checkpoints to keep, at least 1; older ones are removed.
    pub keep: usize,
    /// Parts of the model that are not trained. They need no optimiser memory.
    pub freeze: Vec<ModelPart>,
    /// Gradual unfreezing of encoders; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfreeze: Option<UnfreezeConfig>,
    /// Encode each photo, box and text once and train on the stored features, for the towers in `freeze`. Absent: true
    /// if a frozen tower comes from `model.visual.init` or `model.textual.init`, or is an ONNX model. Always true if a
    /// tower reads vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<bool>,
    /// Folder of the stored features, as `conifer features --out` writes it. It must not hold features of another
    /// encoder. Absent: `features` in the user's cache folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_store: Option<PathBuf>,
    /// Folder of the run.
    pub out: PathBuf,
}

/// The rows of the loss that a process computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossRows {
    /// All rows: every process computes the loss of the whole batch.
    #[default]
    All,
    /// The process's own part of the rows, against all candidates.
    Own,
}

/// `[eval]`: benchmarks on held-out data during training. The trainer schedules them; its
/// [`Observer`](crate::trainer::Observer) runs them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalConfig {
    /// Steps between two evaluations; 0: never.
    pub every: u64,
    /// Names of the benchmarks (`conifer benchmarks` lists them).
    pub benchmarks: Vec<String>,
    /// Kind of source; default: the kind in `[data]`, with its path and its options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// File, folder or shard pattern; default: the path in `[data]` if `kind` is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Name of the held-out split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Options of this kind of source. If `kind` is absent, they override the options in `[data]`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
    /// File of `parent child` edges, for benchmarks that need a tree of classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
    /// Prompt templates: a named set (`conifer eval`), or a file.
    pub prompts: String,
    /// Crop of the photos; absent: the crop of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<EvalCrop>,
}

impl Config {
    /// Builds the method from its settings.
    ///
    /// # Errors
    /// If the method is unknown, or rejects a setting.
    pub fn method(&self) -> Result<Box<dyn Method>> {
        (methods::entry(&self.method.kind)?.from_config)(&self.method.settings)
    }

    /// The space: `[manifold]`, with the method's defaults for absent keys. If `[manifold]` lists no curvatures, the
    /// list stays empty, and [`Head::new`](conifer_model::head::Head::new) fills it.
    ///
    /// # Errors
    /// If the method or the kind of space is unknown.
    pub fn space(&self) -> Result<ManifoldSpec> {
        let own = (methods::entry(&self.method.kind)?.manifold)(self.model.embed_dim);
        let kind = self.manifold.kind.clone().unwrap_or_else(|| own.kind.clone());
        let factored = conifer_geometry::entry(kind.name())?.factored;
        let factors = match self.manifold.factors {
            Some(factors) => factors,
            None if kind == own.kind => own.factors,
            // The published factors have eight dimensions each (PHyCLIP Sec. 4.1).
            None if factored => (self.model.embed_dim / 8).max(1),
            None => 1,
        };
        Ok(ManifoldSpec { kind, dim: self.model.embed_dim, factors, curv: self.manifold.curv.clone() })
    }

    /// Kind of the root: `[root]`, else the method's default.
    ///
    /// # Errors
    /// If the method is unknown.
    pub fn root_kind(&self) -> Result<RootKind> {
        Ok(self.root.kind.unwrap_or(methods::entry(&self.method.kind)?.root))
    }

    /// The root of the finished model, for its manifest. `None` if the root is a point that is stored beside the
    /// weights. Also `None` if the root is the origin by the default of the method, as for CLIP, which trains without a
    /// root on a sphere. The evaluation then chooses a root.
    ///
    /// # Errors
    /// If the method is unknown.
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

    /// The source of the samples for `[eval]`.
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

    /// The loader settings for a method that reads `views`.
    pub fn loader(&self, views: &[View]) -> LoaderConfig {
        LoaderConfig {
            views: views.to_vec(),
            batch_size: self.train.batch_size,
            seed: self.seed,
            image_size: self.model.visual.reads().image_size,
            context: self.model.textual.reads().context,
            data: self.data.clone(),
        }
    }

    /// The architecture of the model, with `vocabulary` tokens in the text encoder.
    ///
    /// # Errors
    /// If the text encoder has no vocabulary setting.
    pub fn architecture(&self, vocabulary: usize) -> Result<ModelConfig> {
        let textual = match self.model.textual.vector_width() {
            Some(_) => self.model.textual.clone(),
            None => self.model.textual.with("vocabulary", vocabulary as i64)?,
        };
        Ok(ModelConfig {
            visual: self.model.visual.clone(),
            textual,
            pixels: self.model.pixels,
            visual_adapter: self.model.visual_adapter.clone(),
            textual_adapter: self.model.textual_adapter.clone(),
            visual_lora: self.model.visual_lora.clone(),
            textual_lora: self.model.textual_lora.clone(),
        })
    }

    /// The learning-rate schedule.
    ///
    /// # Errors
    /// If its name is unknown.
    pub fn schedule(&self) -> Result<Schedule> {
        let OptimConfig { schedule, lr, warmup_steps, reference, .. } = &self.optim;
        Schedule::new(schedule, *lr, *warmup_steps, self.train.steps, *reference)
    }

    /// Writes out every default: the space, the root, the settings of the method, and towers for data of vectors.
    ///
    /// # Errors
    /// The errors of [`Config::method`] and [`Config::space`].
    pub fn resolve(mut self) -> Result<Self> {
        self.method.settings = (methods::entry(&self.method.kind)?.resolve)(&self.method.settings)?;
        if self.head.temperatures.is_empty() {
            self.head.temperatures = self.method()?.temperatures().to_vec();
        }
        let space = self.space()?;
        self.manifold.kind = Some(space.kind);
        self.manifold.factors = Some(space.factors);
        self.root.kind = Some(self.root_kind()?);
        self.resolve_vectors();
        self.train.features = Some(self.uses_features());
        Ok(self)
    }

    /// Checks that every value is in its range and that the sections are consistent.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first invalid key, with its value and what was expected.
    pub fn check(&self) -> Result<()> {
        let method = self.method()?;
        if !self.head.temperatures.is_empty() && method.temperatures().is_empty() {
            let expected = format!(
                "no value, because {} has one temperature (a checkpoint that stores three needs model.new_projection = true)",
                method.name()
            );
            return Err(Error::invalid("head.temperatures", format!("{:?}", self.head.temperatures), expected));
        }
        let mut space = self.space()?;
        if conifer_geometry::entry(space.kind.name())?.curved && space.curv.is_empty() {
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
        let towers = [("visual", "an image", &self.model.init_visual), ("textual", "a text", &self.model.init_textual)];
        for (tower, what, path) in towers {
            if let (Some(_), Some(path)) = (&self.model.init, path) {
                let expected = format!("no value, because model.init already provides {what} encoder");
                return Err(Error::invalid(format!("model.{tower}.init"), path.display(), expected));
            }
        }
        if let (None, Some(size)) = (&self.model.init_visual, self.model.init_image_size) {
            return Err(Error::invalid("model.init_image_size", size, "no value without model.visual.init"));
        }
        self.check_adaptation()?;
        self.check_onnx()?;
        self.check_features()?;
        if self.model.embed_dim > 1 << 16 {
            return Err(Error::invalid("model.embed_dim", self.model.embed_dim, "at most 65536"));
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
            conifer_datasets::sources::entry(kind)?;
        }
        at_least_one("train.steps", self.train.steps)?;
        at_least_one("train.log_every", self.train.log_every)?;
        at_least_one("train.keep", self.train.keep as u64)?;
        if self.eval.every > 0 && self.eval.benchmarks.is_empty() {
            return Err(Error::invalid("eval.benchmarks", "empty", "at least one benchmark if eval.every is not 0"));
        }
        if self.train.batch_size < 2 {
            return Err(Error::invalid(
                "train.batch_size",
                self.train.batch_size,
                "at least 2, because a contrastive loss needs a negative",
            ));
        }
        self.check_micro_batch()?;
        if let Some(ema) = self.train.ema {
            within(
                "train.ema",
                ema,
                |x| (0.0..1.0).contains(&x),
                "0 or more and less than 1, or no value: no average",
            )?;
        }
        if self.optim.warmup_steps > self.train.steps {
            let steps = self.train.steps;
            let expected = format!("at most train.steps = {steps}, such as --set optim.warmup_steps={}", steps / 10);
            return Err(Error::invalid("optim.warmup_steps", self.optim.warmup_steps, expected));
        }
        Ok(())
    }
}

fn within(key: &str, found: f64, accept: impl Fn(f64) -> bool, expected: &str) -> Result<()> {
    if found.is_finite() && accept(found) {
        return Ok(());
    }
    Err(Error::invalid(key, found, expected))
}

fn at_least_one(key: &str, found: u64) -> Result<()> {
    if found >= 1 { Ok(()) } else { Err(Error::invalid(key, found, "at least 1")) }
}
