//! The [`Sample`] that every source yields: one per photograph or text hierarchy, already validated.

mod guard;
mod ranks;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use guard::guarded;
pub use ranks::MissingRank;

use crate::printable::one_line;
use crate::vectors::SharedVector;

/// Maximum length of a caption, phrase or tier, in characters. A longer text usually results from a missing line break
/// or quote in the file.
pub const MAX_TEXT_CHARS: usize = 16_384;

/// Boxes may extend beyond the photo by this fraction of its side, and are clipped. Annotation files round coordinates,
/// and give right borders as `width` or `width + 1`. Boxes that extend further are invalid.
pub const BOX_SLACK: f32 = 0.01;

/// One photograph with its annotations. Every field except `id` may be empty; [`View`] lists the fields that a batch
/// needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Id, unique within the source.
    pub id: String,
    /// The photograph; `None` for a sample that has texts only.
    pub image: Option<ImageRef>,
    /// Descriptions of the whole photograph.
    pub captions: Vec<String>,
    /// Objects in the photograph, each with a text and boxes.
    pub phrases: Vec<Phrase>,
    /// Wrong captions for compositional tests: `wrong[i]` is a small edit of `captions[i]`.
    pub wrong: Vec<String>,
    /// A chain of captions from general to specific.
    pub tiers: Option<Tiers>,
    /// Human rating of how strongly the chain of `tiers` holds (HyperLex: 0 to 10).
    pub grade: Option<f64>,
    /// Names from the root of a taxonomy to the class of this sample. Ranks without a name are left out.
    pub taxon: Vec<String>,
    /// The ranks that have no name in `taxon`, general to specific. Empty if the source does not know them.
    pub missing_ranks: Vec<MissingRank>,
    /// Name of the species in everyday language, for example "common blackbird".
    pub common_name: Option<String>,
    /// Name of the class.
    pub label: Option<String>,
    /// Split given by the source: "train", "dev", "test", ...
    pub split: Option<String>,
}

/// An object in the photograph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phrase {
    /// The text, for example "a black dog".
    pub text: String,
    /// Boxes of the object; several if the text names several objects.
    pub boxes: Vec<BBox>,
    /// Positions of the object in the captions.
    pub spans: Vec<Span>,
    /// The image of the box, if the source stores it separately (processed GRIT).
    pub crop: Option<ImageRef>,
    /// Confidence of the detector, if the box was detected.
    pub score: Option<f32>,
    /// Index in [`Sample::phrases`] of the object that contains this part.
    pub part_of: Option<usize>,
    /// True if each box contains a group of objects (OpenImages' IsGroupOf): more than five objects of one class that
    /// touch each other.
    pub group_of: bool,
}

/// A rectangle given by its corners, as fractions of the photo's width and height: `0 <= x1 < x2 <= 1`, `0 <= y1 < y2
/// <= 1`. y points down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BBox {
    /// Left border.
    pub x1: f32,
    /// Top border.
    pub y1: f32,
    /// Right border.
    pub x2: f32,
    /// Bottom border.
    pub y2: f32,
}

/// Characters `start..end` (Unicode scalar values, half open) of the caption with index `caption`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Index in [`Sample::captions`].
    pub caption: usize,
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
}

/// A chain of captions, general to specific.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// General to specific, for example "animal", "dog", "black dog", "black dog in the snow".
    pub positive: Vec<String>,
    /// A chain that is wrong for the photograph. Empty, or as long as `positive`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub negative: Vec<String>,
}

/// A photograph, or the location of its bytes. Nothing is read before [`ImageRef::open`].
#[derive(Clone, Debug, PartialEq)]
pub enum ImageRef {
    /// A separate file.
    File(PathBuf),
    /// Bytes `offset..offset + len` of a tar shard.
    Member {
        /// Path of the shard.
        shard: PathBuf,
        /// First byte of the member's content.
        offset: u64,
        /// Length of the member's content in bytes.
        len: u64,
        /// The member's name, for messages.
        name: String,
    },
    /// An image file in memory.
    Encoded(Arc<[u8]>),
    /// Decoded pixels.
    Pixels(Arc<Picture>),
    /// Features that another program computed, instead of a photograph.
    Vector(SharedVector),
}

/// A decoded photograph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// `[height, width, 3]`, channels red, green, blue, values 0 to 255.
    pub rgb: Vec<u8>,
}

