//! Data sets of hierarchies, word pairs, compositions and boxes, read by the sources and importers of their formats.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use conifer_data::{Error, Result, Source, SourceSpec};
use serde_json::{Value, json};

use super::DataSet;
use super::archive::Archive;
use crate::sources::open;

pub(super) const HIERARCAPS: DataSet = DataSet {
    name: "hierarcaps",
    title: "HierarCaps test, 1,000 photos with four tiers of captions",
    layout: "hierarcaps_test.csv (or data/hierarcaps_test.csv), and its photos in images/ or assets/test_imgs/ (or in ../coco/val2017/)",
    get: "https://github.com/TAU-VAILab/hierarcaps",
    classes: 0,
    photos: 1000,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&HIERARCAPS, folder, &[]);
        let table = archive.find(&["hierarcaps_test.csv", "data/hierarcaps_test.csv"])?;
        let images = archive.find(&["images", "assets/test_imgs", "../coco/val2017"])?;
        imported("hierarcaps", folder, &[("table", table), ("images", images)], &[])
    },
};

pub(super) const HYPERLEX: DataSet = DataSet {
    name: "hyperlex",
    title: "HyperLex, 2,616 graded pairs of words",
    layout: "hyperlex-all.txt",
    get: "https://github.com/cambridgeltl/hyperlex",
    classes: 0,
    photos: 2616,
    tree: None,
    beside: &[],
    read: |folder| source("hyperlex", &Archive::new(&HYPERLEX, folder, &[]).find(&["hyperlex-all.txt"])?, &[]),
};

/// Defines the data set of a BREEDS task over the photos of the set `imagenet`.
macro_rules! breeds {
    ($($constant:ident, $name:literal, $task:literal, $classes:literal, $photos:literal;)*) => {$(
        pub(super) const $constant: DataSet = DataSet {
            name: $name,
            title: concat!("BREEDS ", $task, " over ImageNet val"),
            layout: "imagenet/ as for the set `imagenet`, and breeds/ with class_hierarchy.txt, node_names.txt and \
                     dataset_class_info.json",
            get: "https://github.com/MadryLab/BREEDS-Benchmarks, imagenet_class_hierarchy/modified",
            classes: $classes,
            photos: $photos,
            tree: None,
            beside: &["imagenet", "breeds"],
            read: |folder| {
                let archive = Archive::new(&$constant, root_of(folder), &[]);
                let photos = archive.find(&["imagenet/val", "imagenet"])?;
                let info = archive.find(&["breeds"])?;
                source("breeds", &photos, &[("task", json!($task)), ("info", json!(whole(&info)?))])
            },
        };
    )*};
}

breeds! {
    BREEDS_ENTITY13, "breeds_entity13", "entity13", 260, 13000;
    BREEDS_ENTITY30, "breeds_entity30", "entity30", 240, 12000;
    BREEDS_LIVING17, "breeds_living17", "living17", 68, 3400;
    BREEDS_NONLIVING26, "breeds_nonliving26", "nonliving26", 104, 5200;
}

pub(super) const SUGARCREPE: DataSet = DataSet {
    name: "sugarcrepe",
    title: "SugarCrepe, 7,511 pairs of a correct and an incorrect caption, on COCO val2017",
    layout: "add_att.json and the six others, and the photos in images/ (or in ../coco/val2017/)",
    get: "https://github.com/RAIVNLab/sugar-crepe, data",
    classes: 0,
    photos: 7511,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&SUGARCREPE, folder, &[]);
        archive.find(&["add_att.json"])?;
        let images = archive.find(&["images", "../coco/val2017"])?;
        source("sugarcrepe", folder, &[("images", json!(whole(&images)?))])
    },
};

