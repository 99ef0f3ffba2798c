//! The stages from captions to hierarchies. Each writes a file in the work folder; the first one reads the data, the
//! others the files of earlier stages. A finished stage is repeated only if its input or its settings changed, or if
//! the endpoint did not answer for some of its texts.

mod by_generator;
pub(crate) mod captions;
mod cause;
mod complete;
mod distil;
mod estimate;
mod grow;
mod negative_tiers;
pub(crate) mod output;
mod review;
mod row_stage;
mod rows;
mod seeds;
mod stage;
mod statistics;
pub(crate) mod work_folder;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use conifer_data::Source;

pub use cause::DropCause;
pub use estimate::PromptEstimate;
pub use output::{OutputFormat, write_output};
pub use review::{Decision, ReviewRow, read_review};
pub use rows::{CaptionRow, HierarchyRow, RowProvenance};
pub use seeds::read_seeds;
pub use stage::{CauseCount, PhraseCount, Stage, StageKind, StageReport};
pub use statistics::{PUBLISHED_WORDS, TierLengths};
pub use work_folder::WorkFolder;

use crate::distil::{Distiller, TierGenerator};
use crate::entailment::{Entailment, RuleEntailment};
use crate::hypernyms::Hypernyms;
use crate::llm::LlmClient;
use crate::tagger::Tagger;
use crate::{Error, Result, RuleCompleter, RuleNegatives};

/// Number of tiers of a hierarchy.
pub const TIERS: usize = 4;
/// Maximum number of words of a caption. Longer texts are usually not captions.
pub const MAX_WORDS: usize = 100;

/// Settings of a run.
pub struct PipelineSettings {
    /// Folder for the files of the stages.
    pub work: PathBuf,
    /// Seed of all random choices.
    pub seed: u64,
    /// Minimum number of words of a caption; 10 in HierarCaps.
    pub min_words: usize,
    /// Maximum number of hypernym steps from the subject to the first tier.
    pub hypernym_steps: usize,
    /// Also keep captions that do not look English, marked in their row.
    pub keep_other_languages: bool,
    /// Hierarchies that replace those of the seeds stage.
    pub seed_hierarchies: Option<Vec<[String; TIERS]>>,
    /// Maximum number of captions that the seeds stage reads; 5,000 in HierarCaps.
    pub seed_captions: usize,
    /// Number of hierarchies that the grow stage makes; 10,000 in HierarCaps.
    pub grow_count: usize,
    /// Maximum number of candidates of a model for each caption; 64 in HierarCaps.
    pub candidates: u32,
    /// Decisions of a person on rows of an earlier run.
    pub review: Vec<ReviewRow>,
}

/// Models of a run. Rules do the work of those that are missing.
#[derive(Default)]
pub struct PipelineModels {
    /// Language model that makes hierarchies from instructions and lists, and all tiers if there is no smaller model.
    pub llm: Option<LlmClient>,
    /// Fine-tunes a smaller model, which then makes all tiers.
    pub distiller: Option<Box<dyn Distiller>>,
    /// A smaller model that is already fine-tuned.
    pub generator: Option<Box<dyn TierGenerator>>,
    /// Judge of entailment.
    pub judge: Option<Box<dyn Entailment>>,
}

/// Runs the stages.
pub struct Pipeline<'a> {
    settings: PipelineSettings,
    tagger: Arc<Tagger>,
    nouns: Arc<Hypernyms>,
    rule_judge: RuleEntailment,
    models: PipelineModels,
    /// The model that the distil stage wrote, once it is opened.
    distilled: OnceLock<Box<dyn TierGenerator>>,
    stop: &'a AtomicBool,
}

