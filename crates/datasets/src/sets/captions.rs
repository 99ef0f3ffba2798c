//! Data sets of photos with captions, for retrieval.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use conifer_data::{Broken, Error, ImageRef, Result, Sample, Source, SourceSpec, View};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::DataSet;
use super::archive::Archive;
use crate::import::shared::read_json;
use crate::sources::karpathy::Karpathy;

pub(super) const COCO: DataSet = DataSet {
    name: "coco",
    title: "COCO val2017, all 25,014 captions (MERU, HyCoCLIP, PHyCLIP)",
    layout: "annotations/captions_val2017.json (or the file itself) and val2017/<photo>.jpg",
    get: "https://cocodataset.org, 2017 val images and 2017 train/val annotations",
    classes: 0,
    photos: 5000,
    tree: None,
    beside: &[],
    read: |folder| {
        let archive = Archive::new(&COCO, folder, &[]);
        let path = archive.find(&["annotations/captions_val2017.json", "captions_val2017.json"])?;
        Ok(Box::new(CocoCaptionSet::open(&path, folder.join("val2017"))?))
    },
};

pub(super) const COCO_KARPATHY: DataSet = DataSet {
    name: "coco_karpathy",
    title: "COCO, Karpathy's test split, the first five captions of each photo",
    layout: "dataset_coco.json and val2014/<photo>.jpg",
    get: "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip, and 2014 val images of \
          https://cocodataset.org",
    classes: 0,
    photos: 5000,
    tree: None,
    beside: &[],
    read: |folder| karpathy(&COCO_KARPATHY, folder, "dataset_coco.json", ""),
};

pub(super) const FLICKR30K: DataSet = DataSet {
    name: "flickr30k",
    title: "Flickr30k, Karpathy's test split, five captions per photo",
    layout: "dataset_flickr30k.json and flickr30k-images/<photo>.jpg",
    get: "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip, and the photos from \
          https://shannon.cs.illinois.edu/DenotationGraph",
    classes: 0,
    photos: 1000,
    tree: None,
    beside: &[],
    read: |folder| karpathy(&FLICKR30K, folder, "dataset_flickr30k.json", "flickr30k-images"),
};

fn karpathy(set: &'static DataSet, folder: &Path, file: &str, images: &str) -> Result<Box<dyn Source>> {
    let path = Archive::new(set, folder, &[]).find(&[file])?;
    let options = [("images", json!(images)), ("captions", json!(5))];
    let source = Karpathy::open(&SourceSpec {
        kind: "karpathy".to_owned(),
        path: Some(path),
        split: Some("test".to_owned()),
        options: options.map(|(key, value)| (key.to_owned(), value)).into(),
        ..SourceSpec::default()
    })?;
    Ok(Box::new(source))
}

/// COCO captions: photos sorted by id, captions sorted by id.
struct CocoCaptionSet {
    folder: PathBuf,
    photos: Vec<CaptionedPhoto>,
    fingerprint: String,
}

#[derive(Deserialize)]
struct CaptionsFile {
    images: Vec<CaptionsImage>,
    annotations: Vec<CaptionsEntry>,
}

#[derive(Deserialize)]
struct CaptionsImage {
    id: u64,
    file_name: String,
}

#[derive(Deserialize)]
struct CaptionsEntry {
    id: u64,
    image_id: u64,
    caption: String,
}

#[derive(Default)]
struct CaptionedPhoto {
    file: String,
    captions: Vec<(u64, String)>,
}

impl CocoCaptionSet {
    fn open(path: &Path, folder: PathBuf) -> Result<Self> {
        let file: CaptionsFile = read_json(path, "images, annotations with caption")?;
        let place = || format!("`{}`", path.display());
        let photo = |image: CaptionsImage| (image.id, CaptionedPhoto { file: image.file_name, captions: Vec::new() });
        let mut photos: BTreeMap<_, _> = file.images.into_iter().map(photo).collect();
        for CaptionsEntry { id, image_id, caption } in file.annotations {
            match photos.get_mut(&image_id) {
                Some(photo) => photo.captions.push((id, caption.trim().to_owned())),
                None => {
                    let found = format!("caption {id} of photo {image_id}");
                    return Err(Error::format(place(), found, "this photo in the list of images"));
                }
            }
        }
        if photos.is_empty() {
            return Err(Error::Empty { place: place(), expected: "an image".to_owned() });
        }
        let mut hash = Sha256::new();
        let mut photos: Vec<_> = photos.into_values().collect();
        for photo in &mut photos {
            photo.captions.sort();
            hash.update(format!("{}\t{:?}\n", photo.file, photo.captions));
        }
        Ok(Self { folder, photos, fingerprint: hex::encode(hash.finalize()) })
    }
}

impl Source for CocoCaptionSet {
    fn name(&self) -> &str {
        COCO.name
    }

    fn len(&self) -> usize {
        self.photos.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let CaptionedPhoto { file, captions } = &self.photos[index];
        let sample = Sample {
            id: file.clone(),
            image: Some(ImageRef::File(self.folder.join(file))),
            captions: captions.iter().map(|(_, text)| text.clone()).collect(),
            split: Some("val".to_owned()),
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &[View::Pair]
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}
