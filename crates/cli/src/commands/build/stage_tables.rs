//! Tables about the stages of a pipeline, for the terminal and for the page, and the files of a report.

use std::collections::BTreeMap;
use std::path::Path;

use conifer_construct::pipeline::{CauseCount, DropCause, PhraseCount, StageKind, StageReport};
use conifer_files::write_whole;
use conifer_viz::{Block, Report};
use serde::Serialize;

/// One line per stage, after a header. The column of other input is included only if a stage left some out.
pub(super) fn stage_table<S: StageKind>(stages: &[StageReport<S>]) -> Vec<Vec<String>> {
    let with_others = stages.iter().any(|it| !it.left_out.is_empty());
    let mut head = vec!["stage", "by", "entered", "left", "seconds", "dropped"];
    if with_others {
        head.push("other input left out");
    }
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    rows.extend(stages.iter().map(|it| {
        let seconds = if it.reused { "reused".to_owned() } else { format!("{:.1}", it.seconds) };
        let mut row = vec![
            it.stage.name().to_owned(),
            it.by.clone(),
            by_kind(it, it.entered, |count| count.entered),
            by_kind(it, it.left, |count| count.left),
            seconds,
            counts(&it.dropped),
        ];
        if with_others {
            row.push(counts(&it.left_out));
        }
        row
    }));
    rows
}

/// A section for the texts that a stage dropped and one for the other input that it left out, with examples by cause.
pub(super) fn dropped_sections<S: StageKind>(stages: &[StageReport<S>]) -> Vec<(String, Vec<Block>)> {
    let mut sections = Vec::new();
    for stage in stages {
        for (heading, causes) in [("Dropped in", &stage.dropped), ("Other input left out in", &stage.left_out)] {
            if causes.is_empty() {
                continue;
            }
            let blocks = causes.iter().map(|(cause, count)| Block::Table {
                head: vec![format!("{}: {}", cause.name(), count.count)],
                rows: count.examples.iter().map(|example| vec![example.clone()]).collect(),
            });
            sections.push((format!("{heading} {}", stage.stage.name()), blocks.collect()));
        }
    }
    sections
}

/// The finished stages of a work folder. A stage is marked as reused only if it is in `this_run` and was reused there.
pub(super) fn with_reuse<S: StageKind>(
    finished: Vec<StageReport<S>>,
    this_run: &[StageReport<S>],
) -> Vec<StageReport<S>> {
    let of = |report: StageReport<S>| {
        let reused = this_run.iter().any(|it| it.stage == report.stage && it.reused);
        StageReport { reused, ..report }
    };
    finished.into_iter().map(of).collect()
}

/// Writes report.json and report.html.
pub(super) fn write_report(folder: &Path, report: &impl Serialize, page: &Report) -> anyhow::Result<()> {
    write_whole(&folder.join("report.json"), (serde_json::to_string_pretty(report)? + "\n").as_bytes())?;
    write_whole(&folder.join("report.html"), page.html().as_bytes())?;
    Ok(())
}

/// A number of texts, and its parts by kind of phrase: `412 (300 chunks, 112 expressions)`.
fn by_kind<S>(stage: &StageReport<S>, total: u64, count: impl Fn(&PhraseCount) -> u64) -> String {
    if stage.kinds.is_empty() {
        return total.to_string();
    }
    let parts: Vec<String> =
        stage.kinds.iter().map(|(kind, phrases)| format!("{} {}s", count(phrases), kind.name())).collect();
    format!("{total} ({})", parts.join(", "))
}

fn counts(causes: &BTreeMap<DropCause, CauseCount>) -> String {
    causes.iter().map(|(cause, it)| format!("{} {}", it.count, cause.name())).collect::<Vec<_>>().join(", ")
}
