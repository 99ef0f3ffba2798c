//! Grounded JSONL: the project's format for photos with captions, phrases, boxes and hierarchies. One JSON object per
//! line, UTF-8.
//!
//! ```json
//! {"id": "1", "image": "photos/1.jpg", "width": 500, "height": 375,
//!  "captions": ["A black dog runs in snow ."],
//!  "phrases": [{"text": "A black dog", "boxes": [[12, 30, 310, 360]], "spans": [[0, 0, 11]]},
//!              {"text": "its ear", "boxes": [[40, 35, 80, 90]], "part_of": 0}],
//!  "wrong": ["A white dog runs in snow ."],
//!  "tiers": {"positive": ["animal", "dog", "black dog"], "negative": ["food", "cat", "white dog"]}, "grade": 5.5,
//!  "taxon": ["Animalia", "Chordata", "Canis lupus"], "label": "dog", "split": "train", "meta": {"licence": 4}}
//! ```
//!
//! * All fields are optional. `id` defaults to the line number. `image` is relative to the folder of the JSONL file;
//!   the photo must be in that folder or in a folder that the user allows
//!   ([`SourceSpec::roots`](crate::SourceSpec::roots)).
//! * `boxes` are corners `[x1, y1, x2, y2]`, y downwards. **With `width` and `height` they are in pixels of a photo of
//!   that size; without, they are fractions in [0, 1].** The size refers to the boxes and may differ from the size of
//!   the file, so a resized photo keeps its boxes.
//! * `spans` are `[caption, start, end]` in characters (Unicode scalar values, end excluded). `part_of` is the index of
//!   another phrase. `score` is the confidence of a detector. `crop` is a file with the cropped box. `group_of` marks a
//!   box that contains several objects (default: false).
//! * `wrong` has one incorrect caption for each of `captions`, with a small change that makes it false for the photo.
//!   `grade` is the mean human rating of how strongly the chain of `tiers` holds.
//! * `tiers` and `taxon` run from general to specific. The numbers of negative and positive tiers are equal.
//!   `missing_ranks` lists the ranks without a name in `taxon`: `[{"position": 1, "name": "phylum"}]`, position 0 being
//!   the most general rank. `common_name` is the everyday name of the species.
//! * `meta` may contain anything and is ignored. Other unknown fields are errors, because they are usually misspelt.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sample::{BBox, Broken, Cause, ImageRef, MissingRank, Phrase, Sample, Span, Tiers};

/// One line of a grounded JSONL file; see the [module](self) for its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroundedRecord {
    /// Id of the sample, unique in the file. Without an id, the line number is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Path of the photo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// Width in pixels of the photo on which the boxes were drawn. Absent if boxes are fractions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<f32>,
    /// Height in pixels of the photo on which the boxes were drawn. Absent if boxes are fractions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<f32>,
    /// Captions of the whole photo.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub captions: Vec<String>,
    /// Incorrect captions, one for each caption.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<String>,
    /// Phrases with boxes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<PhraseRecord>,
    /// Captions from general to specific.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Tiers>,
    /// Human rating of how strongly the chain of tiers holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<f64>,
    /// Names from general to specific in a taxonomy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taxon: Vec<String>,
    /// Ranks for which `taxon` has no name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_ranks: Vec<MissingRank>,
    /// Name of the species in everyday language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_name: Option<String>,
    /// Class of the photo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Split of the sample: "train", "test", ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Data of any form, which is ignored.
    #[serde(skip_serializing)]
    pub meta: serde::de::IgnoredAny,
}

/// A phrase of a [`GroundedRecord`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhraseRecord {
    /// Text of the phrase, such as "A black dog".
    pub text: String,
    /// Boxes as `[x1, y1, x2, y2]`, in pixels if the record has `width` and `height`, otherwise as fractions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<[f32; 4]>,
    /// Occurrences of the phrase in captions, as `[caption, start, end]` in characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<[usize; 3]>,
    /// Index of the phrase of which this phrase is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<usize>,
    /// Confidence of a detector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// File with the cropped box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<PathBuf>,
    /// True if a box contains several objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group_of: bool,
}

