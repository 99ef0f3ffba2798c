use conifer_data::Source;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cache::SuiteEmbeddingCache;
use super::{Suite, SuiteCrop, SuiteTask};
use crate::benchmarks::{find, prompts};
use crate::{Context, EmbeddingModel, Error, Options, Record, Result, Score, TreeFile, measure};

/// Provides data sets and prompts.
pub trait DataSetFinder {
    /// Looks up a data set by name.
    ///
    /// # Errors
    /// The data set is present but cannot be opened, or its name is unknown.
    fn data_set(&self, name: &str) -> Result<DataSetLookup>;

    /// Prompt templates of a family for a data set. The default implementation only knows [`prompts::SETS`].
    ///
    /// # Errors
    /// The family has no templates for the data set.
    fn prompts(&self, family: &str, data_set: &str) -> Result<Vec<String>> {
        let set = prompts::SETS.iter().find(|(known, _)| *known == family).ok_or_else(|| Error::Invalid {
            name: format!("prompts of data set {data_set}"),
            found: format!("`{family}`"),
            expected: prompts::SETS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "),
        })?;
        Ok(set.1.iter().map(|&template| template.to_owned()).collect())
    }
}

/// Result of looking up a data set.
pub enum DataSetLookup {
    /// The data set is present.
    Present {
        /// The test split.
        source: Box<dyn Source>,
        /// Tree of the classes, if the data set has one.
        tree: Option<TreeFile>,
    },
    /// The data set is absent.
    Absent {
        /// Expected folder layout.
        layout: String,
        /// Where to download the data set.
        get: String,
    },
}

/// Settings for all tasks of a suite.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuiteSettings {
    /// Whether data sets with absent photos or classes are measured ([`Options::partial`]).
    pub partial: bool,
    /// Seed of the intervals, the shuffled baselines and the drawn queries ([`Options::seed`]).
    pub seed: u64,
}

/// Settings of a task run, stored with its records in result files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSettings {
    /// Name of the suite.
    pub suite: String,
    /// Name of the task ([`SuiteTask::id`]).
    pub task: String,
    /// Name of the data set ([`SuiteTask::data`]).
    pub data: String,
    /// Name of the benchmark ([`SuiteTask::benchmark`]).
    pub benchmark: String,
    /// Name of the prompt family, if the benchmark uses prompts ([`SuiteTask::prompts`]).
    pub prompts: Option<String>,
    /// Data set whose templates were used instead of those of `data` ([`SuiteTask::prompts_of`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_of: Option<String>,
    /// Crop of the photos.
    pub crop: SuiteCrop,
    /// Similarity that ranked the candidates.
    pub score: Score,
    /// Gate of the gated angle, radians.
    pub gate: f64,
    /// Numbers of levels (radii) that HierarCaps' retrieval steps through.
    pub steps: Vec<usize>,
    /// Number of queries that `part_retrieval` draws ([`SuiteTask::queries`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// True if absent photos and classes were allowed.
    pub partial: bool,
    /// Seed of the intervals, the shuffled baselines and the drawn queries.
    pub seed: u64,
}

/// Result of one run of a task.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredRun {
    /// Settings of the run.
    pub setting: TaskSettings,
    /// Complete settings with hashes of prompts and tree; see [`crate::settings`].
    pub settings: Value,
    /// [`Source::fingerprint`] of the data.
    pub data_sha256: String,
    /// Number of samples in the source, including those that the benchmark left out.
    pub samples: usize,
    /// The measured numbers.
    pub records: Vec<Record>,
}

/// A task whose data set is absent.
#[derive(Clone, Debug, Serialize)]
pub struct MissingDataSet {
    /// Name of the task ([`SuiteTask::id`]).
    pub task: String,
    /// Name of the data set ([`SuiteTask::data`]).
    pub data: String,
    /// Expected folder layout.
    pub layout: String,
    /// Where to download the data set.
    pub get: String,
}

/// A run that failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedRun {
    /// Name of the task ([`SuiteTask::id`]).
    pub task: String,
    /// Name of the data set ([`SuiteTask::data`]).
    pub data: String,
    /// The error message.
    pub error: String,
}

/// Outcome of every task of a suite.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SuiteReport {
    /// Name of the suite.
    pub suite: String,
    /// Completed runs. A task can have several.
    pub measured: Vec<MeasuredRun>,
    /// Tasks whose data set is absent.
    pub missing: Vec<MissingDataSet>,
    /// Tasks that failed.
    pub failed: Vec<FailedRun>,
}

