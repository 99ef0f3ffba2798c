//! Data sets whose photos are raw pixels in a single file.

use std::fs;

use conifer_data::{ClassEntry, Error, Result, Source};

use super::DataSet;
use super::archive::Archive;
use super::labelled::{LabelledPhotos, PixelOrder, RawRecords};

pub(super) const CIFAR10: DataSet = DataSet {
    name: "cifar10",
    title: "CIFAR-10, test",
    layout: "cifar-10-batches-bin/{test_batch.bin, batches.meta.txt} (the binary version, not the Python one)",
    get: "https://www.cs.toronto.edu/~kriz/cifar.html, cifar-10-binary.tar.gz",
    classes: 10,
    photos: 10_000,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&CIFAR10, folder, &["cifar-10-batches-bin"]);
        cifar(&archive, "test_batch.bin", "batches.meta.txt", 1)
    },
};

pub(super) const CIFAR100: DataSet = DataSet {
    name: "cifar100",
    title: "CIFAR-100, test, fine labels",
    layout: "cifar-100-binary/{test.bin, fine_label_names.txt} (the binary version, not the Python one)",
    get: "https://www.cs.toronto.edu/~kriz/cifar.html, cifar-100-binary.tar.gz",
    classes: 100,
    photos: 10_000,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&CIFAR100, folder, &["cifar-100-binary"]);
        cifar(&archive, "test.bin", "fine_label_names.txt", 2)
    },
};

pub(super) const STL10: DataSet = DataSet {
    name: "stl10",
    title: "STL-10, test",
    layout: "stl10_binary/{test_X.bin, test_y.bin, class_names.txt}",
    get: "https://cs.stanford.edu/~acoates/stl10, stl10_binary.tar.gz",
    classes: 10,
    photos: 8000,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&STL10, folder, &["stl10_binary"]);
        let path = archive.find(&["test_X.bin"])?;
        let len = fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        let records = RawRecords { path, memory: None, start: 0, lead: 0, side: 96, pixels: PixelOrder::Columns };
        let count = records.count(usize::try_from(len).unwrap_or(usize::MAX))?;
        let (place, bytes) = archive.unpacked("test_y.bin")?;
        if bytes.len() != count {
            let found = format!("{} labels", bytes.len());
            return Err(Error::format(format!("`{}`", place.display()), found, format!("{count}, one per photo")));
        }
        // Labels are 1 to 10; 0 wraps around to an invalid class.
        let labels = bytes.iter().map(|&label| u32::from(label).wrapping_sub(1)).collect();
        let classes = listed(&archive, "class_names.txt")?;
        LabelledPhotos::records(&STL10, "test", records, labels, classes)
    },
};

pub(super) const MNIST: DataSet = DataSet {
    name: "mnist",
    title: "MNIST, test",
    layout: "MNIST/raw/{t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte}, with or without .gz (the folders are optional)",
    get: "https://ossci-datasets.s3.amazonaws.com/mnist, the two t10k files",
    classes: 10,
    photos: 10_000,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&MNIST, folder, &["MNIST/raw", "raw"]);
        let (path, pixels) = archive.unpacked("t10k-images-idx3-ubyte")?;
        let (place, digits) = archive.unpacked("t10k-labels-idx1-ubyte")?;
        let word = |bytes: &[u8], at: usize| bytes.get(4 * at..).and_then(|it| it.first_chunk().copied());
        let header: Vec<_> = (0..4).filter_map(|at| word(&pixels, at).map(u32::from_be_bytes)).collect();
        let records = RawRecords { path, memory: None, start: 16, lead: 0, side: 28, pixels: PixelOrder::Grey };
        let count = records.count(pixels.len())?;
        if header != [0x803, count as u32, 28, 28] {
            let place = format!("header of `{}`", records.path.display());
            return Err(Error::format(place, format!("{header:?}"), format!("[2051, {count}, 28, 28]")));
        }
        if word(&digits, 0).map(u32::from_be_bytes) != Some(0x801) || digits.len() != 8 + count {
            let found = format!("{} bytes", digits.len());
            let expected = format!("2049 as its first four bytes, and 8 + {count} bytes, one per photo");
            return Err(Error::format(format!("`{}`", place.display()), found, expected));
        }
        let labels = digits.iter().skip(8).map(|&digit| u32::from(digit)).collect();
        let classes = classes(&archive, (0..10).map(|digit| digit.to_string()).collect())?;
        LabelledPhotos::records(&MNIST, "test", RawRecords { memory: Some(pixels), ..records }, labels, classes)
    },
};

/// Reads records of `lead` label bytes, the last of which is the class, and 32 x 32 pixels.
fn cifar(archive: &Archive<'_>, file: &str, meta: &str, lead: usize) -> Result<Box<dyn Source>> {
    let path = archive.find(&[file])?;
    // The file is loaded for the labels and kept in memory (31 MB).
    let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
    let records = RawRecords { path, memory: None, start: 0, lead, side: 32, pixels: PixelOrder::Planes };
    records.count(bytes.len())?;
    let labels = bytes.iter().skip(lead - 1).step_by(records.stride()).map(|&label| u32::from(label)).collect();
    let classes = listed(archive, meta)?;
    LabelledPhotos::records(archive.set, "test", RawRecords { memory: Some(bytes), ..records }, labels, classes)
}

/// Classes listed in a file, one label per line.
fn listed(archive: &Archive<'_>, file: &str) -> Result<Vec<ClassEntry>> {
    let (_, lines) = archive.lines(&[file])?;
    classes(archive, lines.into_iter().map(|(_, line)| line).collect())
}

fn classes(archive: &Archive<'_>, labels: Vec<String>) -> Result<Vec<ClassEntry>> {
    let names = archive.names(Some(labels.iter().map(|label| label.replace('_', " ")).collect()))?;
    Ok(labels.into_iter().zip(names).map(|(label, name)| ClassEntry { label, name, taxon: Vec::new() }).collect())
}
