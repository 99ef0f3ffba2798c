//! Manifests: the content of a store at one version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use conifer_embeddings::{Element, sha256_hex};
use conifer_geometry::{ManifoldSpec, Root};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disk::{self, StoreFileDigest};
use crate::error::{Error, Result};

/// Largest size of a manifest, enough for some hundred thousand segments.
const MAX_MANIFEST_BYTES: u64 = 100_000_000;

/// A committed state of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Starts at 1 and grows with every change.
    pub number: u64,
    /// The change that created the version: `create`, `append`, `delete` or `compact`.
    pub made: String,
    /// Time of the commit, in seconds since 1970 (UTC).
    pub time: u64,
    /// Number of rows, without deleted ones.
    pub rows: usize,
    /// Number of deleted rows that still take up space.
    pub deleted: usize,
    /// Number of segments.
    pub segments: usize,
    /// Size of the segments, in bytes.
    pub bytes: u64,
}

/// The content of `versions/NNNNNNNN.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionManifest {
    format: String,
    layout: u32,
    pub(super) number: u64,
    pub(super) made: String,
    pub(super) time: u64,
    pub(super) spec: ManifoldSpec,
    pub(super) root: Root,
    element: String,
    /// sha256 of the weights of the model that made the points; empty if no set named its weights.
    pub(super) weights: String,
    pub(super) segments: Vec<Segment>,
}

/// Rows that were appended together. A segment never changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Segment {
    /// Name of the folder in `segments/`: the number of the version that added it.
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) files: BTreeMap<String, StoreFileDigest>,
    pub(super) deleted: Option<DeletedFile>,
}

/// A file in `deleted/` with the deleted rows of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeletedFile {
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) seal: StoreFileDigest,
}

impl VersionManifest {
    const FORMAT: &str = "conifer store";
    const LAYOUT: u32 = 1;

    pub(super) fn new(spec: ManifoldSpec, root: Root, element: Element) -> Self {
        VersionManifest {
            format: Self::FORMAT.to_owned(),
            layout: Self::LAYOUT,
            number: 1,
            made: "create".to_owned(),
            time: now(),
            spec,
            root,
            element: element.name().to_owned(),
            weights: String::new(),
            segments: Vec::new(),
        }
    }

    /// The manifest of a later version, with the same segments.
    pub(super) fn next(&self, number: u64, made: &str) -> Self {
        VersionManifest { number, made: made.to_owned(), time: now(), ..self.clone() }
    }

    pub(super) fn element(&self) -> Element {
        if self.element == Element::F16.name() { Element::F16 } else { Element::F32 }
    }

    /// Number of rows, without deleted ones.
    pub(super) fn rows(&self) -> usize {
        self.segments.iter().map(Segment::live).sum()
    }

    /// Names of the entries in `segments/` and `deleted/` that the version needs.
    pub(super) fn needed(self) -> impl Iterator<Item = String> {
        self.segments.into_iter().flat_map(|it| [Some(it.name), it.deleted.map(|it| it.name)]).flatten()
    }

    pub(super) fn version(&self) -> Version {
        let deleted = self.segments.iter().filter_map(|it| it.deleted.as_ref()).map(|it| it.rows).sum();
        let bytes = self.segments.iter().flat_map(|it| it.files.values()).map(|seal| seal.bytes).sum();
        Version {
            number: self.number,
            made: self.made.clone(),
            time: self.time,
            rows: self.rows(),
            deleted,
            segments: self.segments.len(),
            bytes,
        }
    }

