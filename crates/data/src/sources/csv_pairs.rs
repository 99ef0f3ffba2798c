//! Tables of photos and captions, one pair per row. Rows with the same photo, adjacent or not, form one sample with
//! several captions.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder, StringRecord};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::SourceEntry;
use crate::error::{Error, Result};
use crate::files::{self, open_regular};
use crate::sample::{Broken, Cause, ImageRef, Sample, View};
use crate::source::{Source, SourceSpec};

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "csv_pairs",
    summary: "CSV or TSV of photo and caption",
    inputs: "path: the table; split: the value of split_column; options: image, caption (columns, default the names \
             \"image\", \"caption\"), label, split_column, header (default true; if false, columns are numbers from 0), \
             delimiter (default: tab for .tsv, otherwise comma), quoting (default: false for .tsv, otherwise true), folder (of the photos, relative to the table)",
    read: |spec| Ok(Box::new(CsvPairs::open(spec)?)),
};

/// A table of pairs. Only the file offsets of the rows are kept in memory.
pub struct CsvPairs {
    path: PathBuf,
    folder: PathBuf,
    options: CsvPairsOptions,
    columns: CsvColumns,
    samples: Vec<CsvPhotoRows>,
    fingerprint: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CsvPairsOptions {
    image: String,
    caption: String,
    label: Option<String>,
    split_column: Option<String>,
    header: bool,
    delimiter: Option<char>,
    quoting: Option<bool>,
    folder: PathBuf,
}

impl Default for CsvPairsOptions {
    fn default() -> Self {
        Self {
            image: "image".to_owned(),
            caption: "caption".to_owned(),
            label: None,
            split_column: None,
            header: true,
            delimiter: None,
            quoting: None,
            folder: PathBuf::new(),
        }
    }
}

/// Indices of the columns.
struct CsvColumns {
    image: usize,
    caption: usize,
    label: Option<usize>,
    split: Option<usize>,
    /// Number of header fields; `None` for a table without a header. A row with more fields contains an unquoted
    /// delimiter.
    count: Option<usize>,
}

/// The rows of one photo.
struct CsvPhotoRows {
    first: CsvRow,
    /// The other rows of the photo. In tables with one row per photo the list is empty and allocates no memory.
    more: Vec<CsvRow>,
}

#[derive(Clone, Copy)]
struct CsvRow {
    offset: u64,
    len: u32,
    /// Row number, counted from 1 and including the header, as in spreadsheets. It differs from the line number if
    /// quoted fields contain line breaks.
    number: u32,
}

impl CsvPairs {
    /// Reads the table once and indexes its rows.
    ///
    /// # Errors
    /// The file cannot be read, lacks a column, or has no row (of the split); an option is invalid.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let path = spec.need_path()?;
        let mut options: CsvPairsOptions = spec.parse_options()?;
        let tabs = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv"));
        let delimiter = *options.delimiter.get_or_insert(if tabs { '\t' } else { ',' });
        options.quoting.get_or_insert(!tabs);
        if !delimiter.is_ascii() {
            return Err(Error::invalid("delimiter", format!("{delimiter:?}"), "an ASCII character"));
        }
        if spec.split.is_some() && options.split_column.is_none() {
            return Err(Error::invalid("split_column", "not given", "a column name, because a split is set"));
        }
        let folder = path.parent().unwrap_or(Path::new("")).join(&options.folder);
        let file = open_regular(path).map_err(Error::io("read", path))?;
        let mut reader = options.reader(file);
        let broken = |error: csv::Error| Error::format(format!("`{}`", path.display()), error.to_string(), "a table");

        let mut row = ByteRecord::new();
        let columns = if options.header {
            reader.read_byte_record(&mut row).map_err(broken)?;
            options.columns(path, &row)?
        } else {
            options.columns(path, &ByteRecord::new())?
        };
        let mut samples: Vec<CsvPhotoRows> = Vec::new();
        let mut of_image: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut hash = Sha256::new();
        let mut start = reader.position().clone();
        let mut number = u32::from(options.header);
        while reader.read_byte_record(&mut row).map_err(broken)? {
            let end = reader.position().clone();
            let begin = std::mem::replace(&mut start, end.clone());
            number += 1;
            let wanted = match (&spec.split, columns.split) {
                (Some(split), Some(column)) => row.get(column) == Some(split.as_bytes()),
                _ => true,
            };
            if !wanted {
                continue;
            }
            for field in &row {
                hash.update(field);
                hash.update([0]);
            }
            let at = CsvRow {
                offset: begin.byte(),
                len: u32::try_from(end.byte() - begin.byte()).unwrap_or(u32::MAX),
                number,
            };
            // A row without a photo name becomes a separate sample, which is reported as broken.
            match row.get(columns.image).filter(|name| !name.is_empty()) {
                Some(name) if of_image.contains_key(name) => samples[of_image[name]].more.push(at),
                name => {
                    of_image.extend(name.map(|name| (name.to_owned(), samples.len())));
                    samples.push(CsvPhotoRows { first: at, more: Vec::new() });
                }
            }
        }
        if samples.is_empty() {
            let expected = match &spec.split {
                Some(split) => format!("rows of split `{split}`"),
                None => "at least one row after the header".to_owned(),
            };
            return Err(Error::Empty { place: format!("`{}`", path.display()), expected });
        }
        Ok(Self { path: path.clone(), folder, options, columns, samples, fingerprint: hex::encode(hash.finalize()) })
    }

