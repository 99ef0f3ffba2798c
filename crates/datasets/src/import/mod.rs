//! Importers of published data sets: one module per format, all registered in [`IMPORTERS`]. [`import`] writes their
//! samples as grounded JSONL or shards.

mod box_filter;
pub mod coco;
pub mod flickr_entities;
pub mod flickr_joined;
pub mod flickr_tables;
pub mod gligen;
pub mod hierarcaps;
pub mod hierarcaps_joined;
pub mod instances;
pub mod openimages;
pub(crate) mod shared;
pub mod voc;
mod xml;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use conifer_data::export::{ExportReport, ExportTarget, FolderShare};
use conifer_data::names::path_of;
use conifer_data::roots::AllowedRoots;
use conifer_data::sources::image_folder::collect;
use conifer_data::{Broken, Error, ImageRef, PixelLimits, Result, Sample, export};
use serde::{Deserialize, Serialize};

/// Samples and faults. An `Err` can be the fault of a single box. The sample is then returned separately, without the
/// box.
pub type Samples = Box<dyn Iterator<Item = Result<Sample, Broken>> + Send>;

/// An entry of the registry of importers.
pub struct ImporterEntry {
    /// Name of the importer, such as "coco".
    pub name: &'static str,
    /// Short description for `--help`.
    pub summary: &'static str,
    /// Required and optional files of the importer.
    pub inputs: &'static [ImporterInput],
    /// Settings of the importer.
    pub options: &'static [ImporterOption],
    /// Reads the annotations. Photos are not decoded.
    pub read: fn(&ImporterInputs) -> Result<Samples>,
}

/// A file or folder that an importer reads.
pub struct ImporterInput {
    /// Key of the input in [`ImportSpec::inputs`].
    pub name: &'static str,
    /// Description of the required content, for help texts.
    pub help: &'static str,
    /// True if the importer cannot work without this input.
    pub required: bool,
}

/// A setting of an importer.
pub struct ImporterOption {
    /// Key of the option in [`ImportSpec::options`].
    pub name: &'static str,
    /// Meaning, values and default, for help texts.
    pub help: &'static str,
}

/// All importers.
pub const IMPORTERS: &[ImporterEntry] = &[
    coco::ENTRY,
    instances::ENTRY,
    openimages::ENTRY,
    voc::ENTRY,
    flickr_entities::ENTRY,
    flickr_tables::ENTRY,
    flickr_joined::ENTRY,
    gligen::ENTRY,
    hierarcaps::ENTRY,
    hierarcaps_joined::ENTRY,
];

/// Configuration of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportSpec {
    /// Name of the importer in [`IMPORTERS`].
    pub kind: String,
    /// The input files, keyed by the names in [`ImporterEntry::inputs`].
    pub inputs: BTreeMap<String, PathBuf>,
    /// The options, keyed by the names in [`ImporterEntry::options`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Split of the samples for which the files do not name a split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Folders, in addition to the folders of the inputs, in which the files may name photos.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
}

/// The input files of an importer, checked against its declared inputs.
pub struct ImporterInputs {
    importer: &'static str,
    files: BTreeMap<String, PathBuf>,
    options: BTreeMap<String, String>,
}

/// Reads the samples of a published data set and writes them to `target`.
///
/// # Errors
/// The errors of [`read`] and [`export::write`].
pub fn import(spec: &ImportSpec, target: &ExportTarget, limits: &PixelLimits) -> Result<ExportReport> {
    // Store hashes instead of paths, because data sets have millions of photos.
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

/// The folders in `spec.roots`, and the folders of the input files.
fn roots_of(spec: &ImportSpec) -> AllowedRoots {
    let folder = |input: &PathBuf| match input.is_dir() {
        true => input.clone(),
        false => input.parent().unwrap_or(Path::new("")).to_owned(),
    };
    AllowedRoots::new(spec.inputs.values().map(folder).chain(spec.roots.iter().cloned()))
}

/// Reads the samples of a published data set and checks them.
///
/// # Errors
/// An unknown importer, input or option, a missing input, or a file of another format.
pub fn read(spec: &ImportSpec) -> Result<Samples> {
    read_seeing(spec, |_| {})
}

/// Like [`read`], but calls `seen` with the photo of every sample, broken or not.
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
    let options: Vec<_> = entry.options.iter().map(|option| option.name).collect();
    if let Some(unknown) = spec.options.keys().find(|name| !options.contains(&name.as_str())) {
        let known = if options.is_empty() { format!("no option of {}", entry.name) } else { options.join(", ") };
        return Err(Error::Unknown { what: "option", found: unknown.clone(), known });
    }
    for input in entry.inputs {
        match spec.inputs.get(input.name) {
            Some(path) if !path.exists() => {
                let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(Error::io("read", path)(missing));
            }
            None if input.required => {
                return Err(Error::invalid(format!("input {} of {}", input.name, entry.name), "not given", input.help));
            }
            _ => {}
        }
    }
    let inputs = ImporterInputs { importer: entry.name, files: spec.inputs.clone(), options: spec.options.clone() };
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

impl ImporterInputs {
    /// The path of an input; `None` if it is not given.
    pub fn get(&self, name: &str) -> Option<&Path> {
        self.files.get(name).map(PathBuf::as_path)
    }

    /// The value of an option; `None` if it is not given.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// The path of a required input.
    ///
    /// # Errors
    /// The input is not given.
    pub fn need(&self, name: &str) -> Result<&Path> {
        self.get(name).ok_or_else(|| {
            Error::invalid(format!("input {name} of {}", self.importer), "not given", "a file or folder")
        })
    }
}

#[cfg(test)]
mod tests;
