//! Stages and what they report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Cause;

/// Number of examples that a report keeps for each cause.
const EXAMPLES: usize = 10;
/// Characters of an example.
const EXAMPLE_CHARS: usize = 200;

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Selects captions by length, characters and language.
    Captions,
    /// A language model makes a few hierarchies with three instructions.
    Seeds,
    /// A language model continues a list of seeds.
    Grow,
    /// Completes each caption to four tiers.
    Complete,
    /// Makes four negative tiers for each hierarchy.
    Negatives,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: &[Self] = &[Self::Captions, Self::Seeds, Self::Grow, Self::Complete, Self::Negatives];

    /// Name in options, files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Captions => "captions",
            Self::Seeds => "seeds",
            Self::Grow => "grow",
            Self::Complete => "complete",
            Self::Negatives => "negatives",
        }
    }
}

/// Texts that a stage dropped for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// Number.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<String>,
}

/// Numbers of texts that entered and left a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// `rules`, or the name of the model.
    pub by: String,
    /// Texts that entered.
    pub entered: u64,
    /// Rows that left.
    pub left: u64,
    /// Dropped texts by cause.
    pub dropped: BTreeMap<Cause, CauseCount>,
    /// Time that the stage took.
    pub seconds: f64,
    /// True if this run took the file of an earlier one.
    #[serde(default)]
    pub reused: bool,
}

impl StageReport {
    pub(super) fn new(stage: Stage, by: impl Into<String>) -> Self {
        Self { stage, by: by.into(), entered: 0, left: 0, dropped: BTreeMap::new(), seconds: 0.0, reused: false }
    }

    /// Counts a dropped text.
    pub(super) fn drop(&mut self, cause: Cause, example: &str) {
        let of_cause = self.dropped.entry(cause).or_default();
        of_cause.count += 1;
        if of_cause.examples.len() < EXAMPLES {
            let mut text: String = example.chars().take(EXAMPLE_CHARS).collect();
            if text.len() < example.len() {
                text.push_str(" ...");
            }
            of_cause.examples.push(text);
        }
    }

    /// Number of texts that may pass when the command is repeated.
    pub fn without_answer(&self) -> u64 {
        self.dropped.iter().filter(|(cause, _)| cause.is_temporary()).map(|(_, it)| it.count).sum()
    }
}
