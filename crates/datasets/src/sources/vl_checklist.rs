//! VL-CheckList, object part (Zhao et al. 2022, <https://github.com/om-ai-lab/VL-CheckList>): JSON lists of
//! `[photo, {"POS": [text], "NEG": [text]}]`. Only the first text of each list is used, as in the official evaluator.
//!
//! A file is one subset of a corpus, and its name contains both: `vg_obj_margin.json` is the subset `Location/margin`
//! of `vg_obj`. The split of a sample is the subset, and its label is the corpus.

use std::collections::BTreeSet;
use std::path::PathBuf;

use conifer_data::{Broken, Cause, Error, Result, SourceEntry, SourceSpec};
use serde::Deserialize;
use serde_json::Value;

use super::contrasts::{ContrastItem, ContrastItems, ContrastPhotos, ContrastSource, json_files, known_subset, stem};
use crate::import::shared::read_json;

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "vl_checklist",
    summary: "VL-CheckList, objects: photos with a correct and an incorrect caption, by location and size",
    inputs: "path: its data folder, or one of the files; split: Location/center, Location/mid, Location/margin, Size/large, \
             Size/medium or Size/small; options: images (folder of the photos, or of the photo folders vg, hake and swig, \
             relative to the path's folder)",
    read: |spec| Ok(Box::new(open(spec)?)),
};

/// The subsets, in the order of PHyCLIP Table 3.
const SUBSETS: &[&str] =
    &["Location/center", "Location/mid", "Location/margin", "Size/large", "Size/medium", "Size/small"];

const CORPORA: &[&str] = &["hake_obj", "swig_agent", "swig_destination", "swig_item", "swig_tool", "vg_obj", "vg_subj"];

/// Depth limit of the search for JSON files; `data/Object/Location/swig_location/swig_agent/` is four folders below
/// `data`.
const DEPTH: usize = 8;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct VlChecklistOptions {
    /// Without this option the samples have texts only.
    images: Option<PathBuf>,
}

#[derive(Deserialize)]
struct VlChecklistTexts {
    #[serde(rename = "POS")]
    right: Vec<String>,
    #[serde(rename = "NEG")]
    wrong: Vec<String>,
}

fn open(spec: &SourceSpec) -> Result<ContrastSource> {
    let VlChecklistOptions { images } = spec.parse_options()?;
    let path = spec.need_path()?;
    known_subset(spec, "subset of VL-CheckList", SUBSETS)?;
    // The folder also contains attributes and relations, which are other benchmarks.
    let objects = path.join("Object");
    let files = json_files(if objects.is_dir() { &objects } else { path }, DEPTH)?;
    let mut seen = BTreeSet::new();
    let mut items = ContrastItems::default();
    for file in files {
        let name = stem(&file);
        let place = || format!("`{}`", file.display());
        let Some((corpus, subset)) = parts(&name) else {
            let expected = format!(
                "<corpus>_<subset>.json of a corpus {} and a subset {}",
                CORPORA.join(", "),
                SUBSETS.iter().map(|it| last(it)).collect::<Vec<_>>().join(", ")
            );
            return Err(Error::format(place(), format!("a file of the unknown subset `{name}`"), expected));
        };
        if !seen.insert(name.clone()) {
            return Err(Error::format(place(), format!("a second file `{name}`"), "one file of each name"));
        }
        if spec.split.as_ref().is_some_and(|split| *split != subset) {
            continue;
        }
        let expected = "a list of [photo, {\"POS\": [text], \"NEG\": [text]}]";
        let records: Vec<Value> = read_json(&file, expected)?;
        let records = records.into_iter().enumerate().map(|(number, value)| (format!("{name}/{number}"), value));
        items.add(&file, records, "[photo, {\"POS\": [text], \"NEG\": [text]}]", |id, (photo, texts)| {
            item(id, photo, texts, corpus, subset)
        })?;
    }
    let base = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let photos = images.map(|images| ContrastPhotos::open(spec, base, &images, names)).transpose()?;
    ContrastSource::new(spec, ENTRY.kind, items, photos)
}

fn item(
    id: String,
    photo: String,
    texts: VlChecklistTexts,
    corpus: &str,
    subset: &str,
) -> Result<ContrastItem, Broken> {
    let (Some(caption), Some(wrong)) = (texts.right.into_iter().next(), texts.wrong.into_iter().next()) else {
        return Err(Broken::new(id, Cause::NoCaption, "an empty list of POS or NEG; expected a text in each"));
    };
    let (subset, label) = (Some(subset.to_owned()), Some(corpus.to_owned()));
    Ok(ContrastItem { id, photo, caption, wrong, subset, label, region: None })
}

/// Corpus and subset of a file name; `None` for a name that combines no known two.
fn parts(name: &str) -> Option<(&'static str, &'static str)> {
    let (corpus, part) = name.rsplit_once('_')?;
    let corpus = CORPORA.iter().copied().find(|it| *it == corpus)?;
    Some((corpus, SUBSETS.iter().copied().find(|it| last(it) == part)?))
}

/// The last component of a subset name: "margin" of "Location/margin".
fn last(subset: &str) -> &str {
    subset.rsplit_once('/').map_or(subset, |(_, last)| last)
}

/// Candidate names of a photo: the released configuration has one folder per origin.
fn names(file: &str) -> Vec<String> {
    std::iter::once(file.to_owned()).chain(["vg", "hake", "swig"].map(|origin| format!("{origin}/{file}"))).collect()
}
