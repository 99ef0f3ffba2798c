//! Boxes that a detector wrote to a file.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use conifer_data::{BBox, PixelLimits};
use serde::Deserialize;

use super::boxes::{BoxProposer, ProposedBoxes, inside};
use super::rows::PhotoPhrases;
use crate::pipeline::DropCause;
use crate::pipeline::work_folder::hash;
use crate::{Error, Result};

/// Proposals of a JSONL file.
pub struct ProposalFile {
    name: String,
    identity: String,
    /// By file name of the photo.
    photos: HashMap<String, Vec<PhotoProposals>>,
    malformed: Vec<String>,
}

/// Boxes of one line.
struct PhotoProposals {
    image: PathBuf,
    place: String,
    boxes: Vec<BBox>,
    outside: Vec<String>,
    used: AtomicBool,
}

/// A line of the file; other fields are ignored.
#[derive(Deserialize)]
struct ProposalLine {
    image: PathBuf,
    boxes: Vec<[f32; 4]>,
    #[serde(default)]
    width: Option<f32>,
    #[serde(default)]
    height: Option<f32>,
}

impl ProposalFile {
    /// Reads a file with `{"image": "1.jpg", "width": 500, "height": 375, "boxes": [[12, 30, 310, 360]]}` in each line.
    /// Boxes are left, top, right and bottom border in pixels of a photo of this size; without a size, they are
    /// fractions. `image` is the path of a photo of the data, or the end of it. The boxes of several lines of the same
    /// photo are combined. Malformed lines are skipped and counted.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let mut read = Self { name, identity: String::new(), photos: HashMap::new(), malformed: Vec::new() };
        let mut lines = Vec::new();
        for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
            let line = String::from_utf8_lossy(&line.map_err(Error::io("read", path))?).into_owned();
            if line.trim().is_empty() {
                continue;
            }
            let place = format!("line {}", number + 1);
            match parse(&line, &place) {
                Ok((file_name, proposals)) => read.photos.entry(file_name).or_default().push(proposals),
                Err(fault) => read.malformed.push(format!("{place}: {fault}")),
            }
            lines.push(line);
        }
        read.identity = hash(&lines);
        Ok(read)
    }
}

fn parse(line: &str, place: &str) -> std::result::Result<(String, PhotoProposals), String> {
    let line: ProposalLine = serde_json::from_str(line).map_err(|error| conifer_data::error::in_one_line(&error))?;
    let size = match (line.width, line.height) {
        (Some(width), Some(height)) if width > 0.0 && height > 0.0 => Some((width, height)),
        (None, None) => None,
        (width, height) => return Err(format!("width {width:?} and height {height:?}; expected both, or neither")),
    };
    let file_name = line.image.file_name().map(|it| it.to_string_lossy().into_owned());
    let file_name = file_name.ok_or_else(|| format!("image {:?}; expected a file", line.image))?;
    let (mut boxes, mut outside) = (Vec::new(), Vec::new());
    for corners in line.boxes {
        match inside(corners, size) {
            Ok(bbox) => boxes.push(bbox),
            Err(fault) => outside.push(format!("{place}, {file_name}: {fault}")),
        }
    }
    let (place, image) = (place.to_owned(), line.image.strip_prefix(".").map(Path::to_owned).unwrap_or(line.image));
    Ok((file_name, PhotoProposals { image, place, boxes, outside, used: AtomicBool::new(false) }))
}

impl BoxProposer for ProposalFile {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> String {
        format!("proposals {}", self.identity)
    }

    fn boxes(&self, photo: &PhotoPhrases, _: (u32, u32), _: &PixelLimits) -> Result<ProposedBoxes> {
        let mut found = ProposedBoxes::default();
        let name = photo.photo.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        for line in self.photos.get(&name).into_iter().flatten().filter(|it| photo.photo.ends_with(&it.image)) {
            line.used.store(true, Ordering::Relaxed);
            found.boxes.extend(&line.boxes);
            found.outside.extend(line.outside.iter().cloned());
        }
        Ok(found)
    }

    fn unused(&self) -> Vec<(DropCause, String)> {
        let malformed = self.malformed.iter().map(|it| (DropCause::MalformedProposal, it.clone()));
        let mut unknown: Vec<_> = self
            .photos
            .values()
            .flatten()
            .filter(|it| !it.used.load(Ordering::Relaxed))
            .map(|it| (DropCause::UnknownPhoto, format!("{}: {}", it.place, it.image.display())))
            .collect();
        unknown.sort_unstable_by(|a, b| a.1.len().cmp(&b.1.len()).then_with(|| a.1.cmp(&b.1)));
        malformed.chain(unknown).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::fixtures::FixtureFolder;

    use super::*;

    fn photo(path: &str) -> PhotoPhrases {
        PhotoPhrases { id: path.to_owned(), photo: PathBuf::from(path), ..PhotoPhrases::default() }
    }

    #[test]
    fn lines_are_matched_and_faults_counted() {
        let folder = FixtureFolder::new();
        let text = [
            r#"{"image": "a/1.jpg", "width": 200, "height": 100, "boxes": [[20, 10, 100, 60], [150, 0, 260, 100]], "score": 1}"#,
            r#"{"image": "./1.jpg", "boxes": [[0.5, 0.5, 1, 1], [0.5, 0.5, 0.4, 1]]}"#,
            r#"{"image": "2.jpg", "boxes": [[0, 0, 1, 1]]}"#,
            r#"{"image": "1.jpg", "boxes": "none"}"#,
            r#"{"image": "1.jpg", "width": 200, "boxes": []}"#,
            "not JSON",
        ];
        let file = ProposalFile::read(&folder.write("p.jsonl", text.join("\n"))).unwrap();
        let boxes = |path: &str| file.boxes(&photo(path), (200, 100), &PixelLimits::default()).unwrap();
        let found = boxes("data/a/1.jpg");
        let corners: Vec<[f32; 4]> = found.boxes.iter().map(|it| [it.x1, it.y1, it.x2, it.y2]).collect();
        assert_eq!(corners, [[0.1, 0.1, 0.5, 0.6], [0.5, 0.5, 1.0, 1.0]]);
        assert_eq!(found.outside.len(), 2);
        assert!(found.outside[0].starts_with("line 1, 1.jpg: box is [0.75, 0, 1.3, 1]"), "{:?}", found.outside);
        // Another folder's photo of the same name has only the boxes of the line without a folder.
        assert_eq!(boxes("data/b/1.jpg").boxes.len(), 1);
        let unused = file.unused();
        let causes: Vec<_> = unused.iter().map(|(cause, _)| cause.name()).collect();
        assert_eq!(
            causes,
            ["malformed_proposal", "malformed_proposal", "malformed_proposal", "unknown_photo"],
            "{unused:?}"
        );
        assert_eq!(unused[3].1, "line 3: 2.jpg");
        assert!(ProposalFile::read(std::path::Path::new("absent.jsonl")).is_err());
    }
}
