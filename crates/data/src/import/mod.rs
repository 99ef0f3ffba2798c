//! From the files of published data sets to samples, one file per format, all listed in [`IMPORTERS`]; [`import`]
//! writes them down as grounded JSONL or shards.

pub mod coco;
pub mod flickr_entities;
pub mod flickr_joined;
pub mod flickr_tables;
pub mod hierarcaps;
pub mod hierarcaps_joined;
pub mod instances;
pub mod openimages;
pub(crate) mod shared;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::export::{self, FolderShare, Report, Target};
use crate::names::path_of;
use crate::roots::AllowedRoots;
use crate::sample::{Broken, ImageRef, PixelLimits, Sample};
use crate::sources::image_folder::collect;

/// What an importer yields. Next to samples there may be faults of single boxes, of samples that come without them.
pub type Samples = Box<dyn Iterator<Item = Result<Sample, Broken>> + Send>;

/// One line of the registry.
pub struct ImporterEntry {
    /// "coco"
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// The files it reads.
    pub inputs: &'static [Input],
    /// Reads the annotations; photos are looked for, not decoded.
    pub read: fn(&Inputs) -> Result<Samples>,
}

/// A file or folder an importer reads.
pub struct Input {
    /// As in [`ImportSpec::inputs`].
    pub name: &'static str,
    /// What is in it.
    pub help: &'static str,
    /// Whether the importer does without.
    pub required: bool,
}

/// Every importer.
pub const IMPORTERS: &[ImporterEntry] = &[
    coco::ENTRY,
    instances::ENTRY,
    openimages::ENTRY,
    flickr_entities::ENTRY,
    flickr_tables::ENTRY,
    flickr_joined::ENTRY,
    hierarcaps::ENTRY,
    hierarcaps_joined::ENTRY,
];

/// What to import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportSpec {
    /// A name in [`IMPORTERS`].
    pub kind: String,
    /// Its files by the names of [`ImporterEntry::inputs`].
    pub inputs: BTreeMap<String, PathBuf>,
    /// The split of all samples for which the files name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, besides those of the inputs, in which the photos may be that the files name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
}

/// The files given to an importer, checked against those it knows.
pub struct Inputs {
    importer: &'static str,
    files: BTreeMap<String, PathBuf>,
}

/// Reads the samples and writes them to `target`.
///
/// # Errors
/// Those of [`read`] and [`export::write`].
pub fn import(spec: &ImportSpec, target: &Target, limits: &PixelLimits) -> Result<Report> {
    // Hashes, since data sets have millions of photos.
    let named: Arc<Mutex<HashSet<u64>>> = Arc::default();
    let seen = Arc::clone(&named);
    let samples = read_seeing(spec, move |path| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).insert(hash_of(path));
    })?;
    let mut report = export::write(samples, &roots_of(spec).folders(), target, limits)?;
    if let Some(folder) = spec.inputs.get("images").filter(|it| it.is_dir()) {
        let mut photos = Vec::new();
        collect(folder, "", &mut photos)?;
        let named = named.lock().unwrap_or_else(PoisonError::into_inner);
        let without = photos.iter().filter(|photo| !named.contains(&hash_of(&folder.join(path_of(photo)))));
        report.folder = Some(FolderShare { photos: photos.len() as u64, without_record: without.count() as u64 });
    }
    Ok(report)
}

fn hash_of(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// The folders that the user names, and those of the files that the user names.
fn roots_of(spec: &ImportSpec) -> AllowedRoots {
    let folder = |input: &PathBuf| match input.is_dir() {
        true => input.clone(),
        false => input.parent().unwrap_or(Path::new("")).to_owned(),
    };
    AllowedRoots::new(spec.inputs.values().map(folder).chain(spec.roots.iter().cloned()))
}

/// The samples of a published data set, checked.
///
/// # Errors
/// An unknown importer or input, an input that is missing, or a file of another format.
pub fn read(spec: &ImportSpec) -> Result<Samples> {
    read_seeing(spec, |_| {})
}

/// As [`read`]; `seen` gets the photo of every sample, whether or not the sample is broken.
fn read_seeing(spec: &ImportSpec, seen: impl Fn(&Path) + Send + 'static) -> Result<Samples> {
    let entry = IMPORTERS.iter().find(|entry| entry.name == spec.kind).ok_or_else(|| Error::Unknown {
        what: "importer",
        found: spec.kind.clone(),
        known: IMPORTERS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })?;
    let names: Vec<_> = entry.inputs.iter().map(|input| input.name).collect();
    if let Some(unknown) = spec.inputs.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(Error::Unknown { what: "input", found: unknown.clone(), known: names.join(", ") });
    }
    for input in entry.inputs {
        match spec.inputs.get(input.name) {
            Some(path) if !path.exists() => {
                let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(Error::io("read", path)(missing));
            }
            None if input.required => {
                return Err(Error::config(format!("input {} of {}", input.name, entry.name), "not given", input.help));
            }
            _ => {}
        }
    }
    let inputs = Inputs { importer: entry.name, files: spec.inputs.clone() };
    let split = spec.split.clone();
    AllowedRoots::check_named(&spec.roots)?;
    let roots = roots_of(spec);
    Ok(Box::new((entry.read)(&inputs)?.map(move |sample| {
        let sample = sample?;
        if let Some(ImageRef::File(path)) = &sample.image {
            seen(path);
        }
        let mut sample = roots.admit(sample)?;
        sample.split = sample.split.or_else(|| split.clone());
        sample.check()?;
        Ok(sample)
    })))
}

impl Inputs {
    /// An input that may be absent.
    pub fn get(&self, name: &str) -> Option<&Path> {
        self.files.get(name).map(PathBuf::as_path)
    }

    /// An input that has to be there.
    ///
    /// # Errors
    /// It is not.
    pub fn need(&self, name: &str) -> Result<&Path> {
        self.get(name)
            .ok_or_else(|| Error::config(format!("input {name} of {}", self.importer), "not given", "a file or folder"))
    }
}

#[cfg(test)]
mod tests;