pub(super) const VL_CHECKLIST: DataSet = DataSet {
    name: "vl_checklist",
    title: "VL-CheckList, objects by location and size",
    layout: "Object/Location/... and Object/Size/..., and images/ with the photo folders vg, hake and swig",
    get: "https://github.com/om-ai-lab/VL-CheckList, data; photos of Visual Genome, HAKE and SWiG",
    classes: 0,
    photos: 0,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&VL_CHECKLIST, folder, &["data"]);
        archive.find(&["Object"])?;
        let images = archive.find(&["images"])?;
        source("vl_checklist", &archive.base, &[("images", json!(whole(&images)?))])
    },
};

pub(super) const VG_ATTRIBUTION: DataSet = DataSet {
    name: "vg_attribution",
    title: "VG-Attribution of ARO, 28,748 captions with swapped attributes",
    layout: "visual_genome_attribution.json, and the photos in images/",
    get: "https://github.com/mertyg/vision-language-models-are-bows",
    classes: 0,
    photos: 28748,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&VG_ATTRIBUTION, folder, &[]);
        let items = archive.find(&["visual_genome_attribution.json"])?;
        source("vg_attribution", &items, &[("images", json!(whole(&archive.find(&["images"])?)?))])
    },
};

pub(super) const COCO_DETECTION: DataSet = DataSet {
    name: "coco_detection",
    title: "COCO val2017 with its boxes",
    layout: "coco/annotations/instances_val2017.json and coco/val2017/<photo>.jpg",
    get: "https://cocodataset.org, 2017 val images and 2017 train/val annotations",
    classes: 80,
    photos: 5000,
    tree: None,
    beside: &["coco"],
    read: |folder| {
        let archive = Archive::new(&COCO_DETECTION, root_of(folder), &[]);
        let instances = archive.find(&["coco/annotations/instances_val2017.json", "coco/instances_val2017.json"])?;
        let images = archive.find(&["coco/val2017"])?;
        imported("instances", root_of(folder), &[("instances", instances), ("images", images)], &[])
    },
};

pub(super) const VOC_DETECTION: DataSet = DataSet {
    name: "voc_detection",
    title: "PASCAL VOC 2007 test with its boxes, without those marked difficult",
    layout: "VOC2007 (or VOCdevkit/VOC2007) with ImageSets/Main/test.txt, Annotations/<photo>.xml and JPEGImages/<photo>.jpg",
    get: "http://host.robots.ox.ac.uk/pascal/VOC/voc2007, VOCtest_06-Nov-2007.tar",
    classes: 20,
    photos: 4952,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&VOC_DETECTION, folder, &["VOC2007", "VOCdevkit/VOC2007"]);
        let (list, images) = (archive.find(&["ImageSets/Main/test.txt"])?, archive.find(&["JPEGImages"])?);
        let files = [("list", list), ("annotations", archive.find(&["Annotations"])?), ("images", images)];
        // VOC's evaluator does not count objects with the flag `difficult`, and COCO's evaluator does not count crowds
        // (DEVIATIONS.md, E33).
        imported("voc", folder, &files, &[("leave_out", "difficult")])
    },
};

pub(super) const OPENIMAGES_PARTS: DataSet = DataSet {
    name: "openimages_parts",
    title: "OpenImages test with its boxes, for part retrieval: boxes of 1 % to 90 % of the photo, not occluded, truncated or depicted",
    layout: "test-annotations-bbox.csv, class-descriptions-boxable.csv, test/<ImageID>.jpg; edges.tsv, the class graph that \
             `conifer data parts` writes",
    get: "https://storage.googleapis.com/openimages/web/download_v7.html",
    classes: 0,
    photos: 125_436,
    tree: Some("edges.tsv"),
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&OPENIMAGES_PARTS, folder, &[]);
        let boxes = archive.find(&["test-annotations-bbox.csv", "test-annotations-bbox.csv.gz"])?;
        let names = archive.find(&["class-descriptions-boxable.csv"])?;
        let files = [("boxes", boxes), ("names", names), ("images", archive.find(&["test"])?)];
        // Wang et al., App. B.2, describe this filter without its limits (DEVIATIONS.md, E30).
        let filter = [("min_area", "0.01"), ("max_area", "0.9"), ("leave_out", "occluded,truncated,depiction")];
        imported("openimages", folder, &files, &filter)
    },
};

