//! Lines of the files of the stages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Stage, TIERS};

/// A caption that the captions stage selected.
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
    /// Text of the caption.
    pub caption: String,
    /// True if the caption does not look English but was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_language: bool,
}

impl CaptionRow {
    /// Makes a hierarchy of this caption. `by` names the model or rules that made the tiers, `draws` the draws that
    /// were accepted.
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
            provenance: vec![RowProvenance { stage, by, draws }],
            other_language: self.other_language,
        }
    }
}

/// Model and draw that made the texts of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowProvenance {
    /// The stage.
    pub stage: Stage,
    /// `rules`, the name of a model, `review`, or `--seeds`.
    pub by: String,
    /// Numbers of the accepted draws of a model, or of the tries of the rules, from 0: one per answer or negative tier.
    /// Empty for hierarchies of `--seeds`.
    pub draws: Vec<u32>,
}

/// A hierarchy of a caption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HierarchyRow {
    /// Id of the sample, and the number of the caption if it has several: `photo1#2`.
    pub id: String,
    /// The photo file, if the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub photo: Option<PathBuf>,
    /// The split of the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Tiers from general to specific; the last is the caption.
    pub positive: [String; TIERS],
    /// Tiers that contradict the positive ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative: Option<[String; TIERS]>,
    /// Model and draw of the tiers, by stage.
    pub provenance: Vec<RowProvenance>,
    /// True if the caption does not look English but was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_language: bool,
}
