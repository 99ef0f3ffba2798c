//! HierarCaps as published (<https://github.com/TAU-VAILab/hierarcaps>): tables of caption tiers joined by ` => `,
//! general to specific. The test table has `id`, `captions`, `image_url`. The expanded and training tables have
//! `positive`, `negative`, and usually `image_url`. The caption of a sample is its most specific tier. Without a folder
//! of photos the samples have texts only.

use std::collections::HashSet;
use std::path::Path;

use conifer_data::{Broken, Cause, Result, Sample, Tiers};
use serde::Deserialize;

use super::shared::{photo, table};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "hierarcaps",
    summary: "HierarCaps: tiers of captions, positive and negative",
    inputs: &[
        ImporterInput { name: "table", help: "CSV (or .csv.gz) of captions or of positive, negative", required: true },
        ImporterInput {
            name: "images",
            help: "the folder of the photos, named by the last component of image_url (for COCO: the 2014 or 2017 name)",
            required: false,
        },
        ImporterInput { name: "exclude", help: "another table whose photos are excluded", required: false },
    ],
    options: &[],
    read,
};

#[derive(Deserialize)]
struct HierarCapsRow {
    id: Option<String>,
    captions: Option<String>,
    positive: Option<String>,
    negative: Option<String>,
    image_url: Option<String>,
}

const COLUMNS: &str = "columns id, captions, image_url or positive, negative, image_url";

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let folder = inputs.get("images").map(Path::to_owned);
    let mut excluded = HashSet::new();
    if let Some(path) = inputs.get("exclude") {
        excluded.extend(table::<HierarCapsRow>(path, COLUMNS)?.filter_map(|row| row.ok()?.file().map(str::to_owned)));
    }
    let rows = table::<HierarCapsRow>(inputs.need("table")?, COLUMNS)?;
    Ok(Box::new(rows.enumerate().filter_map(move |(number, row)| {
        let row = match row {
            Ok(row) if row.file().is_some_and(|file| excluded.contains(file)) => return None,
            other => other,
        };
        Some(row.and_then(|row| sample(row, number, folder.as_deref())))
    })))
}

impl HierarCapsRow {
    /// File name of the photo, which is the last component of its URL.
    fn file(&self) -> Option<&str> {
        self.image_url.as_deref()?.rsplit('/').next()
    }
}

fn sample(row: HierarCapsRow, number: usize, folder: Option<&Path>) -> Result<Sample, Broken> {
    let id = row.id.clone().unwrap_or_else(|| number.to_string());
    let fault = |cause, detail: &str| Broken::new(&id, cause, detail);
    let image = match (folder, row.file()) {
        (None, _) => None,
        (Some(folder), Some(file)) => Some(photo(folder, name_in(folder, file), &id)?),
        (Some(_), None) => return Err(fault(Cause::NoImage, "no image_url; expected one, since photos are given")),
    };
    let Some(positive) = row.captions.as_deref().or(row.positive.as_deref()) else {
        return Err(fault(Cause::BadRecord, "neither `captions` nor `positive`; expected one of them"));
    };
    let positive = tiers(positive);
    Ok(Sample {
        image,
        captions: positive.last().cloned().into_iter().collect(),
        tiers: Some(Tiers { positive, negative: row.negative.as_deref().map(tiers).unwrap_or_default() }),
        id,
        ..Sample::default()
    })
}

/// COCO renamed its photos in 2017: `COCO_val2014_000000000042.jpg` became `000000000042.jpg`. Returns the name that
/// exists in the folder.
fn name_in<'a>(folder: &Path, file: &'a str) -> &'a str {
    let later = file.strip_prefix("COCO_").and_then(|rest| rest.split_once('_')).map(|(_, name)| name);
    later.filter(|name| !folder.join(file).exists() && folder.join(name).exists()).unwrap_or(file)
}

fn tiers(joined: &str) -> Vec<String> {
    joined.split(" => ").map(|tier| tier.trim().to_owned()).collect()
}
