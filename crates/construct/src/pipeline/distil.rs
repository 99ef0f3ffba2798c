//! The distil stage: a small model is fine-tuned on the hierarchies of the grow stage, or on given ones.

use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{HierarchyRow, Pipeline, Stage};
use crate::distil::DistilTask;
use crate::{Error, Result};

/// Folder of the fine-tuned model in the work folder.
pub(super) const FOLDER: &str = "distilled";

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    let Some(distiller) = &pipeline.models.distiller else {
        return Err(Error::invalid("--stage distil", "no model to fine-tune", "--distil MODEL"));
    };
    let from = pipeline.hierarchies_of_distil();
    let hierarchies = work.rows::<HierarchyRow>(from)?.map(|row| Ok(row?.positive)).collect::<Result<Vec<_>>>()?;
    if hierarchies.is_empty() {
        let expected = "at least one hierarchy to learn from; more captions, or another --seeds file";
        return Err(Error::invalid(format!("`{}`", work.file(from).display()), "no hierarchy", expected));
    }
    let mut report = StageReport::new(Stage::Distil, distiller.name());
    let folder = work.join(FOLDER);
    let task =
        DistilTask { hierarchies: &hierarchies, seed: pipeline.settings.seed, folder: &folder, stop: pipeline.stop };
    let epochs = distiller.distil(&task)?;
    let mut file = work.create(Stage::Distil)?;
    for epoch in &epochs {
        file.write(epoch)?;
    }
    file.finish()?;
    report.entered = hierarchies.len() as u64;
    report.left = report.entered;
    Ok(report)
}
