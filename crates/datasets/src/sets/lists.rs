//! Data sets whose test split is a text file with a list of photos.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use conifer_data::{ClassEntry, Error, Result, Source};

use super::DataSet;
use super::archive::Archive;
use super::labelled::{LabelledPhotos, PathOrigin};

pub(super) const FOOD101: DataSet = DataSet {
    name: "food101",
    title: "Food-101, test",
    layout: "food-101/{meta/classes.txt, meta/test.txt, images/<class>/<photo>.jpg}",
    get: "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101, food-101.tar.gz",
    classes: 101,
    photos: 25_250,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&FOOD101, folder, &["food-101"]);
        let list =
            PhotoList { file: &["meta/test.txt"], photos: "images", row: by_folder, expected: "<class>/<photo>" };
        let labels = plain(&archive, &["meta/classes.txt"])?;
        list.open(&archive, Some(labels), spaced)
    },
};

pub(super) const SUN397: DataSet = DataSet {
    name: "sun397",
    title: "SUN397, test part 1 (the MERU family uses the tfds version, with photos reduced to 120,000 pixels)",
    layout: "SUN397/{ClassName.txt, a/abbey/<photo>.jpg, ...} and Testing_01.txt (of Partitions.zip) in it, next to it or in \
             Partitions/",
    get: "https://vision.princeton.edu/projects/2010/SUN, SUN397.tar.gz and Partitions.zip",
    classes: 397,
    photos: 19_850,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&SUN397, folder, &["SUN397"]);
        let list = PhotoList {
            file: &["Testing_01.txt", "Partitions/Testing_01.txt"],
            photos: "",
            // A leading `/` would make the path absolute.
            row: |line| {
                let photo = line.trim_start_matches('/');
                Some((photo.to_owned(), format!("/{}", photo.rsplit_once('/')?.0)))
            },
            expected: "/<letter>/<class>/<photo>",
        };
        let labels = plain(&archive, &["ClassName.txt", "Partitions/ClassName.txt"])?;
        // Label: `/a/apartment_building/outdoor`
        list.open(&archive, Some(labels), |label| spaced(label.get(3..).unwrap_or(label)))
    },
};

pub(super) const AIRCRAFT: DataSet = DataSet {
    name: "aircraft",
    title: "FGVC-Aircraft, 100 variants, test",
    layout: "fgvc-aircraft-2013b/data/{variants.txt, images_variant_test.txt, images/<number>.jpg}",
    get: "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft, fgvc-aircraft-2013b.tar.gz",
    classes: 100,
    photos: 3333,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&AIRCRAFT, folder, &["fgvc-aircraft-2013b/data", "data"]);
        let list = PhotoList {
            file: &["images_variant_test.txt"],
            photos: "images",
            row: |line| line.split_once(' ').map(|(photo, label)| (format!("{photo}.jpg"), label.to_owned())),
            expected: "<number> <variant>",
        };
        let labels = plain(&archive, &["variants.txt"])?;
        list.open(&archive, Some(labels), str::to_owned)
    },
};

pub(super) const DTD: DataSet = DataSet {
    name: "dtd",
    title: "Describable Textures, test of split 1",
    layout: "dtd/{labels/test1.txt, images/<class>/<photo>.jpg}",
    get: "https://www.robots.ox.ac.uk/~vgg/data/dtd, dtd-r1.0.1.tar.gz",
    classes: 47,
    photos: 1880,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&DTD, folder, &["dtd"]);
        let list =
            PhotoList { file: &["labels/test1.txt"], photos: "images", row: by_folder, expected: "<class>/<photo>" };
        list.open(&archive, None, str::to_owned)
    },
};

pub(super) const PETS: DataSet = DataSet {
    name: "pets",
    title: "Oxford-IIIT Pets, test",
    layout: "annotations/test.txt and images/<breed>_<n>.jpg (or both in oxford-iiit-pet/)",
    get: "https://www.robots.ox.ac.uk/~vgg/data/pets, images.tar.gz and annotations.tar.gz",
    classes: 37,
    photos: 3669,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&PETS, folder, &["oxford-iiit-pet"]);
        let list = PhotoList {
            file: &["annotations/test.txt"],
            photos: "images",
            // `american_bulldog_201 2 2 1`: name, class, species, breed within the species.
            row: |line| {
                let name = line.split(' ').next()?;
                Some((format!("{name}.jpg"), name.rsplit_once('_')?.0.to_owned()))
            },
            expected: "<breed>_<n> <class> <species> <breed>",
        };
        list.open(&archive, None, spaced)
    },
};

pub(super) const CUB2011: DataSet = DataSet {
    name: "cub2011",
    title: "Caltech-UCSD Birds-200-2011, test",
    layout: "CUB_200_2011/{images.txt, image_class_labels.txt, classes.txt, train_test_split.txt, images/<class>/<photo>.jpg}",
    get: "https://data.caltech.edu/records/65de6-vp158, CUB_200_2011.tgz",
    classes: 200,
    photos: 5794,
    tree: None,
    beside: &[],
    read: cub,
};