/// Limits that [`ImageRef::open`] enforces before pixels are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PixelLimits {
    /// Minimum length of the shorter side, in pixels.
    pub min_side: u32,
    /// Maximum ratio of the longer side to the shorter side. Without it, a photo of 20,000 x 2 would be resized to
    /// 2,240,000 x 224.
    pub max_aspect: f32,
    /// Maximum number of pixels, width times height.
    pub max_pixels: u64,
    /// Maximum length of the encoded file, in bytes.
    pub max_bytes: u64,
}

impl Default for PixelLimits {
    /// 2 pixels, a ratio of 50 to 1, 100 megapixels, 256 MiB.
    fn default() -> Self {
        Self { min_side: 2, max_aspect: 50.0, max_pixels: 100_000_000, max_bytes: 256 << 20 }
    }
}

/// A sample that cannot be used, with the reason. Broken samples are skipped, counted by [`Cause`] and reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The sample's id, or its file and position if it has no id.
    pub sample: String,
    /// Category of the fault.
    pub cause: Cause,
    /// The value found and the value expected.
    pub detail: String,
}

/// Categories of faults, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A file of the sample does not exist or cannot be read.
    MissingFile,
    /// A file of the sample is outside the allowed folders; see `--root`.
    OutsideRoots,
    /// The bytes are not an image, or are incomplete.
    UndecodableImage,
    /// More pixels or bytes than [`PixelLimits`] allows.
    ImageTooLarge,
    /// Fewer pixels on a side than [`PixelLimits`] allows.
    ImageTooSmall,
    /// A larger aspect ratio than [`PixelLimits`] allows.
    ImageTooNarrow,
    /// A box outside the photo, inverted or not a number.
    BadBox,
    /// A box that an option of the importer leaves out.
    Filtered,
    /// A span outside its caption, or empty.
    BadSpan,
    /// The record has no photograph, but one is needed.
    NoImage,
    /// The sample has no caption, or an empty caption.
    NoCaption,
    /// A caption, phrase or tier of more than [`MAX_TEXT_CHARS`] characters.
    CaptionTooLong,
    /// No phrase with a usable box or crop.
    NoBox,
    /// No chain of texts, no rank with a name, fewer tiers than requested, or no negatives.
    NoChain,
    /// The record does not match its format.
    BadRecord,
    /// The shard is truncated or has corrupt bytes.
    TornShard,
}

/// The parts of a sample that a batch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// A photograph and a caption.
    Pair,
    /// A pair, and phrases with boxes or crops.
    Boxes,
    /// A chain of texts from general to specific: tiers or taxon.
    Chain,
    /// A photograph, its boxes, and their part-of relations.
    Edges,
    /// A photograph without a caption. Sources list it only if they have no other view with photographs.
    Photo,
}

impl Sample {
    /// One text per name of the taxon, general to specific. Each joins the names from the root to that rank with
    /// spaces; missing ranks are left out.
    pub fn taxon_texts(&self) -> Vec<String> {
        (1..=self.taxon.len()).map(|ranks| self.taxon[..ranks].join(" ")).collect()
    }