impl Suite {
    /// Measures every task. Absent data sets and failures are recorded in the report and do not stop the other tasks.
    /// `progress` is called with a message before each task.
    pub fn run(
        &self,
        embedder: &dyn EmbeddingModel,
        finder: &dyn DataSetFinder,
        settings: SuiteSettings,
        progress: &mut dyn FnMut(&str),
    ) -> SuiteReport {
        let mut report = SuiteReport { suite: self.name.clone(), ..SuiteReport::default() };
        // Group the tasks by data set: each data set is then opened and embedded once.
        let mut order: Vec<&SuiteTask> = self.tasks.iter().collect();
        let first = |data: &str| self.tasks.iter().position(|task| task.data == data);
        order.sort_by_key(|task| first(&task.data));
        let mut done = 0;
        for tasks in order.chunk_by(|a, b| a.data == b.data) {
            let Some(data) = tasks.first().map(|task| task.data.as_str()) else { continue };
            let cache = SuiteEmbeddingCache::new(embedder);
            let found = finder.data_set(data);
            for task in tasks {
                done += 1;
                progress(&format!("{done} of {}: {} on {data}", order.len(), task.benchmark));
                match &found {
                    Ok(DataSetLookup::Present { source, tree }) => {
                        for setting in self.settings(task, settings) {
                            let run = || setting.run(&cache, finder, source.as_ref(), tree.as_ref());
                            match run() {
                                Ok((records, settings)) => report.measured.push(MeasuredRun {
                                    setting,
                                    settings,
                                    data_sha256: source.fingerprint(),
                                    samples: source.len(),
                                    records,
                                }),
                                Err(error) => report.fails(task, &error),
                            }
                        }
                    }
                    Ok(DataSetLookup::Absent { layout, get }) => report.missing.push(MissingDataSet {
                        task: task.id.clone(),
                        data: data.into(),
                        layout: layout.clone(),
                        get: get.clone(),
                    }),
                    Err(error) => report.fails(task, error),
                }
            }
        }
        report
    }

    /// The settings of a task: one for each combination of its scores and gates.
    fn settings(&self, task: &SuiteTask, settings: SuiteSettings) -> Vec<TaskSettings> {
        let defaults = Options::default();
        let gates = if task.gates.is_empty() { vec![defaults.gate] } else { task.gates.clone() };
        let steps = if task.steps.is_empty() { defaults.steps } else { task.steps.clone() };
        let mut all = Vec::new();
        for &score in &task.scores {
            for &gate in &gates {
                all.push(TaskSettings {
                    suite: self.name.clone(),
                    task: task.id.clone(),
                    data: task.data.clone(),
                    benchmark: task.benchmark.clone(),
                    prompts: task.prompts.clone(),
                    prompts_of: task.prompts_of.clone(),
                    crop: task.crop,
                    score,
                    gate,
                    steps: steps.clone(),
                    queries: task.queries,
                    partial: settings.partial,
                    seed: settings.seed,
                });
            }
        }
        all
    }
}

impl TaskSettings {
    fn run(
        &self,
        embedder: &dyn EmbeddingModel,
        finder: &dyn DataSetFinder,
        source: &dyn Source,
        tree: Option<&TreeFile>,
    ) -> Result<(Vec<Record>, Value)> {
        let benchmark = find(&self.benchmark)?;
        let mut options = Options {
            score: self.score,
            crop: self.crop.into(),
            gate: self.gate,
            steps: self.steps.clone(),
            queries: self.queries,
            partial: self.partial,
            seed: self.seed,
            ..Options::default()
        };
        if let Some(family) = &self.prompts {
            let data = self.prompts_of.as_deref().unwrap_or(&self.data);
            let note = prompts::PromptFamily::ALL.into_iter().find(|it| it.name() == family);
            let note = note.and_then(|family| prompts::note(family, data));
            options.prompts = note.map_or_else(|| family.clone(), |note| format!("{family} ({note})"));
            options.templates = finder.prompts(family, data)?;
        }
        let records = measure(benchmark, &Context::new(embedder, source, tree.map(|it| &it.graph), &options))?;
        Ok((records, crate::settings(benchmark, &options, tree, None)))
    }
}

impl SuiteReport {
    /// Records an error. An error that several variants of a task share is recorded once.
    fn fails(&mut self, task: &SuiteTask, error: &Error) {
        let error = error.to_string();
        if !self.failed.iter().any(|it| it.task == task.id && it.error == error) {
            self.failed.push(FailedRun { task: task.id.clone(), data: task.data.clone(), error });
        }
    }
}
