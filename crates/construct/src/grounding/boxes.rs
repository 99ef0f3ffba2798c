//! The boxes stage: proposes boxes in which a phrase may be.

use conifer_data::{BBox, Broken, ImageRef, PixelLimits};
use rayon::prelude::*;

use super::{GroundingPipeline, GroundingStage, PhotoBoxes, PhotoPhrases};
use crate::Result;
use crate::pipeline::{DropCause, StageReport, WorkFolder};

/// Number of photos processed between two checks of the stop flag.
const CHUNK: usize = 4096;

/// Proposes boxes of photos.
pub trait BoxProposer: Send + Sync {
    /// Name in reports.
    fn name(&self) -> String;

    /// Text that differs for proposers that may propose different boxes. The boxes stage is repeated if it changes.
    fn identity(&self) -> String;

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
) -> Result<StageReport<GroundingStage>> {
    let mut report = StageReport::new(GroundingStage::Boxes, pipeline.proposer.name());
    let mut file = work.create(GroundingStage::Boxes)?;
    let mut rows = work.rows::<PhotoPhrases>(GroundingStage::Phrases)?;
    loop {
        pipeline.check_stop()?;
        let chunk = rows.by_ref().take(CHUNK).collect::<Result<Vec<_>>>()?;
        if chunk.is_empty() {
            break;
        }
        let proposed: Vec<_> = chunk.into_par_iter().map(|photo| propose(pipeline, photo)).collect::<Result<_>>()?;
        for PhotoProposal { photo, small, outside, fault } in proposed {
            photo.photo.phrases.iter().for_each(|it| report.enter_phrase(it.kind));
            small.iter().for_each(|example| report.leave_out(DropCause::SmallBox, example));
            outside.iter().for_each(|example| report.leave_out(DropCause::BoxOutside, example));
            if let Some((cause, detail)) = fault {
                report.leave_out(cause, &detail);
                photo.photo.phrases.iter().for_each(|it| report.drop(cause, &it.text));
            } else if photo.boxes.is_empty() {
                photo.photo.phrases.iter().for_each(|it| report.drop(DropCause::NoBox, &it.text));
            } else {
                photo.photo.phrases.iter().for_each(|it| report.leave_phrase(it.kind));
                file.write(&photo)?;
            }
        }
    }
    for (cause, example) in pipeline.proposer.unused() {
        report.leave_out(cause, &example);
    }
    file.finish()?;
    Ok(report)
}

/// A photo with its boxes, and the boxes that were rejected.
struct PhotoProposal {
    photo: PhotoBoxes,
    small: Vec<String>,
    outside: Vec<String>,
    fault: Option<(DropCause, String)>,
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
    use super::*;

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
