//! Lines of the stages' files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Stage, TIERS};

/// A caption that enters the stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptionRow {
    /// Id of the sample, and the number of the caption if it has several: `photo1#2`.
    pub id: String,
    /// The photo file, if the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub photo: Option<PathBuf>,
    /// The split of the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The text.
    pub caption: String,
    /// Kept although it does not look English.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_language: bool,
}

impl CaptionRow {
    /// The hierarchy of this caption with `positive` tiers, which the draws of `by` made in a stage.
    pub(super) fn with_tiers(
        self,
        positive: [String; TIERS],
        stage: Stage,
        by: String,
        draws: Vec<u32>,
    ) -> HierarchyRow {
        HierarchyRow {
            id: self.id,
            photo: self.photo,
            split: self.split,
            positive,
            negative: None,
            provenance: vec![Provenance { stage, by, draws }],
            other_language: self.other_language,
        }
    }
}

/// Model and draw that made the texts of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The stage.
    pub stage: Stage,
    /// `rules`, the name of a model, or `review`.
    pub by: String,
    /// Number of the accepted draw of each text, from 0.
    pub draws: Vec<u32>,
}

/// A hierarchy of a caption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HierarchyRow {
    /// As in [`CaptionRow`].
    pub id: String,
    /// As in [`CaptionRow`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub photo: Option<PathBuf>,
    /// As in [`CaptionRow`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Tiers from general to specific; the last is the caption.
    pub positive: [String; TIERS],
    /// Tiers that contradict the positive ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative: Option<[String; TIERS]>,
    /// Model and draw of the tiers, by stage.
    pub provenance: Vec<Provenance>,
    /// As in [`CaptionRow`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_language: bool,
}
