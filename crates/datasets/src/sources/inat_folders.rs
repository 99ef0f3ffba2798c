//! iNaturalist 2021 as folders: one folder per species, with the seven ranks in its name
//! (`00007_Animalia_Arthropoda_Arachnida_Araneae_Araneidae_Agalenatea_redii/`). The label is genus and epithet.

use conifer_data::names::path_of;
use conifer_data::sources::image_folder::collect;
use conifer_data::{Cause, Result, SourceEntry, SourceSpec};
use serde::Deserialize;

use super::taxa::{RANKS, TaxonPaths, TaxonPhotos, TaxonRow, binomial, inat_names, no_taxon};

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "inat_folders",
    summary: "iNaturalist 2021 as folders named NNNNN_Kingdom_Phylum_Class_Order_Family_Genus_species",
    inputs: "path: the folder that contains these folders; split: a folder between them (path/<split>/<species>/...)",
    read: |spec| Ok(Box::new(open(spec)?)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InatFoldersOptions {}

fn open(spec: &SourceSpec) -> Result<TaxonPhotos> {
    spec.parse_options::<InatFoldersOptions>()?;
    let mut root = spec.need_path()?.clone();
    root.extend(spec.split.as_deref());
    let mut files = Vec::new();
    collect(&root, "", &mut files)?;
    files.sort();
    let (mut rows, mut paths) = (Vec::with_capacity(files.len()), TaxonPaths::default());
    let ranks = RANKS.map(str::to_owned);
    for file in files {
        let folder = file.rsplit('/').nth(1).unwrap_or_default();
        let number = inat_names(folder)
            .map_err(|detail| (Cause::BadRecord, detail))
            .and_then(|names| paths.enter(names, &ranks, || format!("folder `{folder}`")))
            .map_err(|fault| no_taxon(&file, "", fault));
        let path = number.as_ref().ok().map(|&number| paths.get(number));
        let label = path.and_then(|path| path.genus_and_species(ranks.len())).map(binomial);
        let image = root.join(path_of(&file));
        rows.push(TaxonRow { image, id: file, path: number, label, caption: None, common_name: None });
    }
    TaxonPhotos::new(ENTRY.kind, spec.split.clone(), rows, paths, || {
        (format!("`{}`", root.display()), "photos in folders of species".to_owned())
    })
}
