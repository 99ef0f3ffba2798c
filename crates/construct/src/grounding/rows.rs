//! Lines of the files of the stages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pipeline::DropCause;

/// A photo with the phrases of its captions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhotoPhrases {
    /// Id of the sample.
    pub id: String,
    /// Path of the photo.
    pub photo: PathBuf,
    /// The split of the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// All captions, including those without a phrase.
    pub captions: Vec<String>,
    /// Noun chunks and referring expressions, all with different words. The chunk of an expression comes before it.
    pub phrases: Vec<PhraseSpans>,
}

/// How a phrase was found in its caption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhraseKind {
    /// A noun with the words in front of it: "a dog".
    #[default]
    Chunk,
    /// A noun chunk with what describes its noun: "a dog with a red collar".
    Expression,
}

impl PhraseKind {
    /// Name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Expression => "expression",
        }
    }
}

/// A phrase with its positions in the captions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhraseSpans {
    /// The phrase, as written in the first caption that has it.
    pub text: String,
    /// How the phrase was found.
    #[serde(default)]
    pub kind: PhraseKind,
    /// Index of the noun chunk of an expression in [`PhotoPhrases::phrases`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// One entry per occurrence: number of the caption, first character, one past the last character.
    pub spans: Vec<[usize; 3]>,
}

/// A photo with boxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhotoBoxes {
    /// The photo.
    #[serde(flatten)]
    pub photo: PhotoPhrases,
    /// Width of the photo in pixels.
    pub width: u32,
    /// Height of the photo in pixels.
    pub height: u32,
    /// Left, top, right and bottom border as fractions of the photo.
    pub boxes: Vec<[f32; 4]>,
}

/// A photo with the similarity of each phrase and box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoredPhoto {
    /// The photo with its boxes.
    #[serde(flatten)]
    pub photo: PhotoBoxes,
    /// `[phrases][boxes]`; empty if the photo could not be read.
    pub similarities: Vec<Vec<f32>>,
    /// Similarities of the boxes of this photo with the noun chunks of the previous photo, which probably do not
    /// describe it.
    pub foreign: Vec<Vec<f32>>,
    /// Why the photo could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<(DropCause, String)>,
}

/// A photo with grounded phrases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroundedPhoto {
    /// Id of the sample.
    pub id: String,
    /// Path of the photo.
    pub photo: PathBuf,
    /// The split of the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// All captions.
    pub captions: Vec<String>,
    /// Phrases with their boxes.
    pub phrases: Vec<GroundedPhrase>,
}

/// A phrase with its box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroundedPhrase {
    /// The phrase.
    pub text: String,
    /// How the phrase was found.
    #[serde(default)]
    pub kind: PhraseKind,
    /// Positions in the captions, see [`PhraseSpans`].
    pub spans: Vec<[usize; 3]>,
    /// Left, top, right and bottom border as fractions of the photo. An expression has the box of its noun chunk.
    pub bbox: [f32; 4],
    /// Similarity of phrase and box, as the model computes it.
    pub similarity: f32,
    /// Calibrated probability that the phrase, or the noun chunk of an expression, belongs to this photo; absent if
    /// there was too little data to calibrate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f32>,
}
