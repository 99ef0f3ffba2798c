//! The boxes stage: proposes boxes in which a phrase may be.

use conifer_data::{BBox, Broken, ImageRef, PixelLimits};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::partial::PartialFile;
use super::{GroundingPipeline, GroundingStage, PhotoBoxes, PhotoPhrases};
use crate::Result;
use crate::pipeline::work_folder::RowFile;
use crate::pipeline::{DropCause, StageReport, WorkFolder};

/// Number of photos that are processed together.
const CHUNK: usize = 4096;
/// Number of photos between two writes of the rows of a slow proposer.
const SLOW_CHUNK: usize = 16;

/// Proposes boxes of photos.
pub trait BoxProposer: Send + Sync {
    /// Name in reports.
    fn name(&self) -> String;

    /// Text that differs for proposers that may propose different boxes. The boxes stage is repeated if it changes.
    fn identity(&self) -> String;

    /// True if the time for a photo is more than that for writing its boxes. An interrupted boxes stage then continues
    /// with the next photo.
    fn is_slow(&self) -> bool {
        false
    }

    /// The boxes of a photo of this size in pixels. `limits` apply if the proposer decodes the photo.
    ///
    /// # Errors
    /// The proposer cannot be used for any photo. A photo that cannot be decoded is [`ProposedBoxes::broken`].
    fn boxes(&self, photo: &PhotoPhrases, size: (u32, u32), limits: &PixelLimits) -> Result<ProposedBoxes>;

    /// Input that belongs to no photo of the data, by cause: malformed lines, unknown photos. Called after all photos.
    fn unused(&self) -> Vec<(DropCause, String)> {
        Vec::new()
    }
}

/// Boxes of a photo.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProposedBoxes {
    /// Boxes inside the photo, as fractions of its width and height.
    pub boxes: Vec<BBox>,
    /// Boxes that are not inside the photo, for the report.
    pub outside: Vec<String>,
    /// Why the photo could not be decoded.
    pub broken: Option<Broken>,
}

/// Windows of several sizes and shapes over the whole photo, at most half a window apart.
///
/// For 75 % of the phrases of the 289 `dev` photos of Flickr8k, the best of these windows has an IoU of at least .5
/// with the union of the human boxes (1,021 phrases).
#[derive(Clone, Copy, Debug, Default)]
pub struct DenseWindows;

/// Width and height of the windows as shares of the photo.
const WINDOWS: &[[f32; 2]] = &[
    [1.0, 1.0],
    [0.75, 1.0],
    [1.0, 0.75],
    [0.75, 0.75],
    [0.5, 1.0],
    [1.0, 0.5],
    [0.35, 1.0],
    [1.0, 0.35],
    [0.5, 0.5],
    [0.3, 0.6],
    [0.6, 0.3],
    [0.3, 0.3],
];
/// Maximum distance of neighbouring windows as a share of the window.
const STRIDE: f32 = 0.5;

impl BoxProposer for DenseWindows {
    fn name(&self) -> String {
        "dense windows".to_owned()
    }

    fn identity(&self) -> String {
        format!("dense windows {WINDOWS:?} {STRIDE}")
    }

    fn boxes(&self, _: &PhotoPhrases, _: (u32, u32), _: &PixelLimits) -> Result<ProposedBoxes> {
        let mut boxes = Vec::new();
        for [width, height] in WINDOWS {
            for x1 in starts(*width) {
                for y1 in starts(*height) {
                    boxes.push(BBox { x1, y1, x2: (x1 + width).min(1.0), y2: (y1 + height).min(1.0) });
                }
            }
        }
        Ok(ProposedBoxes { boxes, ..ProposedBoxes::default() })
    }
}

/// Evenly spaced left borders of windows with this width, the last of which touches the right border.
fn starts(width: f32) -> impl Iterator<Item = f32> {
    let free = 1.0 - width;
    // The tolerance keeps an exact quotient from being rounded up.
    let gaps = (free / (width * STRIDE) - 1e-4).ceil().max(0.0) as usize;
    (0..=gaps).map(move |number| free * number as f32 / gaps.max(1) as f32)
}

pub(super) fn run(
    pipeline: &GroundingPipeline<'_>,
    work: &WorkFolder<GroundingStage>,
    key: &str,
) -> Result<StageReport<GroundingStage>> {
    let mut report = StageReport::new(GroundingStage::Boxes, pipeline.proposer.name());
    let mut file = work.create(GroundingStage::Boxes)?;
    let mut rows = work.rows::<PhotoPhrases>(GroundingStage::Phrases)?;
    let mut partial: Option<PartialFile<PhotoProposal>> = None;
    if pipeline.proposer.is_slow() {
        let partial = partial.insert(PartialFile::open(&work.join("boxes.unfinished.jsonl"), key, 1)?);
        let mut rows = rows.skip(partial.rows);
        while let Some(proposed) = next_proposals(pipeline, &mut rows, SLOW_CHUNK)? {
            partial.write(&proposed)?;
        }
        for proposal in partial.rows()? {
            proposal?.finish(&mut report, &mut file)?;
        }
    } else {
        while let Some(proposed) = next_proposals(pipeline, &mut rows, CHUNK)? {
            proposed.iter().try_for_each(|proposal| proposal.finish(&mut report, &mut file))?;
        }
    }
    for (cause, example) in pipeline.proposer.unused() {
        report.leave_out(cause, &example);
    }
    file.finish()?;
    partial.map_or(Ok(()), PartialFile::remove)?;
    Ok(report)
}

