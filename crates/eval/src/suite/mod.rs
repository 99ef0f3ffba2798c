//! Benchmark tables of papers as data: how each data set is measured, and which table shows each number.
//!
//! * [`Suite`]: tasks and tables, read from TOML (`crates/eval/suites`).
//! * [`Suite::run`]: measures every task. Missing data sets and failed tasks are reported and do not stop the others.
//! * [`Sheet`]: a table of the paper with measured rows next to the published ones.
//! * [`render`]: writes sheets as text, Markdown, CSV or LaTeX; [`jsonl`] writes the records.

mod cache;
mod render;
mod run;
mod sheet;

use std::collections::BTreeSet;

use conifer_data::transform::EvalCrop;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Score};

pub use render::{TableFormat, jsonl, render};
pub use run::{
    DataSetFinder, DataSetLookup, FailedRun, MeasuredRun, MissingDataSet, SuiteReport, SuiteSettings, TaskSettings,
};
pub use sheet::{Sheet, SheetCell, SheetHeader, SheetRow, SheetRowKind, sheets};

/// Names and TOML of the suites of the five papers.
pub const SUITES: &[(&str, &str)] = &[
    ("paper:hycoclip", include_str!("../../suites/hycoclip.toml")),
    ("paper:phyclip", include_str!("../../suites/phyclip.toml")),
    ("paper:hierarcaps", include_str!("../../suites/hierarcaps.toml")),
    ("paper:rcme", include_str!("../../suites/rcme.toml")),
    ("paper:visual-hierarchies", include_str!("../../suites/visual-hierarchies.toml")),
];

/// The measurements and the tables of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Name on the command line.
    pub name: String,
    /// Title of the paper.
    pub title: String,
    /// Authors and year.
    #[serde(default)]
    pub reference: String,
    /// Footnotes of every table.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Measurements to run.
    #[serde(rename = "task")]
    pub tasks: Vec<SuiteTask>,
    /// Tables to print.
    #[serde(rename = "table")]
    pub tables: Vec<SuiteTable>,
}

/// A benchmark on a data set. It runs once for every combination of `scores` and `gates`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteTask {
    /// Unique name. Table columns refer to the task by it ([`SuiteColumn::task`]).
    pub id: String,
    /// Name of the data set.
    pub data: String,
    /// Name of the benchmark in [`crate::BENCHMARKS`].
    pub benchmark: String,
    /// Name of the prompt family, if the benchmark uses prompts.
    pub prompts: Option<String>,
    /// Data set whose templates are used instead of those of `data`. For example, BREEDS has ImageNet's classes.
    pub prompts_of: Option<String>,
    /// Crop of the photos.
    #[serde(default)]
    pub crop: SuiteCrop,
    /// Similarities that rank the candidates. Each is a separate run.
    #[serde(default = "one_score")]
    pub scores: Vec<Score>,
    /// Gates of `part_retrieval`, radians. Each is a separate run. Empty: [`crate::Options::gate`].
    #[serde(default)]
    pub gates: Vec<f64>,
    /// Numbers of levels (radii) that HierarCaps' retrieval steps through, measured in one run. Empty:
    /// [`crate::Options::steps`].
    #[serde(default)]
    pub steps: Vec<usize>,
    /// Number of queries that `part_retrieval` draws, see [`crate::Options::queries`]. Absent: every photo and box.
    pub queries: Option<usize>,
    /// Which records follow the text of the paper, or why none does.
    #[serde(default)]
    pub paper: String,
    /// Which records follow the authors' code, or that no code was released.
    #[serde(default)]
    pub released: String,
}

/// Crop of the photos, as written in a suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuiteCrop {
    /// The centre crop, [`EvalCrop::Center`].
    #[default]
    Center,
    /// The whole photo resized to a square, [`EvalCrop::Squeeze`].
    Squeeze,
}

impl From<SuiteCrop> for EvalCrop {
    fn from(crop: SuiteCrop) -> Self {
        match crop {
            SuiteCrop::Center => Self::Center,
            SuiteCrop::Squeeze => Self::Squeeze,
        }
    }
}

fn one_score() -> Vec<Score> {
    vec![Score::default()]
}

/// A table of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteTable {
    /// Title of the table.
    pub title: String,
    /// Location in the paper, e.g. `Table 2`.
    #[serde(default)]
    pub source: String,
    /// Number of decimal places.
    pub digits: usize,
    /// Factor from the value of a record to the printed number, e.g. 100 for percent.
    #[serde(default = "one")]
    pub factor: f64,
    /// Footnotes of this table.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Interpretations of the protocol, with one measured row each. Empty: one row.
    #[serde(default)]
    pub variants: Vec<ProtocolVariant>,
    /// Columns, from left to right.
    pub columns: Vec<SuiteColumn>,
    /// Published rows. Empty in a user's own table.
    #[serde(default)]
    pub rows: Vec<PublishedRow>,
}

/// Maximum number of decimal places. More would show only rounding errors.
const MAX_DIGITS: usize = 12;

/// Keys that the TOML of a suite may contain.
const KEYS: &str = "name, title, reference, notes, [[task]] with id, data, benchmark, prompts, prompts_of, crop, scores, gates, \
    steps, queries, paper, released, and [[table]] with title, source, digits, factor, notes, variants, columns, rows";

fn one() -> f64 {
    1.0
}

/// An interpretation of the protocol, where the paper and the released code differ or the paper prints several numbers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolVariant {
    /// Name shown with the measured row.
    pub name: String,
    /// Substrings that the protocol of a record must contain.
    #[serde(default)]
    pub protocol: Vec<String>,
    /// Complete protocol that a record must have.
    pub exact: Option<String>,
    /// Metrics that replace the metrics of the columns, as a map from column metric to variant metric.
    #[serde(default)]
    pub metrics: std::collections::BTreeMap<String, String>,
}