    fn place(&self, row: CsvRow) -> String {
        format!("row {} of `{}`", row.number, self.path.display())
    }

    fn row(&self, row: CsvRow) -> Result<StringRecord, Broken> {
        let fault = |cause, found: String| {
            Broken::new(self.place(row), cause, format!("{found}; expected a row of the table in UTF-8"))
        };
        let bytes = files::read_range(&self.path, row.offset, u64::from(row.len))
            .map_err(|error| fault(Cause::MissingFile, error.to_string()))?;
        let mut fields = StringRecord::new();
        match self.options.reader(&bytes[..]).read_record(&mut fields) {
            Ok(true) => match self.columns.count {
                Some(count) if fields.len() > count => {
                    let detail =
                        format!("{} fields; expected {count} (a text with a comma needs quotes)", fields.len());
                    Err(Broken::new(self.place(row), Cause::BadRecord, detail))
                }
                _ => Ok(fields),
            },
            Ok(false) => Err(fault(Cause::BadRecord, "nothing".to_owned())),
            Err(error) => Err(fault(Cause::BadRecord, error.to_string())),
        }
    }
}

impl Source for CsvPairs {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let CsvPhotoRows { first, more } = &self.samples[index];
        let fields = self.row(*first)?;
        let get = |fields: &StringRecord, column: usize, name: &str, row: &CsvRow| {
            fields.get(column).map(str::to_owned).ok_or_else(|| {
                let detail = format!("{} fields; expected `{name}` in field {column}, counted from 0", fields.len());
                Broken::new(self.place(*row), Cause::BadRecord, detail)
            })
        };
        let image = get(&fields, self.columns.image, &self.options.image, first)?;
        if image.is_empty() {
            let detail = format!("`{}` is empty; expected a file", self.options.image);
            return Err(Broken::new(self.place(*first), Cause::NoImage, detail));
        }
        let mut captions = vec![get(&fields, self.columns.caption, &self.options.caption, first)?];
        for row in more {
            captions.push(get(&self.row(*row)?, self.columns.caption, &self.options.caption, row)?);
        }
        let sample = Sample {
            image: Some(ImageRef::File(self.folder.join(&image))),
            id: image,
            captions,
            label: self.columns.label.and_then(|column| fields.get(column)).map(str::to_owned),
            split: self.columns.split.and_then(|column| fields.get(column)).map(str::to_owned),
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

impl CsvPairsOptions {
    fn reader<R: Read>(&self, input: R) -> csv::Reader<R> {
        ReaderBuilder::new()
            .has_headers(false)
            // A row with a different number of fields is a broken sample, not a fatal error.
            .flexible(true)
            .delimiter(self.delimiter.unwrap_or(',') as u8)
            .quoting(self.quoting.unwrap_or(true))
            .from_reader(input)
    }

    fn columns(&self, path: &Path, header: &ByteRecord) -> Result<CsvColumns> {
        let names: Vec<_> = header
            .iter()
            .map(|name| String::from_utf8_lossy(name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name)).trim().to_owned())
            .collect();
        let find = |column: &str| {
            let number = match self.header {
                true => names.iter().position(|name| name == column),
                false => column.parse().ok(),
            };
            let expected = match self.header {
                true => format!("one of {}", names.join(", ")),
                false => "a number from 0, because `header` is false".to_owned(),
            };
            number.ok_or_else(|| {
                Error::format(format!("column of `{}`", path.display()), format!("`{column}`"), expected)
            })
        };
        Ok(CsvColumns {
            image: find(&self.image)?,
            caption: find(&self.caption)?,
            label: self.label.as_deref().map(find).transpose()?,
            split: self.split_column.as_deref().map(find).transpose()?,
            count: self.header.then_some(names.len()),
        })
    }
}
