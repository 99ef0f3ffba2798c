//! The stages from captions to hierarchies. Each writes a file in the work folder; the first one reads the data, the
//! others the files of earlier stages. A finished stage is repeated only if its input or its settings changed, or if
//! the endpoint did not answer for some of its texts.

pub(crate) mod captions;
mod cause;
mod complete;
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
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use conifer_data::Source;

pub use cause::Cause;
pub use estimate::PromptEstimate;
pub use output::{OutputFormat, write_output};
pub use review::{Decision, ReviewRow, read_review};
pub use rows::{CaptionRow, HierarchyRow, Provenance};
pub use seeds::read_seeds;
pub use stage::{CauseCount, Stage, StageKind, StageReport};
pub use statistics::{PUBLISHED_WORDS, TierLengths};
pub use work_folder::WorkFolder;

use crate::entailment::RuleEntailment;
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

/// Runs the stages.
pub struct Pipeline<'a> {
    settings: PipelineSettings,
    tagger: Arc<Tagger>,
    nouns: Arc<Hypernyms>,
    judge: RuleEntailment,
    /// Language model that makes the tiers instead of the rules.
    llm: Option<LlmClient>,
    stop: &'a AtomicBool,
}

impl<'a> Pipeline<'a> {
    /// A pipeline that completes captions with `llm`, or by rules without one. It stops between two chunks of rows
    /// when `stop` is set.
    pub fn new(settings: PipelineSettings, nouns: Hypernyms, llm: Option<LlmClient>, stop: &'a AtomicBool) -> Self {
        let nouns = Arc::new(nouns);
        let tagger = Arc::new(Tagger::new(Arc::clone(&nouns)));
        let judge = RuleEntailment::new(Arc::clone(&tagger), Arc::clone(&nouns));
        Self { settings, tagger, nouns, judge, llm, stop }
    }

    /// The stages of a complete run, in order. The seeds and grow stages need a language model.
    pub fn stages(&self) -> Vec<Stage> {
        let with_model = [Stage::Seeds, Stage::Grow];
        let all = Stage::ALL.iter().filter(|stage| self.llm.is_some() || !with_model.contains(stage));
        all.copied().collect()
    }

    /// Runs one stage, unless its file is there, its inputs are unchanged and no answer of the endpoint is missing.
    ///
    /// # Errors
    /// A file cannot be read or written, an earlier stage has not run, the seeds or grow stage has no language model,
    /// the endpoint does not answer, or the user stops.
    pub fn run(&self, stage: Stage, source: &dyn Source) -> Result<StageReport> {
        let mut work = WorkFolder::open(&self.settings.work)?;
        if matches!(stage, Stage::Seeds | Stage::Grow) && self.llm.is_none() {
            return Err(Error::invalid(
                format!("--stage {}", stage.name()),
                "no language model",
                "--llm URL; the rules need no seeds",
            ));
        }
        let key = self.key(stage, source, &work)?;
        if let Some(report) = work.finished(stage, &key) {
            return Ok(report);
        }
        let started = std::time::Instant::now();
        let mut report = match stage {
            Stage::Captions => captions::run(self, source, &work)?,
            Stage::Seeds => seeds::run(self, &work)?,
            Stage::Grow => grow::run(self, &work)?,
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

    /// The language model; `None` if the rules make the tiers.
    pub fn llm(&self) -> Option<&LlmClient> {
        self.llm.as_ref()
    }

    /// Name of the model, or `rules`, for reports and provenance.
    fn maker(&self) -> String {
        match &self.llm {
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
        let model = self.llm.as_ref().map(LlmClient::identity);
        let judge = crate::entailment::Entailment::name(&self.judge);
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
            Stage::Complete => {
                let review = serde_json::to_string(&self.settings.review).unwrap_or_default();
                format!("{model:?} {judge} {hypernym_steps} {candidates} {seed} {review}")
            }
            Stage::Negatives => format!("{model:?} {judge} {seed}"),
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
            Stage::Complete if self.llm.is_some() => vec![Stage::Captions, Stage::Grow],
            Stage::Complete => vec![Stage::Captions],
            Stage::Negatives if self.llm.is_some() => vec![Stage::Complete, Stage::Grow],
            Stage::Negatives => vec![Stage::Complete],
        }
    }
}
