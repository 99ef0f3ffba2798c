//! The Karpathy splits (Karpathy and Li 2015, "Deep Visual-Semantic Alignments"): `dataset_coco.json`,
//! `dataset_flickr30k.json` and `dataset_flickr8k.json`, with the split and the sentences of each photo.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use conifer_data::{Broken, Error, ImageRef, Result, Sample, Source, SourceEntry, SourceSpec, View};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::import::shared::read_json;

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "karpathy",
    summary: "COCO, Flickr30k or Flickr8k captions with the splits of Karpathy and Li",
    inputs: "path: the dataset_*.json; split: train, val, test or restval (for COCO, models are usually trained on train and restval); \
             options: images (the folder of the photos, relative to the file; default: the folder of the file), captions (use at most this \
             many captions of each photo, the first ones; default: all)",
    read: |spec| Ok(Box::new(Karpathy::open(spec)?)),
};

/// Photos with captions, all in memory (COCO: 123,287 photos, 40 MB).
pub struct Karpathy {
    folder: PathBuf,
    photos: Vec<KarpathyPhoto>,
    fingerprint: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct KarpathyOptions {
    images: PathBuf,
    captions: Option<usize>,
}

#[derive(Deserialize)]
struct KarpathyFile {
    images: Vec<KarpathyImage>,
}

/// In the COCO file, `filepath` is the folder of the photo. The other files lack this field.
#[derive(Deserialize)]
struct KarpathyImage {
    #[serde(default)]
    filepath: PathBuf,
    filename: String,
    split: String,
    sentences: Vec<KarpathySentence>,
}

/// Tokens and ids are skipped.
#[derive(Deserialize)]
struct KarpathySentence {
    raw: String,
}

struct KarpathyPhoto {
    file: PathBuf,
    id: String,
    captions: Vec<String>,
    split: String,
}

impl Karpathy {
    /// Reads the photos and captions of the file.
    ///
    /// # Errors
    /// An option is invalid; the file cannot be read, has another format, or has no photo (of the split).
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let path = spec.need_path()?;
        let options: KarpathyOptions = spec.parse_options()?;
        if options.captions == Some(0) {
            return Err(Error::invalid("captions", "0", "at least 1"));
        }
        let file: KarpathyFile = read_json(path, "images, each with filename, split and sentences with raw")?;
        let splits: BTreeSet<_> = file.images.iter().map(|image| image.split.clone()).collect();
        let wanted = |image: &KarpathyImage| spec.split.as_ref().is_none_or(|split| *split == image.split);
        let photo = |KarpathyImage { filepath, filename, split, sentences }: KarpathyImage| {
            let texts = sentences.into_iter().take(options.captions.unwrap_or(usize::MAX));
            let captions = texts.map(|it| it.raw.trim().to_owned()).collect();
            KarpathyPhoto { file: filepath.join(&filename), id: filename, captions, split }
        };
        let photos: Vec<_> = file.images.into_iter().filter(wanted).map(photo).collect();
        if photos.is_empty() {
            let known = splits.into_iter().collect::<Vec<_>>().join(", ");
            let wanted = spec.split.as_ref().map_or_else(|| "a photo".to_owned(), |split| format!("split `{split}`"));
            let expected = format!("{wanted} (there are: {known})");
            return Err(Error::Empty { place: format!("`{}`", path.display()), expected });
        }
        let mut hash = Sha256::new();
        for photo in &photos {
            hash.update(format!("{}\t{}\t{:?}\n", photo.id, photo.split, photo.captions));
        }
        let folder = path.parent().unwrap_or(Path::new("")).join(options.images);
        Ok(Self { folder, photos, fingerprint: hex::encode(hash.finalize()) })
    }
}

impl Source for Karpathy {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.photos.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let KarpathyPhoto { file, id, captions, split } = &self.photos[index];
        let sample = Sample {
            id: id.clone(),
            image: Some(ImageRef::File(self.folder.join(file))),
            captions: captions.clone(),
            split: Some(split.clone()),
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
