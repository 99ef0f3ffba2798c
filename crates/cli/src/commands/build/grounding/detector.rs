//! Boxes of a detector in an ONNX file.

use std::path::Path;

use anyhow::Context as _;
use conifer_construct::grounding::{BoxProposer, PhotoPhrases, ProposedBoxes};
use conifer_construct::{Error, Result};
use conifer_data::{ImageRef, PixelLimits};
use conifer_model::detector::{LogitKind, OnnxDetector, OnnxDetectorOptions};
use conifer_model::model::PixelStatistics;

use crate::arguments::{DetectorArgs, DetectorLogitsArg, DetectorPixelsArg};

/// Proposes the boxes that a detector finds in a photo.
pub(super) struct DetectorBoxes {
    name: String,
    detector: OnnxDetector,
}

impl DetectorBoxes {
    pub(super) fn open(path: &Path, args: &DetectorArgs) -> anyhow::Result<Self> {
        let options = OnnxDetectorOptions {
            size: args.detector_size.map(|size| size as usize),
            min_score: args.detector_min_score,
            max_overlap: args.detector_max_overlap,
            logits: match args.detector_logits {
                DetectorLogitsArg::Softmax => LogitKind::Softmax,
                DetectorLogitsArg::Sigmoid => LogitKind::Sigmoid,
            },
            pixels: args.detector_pixels.map(|pixels| match pixels {
                DetectorPixelsArg::Unit => PixelStatistics { mean: [0.0; 3], std: [1.0; 3] },
                DetectorPixelsArg::Imagenet => PixelStatistics::default(),
            }),
        };
        let detector = OnnxDetector::open(path, options).with_context(|| format!("--detector {}", path.display()))?;
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { name: format!("detector {file}"), detector })
    }
}

impl BoxProposer for DetectorBoxes {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> String {
        self.detector.identity()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn boxes(&self, photo: &PhotoPhrases, _: (u32, u32), limits: &PixelLimits) -> Result<ProposedBoxes> {
        let picture = match ImageRef::File(photo.photo.clone()).open(limits) {
            Ok(picture) => picture,
            Err(broken) => return Ok(ProposedBoxes { broken: Some(broken), ..ProposedBoxes::default() }),
        };
        let found = self.detector.detect(&picture).map_err(|error| Error::Detector(error.to_string()))?;
        Ok(ProposedBoxes {
            boxes: found.boxes.iter().map(|it| it.bbox).collect(),
            outside: found.rejected.into_iter().map(|fault| format!("{}: {fault}", photo.id)).collect(),
            broken: None,
        })
    }
}
