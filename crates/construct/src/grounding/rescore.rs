//! The rescore stage: compares every box of a photo with every phrase of the photo, and with the noun chunks of the
//! previous photo.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use conifer_data::{BBox, Broken, ImageRef, Picture};
use rayon::prelude::*;

use super::boxes::photo_cause;
use super::{GroundingPipeline, GroundingStage, PhotoBoxes, PhraseKind, PhraseSpans, ScoredPhoto};
use crate::pipeline::work_folder::read_rows;
use crate::pipeline::{StageReport, WorkFolder};
use crate::{Error, Result};

/// Number of photos whose crops are embedded together.
const PHOTOS: usize = 8;
/// Similarities are rounded to multiples of 1 / `DIGITS` in the file.
const DIGITS: f32 = 1e5;

/// A model that compares parts of photos with texts.
pub trait RegionScorer: Send + Sync {
    /// Name in reports.
    fn name(&self) -> String;

    /// Text that differs for models that may give different similarities. The rescore stage is repeated if it changes.
    fn identity(&self) -> String;

    /// The similarity of each phrase and box of each photo, `[phrases][boxes]`; larger is more similar.
    ///
    /// # Errors
    /// The model fails.
    fn similarities(&self, photos: &[RegionRequest<'_>]) -> Result<Vec<Vec<Vec<f32>>>>;
}

/// A photo with boxes and texts.
pub struct RegionRequest<'a> {
    /// The decoded photo.
    pub picture: &'a Picture,
    /// Boxes as fractions of the photo.
    pub boxes: Vec<BBox>,
    /// Phrases that are compared with every box.
    pub phrases: Vec<&'a str>,
}

pub(super) fn run(
    pipeline: &GroundingPipeline<'_>,
    work: &WorkFolder<GroundingStage>,
    key: &str,
) -> Result<StageReport<GroundingStage>> {
    let scorer = pipeline.scorer()?;
    let mut partial = PartialFile::open(&work.join("rescore.unfinished.jsonl"), key, PHOTOS)?;
    let mut rows = work.rows::<PhotoBoxes>(GroundingStage::Boxes)?.skip(partial.rows.saturating_sub(1));
    // The last finished photo, whose phrases are compared with the next one.
    let mut before = if partial.rows > 0 { rows.next().transpose()? } else { None };
    loop {
        pipeline.check_stop()?;
        let chunk = rows.by_ref().take(PHOTOS).collect::<Result<Vec<_>>>()?;
        if chunk.is_empty() {
            break;
        }
        let scored = score(pipeline, scorer, before.as_ref(), &chunk)?;
        before = chunk.into_iter().next_back();
        partial.write(&scored)?;
    }
    finish(work, partial, scorer.name())
}

/// Copies the rows to the stage's file and counts them.
fn finish(work: &WorkFolder<GroundingStage>, partial: PartialFile, by: String) -> Result<StageReport<GroundingStage>> {
    let mut report = StageReport::new(GroundingStage::Rescore, by);
    let mut file = work.create(GroundingStage::Rescore)?;
    for row in partial.rows()? {
        let row: ScoredPhoto = row?;
        let phrases = &row.photo.photo.phrases;
        phrases.iter().for_each(|it| report.enter_phrase(it.kind));
        let Some((cause, fault)) = &row.fault else {
            phrases.iter().for_each(|it| report.leave_phrase(it.kind));
            file.write(&row)?;
            continue;
        };
        report.leave_out(*cause, fault);
        phrases.iter().for_each(|it| report.drop(*cause, &it.text));
    }
    file.finish()?;
    partial.remove()?;
    Ok(report)
}

fn score(
    pipeline: &GroundingPipeline<'_>,
    scorer: &dyn RegionScorer,
    before: Option<&PhotoBoxes>,
    photos: &[PhotoBoxes],
) -> Result<Vec<ScoredPhoto>> {
    let open = |it: &PhotoBoxes| ImageRef::File(it.photo.photo.clone()).open(&pipeline.settings.limits);
    let pictures: Vec<std::result::Result<Picture, Broken>> = photos.par_iter().map(open).collect();
    let mut requests = Vec::new();
    for (at, picture) in pictures.iter().enumerate() {
        let Ok(picture) = picture else { continue };
        let foreign = at.checked_sub(1).map_or(before, |at| photos.get(at));
        let own = photos[at].photo.phrases.iter();
        let foreign = foreign.into_iter().flat_map(|it| &it.photo.phrases).filter(|it| it.kind == PhraseKind::Chunk);
        let phrases = own.chain(foreign).map(|it: &PhraseSpans| it.text.as_str()).collect();
        let boxes = photos[at].boxes.iter().map(|&[x1, y1, x2, y2]| BBox { x1, y1, x2, y2 }).collect();
        requests.push(RegionRequest { picture, boxes, phrases });
    }
    let mut found = scorer.similarities(&requests)?.into_iter();
    let mut scored = Vec::with_capacity(photos.len());
    for (photo, picture) in photos.iter().zip(&pictures) {
        let (similarities, fault) = match picture {
            Ok(_) => (found.next().unwrap_or_default(), None),
            Err(broken) => (Vec::new(), Some((photo_cause(broken), broken.to_string()))),
        };
        let mut similarities: Vec<Vec<f32>> =
            similarities.into_iter().map(|row| row.into_iter().map(rounded).collect()).collect();
        let foreign = similarities.split_off(photo.photo.phrases.len().min(similarities.len()));
        scored.push(ScoredPhoto { photo: photo.clone(), similarities, foreign, fault });
    }
    Ok(scored)
}

fn rounded(similarity: f32) -> f32 {
    (similarity * DIGITS).round() / DIGITS
}

/// Finished rows of an unfinished stage. The first line is the key of the stage.
struct PartialFile {
    path: PathBuf,
    file: File,
    /// Number of finished rows.
    rows: usize,
}

impl PartialFile {
    /// Opens the file if it was begun with this key, or begins a new file. The rows of a group that a killed run left
    /// incomplete are dropped: the last bits of a similarity depend on its batch.
    fn open(path: &Path, key: &str, group: usize) -> Result<Self> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').map(|at| at + 1).collect();
        let head = format!("{{\"key\":\"{key}\"}}\n");
        let io = |action| Error::io(action, path);
        if !text.starts_with(head.as_bytes()) {
            let mut file = File::create(path).map_err(io("create"))?;
            file.write_all(head.as_bytes()).map_err(io("write"))?;
            return Ok(Self { path: path.to_owned(), file, rows: 0 });
        }
        let file = OpenOptions::new().append(true).open(path).map_err(io("open"))?;
        let rows = (ends.len() - 1) / group * group;
        file.set_len(ends[rows] as u64).map_err(io("write"))?;
        Ok(Self { path: path.to_owned(), file, rows })
    }

