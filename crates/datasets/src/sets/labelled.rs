use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conifer_data::names::path_of;
use conifer_data::{Broken, Cause, ClassEntry, Error, ImageRef, Picture, Result, Sample, Source, View, files};
use sha2::{Digest, Sha256};

use super::DataSet;

/// Photos with one class each, and the list of all classes.
pub(super) struct LabelledPhotos {
    set: &'static DataSet,
    photos: PhotoStorage,
    /// Indices into `classes`, one per photo.
    labels: Vec<u32>,
    classes: Vec<ClassEntry>,
    split: &'static str,
    fingerprint: String,
}

pub(super) enum PhotoStorage {
    /// A folder, and the relative path of each photo.
    Files(PathBuf, Vec<String>, PathOrigin),
    /// Raw pixels in one file.
    Records(RawRecords),
}

/// Origin of the photo paths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PathOrigin {
    /// A file of the data set, which may name any file, so the paths are checked.
    Records,
    /// A listing of the folder.
    Listing,
}

/// Photos of equal size as raw bytes without headers.
pub(super) struct RawRecords {
    pub(super) path: PathBuf,
    /// The decompressed content of a file that was read as a whole, because it is compressed or contains the labels.
    /// `None`: records are read from the file.
    pub(super) memory: Option<Vec<u8>>,
    /// Number of bytes before the first record.
    pub(super) start: usize,
    /// Number of label bytes before the pixels of each record.
    pub(super) lead: usize,
    /// Width and height in pixels.
    pub(super) side: usize,
    pub(super) pixels: PixelOrder,
}

/// Layout of the pixels of a record.
#[derive(Clone, Copy)]
pub(super) enum PixelOrder {
    /// One byte per pixel, row by row.
    Grey,
    /// The planes red, green and blue, each row by row.
    Planes,
    /// Like `Planes`, but each plane column by column.
    Columns,
}

impl LabelledPhotos {
    /// Creates a source of files. `rows` are (photo, label) pairs; every label must be the label of a class.
    ///
    /// # Errors
    /// A wrong number of classes, a duplicate label, a label without a class, or no photo.
    pub(super) fn files(
        set: &'static DataSet,
        split: &'static str,
        folder: PathBuf,
        rows: Vec<(String, String)>,
        classes: Vec<ClassEntry>,
        paths: PathOrigin,
    ) -> Result<Box<dyn Source>> {
        let place = format!("data set {}: `{}`", set.name, folder.display());
        let number: HashMap<_, _> = classes.iter().zip(0_u32..).map(|(class, i)| (class.label.as_str(), i)).collect();
        let (mut labels, mut photos) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for (photo, label) in rows {
            match number.get(label.as_str()) {
                Some(&label) => labels.push(label),
                None => {
                    let found = format!("photo `{photo}` is of class `{label}`");
                    return Err(Error::format(place, found, format!("one of the {} classes", classes.len())));
                }
            }
            photos.push(photo);
        }
        Self::checked(set, split, PhotoStorage::Files(folder, photos, paths), labels, classes)
    }

    /// Creates a source of records. `labels` are indices into `classes`.
    ///
    /// # Errors
    /// A wrong number of classes, a duplicate label, an index out of range, or no photo.
    pub(super) fn records(
        set: &'static DataSet,
        split: &'static str,
        records: RawRecords,
        labels: Vec<u32>,
        classes: Vec<ClassEntry>,
    ) -> Result<Box<dyn Source>> {
        Self::checked(set, split, PhotoStorage::Records(records), labels, classes)
    }

    fn checked(
        set: &'static DataSet,
        split: &'static str,
        photos: PhotoStorage,
        labels: Vec<u32>,
        classes: Vec<ClassEntry>,
    ) -> Result<Box<dyn Source>> {
        let place = format!("data set {}: `{}`", set.name, photos.place().display());
        if classes.len() != set.classes {
            return Err(Error::format(place, format!("{} classes", classes.len()), format!("{} classes", set.classes)));
        }
        let mut there = BTreeSet::new();
        if let Some(twice) = classes.iter().find(|class| !there.insert(&class.label)) {
            return Err(Error::format(place, format!("class `{}` twice", twice.label), "each class once"));
        }
        if labels.is_empty() {
            return Err(Error::Empty { place, expected: set.layout.to_owned() });
        }
        if let Some((at, label)) = labels.iter().enumerate().find(|(_, label)| **label as usize >= classes.len()) {
            let found = format!("record {at} has class number {label}, counted from 0");
            return Err(Error::format(place, found, format!("less than {}", classes.len())));
        }
        let mut hash = Sha256::new();
        hash.update(set.name);
        for class in &classes {
            hash.update(format!("{}\t{}\n", class.label, class.name));
        }
        for (at, label) in labels.iter().enumerate() {
            hash.update(format!("{}\t{label}\n", photos.id(at)));
        }
        Ok(Box::new(Self { set, photos, labels, classes, split, fingerprint: hex::encode(hash.finalize()) }))
    }
}

