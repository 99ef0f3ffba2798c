//! The root of a run: the point from which its cones are seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source of the root during training (HierarCaps Sec. 2 and Table 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    /// The origin of the space.
    #[default]
    Origin,
    /// The embedding of a text under the current weights; gradient flows through it.
    Text,
    /// The embedding of the same text under the initial weights, as a constant.
    FixedText,
    /// The mean of all chain texts under the initial weights, as a constant; normalised to length 1 on a sphere.
    FixedMean,
    /// A parameter, initialised with the embedding of that text. On a sphere only its direction matters. With frozen
    /// towers this is "only learning root" of Table 2.
    Learned,
}

impl RootKind {
    /// True if the root is a point that is stored beside the weights.
    pub fn is_stored(self) -> bool {
        matches!(self, Self::FixedText | Self::FixedMean | Self::Learned)
    }
}
