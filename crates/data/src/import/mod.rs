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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::export::{self, Report, Target};
use crate::sample::{Broken, PixelLimits, Sample};

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
    export::write(read(spec)?, target, limits)
}

/// The samples of a published data set, checked.
///
/// # Errors
/// An unknown importer or input, an input that is missing, or a file of another format.
pub fn read(spec: &ImportSpec) -> Result<Samples> {
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
    Ok(Box::new((entry.read)(&inputs)?.map(move |sample| {
        let mut sample = sample?;
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
