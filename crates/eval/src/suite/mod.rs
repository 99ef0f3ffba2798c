//! A paper's benchmark tables as data: which data sets are measured how, and where each number stands in which table.
//!
//! * [`Suite`]: tasks and tables, read from TOML (`crates/eval/suites`).
//! * [`Suite::run`]: measures every task; what is missing or fails is told, and stops nothing else.
//! * [`Sheet`]: a table of the paper with our rows beside the published ones.
//! * [`render`]: sheets as text, Markdown, CSV, LaTeX or JSONL.

mod remember;
mod render;
mod run;
mod sheet;

use std::collections::BTreeSet;

use conifer_data::transform::EvalCrop;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Score};

pub use render::{Format, jsonl, render};
pub use run::{Failed, Finder, Found, Measured, Missing, Setting, Settings, SuiteReport};
pub use sheet::{Cell, Head, Kind, Row, Sheet, sheets};

/// The suites of the five papers: name and TOML.
pub const SUITES: &[(&str, &str)] = &[
    ("paper:hycoclip", include_str!("../../suites/hycoclip.toml")),
    ("paper:phyclip", include_str!("../../suites/phyclip.toml")),
    ("paper:hierarcaps", include_str!("../../suites/hierarcaps.toml")),
    ("paper:rcme", include_str!("../../suites/rcme.toml")),
    ("paper:visual-hierarchies", include_str!("../../suites/visual-hierarchies.toml")),
];

/// What a paper measures, and the numbers it prints.
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
    /// What a reader of every table has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What is measured.
    #[serde(rename = "task")]
    pub tasks: Vec<Task>,
    /// What is printed.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// A benchmark on a data set. It runs once for every combination of `scores` and `gates`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Name in the columns; one of its kind.
    pub id: String,
    /// Name of the data set.
    pub data: String,
    /// Name of the benchmark in [`crate::BENCHMARKS`].
    pub benchmark: String,
    /// Family of prompt templates, where the benchmark has prompts.
    pub prompts: Option<String>,
    /// The data set whose templates are taken, where it is another one: BREEDS has ImageNet's classes.
    pub prompts_of: Option<String>,
    /// How photos are cut.
    #[serde(default)]
    pub crop: Crop,
    /// Which similarities rank, each in a run of its own.
    #[serde(default = "one_score")]
    pub scores: Vec<Score>,
    /// Gates of `part_retrieval`, radians, each in a run of its own; none: that of [`crate::Options`].
    #[serde(default)]
    pub gates: Vec<f64>,
    /// Levels of the widening ball, side by side; none: that of [`crate::Options`].
    #[serde(default)]
    pub steps: Vec<usize>,
    /// Which of the records follow the paper's text, and where they cannot.
    #[serde(default)]
    pub paper: String,
    /// Which of the records follow the authors' code; that there is none.
    #[serde(default)]
    pub released: String,
}

/// How photos are cut, as a suite writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Crop {
    /// [`EvalCrop::Center`].
    #[default]
    Center,
    /// [`EvalCrop::Squeeze`].
    Squeeze,
}

impl From<Crop> for EvalCrop {
    fn from(crop: Crop) -> Self {
        match crop {
            Crop::Center => Self::Center,
            Crop::Squeeze => Self::Squeeze,
        }
    }
}

fn one_score() -> Vec<Score> {
    vec![Score::default()]
}

/// A table of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Where it stands: `Table 2`.
    #[serde(default)]
    pub source: String,
    /// Digits behind the point of its numbers.
    pub digits: usize,
    /// A record's value times this is what the paper prints: 100 for percent.
    #[serde(default = "one")]
    pub factor: f64,
    /// What a reader of this table has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The readings of the protocol, a row of ours for each; none: one row.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its published rows; none in a table of one's own.
    #[serde(default)]
    pub rows: Vec<Published>,
}

/// Numbers with more would show nothing but rounding.
const MOST_DIGITS: usize = 12;

/// What a suite's TOML may say.
const KEYS: &str = "name, title, reference, notes, [[task]] with id, data, benchmark, prompts, prompts_of, crop, scores, gates, \
    steps, paper, released, and [[table]] with title, source, digits, factor, notes, variants, columns, rows";

fn one() -> f64 {
    1.0
}

/// A reading of the protocol where paper and released code differ, or where the paper prints several.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name beside our row.
    pub name: String,
    /// Pieces that the protocol of a record has to contain.
    #[serde(default)]
    pub protocol: Vec<String>,
    /// The whole protocol of a record.
    pub exact: Option<String>,
    /// Metrics that take the place of those of the columns.
    #[serde(default)]
    pub metrics: std::collections::BTreeMap<String, String>,
}

