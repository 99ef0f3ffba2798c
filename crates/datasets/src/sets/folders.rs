//! Data sets with one folder of photos per class.

use std::fs;
use std::path::Path;

use conifer_data::names::{path_of, text_of};
use conifer_data::sources::image_folder;
use conifer_data::{ClassEntry, Error, Result, Source};

use super::DataSet;
use super::archive::Archive;
use super::labelled::{LabelledPhotos, PathOrigin};

pub(super) const IMAGENET: DataSet = DataSet {
    name: "imagenet",
    title: "ImageNet (ILSVRC2012), validation",
    layout: "val/<wnid>/<photo>.JPEG, and LOC_synset_mapping.txt (a line `<wnid> <names>` for each class) unless all \
             1,000 folders are there",
    get: "https://image-net.org, ILSVRC2012_img_val.tar sorted into class folders, as for torchvision's ImageFolder",
    classes: 1000,
    photos: 50_000,
    tree: Some("imagenet_isa.txt"),
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&IMAGENET, folder, &[]);
        let listed = archive.find(&["LOC_synset_mapping.txt"]).is_ok();
        let labels = match listed {
            true => {
                let (_, lines) = archive.lines(&["LOC_synset_mapping.txt"])?;
                lines.into_iter().filter_map(|(_, line)| line.split_whitespace().next().map(str::to_owned)).collect()
            }
            false => folders(&archive.find(&["val"])?)?,
        };
        open(&archive, "val", &["val"], labels, None)
    },
};

pub(super) const CALTECH101: DataSet = DataSet {
    name: "caltech101",
    title: "Caltech-101 with its background class, all 9,144 photos (the MERU family uses the 6,084 of the tfds split `test`, \
            which tfds draws at random)",
    layout: "101_ObjectCategories/<class>/image_0001.jpg, 102 folders with BACKGROUND_Google",
    get: "https://data.caltech.edu/records/mzrjq-6wc02",
    classes: 102,
    photos: 9144,
    tree: None,
    beside: &[],
    read: |folder| {
        let inner = ["caltech-101/101_ObjectCategories", "caltech101/101_ObjectCategories", "101_ObjectCategories"];
        let archive = Archive::new(&CALTECH101, folder, &inner);
        open(&archive, "all", &[""], folders(&archive.find(&[""])?)?, None)
    },
};

pub(super) const EUROSAT: DataSet = DataSet {
    name: "eurosat",
    title: "EuroSAT (RGB), all 27,000 photos (the MERU family uses train[10000:15000] of tfds, in the order of tfds)",
    layout: "2750/<class>/<class>_1.jpg (or EuroSAT_RGB/, EuroSAT/2750/, or the class folders themselves)",
    get: "https://zenodo.org/records/7711810, EuroSAT_RGB.zip",
    classes: 10,
    photos: 27_000,
    tree: None,
    beside: &[],
    read: |folder| {
        // Class names from openai/CLIP, data/prompts.md (MIT).
        let classes = [
            ("AnnualCrop", "annual crop land"),
            ("Forest", "forest"),
            ("HerbaceousVegetation", "brushland or shrubland"),
            ("Highway", "highway or road"),
            ("Industrial", "industrial buildings or commercial buildings"),
            ("Pasture", "pasture land"),
            ("PermanentCrop", "permanent crop land"),
            ("Residential", "residential buildings or homes or apartments"),
            ("River", "river"),
            ("SeaLake", "lake or sea"),
        ];
        let (labels, names) = classes.map(|(label, name)| (label.to_owned(), name.to_owned())).into_iter().unzip();
        let archive = Archive::new(&EUROSAT, folder, &["2750", "EuroSAT_RGB", "EuroSAT/2750"]);
        open(&archive, "all", &[""], labels, Some(names))
    },
};

