use serde::{Deserialize, Serialize};

use crate::pipeline::StageKind;

/// A stage from captions to grounded phrases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroundingStage {
    /// Finds the noun chunks and referring expressions of the captions.
    Phrases,
    /// Proposes boxes for each photo.
    Boxes,
    /// Compares each box with each phrase of its photo.
    Rescore,
    /// Keeps the noun chunks whose best box reaches the threshold, with their expressions.
    Keep,
}

impl GroundingStage {
    /// All stages, in order.
    pub const ALL: &[Self] = &[Self::Phrases, Self::Boxes, Self::Rescore, Self::Keep];

    /// The previous stage, whose file this stage reads; `None` for the first stage, which reads the data.
    pub(super) fn before(self) -> Option<Self> {
        Self::ALL.iter().rev().copied().find(|stage| *stage < self)
    }
}

impl StageKind for GroundingStage {
    fn name(self) -> &'static str {
        match self {
            Self::Phrases => "phrases",
            Self::Boxes => "boxes",
            Self::Rescore => "rescore",
            Self::Keep => "keep",
        }
    }
}
