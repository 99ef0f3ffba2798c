//! Data sets whose labels are in MAT-files or in scene descriptions.

use std::path::{Path, PathBuf};

use conifer_data::{ClassEntry, Error, Result, Source};
use serde::Deserialize;

use super::archive::Archive;
use super::labelled::{LabelledPhotos, PathOrigin};
use super::mat::MatValue;
use super::{DataSet, mat};
use crate::import::shared::read_json;

pub(super) const CARS: DataSet = DataSet {
    name: "cars",
    title: "Stanford Cars, test",
    layout: "stanford_cars/{cars_test_annos_withlabels.mat, devkit/cars_meta.mat, cars_test/<n>.jpg}",
    get: "https://ai.stanford.edu/~jkrause/cars/car_dataset.html (offline; copies are on Kaggle), with \
          cars_test_annos_withlabels.mat",
    classes: 196,
    photos: 8041,
    tree: None,
    beside: &[],
    read: cars,
};

pub(super) const FLOWERS102: DataSet = DataSet {
    name: "flowers102",
    title: "Oxford Flowers-102, test",
    layout: "flowers-102/{imagelabels.mat, setid.mat, jpg/image_00001.jpg}",
    get: "https://www.robots.ox.ac.uk/~vgg/data/flowers/102, 102flowers.tgz, imagelabels.mat and setid.mat",
    classes: 102,
    photos: 6149,
    tree: None,
    beside: &[],
    read: flowers,
};

pub(super) const CLEVR: DataSet = DataSet {
    name: "clevr",
    title: "CLEVR, number of objects, the first 5,000 of validation (the MERU family uses 5,000 in the order of tfds)",
    layout: "CLEVR_v1.0/{scenes/CLEVR_val_scenes.json, images/val/<photo>.png}",
    get: "https://cs.stanford.edu/people/jcjohns/clevr, CLEVR_v1.0.zip",
    classes: 8,
    photos: 5000,
    tree: None,
    beside: &[],
    read: clevr,
};

fn cars(folder: &Path) -> Result<Box<dyn Source>> {
    let archive = Archive::new(&CARS, folder, &["stanford_cars"]);
    let path = archive.find(&["devkit/cars_meta.mat", "cars_meta.mat"])?;
    let MatValue::Cells(cells) = mat::read(&path, "class_names")? else {
        return Err(Error::format(
            format!("`class_names` of `{}`", path.display()),
            "an array of another kind",
            "cells",
        ));
    };
    let labels: Vec<String> = cells.iter().filter_map(|cell| cell.text().map(str::to_owned)).collect();
    if labels.len() != cells.len() {
        let found = format!("{} texts in {} cells", labels.len(), cells.len());
        return Err(Error::format(format!("`class_names` of `{}`", path.display()), found, "a text in each cell"));
    }
    let path = archive.find(&["cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat"])?;
    let place = |at: &str| format!("`annotations{at}` of `{}`", path.display());
    let expected = "structs with a file name `fname` and a number `class`";
    let MatValue::Structs(fields, values) = mat::read(&path, "annotations")? else {
        return Err(Error::format(place(""), "an array of another kind", expected));
    };
    let field = |name: &str| {
        let at = fields.iter().position(|field| field == name);
        at.ok_or_else(|| Error::format(place(""), format!("fields {}", fields.join(", ")), expected))
    };
    let (fname, class) = (field("fname")?, field("class")?);
    let mut rows = Vec::new();
    for (number, one) in values.chunks(fields.len()).enumerate() {
        let photo = one.get(fname).and_then(MatValue::text);
        let label = one.get(class).and_then(MatValue::number).and_then(|class| labels.get(index(class)?));
        match (photo, label) {
            (Some(photo), Some(label)) => rows.push((photo.to_owned(), label.clone())),
            _ => {
                let found = format!("fname {:?}, class {:?}", one.get(fname), one.get(class));
                let expected = format!("a file name, and a class from 1 to {}", labels.len());
                return Err(Error::format(place(&format!("({})", number + 1)), found, expected));
            }
        }
    }
    let names = archive.names(Some(labels.clone()))?;
    finish(&archive, "test", archive.base.join("cars_test"), rows, labels, names)
}

fn flowers(folder: &Path) -> Result<Box<dyn Source>> {
    let archive = Archive::new(&FLOWERS102, folder, &["flowers-102"]);
    let numbers = |file: &str, name: &str| {
        let path = archive.find(&[file])?;
        match mat::read(&path, name)? {
            MatValue::Numbers(numbers) => Ok(numbers),
            _ => Err(Error::format(format!("`{name}` of `{}`", path.display()), "an array of another kind", "numbers")),
        }
    };
    let classes = numbers("imagelabels.mat", "labels")?;
    let mut rows = Vec::new();
    for photo in numbers("setid.mat", "tstid")? {
        let Some(class) = index(photo).and_then(|at| classes.get(at)) else {
            let expected = format!("a photo from 1 to {}, as in imagelabels.mat", classes.len());
            return Err(Error::format("`tstid` of setid.mat of flowers102", photo.to_string(), expected));
        };
        // Integral f64 values are formatted without a decimal point. A class number that is not integral matches no
        // label.
        rows.push((format!("image_{photo:05}.jpg"), class.to_string()));
    }
    let labels = (1..=FLOWERS102.classes).map(|class| class.to_string()).collect();
    let names = archive.names(None)?;
    finish(&archive, "test", archive.base.join("jpg"), rows, labels, names)
}

/// Converts a 1-based number read from the file to a 0-based index. `None` if it is not a positive integer.
fn index(number: f64) -> Option<usize> {
    (number >= 1.0 && number.fract() == 0.0).then(|| number as usize - 1)
}

fn clevr(folder: &Path) -> Result<Box<dyn Source>> {
    #[derive(Deserialize)]
    struct ClevrFile {
        scenes: Vec<ClevrScene>,
    }
    #[derive(Deserialize)]
    struct ClevrScene {
        image_filename: String,
        objects: Vec<serde::de::IgnoredAny>,
    }
    let archive = Archive::new(&CLEVR, folder, &["CLEVR_v1.0"]);
    let path = archive.find(&["scenes/CLEVR_val_scenes.json"])?;
    let file: ClevrFile = read_json(&path, "scenes with image_filename and objects")?;
    let row = |scene: ClevrScene| (scene.image_filename, scene.objects.len().to_string());
    let rows = file.scenes.into_iter().take(CLEVR.photos).map(row).collect();
    let labels: Vec<_> = (3..=10).map(|count| count.to_string()).collect();
    let names = archive.names(Some(labels.clone()))?;
    finish(&archive, "val", archive.base.join("images/val"), rows, labels, names)
}

fn finish(
    archive: &Archive<'_>,
    split: &'static str,
    photos: PathBuf,
    rows: Vec<(String, String)>,
    labels: Vec<String>,
    names: Vec<String>,
) -> Result<Box<dyn Source>> {
    let classes = labels.into_iter().zip(names).map(|(label, name)| ClassEntry { label, name, taxon: Vec::new() });
    LabelledPhotos::files(archive.set, split, photos, rows, classes.collect(), PathOrigin::Records)
}
