//! The apex of the cones: which point it is.

use serde::{Deserialize, Serialize};

/// Where the root of a run comes from (HierarCaps Sec. 2 and Table 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    /// The origin of the space.
    #[default]
    Origin,
    /// A text under the weights of the moment; gradient flows through its embedding.
    Text,
    /// The same text under the first weights, a constant.
    FixedText,
    /// The mean of all texts of the chains under the first weights, on a sphere brought to length 1, a constant.
    FixedMean,
    /// A free point of its own (on a sphere its direction counts), at first that text: with frozen towers, "only learning root".
    Learned,
}

impl RootKind {
    /// Whether the root is a point that is kept beside the weights.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::FixedText | Self::FixedMean | Self::Learned)
    }
}

/// The apex of the cones of a finished model, where it is no point that lies beside the weights: what the manifest says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Apex {
    /// The origin of the space.
    Origin,
    /// The embedding of a text.
    Text(String),
}
