//! The page of `predict --out FILE.html`.

use conifer_data::Sample;
use conifer_viz::{Block, Figure, Report};

use super::summary::{PhotoPrediction, PredictionReport};
use crate::pictures::thumbnail;

/// Maximum number of photos with a picture; the pictures are part of the page.
const MAX_PICTURES: usize = 120;
/// Maximum number of rows of the table. A browser needs seconds to lay out more.
const MAX_ROWS: usize = 5000;
/// Shorter side of a picture in pixels: its width on the page.
const PICTURE_SIDE: u32 = 124;

/// The summary, the pictures by depth of the answer, and the table of all photos. A photo with a right answer is
/// highlighted.
pub(super) fn page(report: &PredictionReport, samples: &[Sample]) -> Report {
    let mut summary: Vec<Block> = report.lines().into_iter().map(Block::Text).collect();
    let mut table = report.table();
    if table.len() > 1 {
        let head = table.remove(0);
        summary.push(Block::Table { head, rows: table });
    }
    let mut pictures = Vec::new();
    // Show the same number of pictures for each depth, the deepest first.
    let depths: Vec<usize> = (0..report.answers_by_depth.len()).rev().collect();
    let shown = report.answers_by_depth.iter().filter(|count| **count > 0).count().max(1);
    for depth in depths {
        let at_depth = report.predictions.iter().zip(samples).filter(|(it, _)| it.depth == depth);
        let figures: Vec<Figure> = at_depth.take(MAX_PICTURES / shown).map(|(it, sample)| figure(it, sample)).collect();
        if !figures.is_empty() {
            let heading = format!("answers at depth {depth}: {}", report.answers_by_depth[depth]);
            pictures.push(Block::Strip { heading, figures });
        }
    }
    let mut rows = report.rows();
    let head = rows.remove(0);
    let total = rows.len();
    rows.truncate(MAX_ROWS);
    let mut all = Vec::new();
    if rows.len() < total {
        let note = format!("The first {MAX_ROWS} of {total} photos; write a .csv file for all of them.");
        all.push(Block::Text(note));
    }
    all.push(Block::Table { head, rows });
    Report {
        title: "Predictions".into(),
        subtitle: report.guarantee[0].clone(),
        sections: vec![("Summary".into(), summary), ("Photos".into(), pictures), ("All photos".into(), all)],
    }
}

fn figure(it: &PhotoPrediction, sample: &Sample) -> Figure {
    let label = it.label.as_ref().filter(|_| it.right.is_some());
    let truth = label.map_or_else(String::new, |label| format!("; label: {label}"));
    let steps: Vec<String> =
        it.path.iter().skip(1).map(|step| format!("{} {:.2}", step.name, step.probability)).collect();
    Figure {
        png: sample.image.as_ref().and_then(|image| thumbnail(image, PICTURE_SIDE)),
        caption: it.answer.clone(),
        note: format!("{}{truth}", steps.join(" > ")),
        marked: it.right == Some(true),
    }
}
