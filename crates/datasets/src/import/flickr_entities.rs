//! Flickr30k Entities as published (<https://github.com/BryanPlummer/flickr30k_entities>): `Sentences/<photo>.txt`
//! with five captions in the markup `[/EN#<chain>/<type> phrase]`, and `Annotations/<photo>.xml` with the boxes of
//! each coreference chain. Without annotations the phrases have no boxes. The sentences may also be a Markdown file in
//! which `![<photo>]` precedes the captions of each photo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use conifer_data::{BBox, Broken, Cause, Error, Phrase, Result, Sample, Span};

use super::shared::{add_box, photo};
use super::{ImporterEntry, ImporterInput, ImporterInputs, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "flickr_entities",
    summary: "Flickr30k Entities: marked-up captions, boxes in XML",
    inputs: &[
        ImporterInput {
            name: "sentences",
            help: "the folder Sentences of <photo>.txt, or one Markdown file",
            required: true,
        },
        ImporterInput { name: "images", help: "the folder of <photo>.jpg", required: true },
        ImporterInput { name: "annotations", help: "the folder Annotations of <photo>.xml", required: false },
        ImporterInput { name: "train", help: "list of photos of the train split, one per line", required: false },
        ImporterInput { name: "val", help: "list of photos of the val split", required: false },
        ImporterInput { name: "test", help: "list of photos of the test split", required: false },
    ],
    options: &[],
    read,
};

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let photos = sentences(inputs.need("sentences")?)?;
    let folder = inputs.need("images")?.to_owned();
    let annotations = inputs.get("annotations").map(Path::to_owned);
    let mut splits = BTreeMap::new();
    for split in ["train", "val", "test"] {
        if let Some(path) = inputs.get(split) {
            let list = fs::read_to_string(path).map_err(Error::io("read", path))?;
            splits.extend(list.split_whitespace().map(|id| (id.trim_end_matches(".jpg").to_owned(), split)));
        }
    }
    Ok(Box::new(photos.into_iter().flat_map(move |(id, lines)| {
        let mut faults = Vec::new();
        let split = splits.get(&id).map(|&split| split.to_owned());
        let sample = photo(&folder, &format!("{id}.jpg"), &id).and_then(|image| {
            let sample = sample(&id, &lines?, annotations.as_deref(), &mut faults)?;
            Ok(Sample { image: Some(image), split, ..sample })
        });
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    })))
}

/// The marked-up captions of a photo. In a folder, each photo has a separate file; an unreadable file is one broken
/// sample.
type MarkedCaptions = Result<Vec<String>, Broken>;

fn sentences(path: &Path) -> Result<Vec<(String, MarkedCaptions)>> {
    if path.is_file() {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        return Ok(markdown(&text).into_iter().map(|(id, lines)| (id, Ok(lines))).collect());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
        let file: PathBuf = entry.map_err(Error::io("list", path))?.path();
        if let (Some("txt"), Some(stem)) = (file.extension().and_then(|e| e.to_str()), file.file_stem()) {
            files.push((stem.to_string_lossy().into_owned(), file));
        }
    }
    files.sort();
    Ok(files
        .into_iter()
        .map(|(id, file)| {
            let lines = fs::read_to_string(&file)
                .map(|text| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
                .map_err(|e| {
                    Broken::new(&id, Cause::BadRecord, format!("`{}`: {e}; expected captions", file.display()))
                });
            (id, lines)
        })
        .collect())
}

/// Parses `![id](...)` followed by a fenced block of captions.
fn markdown(text: &str) -> Vec<(String, Vec<String>)> {
    let mut photos: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(id) = line.strip_prefix("![").and_then(|rest| rest.split(']').next()) {
            photos.push((id.to_owned(), Vec::new()));
        } else if line.starts_with("```") {
            inside = !inside;
        } else if let (true, false, Some((_, lines))) = (inside, line.is_empty(), photos.last_mut()) {
            lines.push(line.to_owned());
        }
    }
    photos
}