pub(super) const LVIS_PARTS: DataSet = DataSet {
    name: "lvis_parts",
    title: "LVIS v1 val with its boxes, for part retrieval",
    layout: "lvis_v1_val.json, the photos of COCO 2017 in images/, and edges.tsv, the class graph that \
             `conifer data parts` writes",
    get: "https://www.lvisdataset.org/dataset, and https://cocodataset.org",
    classes: 0,
    photos: 19_809,
    tree: Some("edges.tsv"),
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&LVIS_PARTS, folder, &[]);
        let (instances, images) = (archive.find(&["lvis_v1_val.json"])?, archive.find(&["images"])?);
        imported("instances", folder, &[("instances", instances), ("images", images)], &[])
    },
};

pub(super) const INAT21: DataSet = DataSet {
    name: "inat21",
    title: "iNaturalist 2021 val, 100,000 photos of 10,000 species",
    layout: "val.json and val/<class>/<photo>.jpg",
    get: "https://github.com/visipedia/inat_comp/tree/master/2021",
    classes: 10_000,
    photos: 100_000,
    tree: None,
    beside: &[],
    read: |folder| source("inat_json", &Archive::new(&INAT21, folder, &[]).find(&["val.json"])?, &[]),
};

pub(super) const RARE_SPECIES: DataSet = DataSet {
    name: "rare_species",
    title: "BioCLIP's rare species, 11,983 photos of 400 species",
    layout: "metadata.csv with the columns kingdom to species, file_name and optionally common_name, and the photos by \
             file_name",
    get: "https://huggingface.co/datasets/imageomics/rare-species",
    classes: 400,
    photos: 11_983,
    tree: None,
    beside: &[],
    read: |folder| {
        let ranks = json!(["kingdom", "phylum", "class", "order", "family", "genus", "species"]);
        let table = Archive::new(&RARE_SPECIES, folder, &[]).find(&["metadata.csv"])?;
        let mut options = vec![("ranks", ranks), ("image", json!("file_name"))];
        let header = first_line(&table)?;
        let has = |column: &&str| header.split(',').any(|it| it.trim() == *column);
        options.extend(["common_name", "common"].iter().find(|it| has(it)).map(|it| ("common_name", json!(it))));
        source("taxon_table", &table, &options)
    },
};

fn first_line(path: &Path) -> Result<String> {
    let mut line = String::new();
    let file = File::open(path).map_err(Error::io("read", path))?;
    BufReader::new(file).read_line(&mut line).map_err(Error::io("read", path))?;
    Ok(line)
}

/// The folder that contains the folders of all sets.
fn root_of(folder: &Path) -> &Path {
    folder.parent().unwrap_or(folder)
}

/// Makes a path absolute, because sources resolve relative paths in options against their own folder.
fn whole(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(Error::io("find", path))
}

/// Opens a set with an importer, its input files and its options.
fn imported(
    importer: &str,
    folder: &Path,
    files: &[(&'static str, PathBuf)],
    settings: &[(&'static str, &str)],
) -> Result<Box<dyn Source>> {
    let option = |(name, file): &(&'static str, PathBuf)| Ok((*name, json!(whole(file)?)));
    let mut options: Vec<(&str, Value)> = files.iter().map(option).collect::<Result<_>>()?;
    options.extend(settings.iter().map(|(name, value)| (*name, json!(value))));
    options.push(("importer", json!(importer)));
    source("imported", folder, &options)
}

fn source(kind: &str, path: &Path, options: &[(&str, Value)]) -> Result<Box<dyn Source>> {
    open(&SourceSpec {
        kind: kind.to_owned(),
        path: Some(path.to_owned()),
        options: options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        ..SourceSpec::default()
    })
}
