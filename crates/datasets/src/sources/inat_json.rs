//! iNaturalist 2021 (<https://github.com/visipedia/inat_comp/tree/master/2021>): `train.json`, `val.json`, with the
//! ranks of each category. If a file has images only, the ranks are parsed from the folder names. The label is genus
//! and epithet. A rank may be empty.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use conifer_data::{Cause, Error, Result, SourceEntry, SourceSpec};
use serde::Deserialize;

use super::taxa::{RANKS, TaxonPaths, TaxonPhotos, TaxonRow, binomial, inat_names, no_taxon};
use crate::import::shared::read_json;

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "inat_json",
    summary: "iNaturalist 2021: photos with seven ranks",
    inputs: "path: train.json, train_mini.json or val.json; options: folder (of the photos, relative to the file)",
    read: |spec| Ok(Box::new(open(spec)?)),
};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct InatJsonOptions {
    folder: PathBuf,
}

#[derive(Deserialize)]
struct InatFile {
    images: Vec<InatImage>,
    #[serde(default)]
    annotations: Vec<InatAnnotation>,
    #[serde(default)]
    categories: Vec<InatCategory>,
}

#[derive(Deserialize)]
struct InatImage {
    id: u64,
    file_name: String,
}

#[derive(Deserialize)]
struct InatAnnotation {
    image_id: u64,
    category_id: u64,
}

#[derive(Deserialize)]
struct InatCategory {
    id: u64,
    kingdom: String,
    phylum: String,
    class: String,
    order: String,
    family: String,
    genus: String,
    specific_epithet: String,
    #[serde(default)]
    common_name: Option<String>,
}

fn open(spec: &SourceSpec) -> Result<TaxonPhotos> {
    let InatJsonOptions { folder } = spec.parse_options()?;
    spec.no_split()?;
    let path = spec.need_path()?;
    let expected = "images with id and file_name; categories with the ranks kingdom to specific_epithet; annotations";
    let InatFile { images, annotations, categories } = read_json(path, expected)?;
    let mut names: HashMap<u64, Vec<String>> = HashMap::new();
    let mut common_names: HashMap<u64, String> = HashMap::new();
    for it in categories {
        if let Some(name) = it.common_name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
            common_names.insert(it.id, name.to_owned());
        }
        let ranks = vec![it.kingdom, it.phylum, it.class, it.order, it.family, it.genus, it.specific_epithet];
        if let Some(other) = names.insert(it.id, ranks.clone()).filter(|other| *other != ranks) {
            let found = format!("category {} is {} and {}", it.id, other.join(" > "), ranks.join(" > "));
            return Err(Error::format(format!("`{}`", path.display()), found, "one taxon a category"));
        }
    }
    let of_image: HashMap<_, _> = annotations.into_iter().map(|it| (it.image_id, it.category_id)).collect();
    let (mut rows, mut paths) = (Vec::with_capacity(images.len()), TaxonPaths::default());
    let root = path.parent().unwrap_or(Path::new("")).join(folder);
    let ranks = RANKS.map(str::to_owned);
    for InatImage { id, file_name } in images {
        let place = || format!("image {id} of `{}`", path.display());
        let category = of_image.get(&id);
        let found = match category {
            Some(category) => names
                .get(category)
                .cloned()
                .ok_or_else(|| format!("category {category}; expected one of the {} categories", names.len())),
            None if names.is_empty() => inat_names(file_name.rsplit('/').nth(1).unwrap_or_default()),
            None => Err("no annotation; expected one with a category".to_owned()),
        };
        let number = found
            .map_err(|detail| (Cause::BadRecord, detail))
            .and_then(|names| paths.enter(names, &ranks, place))
            .map_err(|fault| no_taxon(&file_name, &place(), fault));
        let path = number.as_ref().ok().map(|&number| paths.get(number));
        let label = path.and_then(|path| path.genus_and_species(ranks.len())).map(binomial);
        let common_name = category.and_then(|category| common_names.get(category)).cloned();
        let image = root.join(&file_name);
        rows.push(TaxonRow { image, id: file_name, path: number, label, caption: None, common_name });
    }
    TaxonPhotos::new(ENTRY.kind, None, rows, paths, || (format!("`{}`", path.display()), "images".to_owned()))
}