    /// Checks that texts are neither empty nor too long, boxes are inside the photo, spans are inside their captions,
    /// related phrases exist, paired lists have equal lengths, and missing ranks have valid positions. Sources call
    /// this method in `get`.
    pub fn check(&self) -> Result<(), Broken> {
        let broken = |cause, detail| Err(Broken::new(&self.id, cause, detail));
        for (i, caption) in self.captions.iter().enumerate() {
            check_text(caption).or_else(|(cause, d)| broken(cause, format!("caption {i} {d}")))?;
        }
        for (i, caption) in self.wrong.iter().enumerate() {
            check_text(caption).or_else(|(cause, d)| broken(cause, format!("wrong caption {i} {d}")))?;
        }
        if !self.wrong.is_empty() && self.wrong.len() != self.captions.len() {
            let (right, wrong) = (self.captions.len(), self.wrong.len());
            return broken(Cause::BadRecord, format!("{wrong} wrong captions; expected {right}, one per caption"));
        }
        if let Some(grade) = self.grade.filter(|grade| !grade.is_finite()) {
            return broken(Cause::BadRecord, format!("grade is {grade}; expected a number"));
        }
        for (i, phrase) in self.phrases.iter().enumerate() {
            let at = |d: String| format!("phrase {i} ({:?}): {d}", phrase.text);
            check_text(&phrase.text).or_else(|(cause, d)| broken(cause, format!("phrase {i} {d}")))?;
            for bbox in &phrase.boxes {
                bbox.check().or_else(|d| broken(Cause::BadBox, at(d)))?;
            }
            for span in &phrase.spans {
                span.check(&self.captions).or_else(|d| broken(Cause::BadSpan, at(d)))?;
            }
            if let Some(whole) = phrase.part_of
                && (whole >= self.phrases.len() || whole == i)
            {
                let expected = format!("another phrase, 0 to {}", self.phrases.len() - 1);
                return broken(Cause::BadRecord, at(format!("part_of is {whole}; expected {expected}")));
            }
        }
        for (rank, name) in self.taxon.iter().enumerate() {
            check_text(name).or_else(|(_, d)| broken(Cause::BadRecord, format!("rank {rank} of the taxon {d}")))?;
        }
        self.check_missing_ranks().or_else(|d| broken(Cause::BadRecord, d))?;
        if let Some(name) = &self.common_name {
            check_text(name).or_else(|(_, d)| broken(Cause::BadRecord, format!("common_name {d}")))?;
        }
        if let Some(tiers) = &self.tiers {
            for (kind, chain) in [("positive", &tiers.positive), ("negative", &tiers.negative)] {
                for (i, text) in chain.iter().enumerate() {
                    check_text(text).or_else(|(cause, d)| broken(cause, format!("{kind} tier {i} {d}")))?;
                }
            }
            if !tiers.negative.is_empty() && tiers.negative.len() != tiers.positive.len() {
                let (p, n) = (tiers.positive.len(), tiers.negative.len());
                return broken(Cause::BadRecord, format!("{n} negative tiers; expected {p}, one per positive tier"));
            }
        }
        Ok(())
    }
}

impl BBox {
    /// Makes a box from corners in pixels of a `width` x `height` photo, without checks; see [`BBox::check`].
    pub fn from_pixels([x1, y1, x2, y2]: [f32; 4], width: f32, height: f32) -> Self {
        Self { x1: x1 / width, y1: y1 / height, x2: x2 / width, y2: y2 / height }
    }

    /// The pixels that the box touches in a `width` x `height` photo: `[x1, y1, x2, y2]`, half open, at least one
    /// pixel per axis, inside the photo. A border within 1/1000 pixel of an integer counts as that integer, because
    /// f32 fractions do not convert back exactly.
    pub fn to_pixels(&self, width: u32, height: u32) -> [u32; 4] {
        let axis = |from: f32, to: f32, side: u32| {
            let last = side.saturating_sub(1);
            let start = ((from * side as f32 + 1e-3).floor().max(0.0) as u32).min(last);
            let end = ((to * side as f32 - 1e-3).ceil().max(0.0) as u32).clamp(start + 1, last + 1);
            (start, end)
        };
        let (x1, x2) = axis(self.x1, self.x2, width);
        let (y1, y2) = axis(self.y1, self.y2, height);
        [x1, y1, x2, y2]
    }

    /// Area as a fraction of the photo's area.
    pub fn area(&self) -> f32 {
        (self.x2 - self.x1) * (self.y2 - self.y1)
    }

    /// `Err` describes the fault: outside the photo, inverted, or not a number.
    pub fn check(&self) -> Result<(), String> {
        let inside = |v: f32| (0.0..=1.0).contains(&v);
        if [self.x1, self.y1, self.x2, self.y2].into_iter().all(inside) && self.x1 < self.x2 && self.y1 < self.y2 {
            return Ok(());
        }
        Err(format!("box is {self}; expected 0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1, as fractions of the photo"))
    }

    /// Clips coordinates that are outside the photo by at most [`BOX_SLACK`]. Coordinates further outside are not
    /// changed, and [`BBox::check`] rejects them.
    pub fn clipped(self) -> Self {
        let clip = |v: f32| {
            if (-BOX_SLACK..=1.0 + BOX_SLACK).contains(&v) { v.clamp(0.0, 1.0) } else { v }
        };
        Self { x1: clip(self.x1), y1: clip(self.y1), x2: clip(self.x2), y2: clip(self.y2) }
    }
}

impl fmt::Display for BBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}, {}, {}]", self.x1, self.y1, self.x2, self.y2)
    }
}

impl Span {
    /// `Err` describes the fault: the caption does not exist, or the span is empty or ends after the end of the
    /// caption.
    pub fn check(&self, captions: &[String]) -> Result<(), String> {
        let Self { caption, start, end } = *self;
        let Some(text) = captions.get(caption) else {
            return Err(format!(
                "span [{caption}, {start}, {end}] names caption {caption}; expected one of the {} captions, counted from 0",
                captions.len()
            ));
        };
        let len = text.chars().count();
        if start < end && end <= len {
            return Ok(());
        }
        Err(format!(
            "span [{caption}, {start}, {end}] is outside its caption of {len} characters; expected start < end <= {len}"
        ))
    }

