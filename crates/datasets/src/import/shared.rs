//! Functions that several importers use.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use conifer_data::error::in_one_line;
use conifer_data::files::open_regular;
use conifer_data::{BBox, Broken, Cause, Error, ImageRef, Phrase, Result, Span};
use serde::de::DeserializeOwned;

/// The path of a photo; an error if it is not a file.
pub(crate) fn photo(folder: &Path, name: &str, sample: &str) -> Result<ImageRef, Broken> {
    let path = folder.join(name);
    if path.is_file() {
        return Ok(ImageRef::File(path));
    }
    let detail = format!("no file `{}`; expected the photo", path.display());
    Err(Broken::new(sample, Cause::MissingFile, detail))
}

/// Adds a box to the phrase with this text, creating the phrase if necessary. An invalid box is reported as a separate
/// fault, so that one annotation error does not drop the photo.
pub(crate) fn add_box(phrases: &mut Vec<Phrase>, faults: &mut Vec<Broken>, sample: &str, text: &str, bbox: BBox) {
    let bbox = bbox.clipped();
    if let Err(detail) = bbox.check() {
        faults.push(Broken::new(sample, Cause::BadBox, format!("skipped for phrase {text:?}: {detail}")));
        return;
    }
    match phrases.iter_mut().find(|phrase| phrase.text == text) {
        Some(phrase) if phrase.boxes.contains(&bbox) => {}
        Some(phrase) => phrase.boxes.push(bbox),
        None => phrases.push(Phrase { text: text.to_owned(), boxes: vec![bbox], ..Phrase::default() }),
    }
}

/// The first mention of a text in each caption, as whole words and ignoring ASCII case.
pub(crate) fn mentions(captions: &[String], text: &str) -> Vec<Span> {
    let first = |(caption, words): (usize, &String)| {
        let at = find_words(words, text)?;
        let start = words[..at].chars().count();
        Some(Span { caption, start, end: start + text.chars().count() })
    };
    captions.iter().enumerate().filter_map(first).collect()
}

/// Byte offset of the first occurrence of `text` as whole words, ignoring ASCII case. `None` if there is none or `text`
/// is empty.
fn find_words(words: &str, text: &str) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    // ASCII case folding preserves byte offsets.
    let (hay, needle) = (words.to_ascii_lowercase(), text.to_ascii_lowercase());
    let free = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    hay.match_indices(&needle)
        .find(|(at, _)| free(hay[..*at].chars().next_back()) && free(hay[at + needle.len()..].chars().next()))
        .map(|(at, _)| at)
}

/// Reads a JSON file as a stream. Fields that the type does not declare (such as segmentations) are not stored in
/// memory.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, expected: &str) -> Result<T> {
    let file = BufReader::new(open_regular(path).map_err(Error::io("read", path))?);
    serde_json::from_reader(file)
        .map_err(|error| Error::format(format!("`{}`", path.display()), error.to_string(), expected))
}

/// Opens a text file; decompresses it if its name ends in `.gz`.
pub(crate) fn open_text(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = open_regular(path).map_err(Error::io("read", path))?;
    Ok(if path.extension().is_some_and(|e| e == "gz") {
        Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file)))
    } else {
        Box::new(BufReader::new(file))
    })
}

/// Iterates over the records of a JSON Lines file. Empty lines are skipped. A line that is not a valid record is
/// broken.
pub(crate) fn json_lines<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
) -> Result<impl Iterator<Item = Result<T, Broken>> + Send + use<T>> {
    let lines = BufReader::new(open_text(path)?).lines();
    let path = path.to_owned();
    // A truncated archive returns the same error for ever, so stop at such an error. After a line that is not UTF-8,
    // the next line can be read.
    let mut ended = false;
    let lines = lines.take_while(move |line| {
        let more = !ended;
        ended = matches!(line, Err(error) if error.kind() != std::io::ErrorKind::InvalidData);
        more
    });
    Ok(lines.enumerate().filter_map(move |(number, line)| {
        let fault = |found: String| {
            let place = format!("line {} of `{}`", number + 1, path.display());
            Broken::new(place, Cause::BadRecord, format!("{found}; expected {expected}"))
        };
        match line {
            Err(error) => Some(Err(fault(error.to_string()))),
            Ok(line) if line.trim().is_empty() => None,
            Ok(line) => Some(serde_json::from_str(&line).map_err(|error| fault(in_one_line(&error)))),
        }
    }))
}

/// Iterates over the rows of a table with a header, deserialised by column name.
pub(crate) fn table<T: DeserializeOwned + Send + 'static>(
    path: &Path,
    expected: &'static str,
) -> Result<impl Iterator<Item = Result<T, Broken>> + Send + use<T>> {
    let stem = path.file_name().unwrap_or_default().to_string_lossy();
    let tabs = stem.trim_end_matches(".gz").ends_with(".tsv");
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(if tabs { b'\t' } else { b',' })
        .quoting(!tabs)
        .flexible(true)
        .from_reader(open_text(path)?);
    let place = format!("`{}`", path.display());
    // Reject a file of another kind here; otherwise every row would be reported as broken.
    let header = reader.headers().map_err(|error| Error::format(&place, error.to_string(), expected))?;
    if header.len() < 2 {
        let found = format!("header {:?}", header.iter().collect::<Vec<_>>());
        return Err(Error::format(place, found, expected));
    }
    Ok(reader.into_deserialize().map(move |row| {
        row.map_err(|error| Broken::new(&place, Cause::BadRecord, format!("{error}; expected {expected}")))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_match() {
        assert_eq!(find_words("A cat and a Cathedral", "cat"), Some(2));
        assert_eq!(find_words("A cathedral", "cat"), None);
        assert_eq!(find_words("concat cat", "cat"), Some(7));
        assert_eq!(find_words("a wood-cat", "Cat"), Some(7));
        assert_eq!(find_words("cat", ""), None);
    }

    #[test]
    fn mentions_count_characters() {
        let captions = ["Über a Dog".to_owned(), "no".to_owned(), "a dog , a dog".to_owned()];
        let spans = mentions(&captions, "a dog");
        assert_eq!(spans, [Span { caption: 0, start: 5, end: 10 }, Span { caption: 2, start: 0, end: 5 }]);
        assert_eq!(spans[0].text(&captions), Some("a Dog"));
    }
}