/// The boxes of the next photos; `None` after the last one.
fn next_proposals(
    pipeline: &GroundingPipeline<'_>,
    rows: &mut impl Iterator<Item = Result<PhotoPhrases>>,
    count: usize,
) -> Result<Option<Vec<PhotoProposal>>> {
    let chunk = rows.take(count).collect::<Result<Vec<_>>>()?;
    if chunk.is_empty() {
        return Ok(None);
    }
    chunk.into_par_iter().map(|photo| propose(pipeline, photo)).collect::<Result<Vec<_>>>().map(Some)
}

/// A photo with its boxes, and the boxes that were rejected.
#[derive(Serialize, Deserialize)]
struct PhotoProposal {
    photo: PhotoBoxes,
    small: Vec<String>,
    outside: Vec<String>,
    fault: Option<(DropCause, String)>,
}

impl PhotoProposal {
    /// Counts the boxes and phrases, and writes the row if the photo has a box.
    fn finish(&self, report: &mut StageReport<GroundingStage>, file: &mut RowFile) -> Result<()> {
        let phrases = &self.photo.photo.phrases;
        phrases.iter().for_each(|it| report.enter_phrase(it.kind));
        self.small.iter().for_each(|example| report.leave_out(DropCause::SmallBox, example));
        self.outside.iter().for_each(|example| report.leave_out(DropCause::BoxOutside, example));
        if let Some((cause, detail)) = &self.fault {
            report.leave_out(*cause, detail);
            phrases.iter().for_each(|it| report.drop(*cause, &it.text));
            return Ok(());
        }
        if self.photo.boxes.is_empty() {
            phrases.iter().for_each(|it| report.drop(DropCause::NoBox, &it.text));
            return Ok(());
        }
        phrases.iter().for_each(|it| report.leave_phrase(it.kind));
        file.write(&self.photo)
    }
}

fn propose(pipeline: &GroundingPipeline<'_>, photo: PhotoPhrases) -> Result<PhotoProposal> {
    pipeline.check_stop()?;
    let size = ImageRef::File(photo.photo.clone()).size(&pipeline.settings.limits);
    let mut made = PhotoProposal {
        photo: PhotoBoxes { photo, width: 0, height: 0, boxes: Vec::new() },
        small: Vec::new(),
        outside: Vec::new(),
        fault: None,
    };
    let (width, height) = match size {
        Ok(size) => size,
        Err(broken) => {
            made.fault = Some((photo_cause(&broken), broken.to_string()));
            return Ok(made);
        }
    };
    (made.photo.width, made.photo.height) = (width, height);
    let limits = &pipeline.settings.limits;
    let ProposedBoxes { boxes, outside, broken } =
        pipeline.proposer.boxes(&made.photo.photo, (width, height), limits)?;
    made.outside = outside;
    made.fault = broken.map(|broken| (photo_cause(&broken), broken.to_string()));
    let min = pipeline.settings.min_box;
    for bbox in boxes {
        // A tolerance for boxes that were in pixels: 32 / 500 * 500 is below 32 in f32.
        let sides = [(bbox.x2 - bbox.x1) * width as f32 + 1e-2, (bbox.y2 - bbox.y1) * height as f32 + 1e-2];
        if sides.iter().any(|side| *side < min) {
            made.small.push(format!("{}: {bbox}", made.photo.photo.id));
        } else {
            made.photo.boxes.push([bbox.x1, bbox.y1, bbox.x2, bbox.y2]);
        }
    }
    Ok(made)
}

/// The cause under which a photo that cannot be opened is counted.
pub(super) fn photo_cause(broken: &Broken) -> DropCause {
    match broken.cause {
        conifer_data::Cause::MissingFile => DropCause::PhotoGone,
        _ => DropCause::PhotoUnreadable,
    }
}

