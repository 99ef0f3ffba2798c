//! Flickr8k with the phrases of Flickr30k Entities, as tables: `phrase_boxes.tsv` (image, phrase, xmin, ymin, xmax,
//! ymax in pixels), `captions.csv` (image, caption), and lists of the photos of each split. Spans come from a search
//! for the phrases in the captions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use conifer_data::{BBox, Broken, Error, PixelLimits, Result, Sample};
use serde::Deserialize;

use super::shared::{add_box, mentions, photo, table};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "flickr_tables",
    summary: "Flickr8k: tables of captions and of phrases with boxes",
    inputs: &[
        ImporterInput { name: "captions", help: "CSV of image, caption", required: true },
        ImporterInput { name: "images", help: "the folder of the photos", required: true },
        ImporterInput { name: "phrases", help: "TSV of image, phrase, xmin, ymin, xmax, ymax", required: false },
        ImporterInput {
            name: "sizes",
            help: "TSV of image, width, height of the photos on which the boxes were drawn; default: the sizes of the files",
            required: false,
        },
        ImporterInput { name: "train", help: "list of photos of the train split, one per line", required: false },
        ImporterInput { name: "dev", help: "list of photos of the dev split", required: false },
        ImporterInput { name: "test", help: "list of photos of the test split", required: false },
    ],
    options: &[],
    read,
};

#[derive(Deserialize)]
struct CaptionRow {
    image: String,
    caption: String,
}

#[derive(Deserialize)]
struct PhraseRow {
    image: String,
    phrase: String,
    xmin: f32,
    ymin: f32,
    xmax: f32,
    ymax: f32,
}

#[derive(Deserialize)]
struct SizeRow {
    image: String,
    width: f32,
    height: f32,
}

#[derive(Default)]
struct FlickrPhoto {
    captions: Vec<String>,
    phrases: Vec<(String, [f32; 4])>,
    size: Option<(f32, f32)>,
    split: Option<&'static str>,
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let mut photos: BTreeMap<String, FlickrPhoto> = BTreeMap::new();
    let mut lost = Vec::new();
    for row in table::<CaptionRow>(inputs.need("captions")?, "columns image, caption")? {
        match row {
            Ok(row) => photos.entry(row.image).or_default().captions.push(row.caption.trim().to_owned()),
            Err(broken) => lost.push(broken),
        }
    }
    if let Some(path) = inputs.get("phrases") {
        for row in table::<PhraseRow>(path, "columns image, phrase, xmin, ymin, xmax, ymax")? {
            match row {
                Ok(row) => {
                    let corners = [row.xmin, row.ymin, row.xmax, row.ymax];
                    photos.entry(row.image).or_default().phrases.push((row.phrase, corners));
                }
                Err(broken) => lost.push(broken),
            }
        }
    }
    if let Some(path) = inputs.get("sizes") {
        for row in table::<SizeRow>(path, "columns image, width, height")? {
            match row {
                Ok(row) => {
                    if let Some(photo) = photos.get_mut(&row.image) {
                        photo.size = Some((row.width, row.height));
                    }
                }
                Err(broken) => lost.push(broken),
            }
        }
    }
    for split in ["train", "dev", "test"] {
        if let Some(path) = inputs.get(split) {
            let list = fs::read_to_string(path).map_err(Error::io("read", path))?;
            for name in list.split_whitespace() {
                if let Some(photo) = photos.get_mut(name) {
                    photo.split = Some(split);
                }
            }
        }
    }
    let folder = inputs.need("images")?.to_owned();
    let samples = photos.into_iter().flat_map(move |(name, photo)| {
        let mut faults = Vec::new();
        let sample = sample(&folder, name, photo, &mut faults);
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    });
    Ok(Box::new(lost.into_iter().map(Err).chain(samples)))
}

fn sample(folder: &Path, name: String, found: FlickrPhoto, faults: &mut Vec<Broken>) -> Result<Sample, Broken> {
    let image = photo(folder, &name, &name)?;
    let mut phrases = Vec::new();
    if !found.phrases.is_empty() {
        let (width, height) = match found.size {
            Some(size) => size,
            None => {
                let (width, height) = image.size(&PixelLimits::default()).map_err(|broken| broken.within(&name))?;
                (width as f32, height as f32)
            }
        };
        for (text, corners) in &found.phrases {
            let bbox = BBox::from_pixels(*corners, width, height);
            add_box(&mut phrases, faults, &name, text.trim(), bbox);
        }
        for phrase in &mut phrases {
            phrase.spans = mentions(&found.captions, &phrase.text);
        }
    }
    Ok(Sample {
        id: name,
        image: Some(image),
        captions: found.captions,
        phrases,
        split: found.split.map(str::to_owned),
        ..Sample::default()
    })
}