impl<'a> Pipeline<'a> {
    /// A pipeline that completes captions with `models`, or by rules without any. It stops between two chunks of rows
    /// when `stop` is set.
    pub fn new(settings: PipelineSettings, nouns: Hypernyms, models: PipelineModels, stop: &'a AtomicBool) -> Self {
        let nouns = Arc::new(nouns);
        let tagger = Arc::new(Tagger::new(Arc::clone(&nouns)));
        let rule_judge = RuleEntailment::new(Arc::clone(&tagger), Arc::clone(&nouns));
        Self { settings, tagger, nouns, rule_judge, models, distilled: OnceLock::new(), stop }
    }

    /// The stages of a complete run, in order. The grow stage needs a language model, and the seeds stage one or given
    /// hierarchies for the distil stage.
    pub fn stages(&self) -> Vec<Stage> {
        let (llm, distil) = (self.models.llm.is_some(), self.models.distiller.is_some());
        let runs = |stage: &Stage| match stage {
            Stage::Captions | Stage::Complete | Stage::Negatives => true,
            Stage::Seeds => llm || distil,
            Stage::Grow => llm,
            Stage::Distil => distil,
        };
        Stage::ALL.iter().copied().filter(runs).collect()
    }

    /// Runs one stage, unless its file (for the distil stage also the model) is there, its inputs are unchanged and no
    /// answer of the endpoint is missing.
    ///
    /// # Errors
    /// A file cannot be read or written, an earlier stage has not run, the seeds or grow stage has no language model (or
    /// given seeds), a model fails, the endpoint does not answer, or the user stops.
    pub fn run(&self, stage: Stage, source: &dyn Source) -> Result<StageReport> {
        let mut work = WorkFolder::open(&self.settings.work)?;
        let given = stage == Stage::Seeds && self.settings.seed_hierarchies.is_some();
        if matches!(stage, Stage::Seeds | Stage::Grow) && self.models.llm.is_none() && !given {
            let (found, expected) = match self.models.distiller {
                Some(_) => ("no hierarchies to learn from", "--seeds FILE, or --llm URL to make some"),
                None => ("no language model", "--llm URL; the rules need no seeds"),
            };
            return Err(Error::invalid(format!("--stage {}", stage.name()), found, expected));
        }
        let key = self.key(stage, source, &work)?;
        let model_is_gone = stage == Stage::Distil && !work.join(distil::FOLDER).is_dir();
        if let Some(report) = work.finished(stage, &key).filter(|_| !model_is_gone) {
            return Ok(report);
        }
        let started = std::time::Instant::now();
        let mut report = match stage {
            Stage::Captions => captions::run(self, source, &work)?,
            Stage::Seeds => seeds::run(self, &work)?,
            Stage::Grow => grow::run(self, &work)?,
            Stage::Distil => distil::run(self, &work)?,
            Stage::Complete => complete::run(self, &work)?,
            Stage::Negatives => negative_tiers::run(self, &work)?,
        };
        report.seconds = started.elapsed().as_secs_f64();
        work.finish(stage, key, &report)?;
        Ok(report)
    }

    /// The work folder.
    pub fn work(&self) -> &std::path::Path {
        &self.settings.work
    }

    /// The language model, if there is one.
    pub fn llm(&self) -> Option<&LlmClient> {
        self.models.llm.as_ref()
    }

    /// The judge of entailment.
    pub(crate) fn judge(&self) -> &dyn Entailment {
        self.models.judge.as_deref().unwrap_or(&self.rule_judge)
    }

    /// The language model, if it makes the tiers of captions.
    fn completing_llm(&self) -> Option<&LlmClient> {
        let smaller = self.models.distiller.is_some() || self.models.generator.is_some();
        self.models.llm.as_ref().filter(|_| !smaller)
    }

    /// The smaller model, if it makes the tiers of captions. Opens the one that the distil stage wrote.
    fn generator(&self, work: &WorkFolder) -> Result<Option<&dyn TierGenerator>> {
        if let Some(generator) = &self.models.generator {
            return Ok(Some(generator.as_ref()));
        }
        let Some(distiller) = &self.models.distiller else { return Ok(None) };
        if self.distilled.get().is_none() {
            // Only one stage runs at a time, so no other model was set in between.
            _ = self.distilled.set(distiller.open(&work.join(distil::FOLDER))?);
        }
        Ok(self.distilled.get().map(|it| it.as_ref()))
    }

