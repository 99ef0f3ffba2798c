//! The HierarCaps test set joined with COCO, one JSON object per line: `file`, `tiers`, `captions`, and `boxes` of
//! `[name, x1, y1, x2, y2]` in pixels of the original photo. The photos are letterboxed: with `letterbox` = {scale,
//! pad_x, pad_y}, an original pixel x is at `x * scale + pad_x` in a square whose side is `scale` times the longer side
//! of the photo.

use std::path::Path;

use conifer_data::{BBox, Broken, Result, Sample, Tiers};
use serde::Deserialize;

use super::shared::{add_box, json_lines, mentions, photo};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "hierarcaps_joined",
    summary: "HierarCaps test set with the captions and boxes of COCO, joined in one JSONL file",
    inputs: &[ImporterInput { name: "records", help: "the joined JSONL file", required: true }],
    options: &[],
    read,
};

#[derive(Deserialize)]
struct HierarCapsRecord {
    id: u64,
    file: String,
    width: f32,
    height: f32,
    letterbox: Letterbox,
    tiers: Vec<String>,
    captions: Vec<String>,
    boxes: Vec<(String, f32, f32, f32, f32)>,
}

#[derive(Deserialize)]
struct Letterbox {
    scale: f32,
    pad_x: f32,
    pad_y: f32,
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let path = inputs.need("records")?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let records = json_lines::<HierarCapsRecord>(path, "id, file, width, height, letterbox, tiers, captions, boxes")?;
    Ok(Box::new(records.flat_map(move |record| {
        let mut faults = Vec::new();
        let sample = record.and_then(|record| sample(&folder, record, &mut faults));
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    })))
}

fn sample(folder: &Path, record: HierarCapsRecord, faults: &mut Vec<Broken>) -> Result<Sample, Broken> {
    let id = record.id.to_string();
    let image = photo(folder, &record.file, &id)?;
    let Letterbox { scale, pad_x, pad_y } = record.letterbox;
    let side = record.width.max(record.height) * scale;
    let mut phrases = Vec::new();
    for (name, x1, y1, x2, y2) in &record.boxes {
        let corners = [x1 * scale + pad_x, y1 * scale + pad_y, x2 * scale + pad_x, y2 * scale + pad_y];
        add_box(&mut phrases, faults, &id, name, BBox::from_pixels(corners, side, side));
    }
    for phrase in &mut phrases {
        phrase.spans = mentions(&record.captions, &phrase.text);
    }
    Ok(Sample {
        id,
        image: Some(image),
        captions: record.captions,
        phrases,
        tiers: Some(Tiers { positive: record.tiers, negative: Vec::new() }),
        ..Sample::default()
    })
}
