//! Stages and their reports.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::DropCause;
use crate::grounding::PhraseKind;

/// Number of examples that a report keeps for each cause.
const EXAMPLES: usize = 10;
/// Maximum number of characters of an example.
const EXAMPLE_CHARS: usize = 200;

/// The stages of a pipeline, in their order.
pub trait StageKind: Copy + Ord + Serialize + DeserializeOwned {
    /// Name in options, files and reports.
    fn name(self) -> &'static str;
}

/// A stage from captions to hierarchies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Selects captions by length, characters and language.
    Captions,
    /// A language model makes a few hierarchies with three instructions.
    Seeds,
    /// A language model continues a list of seeds.
    Grow,
    /// Fine-tunes a small model on these hierarchies.
    Distil,
    /// Completes each caption to four tiers.
    Complete,
    /// Makes four negative tiers for each hierarchy.
    Negatives,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: &[Self] = &[Self::Captions, Self::Seeds, Self::Grow, Self::Distil, Self::Complete, Self::Negatives];

    /// Name in options, files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Captions => "captions",
            Self::Seeds => "seeds",
            Self::Grow => "grow",
            Self::Distil => "distil",
            Self::Complete => "complete",
            Self::Negatives => "negatives",
        }
    }
}

impl StageKind for Stage {
    fn name(self) -> &'static str {
        Self::name(self)
    }
}

/// Texts that a stage dropped for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// Number of texts.
    pub count: u64,
    /// The first ten of these texts, shortened to 200 characters.
    pub examples: Vec<String>,
}

impl CauseCount {
    fn add(&mut self, example: &str) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            let mut text: String = example.chars().take(EXAMPLE_CHARS).collect();
            if text.len() < example.len() {
                text.push_str(" ...");
            }
            self.examples.push(text);
        }
    }
}

/// Numbers of phrases of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhraseCount {
    /// Number of phrases that entered the stage.
    pub entered: u64,
    /// Number of phrases that left the stage.
    pub left: u64,
}

/// Numbers of texts that entered and left a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport<S = Stage> {
    /// The stage.
    pub stage: S,
    /// Origin of the rows: `rules`, `--seeds`, the name of a model, of a file or of a box proposer, or the threshold of
    /// the keep stage.
    pub by: String,
    /// Number of texts that entered the stage.
    pub entered: u64,
    /// Number of texts that left the stage: the rows that it wrote, or their phrases in a pipeline for phrases.
    pub left: u64,
    /// `entered` and `left` by kind of phrase. Empty in a pipeline for hierarchies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<PhraseKind, PhraseCount>,
    /// Dropped texts by cause.
    pub dropped: BTreeMap<DropCause, CauseCount>,
    /// Other input that the stage did not use, by cause: captions of a stage that counts phrases, proposed boxes,
    /// photos.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<DropCause, CauseCount>,
    /// Duration of the stage in seconds.
    pub seconds: f64,
    /// True if this run reused the file of an earlier run.
    #[serde(default)]
    pub reused: bool,
}

impl<S> StageReport<S> {
    pub(crate) fn new(stage: S, by: impl Into<String>) -> Self {
        let (kinds, dropped, left_out) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { stage, by: by.into(), entered: 0, left: 0, kinds, dropped, left_out, seconds: 0.0, reused: false }
    }

    /// Counts a phrase that entered the stage.
    pub(crate) fn enter_phrase(&mut self, kind: PhraseKind) {
        self.entered += 1;
        self.kinds.entry(kind).or_default().entered += 1;
    }

    /// Counts a phrase that left the stage.
    pub(crate) fn leave_phrase(&mut self, kind: PhraseKind) {
        self.left += 1;
        self.kinds.entry(kind).or_default().left += 1;
    }

    /// Counts a dropped text.
    pub(crate) fn drop(&mut self, cause: DropCause, example: &str) {
        self.dropped.entry(cause).or_default().add(example);
    }

    /// Counts other input that is not used.
    pub(crate) fn leave_out(&mut self, cause: DropCause, example: &str) {
        self.left_out.entry(cause).or_default().add(example);
    }

    /// Number of texts that may pass when the command is repeated.
    pub fn without_answer(&self) -> u64 {
        self.dropped.iter().filter(|(cause, _)| cause.is_temporary()).map(|(_, it)| it.count).sum()
    }
}