impl GroundedRecord {
    /// Converts the record to a sample and checks the sample. Paths are relative to `folder`; `number` is the id of a
    /// record without an id.
    ///
    /// # Errors
    /// An invalid box, span, text or relation (see [`Sample::check`]).
    pub fn into_sample(self, folder: &Path, number: impl std::fmt::Display) -> Result<Sample, Broken> {
        let id = self.id.unwrap_or_else(|| number.to_string());
        let size = match (self.width, self.height) {
            (Some(width), Some(height)) if width > 0.0 && height > 0.0 => Some((width, height)),
            (None, None) => None,
            (width, height) => {
                let found = format!("width is {}, height is {}", shown(width), shown(height));
                let expected = "both, positive (boxes in pixels), or neither (boxes as fractions)";
                return Err(Broken::new(id, Cause::BadRecord, format!("{found}; expected {expected}")));
            }
        };
        let mut phrases = Vec::with_capacity(self.phrases.len());
        for phrase in self.phrases {
            let boxes = phrase.boxes.iter().map(|&corners| bbox(corners, size)).collect::<Result<_, _>>().map_err(
                |detail| {
                    Broken::new(&id, Cause::BadBox, format!("phrase {} ({:?}): {detail}", phrases.len(), phrase.text))
                },
            )?;
            phrases.push(Phrase {
                text: phrase.text,
                boxes,
                spans: phrase.spans.iter().map(|&[caption, start, end]| Span { caption, start, end }).collect(),
                crop: phrase.crop.map(|path| ImageRef::File(folder.join(path))),
                score: phrase.score,
                part_of: phrase.part_of,
                group_of: phrase.group_of,
            });
        }
        let sample = Sample {
            id,
            image: self.image.map(|path| ImageRef::File(folder.join(path))),
            captions: self.captions,
            wrong: self.wrong,
            phrases,
            tiers: self.tiers,
            grade: self.grade,
            taxon: self.taxon,
            missing_ranks: self.missing_ranks,
            common_name: self.common_name,
            label: self.label,
            split: self.split,
        };
        sample.check()?;
        Ok(sample)
    }

    /// Converts a sample to a record: boxes as fractions, photos with the paths that `path` returns.
    ///
    /// # Errors
    /// The errors of `path`.
    pub fn from_sample<E>(sample: &Sample, mut path: impl FnMut(&ImageRef) -> Result<PathBuf, E>) -> Result<Self, E> {
        Ok(Self {
            id: Some(sample.id.clone()),
            image: sample.image.as_ref().map(&mut path).transpose()?,
            width: None,
            height: None,
            captions: sample.captions.clone(),
            phrases: sample
                .phrases
                .iter()
                .map(|phrase| {
                    Ok(PhraseRecord {
                        text: phrase.text.clone(),
                        boxes: phrase.boxes.iter().map(|b| [b.x1, b.y1, b.x2, b.y2]).collect(),
                        spans: phrase.spans.iter().map(|s| [s.caption, s.start, s.end]).collect(),
                        part_of: phrase.part_of,
                        score: phrase.score,
                        crop: phrase.crop.as_ref().map(&mut path).transpose()?,
                        group_of: phrase.group_of,
                    })
                })
                .collect::<Result<_, E>>()?,
            wrong: sample.wrong.clone(),
            tiers: sample.tiers.clone(),
            grade: sample.grade,
            taxon: sample.taxon.clone(),
            missing_ranks: sample.missing_ranks.clone(),
            common_name: sample.common_name.clone(),
            label: sample.label.clone(),
            split: sample.split.clone(),
            meta: serde::de::IgnoredAny,
        })
    }
}

/// Converts corners in pixels or fractions to fractions; rounding errors at the borders are clipped. Returns an error
/// only if pixels and fractions appear to be confused; [`BBox::check`] detects other faults.
fn bbox(corners: [f32; 4], size: Option<(f32, f32)>) -> Result<BBox, String> {
    let Some((width, height)) = size else {
        let [x1, y1, x2, y2] = corners;
        let bbox = BBox { x1, y1, x2, y2 }.clipped();
        return match bbox.check() {
            Err(found) if corners.iter().any(|&v| v > 2.0) => {
                Err(format!("{found} (boxes in pixels need `width` and `height`)"))
            }
            _ => Ok(bbox),
        };
    };
    let bbox = BBox::from_pixels(corners, width, height);
    // Coordinates up to 1 would be a box of one pixel in the top left corner, so they are probably fractions.
    if corners.iter().all(|v| (0.0..=1.0).contains(v)) && width.min(height) > 2.0 {
        return Err(format!(
            "box is {corners:?} in a photo of {width} x {height}; expected pixels (omit `width` and `height` for boxes as fractions)"
        ));
    }
    Ok(bbox.clipped())
}

fn shown(value: Option<f32>) -> String {
    value.map_or_else(|| "absent".to_owned(), |v| v.to_string())
}

#[cfg(test)]
mod tests;
