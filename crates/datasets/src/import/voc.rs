//! PASCAL VOC (<http://host.robots.ox.ac.uk/pascal/VOC/voc2007>): `Annotations/<photo>.xml` with the boxes of a photo,
//! and `ImageSets/Main/<split>.txt` with the photos of a split. Every box is a separate phrase, whose text is the name
//! of its class. Boxes of parts (heads, hands) are not read.
//!
//! Coordinates are pixels, counted from 1, and a box includes its last row and column. So a box from 1 to the width
//! covers the photo.

use std::fs;
use std::path::{Path, PathBuf};

use conifer_data::{BBox, Broken, Cause, Error, Phrase, Result, Sample};

use super::box_filter::{BoxFilter, LEAVE_OUT, MAX_AREA, MIN_AREA};
use super::shared::photo;
use super::xml::XmlElement;
use super::{ImporterEntry, ImporterInput, ImporterInputs, ImporterOption, Samples};

pub(super) const ENTRY: ImporterEntry = ImporterEntry {
    name: "voc",
    summary: "PASCAL VOC boxes, one phrase per box",
    inputs: &[
        ImporterInput { name: "images", help: "the folder JPEGImages of <photo>.jpg", required: true },
        ImporterInput { name: "annotations", help: "the folder Annotations of <photo>.xml", required: true },
        ImporterInput {
            name: "list",
            help: "list of photos, one per line, such as ImageSets/Main/test.txt; default: every annotated photo",
            required: false,
        },
    ],
    options: &[
        MIN_AREA,
        MAX_AREA,
        ImporterOption {
            name: LEAVE_OUT,
            help: "leave out boxes with these flags: some of difficult, truncated, occluded",
        },
    ],
    read,
};

const FLAGS: [&str; 3] = ["difficult", "truncated", "occluded"];

fn read(inputs: &ImporterInputs) -> Result<Samples> {
    let filter = BoxFilter::of(inputs, &FLAGS)?;
    let (folder, annotations) = (inputs.need("images")?.to_owned(), inputs.need("annotations")?.to_owned());
    let names = match inputs.get("list") {
        Some(path) => listed(path)?,
        None => annotated(&annotations)?,
    };
    Ok(Box::new(names.into_iter().flat_map(move |name| {
        let mut faults = Vec::new();
        let sample = sample(&folder, &annotations, name, &filter, &mut faults);
        faults.into_iter().map(Err).chain([sample]).collect::<Vec<_>>()
    })))
}

/// Reads the names of the photos in a list. The list of a class names every photo of the split, each followed by 1, 0
/// or -1 (whether the photo shows the class). These numbers are ignored.
fn listed(path: &Path) -> Result<Vec<String>> {
    let list = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let names: Vec<String> =
        list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(Error::Empty { place: format!("`{}`", path.display()), expected: "photos, one per line".into() });
    }
    if let Some(name) = names.iter().find(|name| name.contains(['/', '\\'])) {
        return Err(Error::format(
            format!("`{}`", path.display()),
            format!("`{name}`"),
            "names of photos without a folder",
        ));
    }
    Ok(names)
}

/// Names of the photos that have an `.xml` file in `folder`, sorted.
fn annotated(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let file: PathBuf = entry.map_err(Error::io("list", folder))?.path();
        if let (Some("xml"), Some(stem)) = (file.extension().and_then(|it| it.to_str()), file.file_stem()) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn sample(
    folder: &Path,
    annotations: &Path,
    id: String,
    filter: &BoxFilter,
    faults: &mut Vec<Broken>,
) -> Result<Sample, Broken> {
    let image = photo(folder, &format!("{id}.jpg"), &id)?;
    let path = annotations.join(format!("{id}.xml"));
    let xml = fs::read_to_string(&path).map_err(|error| {
        Broken::new(&id, Cause::MissingFile, format!("`{}`: {error}; expected an annotation", path.display()))
    })?;
    let fault = |found: String| {
        Broken::new(&id, Cause::BadRecord, format!("`{}`: {found}; expected a VOC annotation", path.display()))
    };
    let root = XmlElement::parse(&xml).map_err(fault)?;
    if root.name != "annotation" {
        return Err(fault(format!("the root element is <{}>", root.name)));
    }
    let size = root.one("size").map_err(fault)?;
    let (width, height) = (size.number("width").map_err(fault)?, size.number("height").map_err(fault)?);
    let mut phrases = Vec::new();
    for object in root.all("object") {
        let VocObject { class, bbox, flags } = VocObject::of(object, width, height).map_err(fault)?;
        if let Err(detail) = bbox.check() {
            faults.push(Broken::new(&id, Cause::BadBox, format!("skipped `{class}`: {detail}")));
        } else if let Err(broken) = filter.check(&id, &bbox, |flag| flags.contains(&flag)) {
            faults.push(broken);
        } else {
            phrases.push(Phrase { text: class.to_owned(), boxes: vec![bbox], ..Phrase::default() });
        }
    }
    Ok(Sample { id, image: Some(image), phrases, ..Sample::default() })
}

struct VocObject<'a> {
    class: &'a str,
    bbox: BBox,
    /// The flags of [`FLAGS`] that are 1.
    flags: Vec<&'static str>,
}

impl<'a> VocObject<'a> {
    fn of(object: &'a XmlElement, width: f32, height: f32) -> Result<Self, String> {
        let class = object.one("name")?.text();
        if class.is_empty() {
            return Err("an empty <name>".to_owned());
        }
        let bounds = object.one("bndbox")?;
        let [x1, y1, x2, y2] = ["xmin", "ymin", "xmax", "ymax"].map(|side| bounds.number(side));
        let bbox = BBox::from_pixels([x1? - 1.0, y1? - 1.0, x2?, y2?], width, height).clipped();
        let mut flags = Vec::new();
        for flag in FLAGS {
            // A flag may be missing; VOC 2007 has no `occluded`.
            match object.all(flag).next().map(XmlElement::text) {
                None | Some("0") => {}
                Some("1") => flags.push(flag),
                Some(other) => return Err(format!("<{flag}> is {other:?}, neither 0 nor 1")),
            }
        }
        Ok(Self { class, bbox, flags })
    }
}