    /// The stage whose hierarchies the distil stage reads.
    fn hierarchies_of_distil(&self) -> Stage {
        if self.models.llm.is_some() { Stage::Grow } else { Stage::Seeds }
    }

    /// Name of the language model, or `rules`, for reports and provenance.
    fn maker(&self) -> String {
        match &self.models.llm {
            Some(llm) => llm.model().to_owned(),
            None => "rules".to_owned(),
        }
    }

    fn completer(&self) -> RuleCompleter {
        RuleCompleter::new(Arc::clone(&self.tagger), Arc::clone(&self.nouns), self.settings.hypernym_steps)
    }

    fn rule_negatives(&self) -> RuleNegatives {
        RuleNegatives::new(Arc::clone(&self.tagger), Arc::clone(&self.nouns))
    }

    /// SHA-256 of all inputs and settings that determine the file of a stage.
    fn key(&self, stage: Stage, source: &dyn Source, work: &WorkFolder) -> Result<String> {
        let PipelineSettings { seed, min_words, hypernym_steps, seed_captions, grow_count, candidates, .. } =
            self.settings;
        let model = self.models.llm.as_ref().map(LlmClient::identity);
        let judge = self.judge().identity();
        // The model that makes the tiers of captions; a distilled one is determined by the key of its stage.
        let completer = match &self.models.generator {
            Some(generator) => Some(generator.identity()),
            None => self.completing_llm().map(LlmClient::identity),
        };
        let settings = match stage {
            Stage::Captions => {
                let foreign = self.settings.keep_other_languages;
                format!("{} {min_words} {foreign}", source.fingerprint())
            }
            Stage::Seeds => match &self.settings.seed_hierarchies {
                Some(given) => serde_json::to_string(given).unwrap_or_default(),
                None => format!("{model:?} {judge} {seed_captions} {seed}"),
            },
            Stage::Grow => format!("{model:?} {grow_count} {seed}"),
            Stage::Distil => {
                let distiller = self.models.distiller.as_ref().map(|it| it.identity());
                format!("{distiller:?} {seed}")
            }
            Stage::Complete => {
                let review = serde_json::to_string(&self.settings.review).unwrap_or_default();
                format!("{completer:?} {judge} {hypernym_steps} {candidates} {seed} {review}")
            }
            Stage::Negatives => format!("{completer:?} {judge} {seed}"),
        };
        let mut parts = vec![env!("CARGO_PKG_VERSION").to_owned(), stage.name().to_owned(), settings];
        for before in self.inputs(stage) {
            parts.push(work.key(before).ok_or_else(|| {
                let place = format!("--stage {}", stage.name());
                let found = format!("stage {} has not run in `{}`", before.name(), self.settings.work.display());
                Error::invalid(place, found, format!("`--stage {}` first, or no --stage", before.name()))
            })?);
        }
        Ok(work_folder::hash(&parts))
    }

    fn inputs(&self, stage: Stage) -> Vec<Stage> {
        match stage {
            Stage::Captions => vec![],
            Stage::Seeds => vec![Stage::Captions],
            Stage::Grow => vec![Stage::Seeds],
            Stage::Distil => vec![self.hierarchies_of_distil()],
            Stage::Complete if self.models.distiller.is_some() => vec![Stage::Captions, Stage::Distil],
            Stage::Complete if self.completing_llm().is_some() => vec![Stage::Captions, Stage::Grow],
            Stage::Complete => vec![Stage::Captions],
            Stage::Negatives if self.models.distiller.is_some() => vec![Stage::Complete, Stage::Distil],
            Stage::Negatives if self.completing_llm().is_some() => vec![Stage::Complete, Stage::Grow],
            Stage::Negatives => vec![Stage::Complete],
        }
    }
}
