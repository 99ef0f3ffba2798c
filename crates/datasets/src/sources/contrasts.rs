//! Shared code of compositionality benchmarks. An item is a photo with a correct caption and an incorrect caption that
//! differs slightly.
//!
//! Leading and trailing whitespace is removed from the texts: some published files contain it, and the tokenizers of
//! this project ignore it.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use conifer_data::{
    BBox, Broken, Cause, Error, ImageRef, Phrase, PixelLimits, Result, Sample, Source, SourceSpec, View,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The items of a benchmark, in the order of their files.
pub(super) struct ContrastSource {
    kind: &'static str,
    items: Vec<Result<ContrastItem, Broken>>,
    photos: Option<ContrastPhotos>,
    views: Vec<View>,
    fingerprint: String,
}

/// A photo with a correct and an incorrect caption.
#[derive(Clone)]
pub(super) struct ContrastItem {
    pub(super) id: String,
    /// Name of the photo in the file of the benchmark.
    pub(super) photo: String,
    pub(super) caption: String,
    pub(super) wrong: String,
    pub(super) subset: Option<String>,
    pub(super) label: Option<String>,
    pub(super) region: Option<ContrastRegion>,
}

/// The region of the photo that the captions describe.
#[derive(Clone)]
pub(super) struct ContrastRegion {
    /// Names of the objects in the region.
    pub(super) text: String,
    /// Left, top, right, bottom, in pixels.
    pub(super) corners: [f32; 4],
}

/// The fingerprint of a source is a hash of this text. The text contains the former name of the struct, so that
/// fingerprints of older runs stay valid.
impl fmt::Debug for ContrastItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("id", &self.id)
            .field("photo", &self.photo)
            .field("caption", &self.caption)
            .field("wrong", &self.wrong)
            .field("subset", &self.subset)
            .field("label", &self.label)
            .field("region", &self.region)
            .finish()
    }
}

/// Nested in the text of [`ContrastItem`]; contains the former name of this struct for the same reason.
impl fmt::Debug for ContrastRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("text", &self.text).field("corners", &self.corners).finish()
    }
}

/// The folder of the photos, with a function that gives the candidate file names of a photo.
pub(super) struct ContrastPhotos {
    folder: PathBuf,
    names: fn(&str) -> Vec<String>,
}

impl ContrastPhotos {
    /// Opens the folder `images`, relative to `base`. `names` returns the file names under which a photo may be stored.
    ///
    /// # Errors
    /// `images` is not a folder.
    pub(super) fn open(spec: &SourceSpec, base: &Path, images: &Path, names: fn(&str) -> Vec<String>) -> Result<Self> {
        let folder = base.join(images);
        if folder.is_dir() {
            return Ok(Self { folder, names });
        }
        let (key, found) = (format!("images of source {}", spec.kind), format!("`{}`", folder.display()));
        Err(Error::invalid(key, found, "a folder of photos"))
    }

    /// The first candidate file that exists. If none exists, the first candidate.
    fn find(&self, photo: &str) -> PathBuf {
        let mut paths = (self.names)(photo).into_iter().map(|name| self.folder.join(name));
        let first = paths.next().unwrap_or_else(|| self.folder.join(photo));
        if first.is_file() {
            return first;
        }
        paths.find(|path| path.is_file()).unwrap_or(first)
    }
}

impl ContrastSource {
    /// # Errors
    /// There are no items.
    pub(super) fn new(
        spec: &SourceSpec,
        kind: &'static str,
        items: ContrastItems,
        photos: Option<ContrastPhotos>,
    ) -> Result<Self> {
        if items.0.is_empty() {
            let place = spec.path.as_ref().map_or_else(String::new, |path| format!("`{}`", path.display()));
            let expected = match &spec.split {
                Some(split) => format!("items of subset `{split}`"),
                None => "files with items".to_owned(),
            };
            return Err(Error::Empty { place, expected });
        }
        let mut hash = Sha256::new();
        for item in &items.0 {
            hash.update(format!("{item:?}\n"));
        }
        let mut views = Vec::new();
        views.extend(photos.is_some().then_some(View::Pair));
        let boxes = items.0.iter().any(|item| item.as_ref().is_ok_and(|item| item.region.is_some()));
        views.extend((photos.is_some() && boxes).then_some(View::Boxes));
        Ok(Self { kind, items: items.0, photos, views, fingerprint: hex::encode(hash.finalize()) })
    }
}

