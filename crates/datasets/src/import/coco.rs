//! COCO: `instances_*.json` (boxes of 80 classes) and `captions_*.json`, joined by photo
//! (<https://cocodataset.org/#format-data>). A phrase is a class name with all boxes of this class in the photo. Crowd
//! regions are skipped because they are not boxes of single objects.

use std::collections::BTreeMap;

use conifer_data::{BBox, Broken, Cause, Error, Result, Sample};
use serde::Deserialize;

use super::shared::{add_box, mentions, photo, read_json};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "coco",
    summary: "COCO boxes and captions",
    inputs: &[
        ImporterInput { name: "images", help: "the folder of the photos", required: true },
        ImporterInput { name: "instances", help: "instances_*.json", required: false },
        ImporterInput { name: "captions", help: "captions_*.json", required: false },
    ],
    options: &[],
    read,
};

/// The file has other fields, mainly segmentations, which are skipped.
#[derive(Deserialize)]
struct CocoInstances {
    images: Vec<CocoImage>,
    annotations: Vec<CocoInstance>,
    categories: Vec<CocoCategory>,
}

#[derive(Deserialize)]
struct CocoCaptions {
    images: Vec<CocoImage>,
    annotations: Vec<CocoCaption>,
}

#[derive(Deserialize)]
struct CocoImage {
    id: u64,
    file_name: String,
    width: f32,
    height: f32,
}

#[derive(Deserialize)]
struct CocoInstance {
    image_id: u64,
    category_id: u64,
    /// Left, top, width, height in pixels.
    bbox: [f32; 4],
    #[serde(default)]
    iscrowd: u8,
}

#[derive(Deserialize)]
struct CocoCategory {
    id: u64,
    name: String,
}

#[derive(Deserialize)]
struct CocoCaption {
    id: u64,
    image_id: u64,
    caption: String,
}

/// A photo with its boxes and captions.
struct CocoPhoto {
    image: CocoImage,
    boxes: Vec<(u64, [f32; 4])>,
    captions: Vec<(u64, String)>,
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    if inputs.get("instances").or(inputs.get("captions")).is_none() {
        return Err(Error::invalid("inputs of coco", "images alone", "instances, captions, or both"));
    }
    let folder = inputs.need("images")?.to_owned();
    let mut photos: BTreeMap<u64, CocoPhoto> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut lost = Vec::new();
    if let Some(path) = inputs.get("instances") {
        let file: CocoInstances = read_json(path, "images, annotations with bbox, categories")?;
        names.extend(file.categories.into_iter().map(|category| (category.id, category.name)));
        add_images(&mut photos, file.images);
        for one in file.annotations.into_iter().filter(|one| one.iscrowd == 0) {
            match photos.get_mut(&one.image_id) {
                Some(joined) => joined.boxes.push((one.category_id, one.bbox)),
                None => lost.push(orphan(one.image_id, "box")),
            }
        }
    }
    if let Some(path) = inputs.get("captions") {
        let file: CocoCaptions = read_json(path, "images, annotations with caption")?;
        add_images(&mut photos, file.images);
        for one in file.annotations {
            match photos.get_mut(&one.image_id) {
                Some(joined) => joined.captions.push((one.id, one.caption.trim().to_owned())),
                None => lost.push(orphan(one.image_id, "caption")),
            }
        }
    }
    let samples = photos.into_values().flat_map(move |joined| {
        let mut out = Vec::new();
        let id = joined.image.id.to_string();
        match photo(&folder, &joined.image.file_name, &id) {
            Ok(image) => {
                let sample = sample(joined, &names, &mut out);
                out.push(Ok(Sample { id, image: Some(image), ..sample }));
            }
            Err(broken) => out.push(Err(broken)),
        }
        out
    });
    Ok(Box::new(lost.into_iter().map(Err).chain(samples)))
}

fn add_images(photos: &mut BTreeMap<u64, CocoPhoto>, images: Vec<CocoImage>) {
    for image in images {
        photos.entry(image.id).or_insert_with(|| CocoPhoto { image, boxes: Vec::new(), captions: Vec::new() });
    }
}

fn orphan(image: u64, what: &str) -> Broken {
    let detail = format!("a {what} of photo {image}; expected this photo in the list of images");
    Broken::new(image.to_string(), Cause::BadRecord, detail)
}

fn sample(joined: CocoPhoto, names: &BTreeMap<u64, String>, out: &mut Vec<Result<Sample, Broken>>) -> Sample {
    let CocoPhoto { image, boxes, mut captions } = joined;
    let id = image.id.to_string();
    let (mut phrases, mut faults) = (Vec::new(), Vec::new());
    for (category, [x, y, w, h]) in boxes {
        let bbox = BBox::from_pixels([x, y, x + w, y + h], image.width, image.height);
        match names.get(&category) {
            Some(name) => add_box(&mut phrases, &mut faults, &id, name, bbox),
            None => {
                let detail = format!("a box of category {category}; expected one of the {} categories", names.len());
                faults.push(Broken::new(&id, Cause::BadRecord, detail));
            }
        }
    }
    out.extend(faults.into_iter().map(Err));
    // Sort by id: the file is not in the order of annotation.
    captions.sort();
    let captions: Vec<_> = captions.into_iter().map(|(_, text)| text).collect();
    for phrase in &mut phrases {
        phrase.spans = mentions(&captions, &phrase.text);
    }
    Sample { captions, phrases, ..Sample::default() }
}