/// Joins four tables on the numbers of photos and classes.
fn cub(folder: &Path) -> Result<Box<dyn Source>> {
    let archive = Archive::new(&CUB2011, folder, &["CUB_200_2011"]);
    let images = pairs(&archive, "images.txt")?;
    let class_of: BTreeMap<_, _> = pairs(&archive, "image_class_labels.txt")?.into_iter().collect();
    let classes = pairs(&archive, "classes.txt")?;
    let is_training: BTreeMap<_, _> = pairs(&archive, "train_test_split.txt")?.into_iter().collect();
    let label_of: BTreeMap<_, _> = classes.iter().cloned().collect();
    let mut rows = Vec::new();
    for (id, photo) in images {
        let label = class_of.get(&id).and_then(|class| label_of.get(class));
        match (is_training.get(&id).map(String::as_str), label) {
            (Some("1"), Some(_)) => {}
            (Some("0"), Some(label)) => rows.push((photo, label.clone())),
            (split, label) => {
                let place = format!("data set cub2011: photo {id} (`{photo}`)");
                let found = format!("train_test_split.txt gives {split:?}, image_class_labels.txt class {label:?}");
                return Err(Error::format(place, found, "0 or 1, and a class of classes.txt"));
            }
        }
    }
    // Label: `001.Black_footed_Albatross`
    let name = |label: &str| spaced(label.split_once('.').map_or(label, |(_, name)| name));
    let labels: Vec<_> = classes.into_iter().map(|(_, label)| label).collect();
    finish(&archive, "images", rows, labels, name)
}

/// A text file that lists one photo per line.
struct PhotoList {
    /// Candidate paths of the list.
    file: &'static [&'static str],
    /// Folder of the photos in the archive.
    photos: &'static str,
    /// Parses a line into the path of the photo, relative to `photos`, and its label.
    row: fn(&str) -> Option<(String, String)>,
    /// Format of a line, for messages.
    expected: &'static str,
}

impl PhotoList {
    /// Opens the set. Without `labels`, the classes are the labels of the rows, sorted case-insensitively.
    fn open(
        &self,
        archive: &Archive<'_>,
        labels: Option<Vec<String>>,
        name: impl Fn(&str) -> String,
    ) -> Result<Box<dyn Source>> {
        let (path, lines) = archive.lines(self.file)?;
        let mut rows = Vec::with_capacity(lines.len());
        for (number, line) in lines {
            let place = || format!("line {number} of `{}`", path.display());
            let row = (self.row)(&line).filter(|(photo, label)| !photo.is_empty() && !label.is_empty());
            let (photo, label) = row.ok_or_else(|| Error::format(place(), format!("`{line}`"), self.expected))?;
            rows.push((photo, label));
        }
        let labels = labels.unwrap_or_else(|| {
            let labels: BTreeSet<_> = rows.iter().map(|(_, label)| (label.to_lowercase(), label.clone())).collect();
            labels.into_iter().map(|(_, label)| label).collect()
        });
        finish(archive, self.photos, rows, labels, name)
    }
}

fn finish(
    archive: &Archive<'_>,
    photos: &str,
    rows: Vec<(String, String)>,
    labels: Vec<String>,
    name: impl Fn(&str) -> String,
) -> Result<Box<dyn Source>> {
    let names = archive.names(Some(labels.iter().map(|label| name(label)).collect()))?;
    let classes = labels.into_iter().zip(names).map(|(label, name)| ClassEntry { label, name, taxon: Vec::new() });
    // The folder of the photos may be missing, like any photo.
    LabelledPhotos::files(archive.set, "test", archive.base.join(photos), rows, classes.collect(), PathOrigin::Records)
}

/// Parses `<class>/<photo>`. The list of Food-101 omits the extension.
fn by_folder(line: &str) -> Option<(String, String)> {
    let (label, file) = line.split_once('/')?;
    let extension = if file.contains('.') { "" } else { ".jpg" };
    Some((format!("{line}{extension}"), label.to_owned()))
}

/// The non-empty lines of a file.
fn plain(archive: &Archive<'_>, names: &[&str]) -> Result<Vec<String>> {
    let (_, lines) = archive.lines(names)?;
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// Reads a two-column table.
fn pairs(archive: &Archive<'_>, name: &str) -> Result<Vec<(String, String)>> {
    let (path, lines) = archive.lines(&[name])?;
    let pair = |(number, line): (usize, String)| match line.split_once(' ') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(Error::format(
            format!("line {number} of `{}`", path.display()),
            format!("`{line}`"),
            "<number> <value>",
        )),
    };
    lines.into_iter().map(pair).collect()
}

fn spaced(label: &str) -> String {
    label.replace(['_', '/'], " ")
}
