//! OpenImages boxes, V4 and later (<https://storage.googleapis.com/openimages/web/download_v7.html>): a CSV with one
//! row per box. The rows of a photo are adjacent, and coordinates are fractions of the photo.
//!
//! Every box is a separate phrase, whose text is the display name of its label, or the MID ("/m/011k07") if the label
//! has no display name. Columns are found by name, in any order. The flags (`IsGroupOf`, `IsOccluded`, `IsTruncated`,
//! `IsDepiction`, `IsInside`) may be missing: then no box is a group, and `leave_out` cannot name the flag. A flag is
//! set if it is 1; -1 stands for unknown. Fields must not contain commas or line breaks; quotes around a field are
//! removed.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;

use conifer_data::{BBox, Broken, Cause, Error, Phrase, Result, Sample};

use super::box_filter::{BoxFilter, LEAVE_OUT, MAX_AREA, MIN_AREA};
use super::shared::{open_text, photo};
use super::{ImporterEntry, ImporterInput, ImporterInputs, ImporterOption, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "openimages",
    summary: "OpenImages boxes, groups marked",
    inputs: &[
        ImporterInput { name: "images", help: "the folder of the photos, <ImageID>.jpg", required: true },
        ImporterInput { name: "boxes", help: "*-annotations-bbox.csv (or .csv.gz)", required: true },
        ImporterInput { name: "names", help: "class-descriptions-boxable.csv", required: false },
    ],
    options: &[
        MIN_AREA,
        MAX_AREA,
        ImporterOption {
            name: LEAVE_OUT,
            help: "leave out boxes with these flags: some of group, occluded, truncated, depiction, inside",
        },
    ],
    read,
};

/// The positions of the columns of a boxes CSV.
#[derive(Clone, Debug)]
pub(crate) struct OpenImagesColumns {
    /// For each column of the file: its index in [`COLUMNS`] if it is read.
    slots: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OpenImagesRow<'a> {
    pub(crate) image: &'a str,
    pub(crate) label: &'a str,
    pub(crate) bbox: BBox,
    pub(crate) group_of: bool,
    /// One value per entry of [`FLAGS`]: true if the flag is set.
    flags: [bool; FLAGS.len()],
}

/// The columns that are read. The columns from [`FIRST_FLAG`] on are optional.
const COLUMNS: [&str; 11] = [
    "ImageID",
    "LabelName",
    "XMin",
    "YMin",
    "XMax",
    "YMax",
    "IsGroupOf",
    "IsOccluded",
    "IsTruncated",
    "IsDepiction",
    "IsInside",
];
const FIRST_FLAG: usize = 6;
/// Names of the flags for `leave_out`, in the order of their columns.
const FLAGS: [&str; 5] = ["group", "occluded", "truncated", "depiction", "inside"];

impl OpenImagesColumns {
    /// Parses the header line.
    ///
    /// # Errors
    /// A column is missing or occurs twice; the message names it.
    pub(crate) fn new(path: &Path, header: &[u8]) -> Result<Self> {
        let header = String::from_utf8_lossy(header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header)).into_owned();
        let names: Vec<&str> = header.trim_end_matches(['\r', '\n']).split(',').map(|name| bare(name).trim()).collect();
        let mut slots = vec![None; names.len()];
        for (slot, wanted) in COLUMNS.into_iter().enumerate() {
            let mut places = (0..names.len()).filter(|&it| names[it] == wanted);
            let fault = |found: String| {
                let expected = format!("one column {wanted} (there are: {})", names.join(", "));
                Error::format(format!("header of `{}`", path.display()), found, expected)
            };
            match (places.next(), places.next()) {
                (Some(place), None) => slots[place] = Some(slot),
                (None, _) if slot >= FIRST_FLAG => {}
                (None, _) => return Err(fault(format!("no column {wanted}"))),
                (Some(_), Some(_)) => return Err(fault(format!("column {wanted} twice"))),
            }
        }
        Ok(Self { slots })
    }

    /// Checks that the file has the columns of `flags`, which are some of [`FLAGS`].
    fn check_flags(&self, path: &Path, flags: &[&str]) -> Result<()> {
        for (slot, name) in (FIRST_FLAG..).zip(FLAGS) {
            if flags.contains(&name) && !self.slots.contains(&Some(slot)) {
                let column = COLUMNS[slot];
                let place = format!("header of `{}`", path.display());
                let expected = format!("one column {column}, because {LEAVE_OUT} names {name}");
                return Err(Error::format(place, format!("no column {column}"), expected));
            }
        }
        Ok(())
    }

    /// Parses a row without its line break.
    ///
    /// # Errors
    /// A line that is not UTF-8, a wrong number of fields, an empty name, a coordinate that is not a number, or an
    /// invalid box.
    pub(crate) fn row<'a>(&self, line: &'a [u8]) -> Result<OpenImagesRow<'a>, (Cause, String)> {
        let bad = |detail: String| (Cause::BadRecord, detail);
        let line = str::from_utf8(line).map_err(|error| bad(format!("{error}; expected UTF-8")))?;
        let mut fields = [""; COLUMNS.len()];
        let mut count = 0;
        for (place, field) in line.split(',').enumerate() {
            if let Some(Some(slot)) = self.slots.get(place) {
                fields[*slot] = bare(field);
            }
            count += 1;
        }
        if count != self.slots.len() {
            return Err(bad(format!("{count} fields; expected {}", self.slots.len())));
        }
        let [image, label, ..] = fields;
        if image.is_empty() || label.is_empty() {
            let which = if image.is_empty() { COLUMNS[0] } else { COLUMNS[1] };
            return Err(bad(format!("{which} is empty; expected a name")));
        }
        let number = |slot: usize| {
            let text: &str = fields[slot];
            text.parse::<f32>().map_err(|_| bad(format!("{} is `{text}`; expected a number", COLUMNS[slot])))
        };
        let bbox = BBox { x1: number(2)?, y1: number(3)?, x2: number(4)?, y2: number(5)? }.clipped();
        bbox.check().map_err(|detail| (Cause::BadBox, detail))?;
        let flags: [bool; FLAGS.len()] = std::array::from_fn(|flag| fields[FIRST_FLAG + flag] == "1");
        Ok(OpenImagesRow { image, label, bbox, group_of: flags[0], flags })
    }
}

