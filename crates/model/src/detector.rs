//! Detectors that another program exported as ONNX: boxes of the things in a photo.
//!
//! The outputs of the file determine how they are read:
//!
//! | outputs | names | box | score |
//! | --- | --- | --- | --- |
//! | corners `[N, 4]`, scores `[N]`, perhaps labels `[N]`, all with or without a batch axis | `boxes`, `scores`, `labels`, or other names with these shapes | left, top, right and bottom border, in pixels of the input | as it is |
//! | logits `[1, N, K]`, boxes `[1, N, 4]` (DETR) | `pred_logits` or `logits`, `pred_boxes` | centre, width and height, as fractions of the input | largest softmax without the last class, or largest sigmoid |
//! | `[1, 4 + C, N]` (YOLO v8) or `[1, N, 5 + C]` (YOLO v5) | the only output | centre, width and height, in pixels of the input | largest of the C classes; in the second form times column 4 |
//!
//! Only the boxes of the last row of the table go through non-maximum suppression, class by class. The other models
//! need none, or have it inside.

mod decode;
mod inputs;
mod layout;
mod suppression;

use std::path::{Path, PathBuf};

use conifer_data::transform::{PaddedPhoto, letterbox};
use conifer_data::{BBox, Picture};

use crate::model::PixelStatistics;
use crate::onnx::{OnnxGraph, OnnxInput, OnnxValues};
use crate::{Error, Result};

use decode::{RawBox, decode};
use inputs::DetectorInputs;
use layout::{DetectionLayout, OutputPlan};
use suppression::suppress;

/// Level of the channels of the padding around a photo, as in YOLO.
const PADDING: u8 = 114;
/// Maximum number of boxes of a photo, the limit of COCO's evaluation.
const MAX_BOXES: usize = 100;

/// Settings of an [`OnnxDetector`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnnxDetectorOptions {
    /// Width and height of the input in pixels, where the file leaves them open.
    pub size: Option<usize>,
    /// Minimum score of a box, in [0, 1].
    pub min_score: f32,
    /// Boxes of the same class whose intersection over union with a better box exceeds this value are dropped, in
    /// [0, 1]. Only for outputs in the layouts of YOLO.
    pub max_overlap: f32,
    /// How the logits of DETR become scores.
    pub logits: LogitKind,
    /// Normalisation of pixels. `None`: ImageNet's statistics for DETR, pixels in [0, 1] for the other layouts.
    pub pixels: Option<PixelStatistics>,
}

/// How logits become scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogitKind {
    /// Softmax over all columns. The last one means that there is no object (DETR).
    #[default]
    Softmax,
    /// The sigmoid of each column, each of which is a class (Deformable DETR, RT-DETR).
    Sigmoid,
}

impl Default for OnnxDetectorOptions {
    fn default() -> Self {
        Self { size: None, min_score: 0.1, max_overlap: 0.5, logits: LogitKind::Softmax, pixels: None }
    }
}

/// A detector in an ONNX file, run by the ONNX Runtime library of the user.
#[derive(Debug)]
pub struct OnnxDetector {
    path: PathBuf,
    graph: OnnxGraph,
    inputs: DetectorInputs,
    outputs: OutputPlan,
    options: OnnxDetectorOptions,
    pixels: PixelStatistics,
}

/// A box of a photo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectedBox {
    /// The box, clipped to the photo, as fractions of its width and height.
    pub bbox: BBox,
    /// Score of the box, in [0, 1].
    pub score: f32,
    /// Number of the class; `None` if the file has no output for it.
    pub class: Option<usize>,
}

/// Boxes of a photo.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectedBoxes {
    /// The boxes, best first, at most 100.
    pub boxes: Vec<DetectedBox>,
    /// Boxes that were rejected: outside the photo, inverted or not finite. One text for all that are not finite.
    pub rejected: Vec<String>,
}

impl OnnxDetector {
    /// Loads the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the ONNX Runtime library is missing, or if `size` contradicts the file or is missing;
    /// [`Error::Io`] if the file cannot be read; [`Error::Format`] if it is no ONNX file, or has other inputs or
    /// outputs than those above.
    pub fn open(path: &Path, options: OnnxDetectorOptions) -> Result<Self> {
        let graph = OnnxGraph::open(path)?;
        let outputs = OutputPlan::new(graph.outputs()).map_err(|detail| Error::format(path, detail))?;
        let inputs = DetectorInputs::new(path, graph.inputs(), options.size)?;
        let pixels = options.pixels.unwrap_or_else(|| match outputs.layout {
            DetectionLayout::Queries => PixelStatistics::default(),
            DetectionLayout::Corners | DetectionLayout::Grid => PixelStatistics { mean: [0.0; 3], std: [1.0; 3] },
        });
        Ok(Self { path: path.to_owned(), graph, inputs, outputs, options, pixels })
    }

