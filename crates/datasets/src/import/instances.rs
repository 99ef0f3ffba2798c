//! COCO and LVIS `instances` files (<https://cocodataset.org/#format-data>, <https://www.lvisdataset.org/dataset>).
//! Every box is a separate phrase, whose text is the category name with `_` replaced by a space. Crowd regions are
//! group boxes. The photo is `file_name`, or the last component of `coco_url` (LVIS v1 has only the latter). For one
//! phrase per category, and for captions, use the importer `coco`.

use std::collections::BTreeMap;
use std::path::Path;

use conifer_data::{BBox, Broken, Cause, Error, Phrase, Result, Sample};
use serde::Deserialize;

use super::box_filter::{BoxFilter, LEAVE_OUT, MAX_AREA, MIN_AREA};
use super::shared::{photo, read_json};
use super::{ImporterEntry, ImporterInput, ImporterInputs, ImporterOption, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "instances",
    summary: "COCO and LVIS boxes, one phrase per box, crowds marked",
    inputs: &[
        ImporterInput { name: "images", help: "the folder of the photos", required: true },
        ImporterInput { name: "instances", help: "instances_*.json or lvis_v1_*.json", required: true },
    ],
    options: &[
        MIN_AREA,
        MAX_AREA,
        ImporterOption { name: LEAVE_OUT, help: "leave out boxes with this flag: group (crowds)" },
    ],
    read,
};

pub(crate) struct InstancePhoto {
    pub(crate) id: u64,
    /// Candidate file names of the photo, the most likely first.
    pub(crate) files: Vec<String>,
    /// (category name, box, true if it is a crowd).
    pub(crate) boxes: Vec<(String, BBox, bool)>,
}

/// The file has other fields, mainly segmentations, which are skipped.
#[derive(Deserialize)]
struct InstancesFile {
    images: Vec<InstancesImage>,
    annotations: Vec<InstancesAnnotation>,
    categories: Vec<InstancesCategory>,
}

#[derive(Deserialize)]
struct InstancesImage {
    id: u64,
    file_name: Option<String>,
    coco_url: Option<String>,
    width: f32,
    height: f32,
}

#[derive(Deserialize)]
struct InstancesAnnotation {
    #[serde(default)]
    id: u64,
    image_id: u64,
    category_id: u64,
    /// Left, top, width, height in pixels; `null` where the writer had a NaN.
    bbox: Vec<Option<f32>>,
    #[serde(default)]
    iscrowd: u8,
}

#[derive(Deserialize)]
struct InstancesCategory {
    id: u64,
    name: String,
}

/// Reads the photos of a file, sorted by id, and the broken annotations.
///
/// # Errors
/// The file cannot be read, or is not JSON with images, annotations and categories (the message names the field and the
/// line), or one category id has two names.
pub(crate) fn read_photos(path: &Path) -> Result<(Vec<InstancePhoto>, Vec<Broken>)> {
    let InstancesFile { images, annotations, categories } =
        read_json(path, "images, annotations with bbox, categories")?;
    let mut names = BTreeMap::new();
    for InstancesCategory { id, name } in categories {
        let name = name.replace('_', " ");
        if let Some(other) = names.insert(id, name.clone()).filter(|other| *other != name) {
            let found = format!("category {id} is `{other}` and `{name}`");
            return Err(Error::format(format!("`{}`", path.display()), found, "one name a category"));
        }
    }
    let mut photos = BTreeMap::new();
    for InstancesImage { id, file_name, coco_url, width, height } in images {
        let last = coco_url.as_deref().and_then(|url| url.rsplit('/').next()).map(str::to_owned);
        let files = file_name.into_iter().chain(last).collect();
        photos.entry(id).or_insert_with(|| (InstancePhoto { id, files, boxes: Vec::new() }, width, height));
    }
    let mut faults = Vec::new();
    for InstancesAnnotation { id, image_id, category_id, bbox, iscrowd } in annotations {
        let mut fault = |cause, detail: String| {
            let detail = format!("annotation {id} of `{}`: {detail}", path.display());
            faults.push(Broken::new(image_id.to_string(), cause, detail));
        };
        let Some((photo, width, height)) = photos.get_mut(&image_id) else {
            fault(Cause::BadRecord, format!("a box of photo {image_id}; expected this photo in the list of images"));
            continue;
        };
        let Some(name) = names.get(&category_id) else {
            fault(Cause::BadRecord, format!("category {category_id}; expected one of the {} categories", names.len()));
            continue;
        };
        let [x, y, w, h] = bbox[..] else {
            fault(Cause::BadBox, format!("bbox has {} numbers; expected left, top, width, height", bbox.len()));
            continue;
        };
        let [x, y, w, h] = [x, y, w, h].map(|it| it.unwrap_or(f32::NAN));
        let bbox = BBox::from_pixels([x, y, x + w, y + h], *width, *height).clipped();
        match bbox.check() {
            Ok(()) => photo.boxes.push((name.clone(), bbox, iscrowd == 1)),
            Err(detail) => fault(Cause::BadBox, format!("`{name}`: {detail}")),
        }
    }
    Ok((photos.into_values().map(|(photo, ..)| photo).collect(), faults))
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let filter = BoxFilter::of(inputs, &["group"])?;
    let folder = inputs.need("images")?.to_owned();
    let (photos, faults) = read_photos(inputs.need("instances")?)?;
    let samples = photos.into_iter().flat_map(move |photo| {
        let mut faults = Vec::new();
        let sample = sample(&folder, photo, &filter, &mut faults);
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    });
    Ok(Box::new(faults.into_iter().map(Err).chain(samples)))
}

fn sample(
    folder: &Path,
    InstancePhoto { id, files, boxes }: InstancePhoto,
    filter: &BoxFilter,
    faults: &mut Vec<Broken>,
) -> Result<Sample, Broken> {
    let id = id.to_string();
    let Some(likeliest) = files.first() else {
        let detail = "neither file_name nor coco_url; expected the photo's file";
        return Err(Broken::new(id, Cause::NoImage, detail));
    };
    let file = files.iter().find(|file| folder.join(file).is_file()).unwrap_or(likeliest);
    let image = Some(photo(folder, file, &id)?);
    let mut phrases = Vec::new();
    for (text, bbox, group_of) in boxes {
        match filter.check(&id, &bbox, |_| group_of) {
            Ok(()) => phrases.push(Phrase { text, boxes: vec![bbox], group_of, ..Phrase::default() }),
            Err(broken) => faults.push(broken),
        }
    }
    Ok(Sample { id, image, phrases, ..Sample::default() })
}
