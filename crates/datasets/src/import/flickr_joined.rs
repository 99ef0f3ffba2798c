//! Flickr8k with the phrases of Flickr30k Entities, joined into one JSON object per line: `file` (relative to the JSONL
//! file), `width`, `height`, `split`, `captions`, and `phrases` of `phrase`, `boxes` (pixels), `captions`
//! (`[caption, start, end]` in characters).

use std::path::Path;

use conifer_data::{BBox, Broken, Phrase, Result, Sample, Span};
use serde::Deserialize;

use super::shared::{add_box, json_lines, photo};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "flickr_joined",
    summary: "Flickr8k: photos, captions, phrases and boxes joined in one JSONL file",
    inputs: &[ImporterInput { name: "records", help: "the joined JSONL file", required: true }],
    options: &[],
    read,
};

#[derive(Deserialize)]
struct FlickrRecord {
    file: String,
    width: f32,
    height: f32,
    split: Option<String>,
    captions: Vec<String>,
    phrases: Vec<FlickrPhrase>,
}

#[derive(Deserialize)]
struct FlickrPhrase {
    phrase: String,
    boxes: Vec<[f32; 4]>,
    captions: Vec<[usize; 3]>,
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let path = inputs.need("records")?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let records = json_lines::<FlickrRecord>(path, "file, width, height, captions, phrases")?;
    Ok(Box::new(records.flat_map(move |record| {
        let mut faults = Vec::new();
        let sample = record.and_then(|record| sample(&folder, record, &mut faults));
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    })))
}

fn sample(folder: &Path, record: FlickrRecord, faults: &mut Vec<Broken>) -> Result<Sample, Broken> {
    // The file name without its folder: the same photo may be in several folders.
    let id = record.file.rsplit('/').next().unwrap_or_default().trim_end_matches(".jpg").to_owned();
    let image = photo(folder, &record.file, &id)?;
    let mut phrases = Vec::with_capacity(record.phrases.len());
    for one in record.phrases {
        let mut found: Vec<Phrase> = Vec::new();
        for corners in one.boxes {
            let bbox = BBox::from_pixels(corners, record.width, record.height);
            add_box(&mut found, faults, &id, &one.phrase, bbox);
        }
        phrases.push(Phrase {
            boxes: found.pop().unwrap_or_default().boxes,
            text: one.phrase,
            spans: one.captions.iter().map(|&[caption, start, end]| Span { caption, start, end }).collect(),
            ..Phrase::default()
        });
    }
    Ok(Sample { id, image: Some(image), captions: record.captions, phrases, split: record.split, ..Sample::default() })
}