    /// Text that differs for detectors that may find different boxes: the content of the file and the settings, without
    /// the path.
    pub fn identity(&self) -> String {
        let OnnxDetectorOptions { min_score, max_overlap, logits, .. } = self.options;
        let (width, height) = self.inputs.size();
        format!("onnx {} {width}x{height} {min_score} {max_overlap} {logits:?} {:?}", self.graph.sha256(), self.pixels)
    }

    /// The boxes of a photo. The photo is resized with its aspect ratio and centred on grey ([`letterbox`]).
    ///
    /// # Errors
    /// [`Error::Format`] if the model cannot be run, or if its outputs have another shape or scores outside [0, 1].
    pub fn detect(&self, photo: &Picture) -> Result<DetectedBoxes> {
        let (width, height) = self.inputs.size();
        let padded = letterbox(photo, width as u32, height as u32, PADDING);
        let pixels = normalised(&padded.picture, &self.pixels);
        let mut values =
            vec![OnnxInput { port: &self.inputs.pixels, shape: &self.inputs.shape, values: OnnxValues::F32(&pixels) }];
        let others = self.inputs.other_values(&padded);
        values.extend(others.iter().map(|(port, shape, numbers)| OnnxInput {
            port,
            shape,
            values: OnnxValues::Integers(numbers),
        }));
        let found = self.graph.run_outputs(&values, &self.outputs.ports())?;
        let raw = decode(&self.outputs, &found, (width, height), self.options.min_score, self.options.logits)
            .map_err(|detail| Error::format(&self.path, detail))?;
        Ok(boxes_of_photo(raw, &padded, self.outputs.layout, self.options.max_overlap))
    }
}

/// Suppresses, limits and converts boxes in pixels of the input.
fn boxes_of_photo(raw: Vec<RawBox>, padded: &PaddedPhoto, layout: DetectionLayout, max_overlap: f32) -> DetectedBoxes {
    let total = raw.len();
    let mut finite: Vec<RawBox> = raw.into_iter().filter(RawBox::is_finite).collect();
    let mut found = DetectedBoxes::default();
    if finite.len() < total {
        found.rejected.push(format!("{} boxes with a border or score that is not finite", total - finite.len()));
    }
    // A stable sort: ties keep the order of the outputs.
    finite.sort_by(|a, b| b.score.total_cmp(&a.score));
    let max_overlap = if layout == DetectionLayout::Grid { max_overlap } else { 1.0 };
    for RawBox { corners, score, class } in suppress(&finite, max_overlap, MAX_BOXES) {
        let bbox = in_photo(corners, padded);
        match bbox.check() {
            Ok(()) => found.boxes.push(DetectedBox { bbox, score, class }),
            Err(fault) => found.rejected.push(fault),
        }
    }
    found
}

/// Converts corners in pixels of the padded photo to fractions of the photo, and clips them.
fn in_photo([x1, y1, x2, y2]: [f32; 4], padded: &PaddedPhoto) -> BBox {
    let axis = |at: f32, start: u32, side: u32| ((at - start as f32) / side as f32).clamp(0.0, 1.0);
    BBox {
        x1: axis(x1, padded.left, padded.width),
        y1: axis(y1, padded.top, padded.height),
        x2: axis(x2, padded.left, padded.width),
        y2: axis(y2, padded.top, padded.height),
    }
}

/// Pixels `[3, height, width]`: `(byte / 255 - mean) / std`.
fn normalised(picture: &Picture, statistics: &PixelStatistics) -> Vec<f32> {
    let mut pixels = Vec::with_capacity(picture.rgb.len());
    for (channel, (mean, std)) in statistics.mean.iter().zip(&statistics.std).enumerate() {
        let bytes = picture.rgb.iter().skip(channel).step_by(3);
        pixels.extend(bytes.map(|&byte| (f32::from(byte) / 255.0 - mean) / std));
    }
    pixels
}

#[cfg(test)]
mod tests;
