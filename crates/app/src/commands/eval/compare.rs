use std::path::Path;

use anyhow::Context as _;
use conifer_eval::{ResultLine, Verdict, compare_results, comparison_table, read_results};
use serde_json::json;

use crate::output::{columns, note, print, print_json};

/// Compares two files as `--out` writes them.
pub(super) fn run(first: &Path, second: &Path, seed: u64, as_json: bool) -> anyhow::Result<()> {
    let (a, b) = (read(first)?, read(second)?);
    let comparisons =
        compare_results(&a, &b, seed).with_context(|| format!("--compare {} {}", first.display(), second.display()))?;
    if as_json {
        return print_json(&json!({ "first": models(&a), "second": models(&b), "comparisons": comparisons }));
    }
    print(&format!("first: {}\nsecond: {}\n\n", models(&a).join(", "), models(&b).join(", ")))?;
    print(&columns(&comparison_table(&comparisons)))?;
    let tested = comparisons.iter().filter(|it| matches!(it.verdict, Verdict::Paired { .. })).count();
    note(&format!(
        "p: two-sided, paired bootstrap over the same queries, of one comparison each; there are {tested}, and nothing corrects for that"
    ));
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<ResultLine>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--compare {}", path.display()))?;
    Ok(read_results(&path.display().to_string(), &text)?)
}

/// The checkpoints that a file's numbers are of.
fn models(lines: &[ResultLine]) -> Vec<String> {
    let mut models: Vec<String> =
        lines.iter().map(|line| line.produced_by["checkpoint"].as_str().unwrap_or("unnamed").to_owned()).collect();
    models.sort();
    models.dedup();
    models
}
