//! Builds phrases with boxes from photos with captions (HyCoCLIP App. A). Each stage reads the file of the previous
//! stage in the work folder and writes a file. A finished stage is repeated only if its input or its settings changed.
//!
//! The paper takes the boxes of GRIT, which a phrase grounding model made. Here boxes are proposed without the phrase,
//! and a model of photos and texts (HyCoCLIP's own kind) finds the box of each phrase.

mod abstract_nouns;
mod boxes;
mod calibration;
mod chunker;
mod keep;
mod output;
mod partial;
mod phrases;
mod proposals;
mod rescore;
mod rows;
mod stage;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conifer_data::{PixelLimits, Source};

pub use abstract_nouns::AbstractNouns;
pub use boxes::{BoxProposer, DenseWindows, ProposedBoxes};
pub use calibration::{Calibration, CalibrationBin};
pub use chunker::{CaptionChunk, ChunkTable, Chunker};
pub use keep::KeepThreshold;
pub use output::write_grounded;
pub use proposals::ProposalFile;
pub use rescore::{RegionRequest, RegionScorer};
pub use rows::{GroundedPhoto, GroundedPhrase, PhotoBoxes, PhotoPhrases, PhraseKind, PhraseSpans, ScoredPhoto};
pub use stage::GroundingStage;

use crate::hypernyms::Hypernyms;
use crate::pipeline::work_folder::hash;
use crate::pipeline::{StageKind as _, StageReport, WorkFolder};
use crate::{Error, Result};

/// Settings of a run.
pub struct GroundingSettings {
    /// Folder for the files of the stages.
    pub work: PathBuf,
    /// Seed of the photos on which the calibration is checked.
    pub seed: u64,
    /// Also read captions that do not look English.
    pub keep_other_languages: bool,
    /// Also make a phrase of each referring expression, as the paper does.
    pub expressions: bool,
    /// Smallest width and height of a box, in pixels of the photo.
    pub min_box: f32,
    /// Weight of the natural logarithm of the area of a box, as a share of the photo. The product is added to the
    /// similarity of the box.
    pub area_weight: f32,
    /// Minimum probability or similarity of the best box of a phrase.
    pub threshold: KeepThreshold,
    /// Limits on the size of photos.
    pub limits: PixelLimits,
}

/// Runs the stages.
pub struct GroundingPipeline<'a> {
    settings: GroundingSettings,
    chunker: Chunker,
    abstract_nouns: AbstractNouns,
    nouns: Arc<Hypernyms>,
    proposer: Box<dyn BoxProposer>,
    /// Needed by the rescore stage only.
    scorer: Option<Box<dyn RegionScorer>>,
    stop: &'a AtomicBool,
}

impl<'a> GroundingPipeline<'a> {
    /// A pipeline that stops between photos or chunks of photos when `stop` is set. Only the rescore stage needs a
    /// scorer.
    pub fn new(
        settings: GroundingSettings,
        chunker: Chunker,
        abstract_nouns: AbstractNouns,
        proposer: Box<dyn BoxProposer>,
        scorer: Option<Box<dyn RegionScorer>>,
        stop: &'a AtomicBool,
    ) -> Self {
        let nouns = Arc::default();
        Self { settings, chunker, abstract_nouns, nouns, proposer, scorer, stop }
    }

    /// Runs one stage, unless its file is there and its inputs are unchanged.
    ///
    /// # Errors
    /// A file cannot be read or written, an earlier stage has not run, the rescore stage has no scorer, the model
    /// fails, there are too few phrases for a calibration that the threshold needs, or the user stops.
    pub fn run(&self, stage: GroundingStage, source: &dyn Source) -> Result<StageReport<GroundingStage>> {
        let mut work = WorkFolder::open(&self.settings.work)?;
        let key = self.key(stage, source, &work)?;
        if let Some(report) = work.finished(stage, &key) {
            return Ok(report);
        }
        let started = std::time::Instant::now();
        let mut report = match stage {
            GroundingStage::Phrases => phrases::run(self, source, &work)?,
            GroundingStage::Boxes => boxes::run(self, &work, &key)?,
            GroundingStage::Rescore => rescore::run(self, &work, &key)?,
            GroundingStage::Keep => keep::run(self, &work)?,
        };
        report.seconds = started.elapsed().as_secs_f64();
        work.finish(stage, key, &report)?;
        Ok(report)
    }

    /// The work folder.
    pub fn work(&self) -> &Path {
        &self.settings.work
    }

    fn scorer(&self) -> Result<&dyn RegionScorer> {
        let missing = || Error::invalid("--stage rescore", "no model", "--checkpoint MODEL");
        self.scorer.as_deref().ok_or_else(missing)
    }

    fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// SHA-256 of all inputs and settings that determine the file of a stage.
    fn key(&self, stage: GroundingStage, source: &dyn Source, work: &WorkFolder<GroundingStage>) -> Result<String> {
        let GroundingSettings { seed, keep_other_languages, expressions, min_box, area_weight, threshold, .. } =
            &self.settings;
        let settings = match stage {
            GroundingStage::Phrases => {
                let lists = [self.chunker.identity(), self.abstract_nouns.identity()];
                format!("{} {lists:?} {keep_other_languages} {expressions}", source.fingerprint())
            }
            GroundingStage::Boxes => format!("{} {min_box}", self.proposer.identity()),
            GroundingStage::Rescore => self.scorer()?.identity(),
            GroundingStage::Keep => format!("{area_weight} {threshold:?} {seed}"),
        };
        let mut parts = vec![env!("CARGO_PKG_VERSION").to_owned(), stage.name().to_owned(), settings];
        if let Some(before) = stage.before() {
            parts.push(work.key(before).ok_or_else(|| {
                let place = format!("--stage {}", stage.name());
                let found = format!("stage {} has not run in `{}`", before.name(), self.settings.work.display());
                Error::invalid(place, found, format!("`--stage {}` first, or no --stage", before.name()))
            })?);
        }
        Ok(hash(&parts))
    }
}
