//! SugarCrepe (Hsieh et al. 2023, <https://github.com/RAIVNLab/sugar-crepe>): seven JSON files, each an object of
//! `{"<number>": {filename, caption, negative_caption}}`, on photos of COCO val2017.

use std::path::PathBuf;

use conifer_data::{Error, Result, SourceEntry, SourceSpec};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::contrasts::{ContrastItem, ContrastItems, ContrastPhotos, ContrastSource, json_files, known_subset, stem};
use crate::import::shared::read_json;

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "sugarcrepe",
    summary: "SugarCrepe: COCO photos with a correct and an incorrect caption, in seven subsets",
    inputs: "path: the folder of the JSON files, or one of them; split: one of add_att, add_obj, replace_att, replace_obj, \
             replace_rel, swap_att, swap_obj; options: images (folder of the photos, named as in COCO 2017 or \
             COCO_val2014_*, relative to the folder of the JSON files)",
    read: |spec| Ok(Box::new(open(spec)?)),
};

/// Names of the subsets; the file of a subset is `NAME.json`.
const SUBSETS: &[&str] = &["add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SugarCrepeOptions {
    /// Without this option the samples have texts only.
    images: Option<PathBuf>,
}

#[derive(Deserialize)]
struct SugarCrepeRecord {
    filename: String,
    caption: String,
    negative_caption: String,
}

fn open(spec: &SourceSpec) -> Result<ContrastSource> {
    let SugarCrepeOptions { images } = spec.parse_options()?;
    let path = spec.need_path()?;
    known_subset(spec, "subset of SugarCrepe", SUBSETS)?;
    let mut items = ContrastItems::default();
    for file in json_files(path, 0)? {
        let subset = stem(&file);
        if !SUBSETS.contains(&&*subset) {
            let found = format!("a file of subset `{subset}`");
            return Err(Error::format(
                format!("`{}`", file.display()),
                found,
                format!("one of {}", SUBSETS.join(", ")),
            ));
        }
        if spec.split.as_ref().is_some_and(|split| *split != subset) {
            continue;
        }
        let expected = "an object of {\"<number>\": {filename, caption, negative_caption}}";
        let records: Map<String, Value> = read_json(&file, expected)?;
        let records = records.into_iter().map(|(number, value)| (format!("{subset}/{number}"), value));
        items.add(&file, records, "filename, caption and negative_caption", |id, record: SugarCrepeRecord| {
            Ok(ContrastItem {
                id,
                photo: record.filename,
                caption: record.caption,
                wrong: record.negative_caption,
                subset: Some(subset.clone()),
                label: None,
                region: None,
            })
        })?;
    }
    let base = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let photos = images.map(|images| ContrastPhotos::open(spec, base, &images, names)).transpose()?;
    ContrastSource::new(spec, ENTRY.kind, items, photos)
}

/// Candidate names of a photo: val2017 is a subset of val2014, which used other names
/// (`COCO_val2014_000000000042.jpg`).
fn names(file: &str) -> Vec<String> {
    vec![file.to_owned(), format!("COCO_val2014_{file}")]
}