/// A column: which record it shows, or of which other columns it is the mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What stands above it; with its group one of its kind.
    pub header: String,
    /// What stands above several.
    #[serde(default)]
    pub group: String,
    /// The task that measures it.
    pub task: Option<String>,
    /// As in [`crate::Record::split`].
    #[serde(default = "all")]
    pub split: String,
    /// Pieces that the protocol of the record has to contain.
    #[serde(default)]
    pub protocol: Vec<String>,
    /// The whole protocol of the record, but for what was left out.
    pub exact: Option<String>,
    /// As in [`crate::Record::metric`].
    #[serde(default)]
    pub metric: String,
    /// Instead of the table's.
    pub factor: Option<f64>,
    /// Whether more is better.
    #[serde(default)]
    pub better: Better,
    /// Tasks of which it is the mean, instead of one.
    #[serde(default)]
    pub tasks: Vec<String>,
    /// Splits of the task of which it is the mean, instead of one.
    #[serde(default)]
    pub splits: Vec<String>,
    /// Names ([`Column::name`]) of the columns of which it is the mean, instead of a task.
    #[serde(default)]
    pub mean_of: Vec<String>,
    /// Why no benchmark answers it, instead of a task: the column stands for completeness.
    pub unanswered: Option<String>,
}

fn all() -> String {
    "all".into()
}

/// Which way is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    #[default]
    Higher,
    /// Less is better.
    Lower,
}

/// A row as the paper prints it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The model.
    pub model: String,
    /// One number a column, as printed; `nan` where the paper prints none.
    pub values: Vec<f64>,
    /// What is odd about it.
    pub note: Option<String>,
}

impl Column {
    /// Group and header: what other columns call it.
    pub fn name(&self) -> String {
        [self.group.as_str(), self.header.as_str()].join(" ").trim().to_owned()
    }
}

impl Suite {
    /// The suite of a paper.
    ///
    /// # Errors
    /// An unknown name; the message lists the known ones.
    pub fn find(name: &str) -> Result<Self> {
        let (name, text) = SUITES.iter().find(|(known, _)| *known == name).ok_or_else(|| Error::Argument {
            name: "suite".into(),
            found: format!("`{name}`"),
            expected: SUITES.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(name, text)
    }

    /// Reads a suite from TOML; `place` is named in messages.
    ///
    /// # Errors
    /// TOML that is none, unknown keys, and what does not fit together: columns of no task, rows of another length.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let refuse = |found: String, expected: &str| Error::Argument {
            name: format!("suite {place}"),
            found,
            expected: expected.into(),
        };
        let suite: Self = toml::from_str(text).map_err(|error| refuse(error.to_string(), KEYS))?;
        let mut tasks = BTreeSet::new();
        for task in &suite.tasks {
            if !tasks.insert(task.id.as_str()) {
                return Err(refuse(format!("two tasks `{}`", task.id), "one task of a name"));
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

impl Table {
    /// What does not fit together, and what would.
    fn check(&self, tasks: &BTreeSet<&str>) -> std::result::Result<(), (String, &'static str)> {
        let mut names = BTreeSet::new();
        if self.digits > MOST_DIGITS {
            return Err((format!("{} digits", self.digits), "at most 12"));
        }
        for column in &self.columns {
            let name = column.name();
            if !column.splits.is_empty() && column.task.is_none() {
                return Err((format!("column `{name}` of splits"), "the task whose splits they are"));
            }
            let means = [!column.tasks.is_empty(), !column.mean_of.is_empty()];
            let ways = [means[0], means[1], column.task.is_some(), column.unanswered.is_some()];
            if ways.iter().filter(|&&way| way).count() != 1 {
                return Err((format!("column `{name}`"), "one of task, tasks, mean_of and unanswered"));
            }
            let measured = column.task.iter().chain(&column.tasks);
            if let Some(task) = measured.clone().find(|task| !tasks.contains(task.as_str())) {
                return Err((format!("column `{name}` of task `{task}`"), "a task of the suite"));
            }
            if measured.count() > 0 && column.metric.is_empty() {
                return Err((format!("column `{name}`"), "a metric"));
            }
            // A mean stands behind its parts, so that it is worked out after them.
            if let Some(other) = column.mean_of.iter().find(|other| !names.contains(*other)) {
                return Err((format!("column `{name}` is the mean of `{other}`"), "a column before it"));
            }
            if !names.insert(name.clone()) {
                return Err((format!("two columns `{name}`"), "one column of a name"));
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
