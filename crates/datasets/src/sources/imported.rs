//! Reads the files of a published data set with its importer, without converting them first. Intended for evaluation
//! sets, which are small. Training sets are converted once, to JSONL or shards (`crate::import`).

use std::collections::{BTreeMap, BTreeSet};

use conifer_data::grounded::GroundedRecord;
use conifer_data::{Broken, Cause, Error, ImageRef, Result, Sample, Source, SourceEntry, SourceSpec, View};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::import::{IMPORTERS, ImportSpec, read};

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "imported",
    summary: "files of COCO, LVIS, OpenImages, PASCAL VOC, Flickr30k Entities or HierarCaps, read by their importer",
    inputs: "path: the folder that file options are relative to; split: keep only this split; options: importer (a name from the list \
             below), and the input files and options of this importer under the names listed there",
    read: |spec| Ok(Box::new(ImportedSamples::open(spec)?)),
};

/// The samples of an importer, held in memory.
pub struct ImportedSamples {
    samples: Vec<Result<Sample, Broken>>,
    views: Vec<View>,
    broken_boxes: usize,
    /// Boxes that the options of the importer leave out.
    filtered_boxes: usize,
    fingerprint: String,
}

impl ImportedSamples {
    /// Reads all annotations into memory.
    ///
    /// # Errors
    /// The errors of [`crate::import::read`], an input file whose value is not a string, or no sample (of the split).
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let ImportedOptions { importer, files, options } = ImportedOptions::of(spec)?;
        let folder = spec.need_path()?;
        let kind = importer.ok_or_else(|| {
            let known: Vec<_> = IMPORTERS.iter().map(|entry| entry.name).collect();
            let what = format!("option importer of source imported, for `{}`", folder.display());
            Error::invalid(what, "not given", known.join(", "))
        })?;
        let inputs = files.into_iter().map(|(name, file)| (name, folder.join(file))).collect();
        let (mut samples, mut broken_boxes, mut filtered_boxes) = (Vec::new(), 0, 0);
        // Allow the folder given by the user, because the annotation files refer to photos in it.
        let roots = [folder.clone()].into_iter().chain(spec.roots.iter().cloned()).collect();
        for sample in read(&ImportSpec { kind, inputs, options, roots, ..ImportSpec::default() })? {
            match sample {
                // The importer also yields the sample itself, without the broken box.
                Err(fault) if fault.cause == Cause::BadBox => broken_boxes += 1,
                Err(fault) if fault.cause == Cause::Filtered => filtered_boxes += 1,
                Ok(sample) if spec.split.is_some() && sample.split != spec.split => {}
                other => samples.push(other),
            }
        }
        if samples.is_empty() {
            return Err(Error::Empty {
                place: format!("`{}`", folder.display()),
                expected: format!(
                    "samples{}",
                    spec.split.as_ref().map_or_else(String::new, |it| format!(" of split `{it}`"))
                ),
            });
        }
        Ok(Self { views: views(&samples), fingerprint: fingerprint(&samples), samples, broken_boxes, filtered_boxes })
    }
}

struct ImportedOptions {
    importer: Option<String>,
    files: BTreeMap<String, String>,
    options: BTreeMap<String, String>,
}

impl ImportedOptions {
    /// Rejects names that are neither an input nor an option of any importer. [`read`] then rejects the names of other
    /// importers.
    fn of(spec: &SourceSpec) -> Result<Self> {
        let inputs = IMPORTERS.iter().flat_map(|entry| entry.inputs).map(|input| input.name);
        let settings: BTreeSet<&str> =
            IMPORTERS.iter().flat_map(|entry| entry.options).map(|option| option.name).collect();
        let known: BTreeSet<&str> = inputs.chain(settings.iter().copied()).chain(["importer"]).collect();
        if let Some(unknown) = spec.options.keys().find(|name| !known.contains(name.as_str())) {
            let known: Vec<_> = known.into_iter().collect();
            return Err(Error::invalid(
                "options of source imported",
                serde_json::to_string(&spec.options).unwrap_or_default(),
                format!("valid options (unknown field `{unknown}`, expected one of {})", known.join(", ")),
            ));
        }
        let mut spec = spec.clone();
        // Options of importers are texts: convert numbers, and join lists with commas.
        for (_, value) in spec.options.iter_mut().filter(|it| settings.contains(it.0.as_str())) {
            match value {
                Value::Number(number) => *value = Value::String(number.to_string()),
                Value::Array(names) if names.iter().all(Value::is_string) => {
                    *value = Value::String(names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","));
                }
                _ => {}
            }
        }
        let mut files: BTreeMap<String, String> = spec.parse_options()?;
        let importer = files.remove("importer");
        let (options, files) = files.into_iter().partition(|it| settings.contains(it.0.as_str()));
        Ok(Self { importer, files, options })
    }
}

impl Source for ImportedSamples {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        self.samples[index].clone()
    }

    fn views(&self) -> &[View] {
        &self.views
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn left_out(&self) -> Option<String> {
        let broken = (self.broken_boxes > 0).then(|| format!("without {} boxes that cannot be", self.broken_boxes));
        let filtered = (self.filtered_boxes > 0)
            .then(|| format!("without {} boxes that the options of the importer leave out", self.filtered_boxes));
        let both: Vec<_> = broken.into_iter().chain(filtered).collect();
        (!both.is_empty()).then(|| both.join(", "))
    }
}

fn views(samples: &[Result<Sample, Broken>]) -> Vec<View> {
    let any = |has: fn(&Sample) -> bool| samples.iter().flatten().any(has);
    let mut views = Vec::new();
    views.extend(any(|it| it.image.is_some() && !it.captions.is_empty()).then_some(View::Pair));
    views.extend(any(|it| !it.captions.is_empty() && !it.phrases.is_empty()).then_some(View::Boxes));
    views.extend(any(|it| it.tiers.is_some()).then_some(View::Chain));
    views.extend(any(|it| it.phrases.iter().any(|phrase| phrase.part_of.is_some())).then_some(View::Edges));
    let photo = any(|it| it.image.is_some()) && !View::Photo.is_in(&views);
    views.extend(photo.then_some(View::Photo));
    views
}

/// Hash of the samples, with the file names of their photos instead of the paths.
fn fingerprint(samples: &[Result<Sample, Broken>]) -> String {
    let file = |image: &ImageRef| -> Result<std::path::PathBuf, std::convert::Infallible> {
        Ok(match image {
            ImageRef::File(path) => path.file_name().unwrap_or_default().into(),
            other => other.place().into(),
        })
    };
    let mut hash = Sha256::new();
    for sample in samples {
        let text = match sample {
            Ok(sample) => GroundedRecord::from_sample(sample, file).ok().and_then(|it| serde_json::to_string(&it).ok()),
            Err(broken) => Some(format!("{} {}", broken.sample, broken.cause.name())),
        };
        hash.update(text.unwrap_or_default());
        hash.update(b"\n");
    }
    hex::encode(hash.finalize())
}