/// A column. It shows a record, or the mean of several records or columns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteColumn {
    /// Column header. Group and header together are unique.
    pub header: String,
    /// Header above several columns.
    #[serde(default)]
    pub group: String,
    /// Task that measures the column.
    pub task: Option<String>,
    /// Part of the data ([`crate::Record::split`]).
    #[serde(default = "all")]
    pub split: String,
    /// Substrings that the protocol of the record must contain.
    #[serde(default)]
    pub protocol: Vec<String>,
    /// The complete protocol of the record, without the suffix that describes what was left out.
    pub exact: Option<String>,
    /// Name of the metric ([`crate::Record::metric`]).
    #[serde(default)]
    pub metric: String,
    /// Factor of this column, if it differs from that of the table.
    pub factor: Option<f64>,
    /// Direction of improvement.
    #[serde(default)]
    pub better: Better,
    /// Tasks whose mean the column shows, instead of `task`.
    #[serde(default)]
    pub tasks: Vec<String>,
    /// Splits of the task whose mean the column shows, instead of `split`.
    #[serde(default)]
    pub splits: Vec<String>,
    /// Names ([`SuiteColumn::name`]) of the columns whose mean this column shows, instead of a task.
    #[serde(default)]
    pub mean_of: Vec<String>,
    /// Reason why no benchmark measures this column. Set instead of a task, for a column that only shows published
    /// values.
    pub unanswered: Option<String>,
}

fn all() -> String {
    "all".into()
}

/// Direction of improvement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    #[default]
    Higher,
    /// Less is better.
    Lower,
}

/// A published row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// Name of the model.
    pub model: String,
    /// One number per column, as printed; `nan` where the paper prints none.
    pub values: Vec<f64>,
    /// Footnote on an irregularity of the row.
    pub note: Option<String>,
}

impl SuiteColumn {
    /// Group and header. Other columns refer to the column by this name.
    pub fn name(&self) -> String {
        [self.group.as_str(), self.header.as_str()].join(" ").trim().to_owned()
    }
}

impl Suite {
    /// Returns the suite of a paper.
    ///
    /// # Errors
    /// The name is unknown; the message lists the known ones.
    pub fn find(name: &str) -> Result<Self> {
        let (name, text) = SUITES.iter().find(|(known, _)| *known == name).ok_or_else(|| Error::Invalid {
            name: "suite".into(),
            found: format!("`{name}`"),
            expected: SUITES.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(name, text)
    }

    /// Reads a suite from TOML. Messages call it `place`.
    ///
    /// # Errors
    /// The text is not valid TOML or has unknown keys; two tasks, or two columns of a table, have the same name; a task
    /// has no scores; a table has too many digits; a column is inconsistent or refers to an unknown task or column; a
    /// row has the wrong number of values.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let refuse = |found: String, expected: &str| Error::Invalid {
            name: format!("suite {place}"),
            found,
            expected: expected.into(),
        };
        let suite: Self = toml::from_str(text).map_err(|error| refuse(error.to_string(), KEYS))?;
        let mut tasks = BTreeSet::new();
        for task in &suite.tasks {
            if !tasks.insert(task.id.as_str()) {
                return Err(refuse(format!("two tasks `{}`", task.id), "unique task ids"));
            }
            if task.scores.is_empty() {
                return Err(refuse(format!("task `{}` without scores", task.id), "at least one score"));
            }
        }
        for table in &suite.tables {
            table.check(&tasks).map_err(|(found, expected)| refuse(format!("{}: {found}", table.source), expected))?;
        }
        Ok(suite)
    }
}

impl SuiteTable {
    /// Checks consistency. An error is the value found and the value expected.
    fn check(&self, tasks: &BTreeSet<&str>) -> std::result::Result<(), (String, &'static str)> {
        let mut names = BTreeSet::new();
        if self.digits > MAX_DIGITS {
            return Err((format!("{} digits", self.digits), "at most 12"));
        }
        for column in &self.columns {
            let name = column.name();
            if !column.splits.is_empty() && column.task.is_none() {
                return Err((format!("column `{name}` with splits but no task"), "the task whose splits it names"));
            }
            let means = [!column.tasks.is_empty(), !column.mean_of.is_empty()];
            let ways = [means[0], means[1], column.task.is_some(), column.unanswered.is_some()];
            if ways.iter().filter(|&&way| way).count() != 1 {
                return Err((format!("column `{name}`"), "exactly one of task, tasks, mean_of and unanswered"));
            }
            let measured = column.task.iter().chain(&column.tasks);
            if let Some(task) = measured.clone().find(|task| !tasks.contains(task.as_str())) {
                return Err((format!("column `{name}` of task `{task}`"), "a task of the suite"));
            }
            if measured.count() > 0 && column.metric.is_empty() {
                return Err((format!("column `{name}`"), "a metric"));
            }
            // A mean must come after the columns it averages, because columns are computed in order.
            if let Some(other) = column.mean_of.iter().find(|other| !names.contains(*other)) {
                return Err((format!("column `{name}` is the mean of `{other}`"), "a column before it"));
            }
            if !names.insert(name.clone()) {
                return Err((format!("two columns `{name}`"), "unique column names"));
            }
        }
        for row in &self.rows {
            if row.values.len() != self.columns.len() {
                return Err((
                    format!("{} values of `{}` in {} columns", row.values.len(), row.model, self.columns.len()),
                    "a value for each column, nan where the paper prints none",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