impl Source for LabelledPhotos {
    fn name(&self) -> &str {
        self.set.name
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let class = &self.classes[self.labels[index] as usize];
        Ok(Sample {
            id: self.photos.id(index),
            image: Some(self.photos.open(index)?),
            label: Some(class.label.clone()),
            split: Some(self.split.to_owned()),
            ..Sample::default()
        })
    }

    /// Empty, because these data sets are read for evaluation and not for training.
    fn views(&self) -> &[View] {
        &[]
    }

    /// Hash of the classes, their names, and the id and class of each photo.
    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn classes(&self) -> Vec<ClassEntry> {
        self.classes.clone()
    }

    fn lists_files(&self) -> bool {
        matches!(self.photos, PhotoStorage::Files(_, _, PathOrigin::Listing))
    }

    fn roots(&self) -> Vec<PathBuf> {
        match &self.photos {
            PhotoStorage::Files(folder, ..) => vec![folder.clone()],
            PhotoStorage::Records(_) => Vec::new(),
        }
    }
}

impl PhotoStorage {
    fn place(&self) -> &Path {
        match self {
            Self::Files(folder, ..) => folder,
            Self::Records(records) => &records.path,
        }
    }

    fn id(&self, index: usize) -> String {
        match self {
            Self::Files(_, photos, _) => photos[index].clone(),
            Self::Records(records) => records.id(index),
        }
    }

    fn open(&self, index: usize) -> Result<ImageRef, Broken> {
        match self {
            Self::Files(folder, photos, PathOrigin::Listing) => {
                Ok(ImageRef::File(folder.join(path_of(&photos[index]))))
            }
            Self::Files(folder, photos, PathOrigin::Records) => Ok(ImageRef::File(folder.join(&photos[index]))),
            Self::Records(records) => records.picture(index).map(|it| ImageRef::Pixels(Arc::new(it))),
        }
    }
}

impl RawRecords {
    /// Size of a record in bytes.
    pub(super) fn stride(&self) -> usize {
        self.lead + self.side * self.side * self.pixels.channels()
    }

    /// Number of records in a file of `len` bytes.
    ///
    /// # Errors
    /// The last record is incomplete.
    pub(super) fn count(&self, len: usize) -> Result<usize> {
        let stride = self.stride();
        match len.checked_sub(self.start).filter(|rest| rest % stride == 0) {
            Some(rest) => Ok(rest / stride),
            None => {
                let expected = format!("{} and a multiple of {stride}", self.start);
                Err(Error::format(format!("`{}`", self.path.display()), format!("{len} bytes"), expected))
            }
        }
    }

    fn id(&self, index: usize) -> String {
        format!("{}/{index}", self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    fn picture(&self, index: usize) -> Result<Picture, Broken> {
        let area = self.side * self.side;
        let (offset, len) = (self.start + index * self.stride() + self.lead, area * self.pixels.channels());
        let torn = |found: String| {
            let detail = format!("`{}`: {found}; expected {len} bytes at byte {offset}", self.path.display());
            Broken::new(self.id(index), Cause::TornShard, detail)
        };
        let bytes = match &self.memory {
            Some(memory) => memory.get(offset..offset + len).map(<[u8]>::to_vec),
            None => Some(
                files::read_range(&self.path, offset as u64, len as u64).map_err(|error| torn(error.to_string()))?,
            ),
        };
        let bytes = bytes.ok_or_else(|| torn("the file is shorter".to_owned()))?;
        let rgb = match self.pixels {
            PixelOrder::Grey => bytes.iter().flat_map(|&grey| [grey; 3]).collect(),
            PixelOrder::Planes => (0..area).flat_map(|at| [0, 1, 2].map(|c| bytes[c * area + at])).collect(),
            PixelOrder::Columns => {
                let at = |i: usize| i % self.side * self.side + i / self.side;
                (0..area).flat_map(|i| [0, 1, 2].map(|c| bytes[c * area + at(i)])).collect()
            }
        };
        Ok(Picture { width: self.side as u32, height: self.side as u32, rgb })
    }
}

impl PixelOrder {
    fn channels(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::Planes | Self::Columns => 3,
        }
    }
}