impl OpenImagesRow<'_> {
    /// Returns true if the flag, one of [`FLAGS`], is set.
    fn has(&self, flag: &str) -> bool {
        FLAGS.iter().zip(self.flags).any(|(name, set)| *name == flag && set)
    }
}

/// Reads display names by MID: rows of `LabelName,DisplayName`, with or without this header.
///
/// # Errors
/// The file cannot be read, or a row (named by its number) does not have two fields, neither of them empty.
pub(crate) fn read_names(path: &Path) -> Result<HashMap<String, String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(open_text(path)?);
    let mut names = HashMap::new();
    for (number, row) in reader.records().enumerate() {
        let fault = |found: String| {
            let place = format!("row {} of `{}`", number + 1, path.display());
            Error::format(place, found, "a label and its display name")
        };
        let row = row.map_err(|error| fault(error.to_string()))?;
        let [label, name] = row.iter().map(str::trim).collect::<Vec<_>>()[..] else {
            return Err(fault(format!("{} fields", row.len())));
        };
        let label = label.trim_start_matches('\u{feff}');
        if label.is_empty() || name.is_empty() {
            return Err(fault(format!("`{label},{name}`")));
        }
        if label != "LabelName" {
            names.insert(label.to_owned(), name.to_owned());
        }
    }
    Ok(names)
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let filter = BoxFilter::of(inputs, &FLAGS)?;
    let folder = inputs.need("images")?.to_owned();
    let path = inputs.need("boxes")?.to_owned();
    let names = inputs.get("names").map(read_names).transpose()?.unwrap_or_default();
    let mut lines = BufReader::new(open_text(&path)?);
    let mut header = Vec::new();
    lines.read_until(b'\n', &mut header).map_err(Error::io("read", &path))?;
    let columns = OpenImagesColumns::new(&path, &header)?;
    columns.check_flags(&path, filter.flags())?;
    let (mut now, mut seen, mut number, mut line) = (None::<Sample>, HashSet::new(), 1_u64, Vec::new());
    // Read one photo at a time, because the boxes of a training set may not fit in memory.
    let mut unreadable = false;
    let photos = std::iter::from_fn(move || {
        if unreadable {
            return None;
        }
        let mut out = Vec::new();
        loop {
            line.clear();
            number += 1;
            let place = || format!("line {number} of `{}`", path.display());
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => {
                    out.extend(now.take().map(Ok));
                    return (!out.is_empty()).then_some(out);
                }
                Ok(_) => {}
                Err(error) => {
                    // The rest of the file cannot be read. Return the previous samples.
                    unreadable = true;
                    out.extend(now.take().map(Ok));
                    out.push(Err(Broken::new(place(), Cause::MissingFile, format!("{error}; expected a row"))));
                    return Some(out);
                }
            }
            let bytes = line.trim_ascii();
            if bytes.is_empty() {
                continue;
            }
            let row = match columns.row(bytes) {
                Ok(row) => row,
                Err((cause, detail)) => {
                    out.push(Err(Broken::new(place(), cause, detail)));
                    continue;
                }
            };
            let text = names.get(row.label).map_or(row.label, String::as_str);
            let phrase =
                Phrase { text: text.to_owned(), boxes: vec![row.bbox], group_of: row.group_of, ..Phrase::default() };
            // A photo without a remaining box is still a sample. The id of the photo counts as seen, because later rows
            // of the photo that are not adjacent are an error.
            let phrase = match filter.check(row.image, &row.bbox, |flag| row.has(flag)) {
                Ok(()) => Some(phrase),
                Err(broken) => {
                    out.push(Err(broken));
                    None
                }
            };
            match &mut now {
                Some(sample) if sample.id == row.image => sample.phrases.extend(phrase),
                _ => {
                    out.extend(now.take().map(Ok));
                    if !seen.insert(row.image.to_owned()) {
                        let detail = format!(
                            "a box of photo `{}`, whose earlier rows are elsewhere in the file; expected all rows of a photo next to each other",
                            row.image
                        );
                        out.push(Err(Broken::new(place(), Cause::BadRecord, detail)));
                    } else {
                        let phrases = phrase.into_iter().collect();
                        now = Some(Sample { id: row.image.to_owned(), phrases, ..Sample::default() });
                    }
                    if !out.is_empty() {
                        return Some(out);
                    }
                }
            }
        }
    });
    Ok(Box::new(photos.flatten().map(move |one| {
        let mut sample: Sample = one?;
        sample.image = Some(photo(&folder, &format!("{}.jpg", sample.id), &sample.id)?);
        Ok(sample)
    })))
}

/// A field without surrounding quotes.
fn bare(field: &str) -> &str {
    field.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(field)
}