/// Converts a box of a proposer to fractions of the photo. With `size`, the coordinates are pixels of a photo of this
/// size; without it, they already are fractions.
///
/// # Errors
/// The box does not lie inside the photo (up to rounding), or has no area.
pub(super) fn inside([x1, y1, x2, y2]: [f32; 4], size: Option<(f32, f32)>) -> std::result::Result<BBox, String> {
    let bbox = match size {
        Some((width, height)) => BBox::from_pixels([x1, y1, x2, y2], width, height),
        None => BBox { x1, y1, x2, y2 },
    };
    let bbox = bbox.clipped();
    bbox.check().map(|()| bbox)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

    use conifer_data::{Picture, encode_png};

    use super::*;
    use crate::Error;
    use crate::grounding::{AbstractNouns, Chunker, GroundingSettings, KeepThreshold, PhraseSpans};

    /// A detector that cannot be used after a number of photos.
    struct FailingDetector {
        photos_left: AtomicIsize,
    }

    impl BoxProposer for FailingDetector {
        fn name(&self) -> String {
            "failing".to_owned()
        }

        fn identity(&self) -> String {
            self.name()
        }

        fn is_slow(&self) -> bool {
            true
        }

        fn boxes(&self, _: &PhotoPhrases, _: (u32, u32), _: &PixelLimits) -> Result<ProposedBoxes> {
            if self.photos_left.fetch_sub(1, Ordering::Relaxed) <= 0 {
                return Err(Error::Detector("out of memory".to_owned()));
            }
            let boxes = vec![BBox { x1: 0.0, y1: 0.0, x2: 0.3, y2: 1.0 }, BBox { x1: 0.0, y1: 0.0, x2: 0.1, y2: 1.0 }];
            Ok(ProposedBoxes { boxes, outside: vec!["outside".to_owned()], broken: None })
        }
    }

    #[test]
    fn an_interrupted_detector_continues_with_the_next_photos() {
        let folder = tempfile::tempdir().unwrap();
        let photo = folder.path().join("photo.png");
        let picture = Picture { width: 200, height: 100, rgb: vec![0; 60_000] };
        std::fs::write(&photo, encode_png(&picture).unwrap()).unwrap();
        let work = folder.path().join("work");
        let stop = AtomicBool::new(false);
        let run = |photos_left: isize| {
            let settings = GroundingSettings {
                work: work.clone(),
                seed: 0,
                keep_other_languages: false,
                expressions: true,
                min_box: 32.0,
                area_weight: 0.0,
                threshold: KeepThreshold::Similarity(0.0),
                limits: PixelLimits::default(),
            };
            let detector = Box::new(FailingDetector { photos_left: AtomicIsize::new(photos_left) });
            let chunker = Chunker::Rules(Arc::default());
            let pipeline = GroundingPipeline::new(settings, chunker, AbstractNouns::default(), detector, None, &stop);
            super::run(&pipeline, &WorkFolder::open(&work).unwrap(), "key")
        };
        let phrases = vec![PhraseSpans::default()];
        let row = PhotoPhrases { photo: photo.clone(), phrases, ..PhotoPhrases::default() };
        let mut file = WorkFolder::<GroundingStage>::open(&work).unwrap().create(GroundingStage::Phrases).unwrap();
        for number in 0..40 {
            file.write(&PhotoPhrases { id: number.to_string(), ..row.clone() }).unwrap();
        }
        file.finish().unwrap();
        // The photos after the last complete group of 16 are read again.
        let message = run(20).err().unwrap().to_string();
        assert_eq!(message, "build: the detector failed: out of memory");
        let report = run(24).unwrap();
        assert_eq!((report.entered, report.left), (40, 40));
        let count = |cause| report.left_out.get(&cause).map(|it| it.count);
        assert_eq!((count(DropCause::SmallBox), count(DropCause::BoxOutside)), (Some(40), Some(40)));
        let rows =
            WorkFolder::<GroundingStage>::open(&work).unwrap().rows::<PhotoBoxes>(GroundingStage::Boxes).unwrap();
        let ids: Vec<String> = rows.map(|row| row.unwrap().photo.id).collect();
        assert_eq!(ids, (0..40).map(|number| number.to_string()).collect::<Vec<_>>());
        assert!(!work.join("boxes.unfinished.jsonl").exists());
    }

    #[test]
    fn windows_cover_the_photo() {
        assert_eq!(starts(1.0).collect::<Vec<_>>(), [0.0]);
        assert_eq!(starts(0.5).collect::<Vec<_>>(), [0.0, 0.25, 0.5]);
        let photo = PhotoPhrases::default();
        let boxes = DenseWindows.boxes(&photo, (500, 400), &PixelLimits::default()).unwrap().boxes;
        // By hand: 1 + 2 + 2 + 4 + 3 + 3 + 5 + 5 + 9 + 6 * 3 + 3 * 6 + 6 * 6.
        assert_eq!(boxes.len(), 106);
        for bbox in &boxes {
            assert_eq!(bbox.check(), Ok(()), "{bbox}");
        }
        assert_eq!(boxes.iter().map(|it| it.x2).fold(0.0, f32::max), 1.0);
    }
}
