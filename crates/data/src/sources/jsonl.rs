//! Grounded JSONL files; the format is described in [`crate::grounded`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::SourceEntry;
use crate::error::{Error, Result, in_one_line};
use crate::files::{self, open_regular};
use crate::grounded::GroundedRecord;
use crate::hierarchy::Tree;
use crate::hierarchy::ranks::of_samples;
use crate::sample::{Broken, Cause, Sample, View};
use crate::source::Source;

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "jsonl",
    summary: "grounded JSONL: photos with captions, phrases, boxes, tiers, taxa",
    inputs: "path: the .jsonl file; photos relative to its folder; split: its `split` field",
    read: |spec| {
        spec.parse_options::<NoOptions>()?;
        Ok(Box::new(Jsonl::open(spec.need_path()?, spec.split.as_deref())?))
    },
};

/// Maximum number of lines that are parsed on opening to determine the views that the file provides.
const PROBED: usize = 1000;

/// A grounded JSONL file with an index of its lines, which takes 16 bytes of memory per sample.
pub struct Jsonl {
    path: PathBuf,
    folder: PathBuf,
    lines: Vec<JsonlLine>,
    views: Vec<View>,
    has_taxa: bool,
    fingerprint: String,
}

#[derive(Clone, Copy)]
struct JsonlLine {
    offset: u64,
    len: u32,
    number: u32,
}

impl Jsonl {
    /// Indexes the lines of the file, or the lines of one split. A line that is not a valid record counts as a broken
    /// sample.
    ///
    /// # Errors
    /// The file cannot be read, or has no line (of the split).
    pub fn open(path: &Path, split: Option<&str>) -> Result<Self> {
        let mut file = BufReader::new(open_regular(path).map_err(Error::io("read", path))?);
        let mut lines = Vec::new();
        let mut hash = Sha256::new();
        let mut splits = BTreeSet::new();
        let (mut offset, mut number, mut line) = (0, 0, Vec::new());
        while file.read_until(b'\n', &mut line).map_err(Error::io("read", path))? > 0 {
            number += 1;
            let too_long = |_| Error::format(place(path, number), format!("{} bytes", line.len()), "less than 4 GiB");
            let len = u32::try_from(line.len()).map_err(too_long)?;
            if is_wanted(&line, split, &mut splits) {
                lines.push(JsonlLine { offset, len, number });
                hash.update(line.trim_ascii());
                hash.update(b"\n");
            }
            offset += u64::from(len);
            line.clear();
        }
        if lines.is_empty() {
            let known: Vec<_> = splits.into_iter().collect();
            return Err(Error::Empty {
                place: format!("`{}`", path.display()),
                expected: match split {
                    Some(split) => format!("lines of split `{split}` (there are: {})", known.join(", ")),
                    None => "one JSON object a line".to_owned(),
                },
            });
        }
        let mut source = Self {
            path: path.to_owned(),
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            lines,
            views: Vec::new(),
            has_taxa: false,
            fingerprint: hex::encode(hash.finalize()),
        };
        source.probe();
        Ok(source)
    }

    fn read(&self, line: JsonlLine) -> Result<Sample, Broken> {
        let bytes = files::read_range(&self.path, line.offset, u64::from(line.len)).map_err(|error| {
            let detail = format!("cannot be read: {error}; expected the file to be unchanged since it was opened");
            Broken::new(place(&self.path, line.number), Cause::MissingFile, detail)
        })?;
        let record: GroundedRecord = serde_json::from_slice(without_mark(&bytes)).map_err(|error| {
            let detail = format!("{}; expected a record of grounded JSONL", in_one_line(&error));
            Broken::new(place(&self.path, line.number), Cause::BadRecord, detail)
        })?;
        record.into_sample(&self.folder, line.number).map_err(|broken| {
            let detail = format!("{} ({})", broken.detail, place(&self.path, line.number));
            Broken { detail, ..broken }
        })
    }

    /// Collects the views that the valid records among the first [`PROBED`] lines provide.
    fn probe(&mut self) {
        let mut views = BTreeSet::new();
        let mut photo = false;
        for number in 0..self.lines.len().min(PROBED) {
            let Ok(sample) = self.read(self.lines[number]) else { continue };
            let pair = sample.image.is_some() && !sample.captions.is_empty();
            photo |= sample.image.is_some();
            let boxes = sample.phrases.iter().any(|p| p.crop.is_some() || !p.boxes.is_empty());
            self.has_taxa |= sample.taxon.len() > 1;
            let chain = sample.tiers.is_some() || sample.taxon.len() > 1;
            let edges = sample.image.is_some() && sample.phrases.iter().any(|p| !p.boxes.is_empty());
            let has = [(View::Pair, pair), (View::Boxes, pair && boxes), (View::Chain, chain), (View::Edges, edges)];
            views.extend(has.into_iter().filter_map(|(view, there)| there.then_some(view)));
        }
        self.views = views.into_iter().collect();
        if photo && !View::Photo.is_in(&self.views) {
            self.views.push(View::Photo);
        }
    }
}

impl Source for Jsonl {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.lines.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        self.read(self.lines[index])
    }

    fn views(&self) -> &[View] {
        &self.views
    }

    fn class_tree(&self) -> Option<Tree> {
        if self.has_taxa { of_samples(self) } else { None }
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

/// Options of sources without options: any option is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoOptions {}

/// Returns true if a line is a sample of the split, or of the file if `split` is `None`. Empty lines are skipped. Lines
/// that cannot be parsed are included, so that they are reported as broken.
fn is_wanted(line: &[u8], split: Option<&str>, splits: &mut BTreeSet<String>) -> bool {
    #[derive(Deserialize)]
    struct SplitField<'a> {
        #[serde(borrow)]
        split: Option<Cow<'a, str>>,
    }
    let line = without_mark(line);
    if line.trim_ascii().is_empty() {
        return false;
    }
    let Some(wanted) = split else { return true };
    match serde_json::from_slice::<SplitField<'_>>(line) {
        Err(_) => true,
        Ok(SplitField { split: None }) => false,
        Ok(SplitField { split: Some(found) }) => {
            if !splits.contains(&*found) {
                splits.insert(found.to_string());
            }
            found == wanted
        }
    }
}

/// Strips a UTF-8 byte order mark, which some editors write.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn place(path: &Path, number: u32) -> String {
    format!("line {number} of `{}`", path.display())
}