    /// The text of the span; `None` if the span is not inside `captions`.
    pub fn text<'a>(&self, captions: &'a [String]) -> Option<&'a str> {
        char_slice(captions.get(self.caption)?, self.start, self.end)
    }
}

/// Characters `start..end` of a text; `None` if the text is shorter, or `start` is after `end`.
pub(crate) fn char_slice(text: &str, start: usize, end: usize) -> Option<&str> {
    let mut borders = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    let from = borders.nth(start)?;
    match end.checked_sub(start)? {
        0 => Some(""),
        n => Some(&text[from..borders.nth(n - 1)?]),
    }
}

impl Picture {
    /// `rgb` is `[height, width, 3]`; `None` if its length does not match.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        (rgb.len() as u64 == u64::from(width) * u64::from(height) * 3).then_some(Self { width, height, rgb })
    }
}

impl Broken {
    /// Makes a [`Broken`] from its parts.
    pub fn new(sample: impl Into<String>, cause: Cause, detail: impl Into<String>) -> Self {
        Self { sample: sample.into(), cause, detail: detail.into() }
    }

    /// Replaces the name with the id of the sample, and moves the old name into the detail. Errors of an image name its
    /// path, because an image does not know its sample.
    pub fn within(mut self, sample: &str) -> Self {
        if self.sample != sample {
            self.detail = format!("`{}`: {}", self.sample, self.detail);
            self.sample = sample.to_owned();
        }
        self
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ids and details quote data that may contain line breaks. The message must stay on one line.
        let (sample, detail) = (one_line(&self.sample), one_line(&self.detail));
        write!(f, "sample `{sample}`: {}: {detail}", self.cause.name())
    }
}

impl std::error::Error for Broken {}

impl Cause {
    /// Every cause except [`Cause::Filtered`].
    pub const ALL: &[Self] = &[
        Self::MissingFile,
        Self::OutsideRoots,
        Self::UndecodableImage,
        Self::ImageTooLarge,
        Self::ImageTooSmall,
        Self::ImageTooNarrow,
        Self::BadBox,
        Self::BadSpan,
        Self::NoImage,
        Self::NoCaption,
        Self::CaptionTooLong,
        Self::NoBox,
        Self::NoChain,
        Self::BadRecord,
        Self::TornShard,
    ];

    /// Name in reports and JSON, for example "missing_file".
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingFile => "missing_file",
            Self::OutsideRoots => "outside_roots",
            Self::UndecodableImage => "undecodable_image",
            Self::ImageTooLarge => "image_too_large",
            Self::ImageTooSmall => "image_too_small",
            Self::ImageTooNarrow => "image_too_narrow",
            Self::BadBox => "bad_box",
            Self::Filtered => "filtered",
            Self::BadSpan => "bad_span",
            Self::NoImage => "no_image",
            Self::NoCaption => "no_caption",
            Self::CaptionTooLong => "caption_too_long",
            Self::NoBox => "no_box",
            Self::NoChain => "no_chain",
            Self::BadRecord => "bad_record",
            Self::TornShard => "torn_shard",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl View {
    /// Name in configs and reports, for example "pair".
    pub fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Boxes => "boxes",
            Self::Chain => "chain",
            Self::Edges => "edges",
            Self::Photo => "photo",
        }
    }

    /// True if a source that lists `views` provides this view. All views but [`View::Chain`] include the photograph.
    pub fn is_in(self, views: &[Self]) -> bool {
        views.contains(&self) || self == Self::Photo && views.iter().any(|view| *view != Self::Chain)
    }
}

fn check_text(text: &str) -> Result<(), (Cause, String)> {
    if text.trim().is_empty() {
        return Err((Cause::NoCaption, "is empty; expected a text".to_owned()));
    }
    // The number of characters is at most the number of bytes, so count them only if the bytes exceed the limit.
    if text.len() > MAX_TEXT_CHARS {
        let chars = text.chars().count();
        if chars > MAX_TEXT_CHARS {
            let words = text.split_whitespace().count();
            return Err((
                Cause::CaptionTooLong,
                format!("has {words} words, {chars} characters; expected at most {MAX_TEXT_CHARS} characters"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