pub(super) const RESISC45: DataSet = DataSet {
    name: "resisc45",
    title: "NWPU-RESISC45, all 31,500 photos (the MERU family uses train[20%:] of tfds, in the order of tfds)",
    layout: "NWPU-RESISC45/<class>/<class>_001.jpg, 45 folders",
    get: "https://gcheng-nwpu.github.io/#Datasets",
    classes: 45,
    photos: 31_500,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&RESISC45, folder, &["NWPU-RESISC45"]);
        let labels = folders(&archive.find(&[""])?)?;
        let names = labels.iter().map(|label| label.replace('_', " ")).collect();
        open(&archive, "all", &[""], labels, Some(names))
    },
};

pub(super) const COUNTRY211: DataSet = DataSet {
    name: "country211",
    title: "Country211, test",
    layout: "country211/test/<ISO code>/<photo>.jpg, 211 folders",
    get: "https://openaipublic.azureedge.net/clip/data/country211.tgz",
    classes: 211,
    photos: 21_100,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&COUNTRY211, folder, &["country211"]);
        open(&archive, "test", &["test"], folders(&archive.find(&["test"])?)?, None)
    },
};

pub(super) const SST2: DataSet = DataSet {
    name: "sst2",
    title: "Rendered SST2, test",
    layout: "rendered-sst2/test/{negative,positive}/<n>.png",
    get: "https://openaipublic.azureedge.net/clip/data/rendered-sst2.tgz",
    classes: 2,
    photos: 1821,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&SST2, folder, &["rendered-sst2"]);
        let labels = ["negative", "positive"].map(str::to_owned).to_vec();
        open(&archive, "test", &["test"], labels.clone(), Some(labels))
    },
};

pub(super) const PCAM: DataSet = DataSet {
    name: "pcam",
    title: "PatchCamelyon, test",
    layout: "test/0/<n>.png (no tumour) and test/1/<n>.png: the published HDF5 files are not supported; write \
             the pictures of camelyonpatch_level_2_split_test_x.h5 into the folders given by the labels in test_y.h5",
    get: "https://github.com/basveeling/pcam",
    classes: 2,
    photos: 32_768,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&PCAM, folder, &[]);
        // Class names from openai/CLIP, data/prompts.md (MIT).
        let names = ["lymph node", "lymph node containing metastatic tumor tissue"].map(str::to_owned).to_vec();
        open(&archive, "test", &["test"], ["0", "1"].map(str::to_owned).to_vec(), Some(names))
    },
};

/// Opens the photos of the class folders in `inside`, with the classes in the given order.
fn open(
    archive: &Archive<'_>,
    split: &'static str,
    inside: &[&str],
    labels: Vec<String>,
    own: Option<Vec<String>>,
) -> Result<Box<dyn Source>> {
    let set = archive.set;
    let root = archive.find(inside)?;
    if labels.len() != set.classes {
        let found = format!("{} class folders", labels.len());
        let place = format!("data set {}: `{}`", set.name, root.display());
        return Err(Error::format(place, found, format!("{}: {}", set.classes, set.layout)));
    }
    let mut photos = Vec::new();
    // Unknown folders are included here. `LabelledPhotos` rejects them, because their label has no class.
    for label in folders(&root)? {
        image_folder::collect(&root.join(path_of(&label)), &format!("{label}/"), &mut photos)?;
    }
    photos.sort();
    let label = |photo: String| {
        let label = photo.split('/').next().unwrap_or_default().to_owned();
        (photo, label)
    };
    let rows = photos.into_iter().map(label).collect();
    let names = archive.names(own)?;
    let classes = labels.into_iter().zip(names).map(|(label, name)| ClassEntry { label, name, taxon: Vec::new() });
    LabelledPhotos::files(set, split, root, rows, classes.collect(), PathOrigin::Listing)
}

/// Names of the subfolders, sorted bytewise. Hidden folders are skipped.
fn folders(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root).map_err(Error::io("list", root))? {
        let entry = entry.map_err(Error::io("list", root))?;
        let name = text_of(&entry.file_name());
        if entry.path().is_dir() && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