fn sample(id: &str, lines: &[String], annotations: Option<&Path>, faults: &mut Vec<Broken>) -> Result<Sample, Broken> {
    let wrong =
        |found: String, expected: &str| Broken::new(id, Cause::BadRecord, format!("{found}; expected {expected}"));
    let boxes = match annotations {
        None => BTreeMap::new(),
        Some(folder) => {
            let path = folder.join(format!("{id}.xml"));
            let xml = fs::read_to_string(&path).map_err(|e| {
                Broken::new(id, Cause::MissingFile, format!("`{}`: {e}; expected boxes", path.display()))
            })?;
            chains(&xml).map_err(|found| wrong(format!("`{}`: {found}", path.display()), "an annotation of boxes"))?
        }
    };
    let mut sample = Sample { id: id.to_owned(), ..Sample::default() };
    // (chain, text) of each entry of sample.phrases.
    let mut known: Vec<(String, String)> = Vec::new();
    for (caption, line) in lines.iter().enumerate() {
        let (text, marks) = unmark(line)
            .map_err(|found| wrong(format!("caption {caption}: {found}"), "[/EN#<chain>/<type> phrase]"))?;
        // Chain 0 marks words that refer to nothing visible ("each other").
        for mark in marks.into_iter().filter(|mark| mark.chain != "0") {
            let span = Span { caption, start: mark.start, end: mark.start + mark.text.chars().count() };
            let key = (mark.chain, mark.text);
            match known.iter().position(|k| *k == key) {
                Some(at) => sample.phrases[at].spans.push(span),
                None => {
                    let mut one = Vec::new();
                    for &bbox in boxes.get(&key.0).into_iter().flatten() {
                        add_box(&mut one, faults, id, &key.1, bbox);
                    }
                    let boxes = one.pop().unwrap_or_default().boxes;
                    sample.phrases.push(Phrase { text: key.1.clone(), boxes, spans: vec![span], ..Phrase::default() });
                    known.push(key);
                }
            }
        }
        sample.captions.push(text);
    }
    Ok(sample)
}

/// A phrase in a marked-up caption.
struct PhraseMark {
    chain: String,
    text: String,
    /// Index of its first character in the plain caption.
    start: usize,
}

/// Returns the caption without markup, and the marked phrases.
fn unmark(line: &str) -> Result<(String, Vec<PhraseMark>), String> {
    let (mut plain, mut marks) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some(open) = rest.find("[/EN#") {
        let body = &rest[open + "[/EN#".len()..];
        let close = body.find(']').ok_or_else(|| format!("{:?} has no end", &rest[open..]))?;
        let inner = &body[..close];
        let parts = inner.split_once('/').and_then(|(chain, typed)| Some((chain, typed.split_once(' ')?.1)));
        let Some((chain, text)) = parts.filter(|(_, text)| !text.trim().is_empty()) else {
            return Err(format!("{:?}", &rest[open..open + "[/EN#".len() + close + 1]));
        };
        plain.push_str(&rest[..open]);
        marks.push(PhraseMark { chain: chain.to_owned(), text: text.to_owned(), start: plain.chars().count() });
        plain.push_str(text);
        rest = &body[close + 1..];
    }
    plain.push_str(rest);
    Ok((plain, marks))
}

/// Parses the boxes of every chain. All files have the same shape, so searching for tags suffices instead of an XML
/// parser.
fn chains(xml: &str) -> Result<BTreeMap<String, Vec<BBox>>, String> {
    let number = |text: &str, tag: &str| {
        let value = tagged(text, tag).next().ok_or_else(|| format!("no <{tag}>"))?;
        value.trim().parse::<f32>().map_err(|_| format!("<{tag}> is {value:?}"))
    };
    let size = tagged(xml, "size").next().ok_or("no <size>")?;
    let (width, height) = (number(size, "width")?, number(size, "height")?);
    let mut chains: BTreeMap<String, Vec<BBox>> = BTreeMap::new();
    for object in tagged(xml, "object") {
        // Chains that fill the scene or are not visible have no <bndbox>.
        for bounds in tagged(object, "bndbox") {
            let corners =
                [number(bounds, "xmin")?, number(bounds, "ymin")?, number(bounds, "xmax")?, number(bounds, "ymax")?];
            for name in tagged(object, "name") {
                let bbox = BBox::from_pixels(corners, width, height);
                chains.entry(name.trim().to_owned()).or_default().push(bbox);
            }
        }
    }
    Ok(chains)
}

/// The contents of all elements `<tag>...</tag>`.
fn tagged<'a>(text: &'a str, tag: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let inner = &rest[rest.find(&open)? + open.len()..];
        let end = inner.find(&close)?;
        rest = &inner[end + close.len()..];
        Some(&inner[..end])
    })
}