    fn write(&mut self, rows: &[ScoredPhoto]) -> Result<()> {
        let mut bytes = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut bytes, row).map_err(|error| {
                Error::invalid(format!("`{}`", self.path.display()), error.to_string(), "paths in UTF-8")
            })?;
            bytes.push(b'\n');
        }
        self.file.write_all(&bytes).map_err(Error::io("write", &self.path))
    }

    fn rows(&self) -> Result<impl Iterator<Item = Result<ScoredPhoto>> + use<>> {
        let file = File::open(&self.path).map_err(Error::io("read", &self.path))?;
        let mut reader = BufReader::new(file);
        let mut head = String::new();
        reader.read_line(&mut head).map_err(Error::io("read", &self.path))?;
        Ok(read_rows(reader, self.path.clone()))
    }

    fn remove(self) -> Result<()> {
        drop(self.file);
        std::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grounding::PhotoPhrases;

    fn row(id: &str) -> ScoredPhoto {
        let spans = vec![[0, 0, 5]];
        let phrases = vec![PhraseSpans { text: "a dog".to_owned(), kind: PhraseKind::Chunk, chunk: None, spans }];
        let photo = PhotoPhrases {
            id: id.to_owned(),
            photo: PathBuf::from("1.jpg"),
            split: None,
            captions: vec!["a dog".to_owned()],
            phrases,
        };
        let photo = PhotoBoxes { photo, width: 10, height: 10, boxes: vec![[0.0, 0.0, 1.0, 1.0]] };
        ScoredPhoto { photo, similarities: vec![vec![0.5]], foreign: Vec::new(), fault: None }
    }

    #[test]
    fn a_killed_run_keeps_its_complete_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part.jsonl");
        let mut file = PartialFile::open(&path, "k", 1).unwrap();
        assert_eq!(file.rows, 0);
        file.write(&[row("1"), row("2")]).unwrap();
        drop(file);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut file = PartialFile::open(&path, "k", 1).unwrap();
        assert_eq!(file.rows, 1);
        file.write(&[row("2")]).unwrap();
        let rows: Vec<_> = file.rows().unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(rows, [row("1"), row("2")]);
        // An incomplete group is dropped, and another key starts again.
        assert_eq!(PartialFile::open(&path, "k", 3).unwrap().rows, 0);
        assert_eq!(PartialFile::open(&path, "other", 1).unwrap().rows, 0);
    }
}