impl Source for ContrastSource {
    fn name(&self) -> &str {
        self.kind
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let item = self.items[index].clone()?;
        let image = self.photos.as_ref().map(|photos| ImageRef::File(photos.find(&item.photo)));
        let phrases = match (item.region, &image) {
            (Some(region), Some(image)) => vec![region.in_photo(image, &item.id)?],
            _ => Vec::new(),
        };
        let sample = Sample {
            id: item.id,
            image,
            captions: vec![item.caption.trim().to_owned()],
            wrong: vec![item.wrong.trim().to_owned()],
            phrases,
            label: item.label,
            split: item.subset,
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &self.views
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

impl ContrastRegion {
    /// Converts the region to a phrase with a box in fractions, which needs the size of the photo. The box is clipped
    /// to the photo.
    fn in_photo(self, image: &ImageRef, sample: &str) -> Result<Phrase, Broken> {
        let (width, height) = image.size(&PixelLimits::default()).map_err(|broken| broken.within(sample))?;
        let bbox = BBox::from_pixels(self.corners, width as f32, height as f32);
        let inside = |v: f32| v.clamp(0.0, 1.0);
        let cut = BBox { x1: inside(bbox.x1), y1: inside(bbox.y1), x2: inside(bbox.x2), y2: inside(bbox.y2) };
        if cut.check().is_err() {
            let [x1, y1, x2, y2] = self.corners;
            let detail =
                format!("box [{x1}, {y1}, {x2}, {y2}]; expected a part of the photo of {width} x {height} pixels");
            return Err(Broken::new(sample, Cause::BadBox, detail));
        }
        Ok(Phrase { text: self.text, boxes: vec![cut], ..Phrase::default() })
    }
}

/// Collects items from files.
#[derive(Default)]
pub(super) struct ContrastItems(Vec<Result<ContrastItem, Broken>>);

impl ContrastItems {
    /// Adds the records of a file, each under its id. A record that cannot be parsed becomes a broken item.
    ///
    /// # Errors
    /// The file has no records.
    pub(super) fn add<T: DeserializeOwned>(
        &mut self,
        file: &Path,
        records: impl Iterator<Item = (String, Value)>,
        expected: &str,
        item: impl Fn(String, T) -> Result<ContrastItem, Broken>,
    ) -> Result<()> {
        let before = self.0.len();
        self.0.extend(records.map(|(id, value)| match serde_json::from_value(value) {
            Ok(record) => item(id, record),
            Err(error) => Err(Broken::new(id, Cause::BadRecord, format!("{error}; expected {expected}"))),
        }));
        if self.0.len() == before {
            let place = format!("`{}`", file.display());
            return Err(Error::Empty { place, expected: expected.to_owned() });
        }
        Ok(())
    }
}

/// The file itself or, for a folder, its JSON files, sorted. Subfolders are searched down to `depth` levels. Hidden
/// files are skipped.
///
/// # Errors
/// A folder that cannot be read, or no JSON file.
pub(super) fn json_files(path: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    collect(path, depth, &mut files)?;
    if files.is_empty() {
        return Err(Error::Empty { place: format!("`{}`", path.display()), expected: "JSON files".to_owned() });
    }
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        let hidden = path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, files)?;
            }
        } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
            files.push(path);
        }
    }
    Ok(())
}

/// The file name without its extension.
pub(super) fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Checks that the requested split, if there is one, is one of the subsets.
///
/// # Errors
/// The split is not one of the subsets.
pub(super) fn known_subset(spec: &SourceSpec, what: &'static str, subsets: &[&str]) -> Result<()> {
    match &spec.split {
        Some(split) if !subsets.contains(&&**split) => {
            Err(Error::Unknown { what, found: split.clone(), known: subsets.join(", ") })
        }
        _ => Ok(()),
    }
}
