//! Visual Genome Attribution of ARO (Yuksekgonul et al. 2023,
//! <https://github.com/mertyg/vision-language-models-are-bows>): `visual_genome_attribution.json`, a list of items with
//! a photo, a box in pixels, two captions whose attributes are swapped, and the two attributes. The captions describe
//! the box only.
//!
//! Each sample has one phrase, with the box and the names of the two objects (or the true caption, if a name is
//! missing). The label is the pair of attributes in the order of the file, such as `white_black`, which is how the
//! official evaluator groups the items.

use std::path::{Path, PathBuf};

use conifer_data::{Result, SourceEntry, SourceSpec};
use serde::Deserialize;
use serde_json::Value;

use super::contrasts::{ContrastItem, ContrastItems, ContrastPhotos, ContrastRegion, ContrastSource};
use crate::import::shared::read_json;

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "vg_attribution",
    summary: "ARO's Visual Genome Attribution: boxes with two captions whose attributes are swapped",
    inputs: "path: visual_genome_attribution.json; options: images (folder of the photos, relative to the file; default \"images\")",
    read: |spec| Ok(Box::new(open(spec)?)),
};

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct VgAttributionOptions {
    /// Folder of the photos. Required: the boxes are in pixels, so each sample needs the size of its photo.
    images: PathBuf,
}

impl Default for VgAttributionOptions {
    fn default() -> Self {
        Self { images: "images".into() }
    }
}

#[derive(Deserialize)]
struct VgAttributionRecord {
    image_path: String,
    bbox_x: f32,
    bbox_y: f32,
    bbox_w: f32,
    bbox_h: f32,
    true_caption: String,
    false_caption: String,
    attributes: [String; 2],
    /// Name of the first object, for display. No metric depends on the names, so they may be missing.
    obj1_name: Option<String>,
    obj2_name: Option<String>,
}

fn open(spec: &SourceSpec) -> Result<ContrastSource> {
    let VgAttributionOptions { images } = spec.parse_options()?;
    spec.no_split()?;
    let path = spec.need_path()?;
    let records: Vec<Value> = read_json(path, "a list of items with image_path, bbox_x, true_caption, false_caption")?;
    let records = records.into_iter().enumerate().map(|(number, value)| (number.to_string(), value));
    let expected = "image_path, bbox_x, bbox_y, bbox_w, bbox_h, true_caption, false_caption and two attributes";
    let mut items = ContrastItems::default();
    items.add(path, records, expected, |id, record: VgAttributionRecord| {
        let VgAttributionRecord { bbox_x: x, bbox_y: y, bbox_w: w, bbox_h: h, .. } = record;
        let text = match (record.obj1_name, record.obj2_name) {
            (Some(one), Some(other)) => format!("{} and {}", one.trim(), other.trim()),
            _ => record.true_caption.trim().to_owned(),
        };
        Ok(ContrastItem {
            id,
            photo: record.image_path,
            caption: record.true_caption,
            wrong: record.false_caption,
            subset: None,
            label: Some(record.attributes.join("_")),
            region: Some(ContrastRegion { text, corners: [x, y, x + w, y + h] }),
        })
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    let photos = ContrastPhotos::open(spec, base, &images, |file| vec![file.to_owned()])?;
    ContrastSource::new(spec, ENTRY.kind, items, Some(photos))
}
