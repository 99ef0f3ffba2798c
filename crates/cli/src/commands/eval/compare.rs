use std::path::Path;

use anyhow::Context as _;
use conifer_eval::{ResultLine, Verdict, compare_results, comparison_table, read_results};
use serde_json::json;

use crate::output::{columns, note, print, print_json};
use crate::progress;

/// Compares two result files of `eval run` or `eval suite`.
pub(super) fn run(first: &Path, second: &Path, seed: u64, as_json: bool) -> anyhow::Result<()> {
    let (a, b) = (read(first)?, read(second)?);
    let bar = progress::bar("comparing", 0);
    let comparisons = compare_results(&a, &b, seed, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let tested = comparisons.iter().filter(|it| matches!(it.verdict, Verdict::Paired { .. })).count();
    if as_json {
        print_json(&json!({ "first": models(&a), "second": models(&b), "comparisons": comparisons }))?;
    } else {
        print(&format!("first: {}\nsecond: {}\n\n", models(&a).join(", "), models(&b).join(", ")))?;
        print(&columns(&comparison_table(&comparisons)))?;
    }
    anyhow::ensure!(
        tested > 0,
        "{} and {}: no number could be compared; each line says why",
        first.display(),
        second.display()
    );
    if !as_json {
        note(&format!(
            "p: two-sided, paired bootstrap over the same queries, for each comparison alone; no correction for the number of comparisons ({tested})"
        ));
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<ResultLine>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(read_results(&path.display().to_string(), &text)?)
}

/// Names of the checkpoints that produced the records, with their root text if one was given.
fn models(lines: &[ResultLine]) -> Vec<String> {
    let model = |line: &ResultLine| {
        let by = &line.produced_by;
        let name = by["checkpoint"].as_str().unwrap_or("unnamed");
        by["root_text"].as_str().map_or_else(|| name.to_owned(), |text| format!("{name} (root text `{text}`)"))
    };
    let mut models: Vec<String> = lines.iter().map(model).collect();
    models.sort();
    models.dedup();
    models
}
