//! GRIT as downloaded by img2dataset: shards of `<key>.jpg`, `<key>.txt` and `<key>.json`. The JSON has `caption`,
//! `noun_chunks` and `ref_exps`. Each of the latter two is a list of `[start, end, x1, y1, x2, y2, score]`: a character
//! range of the caption, a box in fractions of the photo, a confidence
//! (<https://huggingface.co/datasets/zzliang/GRIT>).

use serde::Deserialize;

use super::SourceEntry;
use crate::error::{Error, Result};
use crate::sample::{BBox, Broken, Cause, Phrase, Sample, Span, View, char_slice};
use crate::shard::{ShardRecord, Shards};
use crate::source::{Source, SourceSpec};

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "grit_raw",
    summary: "GRIT shards as downloaded by img2dataset",
    inputs: "path: pattern of .tar shards; options: min_score (0 to 1, default 0)",
    read: |spec| Ok(Box::new(GritRaw::open(spec)?)),
};

/// GRIT shards as downloaded by img2dataset.
pub struct GritRaw {
    shards: Shards,
    options: GritRawOptions,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GritRawOptions {
    /// Boxes with a lower score are dropped. GRIT itself uses a threshold of 0.65.
    min_score: f32,
}

impl Default for GritRawOptions {
    fn default() -> Self {
        Self { min_score: 0.0 }
    }
}

#[derive(Deserialize)]
struct GritAnnotation {
    caption: Option<String>,
    #[serde(default)]
    noun_chunks: Vec<[f64; 7]>,
    #[serde(default)]
    ref_exps: Vec<[f64; 7]>,
}

impl GritRaw {
    /// Indexes the shards.
    ///
    /// # Errors
    /// The errors of [`Shards::open`]; an option is invalid, or a split is set.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: GritRawOptions = spec.parse_options()?;
        if !(0.0..=1.0).contains(&options.min_score) {
            return Err(Error::invalid("min_score", options.min_score.to_string(), "0 to 1"));
        }
        spec.no_split()?;
        Ok(Self { shards: Shards::open(spec.need_path()?)?, options })
    }
}

impl Source for GritRaw {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.shards.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let record = self.shards.record(index)?;
        let image = record.need_image("")?;
        let json = record.need_text("json")?;
        let annotation: GritAnnotation = serde_json::from_str(&json).map_err(|error| {
            let detail = format!("`.json`: {error}; expected caption, noun_chunks and ref_exps");
            record.broken(Cause::BadRecord, detail)
        })?;
        let caption = match annotation.caption {
            Some(caption) => caption,
            None => record.need_text("txt")?,
        };
        let rows = annotation.noun_chunks.iter().chain(&annotation.ref_exps);
        let phrases = phrases(&record, &caption, rows.filter(|row| row[6] >= f64::from(self.options.min_score)))?;
        let sample =
            Sample { id: record.key, image: Some(image), captions: vec![caption], phrases, ..Sample::default() };
        sample.check()?;
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &[View::Pair, View::Boxes]
    }

    fn fingerprint(&self) -> String {
        self.shards.fingerprint().to_owned()
    }
}

/// One phrase for each distinct text, with all its boxes and spans. The same text usually occurs as a noun chunk and as
/// a referring expression.
fn phrases<'a>(
    record: &ShardRecord,
    caption: &str,
    rows: impl Iterator<Item = &'a [f64; 7]>,
) -> Result<Vec<Phrase>, Broken> {
    let mut phrases: Vec<Phrase> = Vec::new();
    for &[start, end, x1, y1, x2, y2, score] in rows {
        let place = |v: f64| (v >= 0.0 && v.fract() == 0.0 && v < 1e9).then_some(v as usize);
        let span = place(start).zip(place(end)).map(|(start, end)| Span { caption: 0, start, end });
        let found = span.and_then(|span| Some((span, char_slice(caption, span.start, span.end)?)));
        let Some((span, text)) = found.filter(|(_, text)| !text.is_empty()) else {
            let len = caption.chars().count();
            let detail = format!(
                "span [{start}, {end}] is outside its caption of {len} characters; expected start < end <= {len}"
            );
            return Err(record.broken(Cause::BadSpan, detail));
        };
        let bbox = BBox { x1: x1 as f32, y1: y1 as f32, x2: x2 as f32, y2: y2 as f32 }.clipped();
        let score = score as f32;
        let text = text.trim();
        match phrases.iter_mut().find(|phrase| phrase.text == text) {
            None => phrases.push(Phrase {
                text: text.to_owned(),
                boxes: vec![bbox],
                spans: vec![span],
                score: Some(score),
                ..Phrase::default()
            }),
            Some(phrase) => {
                if !phrase.boxes.contains(&bbox) {
                    phrase.boxes.push(bbox);
                }
                if !phrase.spans.contains(&span) {
                    phrase.spans.push(span);
                }
                phrase.score = phrase.score.map(|best| best.max(score));
            }
        }
    }
    Ok(phrases)
}