    /// The content of the file: JSON whose last field is the sha256 of all bytes before that field.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|e| Error::invalid("the manifest of a version", e, "values that JSON can hold"))?;
        let body = json.trim_end_matches('}').trim_end();
        Ok(format!("{body}{}", tail(body)).into_bytes())
    }

    /// Reads the manifest of version `number`.
    ///
    /// # Errors
    /// Fails if the file is missing or damaged, or has another format, a later layout or another version number.
    pub(super) fn read(path: &Path, number: u64) -> Result<Self> {
        let bytes = disk::read(path, MAX_MANIFEST_BYTES)?;
        let damaged = |found: &dyn std::fmt::Display| {
            Error::store(path, "the manifest of a version", found, "the content as written: it was changed or damaged")
        };
        let text = std::str::from_utf8(&bytes).map_err(|e| damaged(&e).caused_by(e))?;
        let mut value: Value = serde_json::from_str(text).map_err(|e| damaged(&e).caused_by(e))?;
        // Check the layout before the checksum, which a later layout may compute differently.
        let layout = value.get("layout").and_then(Value::as_u64);
        if value["format"] == Self::FORMAT && layout.is_some_and(|layout| layout > u64::from(Self::LAYOUT)) {
            let expected = format!(
                "{}, the latest that this build reads: a later version of conifer wrote the store",
                Self::LAYOUT
            );
            return Err(Error::store(path, "`layout`", &value["layout"], expected));
        }
        let length = text.len().checked_sub(tail("").len());
        let body = length.and_then(|at| text.get(..at)).ok_or_else(|| damaged(&"too short"))?;
        if text[body.len()..] != tail(body) {
            return Err(damaged(&"one with a wrong checksum"));
        }
        if let Value::Object(fields) = &mut value {
            fields.remove("sha256");
        }
        let manifest: Self = serde_json::from_value(value).map_err(|e| damaged(&e).caused_by(e))?;
        if manifest.number != number {
            return Err(damaged(&format!("that of version {}", manifest.number)));
        }
        manifest.check().map_err(|(found, expected)| {
            Error::store(
                path,
                "the manifest of a version",
                found,
                format!("{expected}: conifer did not write the file"),
            )
        })?;
        Ok(manifest)
    }

    /// Checks that names do not lead out of the store and that sums do not overflow, since a valid checksum does not
    /// prove the origin. The error is `(found, expected)`.
    fn check(&self) -> Result<(), (String, &'static str)> {
        let came = |name: &str| version_of_entry(name).is_some_and(|number| number <= self.number);
        let mut bytes = 0_u64;
        let mut names = BTreeSet::new();
        for segment in &self.segments {
            if !names.insert(&segment.name) {
                return Err((format!("one that names the segment `{}` twice", segment.name), "each segment once"));
            }
            if segment.name.contains('-') || !came(&segment.name) {
                return Err((format!("one with the segment `{}`", segment.name), "the number of a version so far"));
            }
            if segment.rows > u32::MAX as usize {
                return Err((format!("one with {} rows in a segment", segment.rows), "less than 2^32"));
            }
            for (name, seal) in &segment.files {
                if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ':']) {
                    return Err((format!("one with the file `{name}` in a segment"), "a name of a file"));
                }
                bytes = bytes.checked_add(seal.bytes).ok_or(("one of 2^64 bytes".to_owned(), "less"))?;
            }
            if let Some(deleted) = &segment.deleted {
                let named = came(&deleted.name)
                    && number_of(&deleted.name).is_some_and(|it| deleted_name(it, &segment.name) == deleted.name);
                if !named {
                    return Err((format!("one with deleted rows in `{}`", deleted.name), "NNNNNNNN-SEGMENT.bits"));
                }
                if deleted.rows > segment.rows {
                    let found = format!("one with {} deleted rows of {}", deleted.rows, segment.rows);
                    return Err((found, "at most all of them"));
                }
            }
        }
        Ok(())
    }
}

impl Segment {
    /// Number of rows, without deleted ones.
    pub(super) fn live(&self) -> usize {
        self.rows - self.deleted.as_ref().map_or(0, |it| it.rows)
    }
}

/// The number with at least eight digits, so that names sort like numbers up to 99,999,999.
pub(super) fn name(number: u64) -> String {
    format!("{number:08}")
}

pub(super) fn file_name(number: u64) -> String {
    format!("{number:08}.json")
}

/// Name of the file with the rows of a segment that are deleted as of version `number`.
pub(super) fn deleted_name(number: u64, segment: &str) -> String {
    format!("{}-{segment}.bits", name(number))
}

/// The number with which a name begins, with any suffix: `00000007.json.damaged` has the number 7. `None` if the part
/// before the first `-` or `.` is not a number of eight digits or more.
pub(super) fn number_of(entry: &str) -> Option<u64> {
    let digits = entry.split(['-', '.']).next()?;
    if digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The version that created a segment or a file of deleted rows; `None` if a store does not create such names.
pub(super) fn version_of_entry(entry: &str) -> Option<u64> {
    let number = number_of(entry)?;
    let segment = |it: &str| number_of(it).filter(|number| name(*number) == it);
    let deleted = || segment(entry.strip_suffix(".bits")?.split_once('-')?.1).map(|it| deleted_name(number, &name(it)));
    (segment(entry).is_some() || deleted().is_some_and(|it| it == entry)).then_some(number)
}

fn tail(body: &str) -> String {
    format!(",\n  \"sha256\": \"{}\"\n}}\n", sha256_hex(body.as_bytes()))
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
