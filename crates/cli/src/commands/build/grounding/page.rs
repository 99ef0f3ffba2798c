//! The report of `build grounding`: what entered and left each stage, the calibration, and examples.

use std::path::Path;

use conifer_construct::grounding::{Calibration, GroundedPhoto, GroundingStage, PhraseKind};
use conifer_construct::pipeline::{StageReport, WorkFolder};
use conifer_data::transform::{crop_box, shrink};
use conifer_data::{BBox, ImageRef, PixelLimits, encode_png};
use conifer_viz::{Block, Figure, Report};
use serde::Serialize;

use super::super::stage_tables::{dropped_sections, stage_table, write_report};

/// Maximum number of photos on the page.
const SHOWN: usize = 12;
/// Shorter side of a shown picture, in pixels.
const SIDE: u32 = 96;

/// Counts of the stages, and the calibration.
#[derive(Serialize)]
pub(super) struct GroundingReport {
    pub(super) stages: Vec<StageReport<GroundingStage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<Calibration>,
    #[serde(skip)]
    examples: Vec<GroundedPhoto>,
}

impl GroundingReport {
    /// The report of finished stages; `ends` is true if the result is complete.
    pub(super) fn new(stages: Vec<StageReport<GroundingStage>>, folder: &Path, ends: bool) -> anyhow::Result<Self> {
        let mut report = Self { stages, calibration: None, examples: Vec::new() };
        if ends {
            let work = WorkFolder::open(folder)?;
            report.calibration = serde_json::from_slice(&std::fs::read(work.join("calibration.json"))?)?;
            report.examples = work.rows(GroundingStage::Keep)?.take(SHOWN).collect::<Result<_, _>>()?;
        }
        Ok(report)
    }

    /// The calibration in a sentence.
    pub(super) fn calibration_line(&self) -> Option<String> {
        let it = self.calibration.as_ref()?;
        // The score at which the probability is one half.
        let even = it.centre - it.intercept * it.scale / it.slope;
        Some(format!(
            "probability .5 at the score {even:.4}; fitted on {} phrases, calibration error {:.3} on the other photos",
            it.phrases, it.error
        ))
    }

    /// Writes report.json and report.html.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        write_report(folder, self, &self.page())
    }

    fn page(&self) -> Report {
        let mut table = stage_table(&self.stages);
        let head = table.remove(0);
        let mut sections = vec![("Stages".to_owned(), vec![Block::Table { head, rows: table }])];
        sections.push(("Calibration".to_owned(), self.calibration_blocks()));
        if !self.examples.is_empty() {
            sections.push(("Grounded phrases".to_owned(), self.examples.iter().map(strip).collect()));
        }
        sections.extend(dropped_sections(&self.stages));
        Report {
            title: "Grounded phrases".to_owned(),
            subtitle: "What entered and left each stage, with up to ten examples of each cause.".to_owned(),
            sections,
        }
    }

    fn calibration_blocks(&self) -> Vec<Block> {
        let (Some(it), Some(line)) = (&self.calibration, self.calibration_line()) else {
            return vec![Block::Text("Too few phrases for probabilities.".to_owned())];
        };
        let explanation = "The probability that a phrase belongs to its photo and not to another one, by logistic regression on \
                           the score of its best box: phrases with their own photos against the same phrases with the next \
                           photo. Both are taken as equally probable.";
        let rows = it.bins.iter().map(|bin| {
            vec![format!("{:.2}", bin.predicted), format!("{:.2}", bin.observed), format!("{:.0}", bin.count)]
        });
        let head = ["mean probability", "observed share", "phrases"].map(str::to_owned).to_vec();
        vec![Block::Text(explanation.to_owned()), Block::Text(line), Block::Table { head, rows: rows.collect() }]
    }
}

/// A row of pictures: the photo, and the box of each phrase.
fn strip(photo: &GroundedPhoto) -> Block {
    let picture = ImageRef::File(photo.photo.clone()).open(&PixelLimits::default()).ok();
    let png = |[x1, y1, x2, y2]: [f32; 4]| {
        let crop = crop_box(picture.as_ref()?, &BBox { x1, y1, x2, y2 });
        encode_png(&shrink(&crop, SIDE).unwrap_or(crop)).ok()
    };
    let mut figures = vec![Figure { png: png([0.0, 0.0, 1.0, 1.0]), caption: photo.id.clone(), ..Figure::default() }];
    figures.extend(photo.phrases.iter().map(|it| {
        let mut note =
            it.probability.map_or_else(|| format!("{:.3}", it.similarity), |p| format!("{:.0} %", 100.0 * p));
        if it.kind == PhraseKind::Expression {
            note.push_str(", expression");
        }
        Figure { png: png(it.bbox), caption: it.text.clone(), note, marked: false }
    }));
    Block::Strip { heading: photo.captions.first().cloned().unwrap_or_default(), figures }
}
