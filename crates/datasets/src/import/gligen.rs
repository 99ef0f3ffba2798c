//! GLIGEN's grounded CC3M and Flickr30K (<https://huggingface.co/gligen>): tables of two columns without a header, an
//! id and a JSON object with the photo in base64 (`image`), its `caption`, and `annos` with `bbox` (left, top, width,
//! height in pixels) and `tokens_positive` (ranges `[start, end]` of characters in the caption).
//!
//! A phrase is the text of the ranges, joined by a space, with all boxes of this text. The size of the photo comes from
//! its header.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conifer_data::error::in_one_line;
use conifer_data::{BBox, Broken, Cause, Error, ImageRef, Phrase, PixelLimits, Result, Sample, Span};
use serde::Deserialize;

use super::shared::{add_box, open_text};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "gligen",
    summary: "GLIGEN's grounded CC3M and Flickr30K: photos, captions, phrases and boxes in TSV files",
    inputs: &[ImporterInput {
        name: "records",
        help: "a .tsv file, or a folder of them (train-0000.tsv ...)",
        required: true,
    }],
    options: &[],
    read,
};

/// Maximum length of a line in bytes; a longer line is not read into memory. Base64 needs 4 bytes for 3 bytes of the
/// photo. Captions and boxes are short.
const MAX_LINE: u64 = 400 << 20;

const EXPECTED: &str = "an id, a tab, and JSON with image, caption, annos";

/// The file has other fields (`file_name`, `data_id`, ...), which are skipped.
#[derive(Deserialize)]
struct GligenRecord {
    image: String,
    caption: String,
    annos: Vec<GligenBox>,
}

#[derive(Deserialize)]
struct GligenBox {
    /// Left, top, width, height in pixels.
    bbox: [f32; 4],
    #[serde(default)]
    tokens_positive: Vec<[usize; 2]>,
}

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let files = tables(inputs.need("records")?)?;
    Ok(Box::new(files.into_iter().flat_map(TsvLines::open).flat_map(|line| {
        let mut faults = Vec::new();
        let sample = line.and_then(|(place, bytes)| sample(&place, &bytes, &mut faults));
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    })))
}

/// The file, or the `.tsv` files of the folder, sorted by name.
fn tables(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
        let file = entry.map_err(Error::io("list", path))?.path();
        if file.extension().is_some_and(|it| it == "tsv") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::Empty { place: format!("`{}`", path.display()), expected: ".tsv files".into() });
    }
    Ok(files)
}

/// The lines of a table with their places, read one at a time, because a line contains a photo.
struct TsvLines {
    /// `None` after an error.
    reader: Option<BufReader<Box<dyn Read + Send>>>,
    /// The error of opening the file, until it is reported.
    unreadable: Option<Broken>,
    path: PathBuf,
    number: u64,
}

impl TsvLines {
    fn open(path: PathBuf) -> Self {
        let (reader, unreadable) = match open_text(&path) {
            Ok(reader) => (Some(BufReader::new(reader)), None),
            Err(error) => {
                let place = format!("`{}`", path.display());
                (None, Some(Broken::new(place, Cause::MissingFile, format!("{error}; expected {EXPECTED}"))))
            }
        };
        Self { reader, unreadable, path, number: 0 }
    }
}

impl Iterator for TsvLines {
    type Item = Result<(String, Vec<u8>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(broken) = self.unreadable.take() {
            return Some(Err(broken));
        }
        loop {
            let reader = self.reader.as_mut()?;
            self.number += 1;
            let place = format!("line {} of `{}`", self.number, self.path.display());
            let mut line = Vec::new();
            match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(length) if length as u64 == MAX_LINE => {
                    self.reader = None;
                    let detail = format!("more than {} MiB; expected {EXPECTED}", MAX_LINE >> 20);
                    return Some(Err(Broken::new(place, Cause::BadRecord, detail)));
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => return Some(Ok((place, line))),
                Err(error) => {
                    self.reader = None;
                    return Some(Err(Broken::new(place, Cause::MissingFile, format!("{error}; expected {EXPECTED}"))));
                }
            }
        }
    }
}

fn sample(place: &str, line: &[u8], faults: &mut Vec<Broken>) -> Result<Sample, Broken> {
    let wrong = |found: String| Broken::new(place, Cause::BadRecord, format!("{found}; expected {EXPECTED}"));
    let text = str::from_utf8(line).map_err(|error| wrong(error.to_string()))?;
    let (id, json) = text.split_once('\t').ok_or_else(|| wrong("no tab".to_owned()))?;
    let (id, GligenRecord { image, caption, annos }) =
        (id.trim(), serde_json::from_str(json).map_err(|error| wrong(in_one_line(&error)))?);
    if id.is_empty() {
        return Err(wrong("an empty id".to_owned()));
    }
    let bytes = STANDARD.decode(image.trim()).map_err(|error| wrong(format!("image: {error}")))?;
    let image = ImageRef::Encoded(bytes.into());
    let (width, height) = image.size(&PixelLimits::default()).map_err(|broken| broken.within(id))?;
    let captions = vec![caption];
    let mut phrases: Vec<Phrase> = Vec::new();
    for GligenBox { bbox: [x, y, w, h], tokens_positive } in annos {
        let spans: Vec<Span> = tokens_positive.iter().map(|&[start, end]| Span { caption: 0, start, end }).collect();
        let text_of = |span: &Span| span.text(&captions).filter(|_| span.start < span.end).map(str::trim);
        let texts: Option<Vec<&str>> = spans.iter().map(text_of).collect();
        let Some(text) = texts.map(|it| it.join(" ")).filter(|text| !text.trim().is_empty()) else {
            let detail =
                format!("tokens_positive is {tokens_positive:?}; expected ranges of characters in the caption");
            faults.push(Broken::new(id, Cause::BadSpan, detail));
            continue;
        };
        let bbox = BBox::from_pixels([x, y, x + w, y + h], width as f32, height as f32);
        let before = faults.len();
        add_box(&mut phrases, faults, id, &text, bbox);
        if faults.len() > before {
            continue;
        }
        if let Some(phrase) = phrases.iter_mut().find(|phrase| phrase.text == text) {
            let new = spans.into_iter().filter(|span| !phrase.spans.contains(span)).collect::<Vec<_>>();
            phrase.spans.extend(new);
        }
    }
    Ok(Sample { id: id.to_owned(), image: Some(image), captions, phrases, ..Sample::default() })
}
