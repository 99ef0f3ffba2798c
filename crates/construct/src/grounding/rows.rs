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
    /// Noun chunks with different words.
    pub phrases: Vec<PhraseSpans>,
}

/// A phrase with its positions in the captions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhraseSpans {
    /// The phrase, as written in the first caption that has it.
    pub text: String,
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
    /// Similarities of the boxes of this photo with the phrases of the previous photo, which probably do not describe
    /// it.
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
    /// Positions in the captions, see [`PhraseSpans`].
    pub spans: Vec<[usize; 3]>,
    /// Left, top, right and bottom border as fractions of the photo.
    pub bbox: [f32; 4],
    /// Similarity of phrase and box, as the model computes it.
    pub similarity: f32,
    /// Calibrated probability that the phrase belongs to this photo; absent if there was too little data to calibrate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f32>,
}
