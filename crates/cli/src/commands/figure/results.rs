//! Numbers of result files.

use std::path::Path;

use anyhow::{Context as _, ensure};
use conifer_eval::{Record, read_results};
use conifer_viz::figures::{FigureEntry, FigureTable};
use serde::Deserialize;

use crate::arguments::FigureArgs;

/// Maximum number of rows of a figure. With more, it would not be readable.
const MAX_ROWS: usize = 200;

/// A record and the name of its file.
struct NamedRecord {
    model: String,
    record: Record,
}

pub(super) fn checklist(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let records = read(args, "vl_checklist", |it| it.split != "all")?;
    table(entry, &records, |it| [it.record.protocol.clone(), it.model.clone(), it.record.split.clone()])
}

pub(super) fn attribution(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let records = read(args, "vg_attribution", |it| it.split != "all")?;
    let name = |split: &str| split.replace('_', ", ");
    table(entry, &records, |it| [it.record.protocol.clone(), it.model.clone(), name(&it.record.split)])
}

pub(super) fn ablation(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    if let [input] = &args.inputs[..]
        && Path::new(input).extension().is_some_and(|it| it == "json")
    {
        return claims(entry, args, input);
    }
    let records = read(args, "", |_| true)?;
    let title = |it: &Record| format!("{} {}: {} ({})", it.benchmark, it.split, it.metric, it.protocol);
    table(entry, &records, |it| [title(&it.record), String::new(), it.model.clone()])
}

/// The records of all inputs that `--only` and `accepts` choose, in the order of the files. Only records of `benchmark`
/// are returned, unless it is empty.
fn read(args: &FigureArgs, benchmark: &str, accepts: impl Fn(&Record) -> bool) -> anyhow::Result<Vec<NamedRecord>> {
    let mut found = Vec::new();
    for input in &args.inputs {
        let text = std::fs::read_to_string(input).with_context(|| input.clone())?;
        for line in read_results(input, &text)? {
            let record = line.record;
            let words = format!("{} / {} / {} / {}", record.benchmark, record.split, record.protocol, record.metric);
            let is_chosen = args.only.is_empty() || args.only.iter().any(|it| words.contains(it.as_str()));
            if is_chosen && (benchmark.is_empty() || record.benchmark == benchmark) && accepts(&record) {
                found.push(NamedRecord { model: super::name_of(input), record });
            }
        }
    }
    let what = if benchmark.is_empty() { "a record".to_owned() } else { format!("a record of {benchmark}") };
    let chosen = if args.only.is_empty() { String::new() } else { format!(" with {}", args.only.join(" or ")) };
    ensure!(!found.is_empty(), "{}: no such record; expected {what}{chosen}", args.inputs.join(", "));
    Ok(found)
}

/// A row per record with the panel, the series and the name that `place` returns.
fn table(
    entry: &FigureEntry,
    records: &[NamedRecord],
    place: impl Fn(&NamedRecord) -> [String; 3],
) -> anyhow::Result<FigureTable> {
    ensure!(
        records.len() <= MAX_ROWS,
        "{} records; expected at most {MAX_ROWS}; choose some of them with --only TEXT, a part of benchmark, split, protocol or metric",
        records.len()
    );
    let mut table = FigureTable::new(entry.columns);
    for it in records {
        let [panel, series, name] = place(it);
        let [low, high] = it.record.interval.map_or([None; 2], |it| it.map(Some));
        let trivial = it.record.baseline.as_ref().map(|it| it.value);
        table.push(vec![
            panel.into(),
            series.into(),
            name.into(),
            it.record.value.into(),
            low.into(),
            high.into(),
            trivial.into(),
        ])?;
    }
    Ok(table)
}

/// The differences of the claims in `claims.json`. The reference is the margin of the claim.
fn claims(entry: &FigureEntry, args: &FigureArgs, input: &str) -> anyhow::Result<FigureTable> {
    #[derive(Deserialize)]
    struct ClaimsFile {
        claims: Vec<ClaimLine>,
    }
    #[derive(Deserialize)]
    struct ClaimLine {
        name: String,
        paper: String,
        margin: f64,
        comparison: Option<ClaimDifference>,
    }
    #[derive(Deserialize)]
    struct ClaimDifference {
        difference: f64,
        interval: [f64; 2],
    }
    let text = std::fs::read_to_string(input).with_context(|| input.to_owned())?;
    let file: ClaimsFile = serde_json::from_str(&text)
        .with_context(|| format!("{input}: no claims.json of conifer reproduce, or another version's"))?;
    let mut table = FigureTable::new(entry.columns);
    for claim in file.claims {
        let is_chosen = args.only.is_empty() || args.only.iter().any(|it| claim.name.contains(it.as_str()));
        let Some(found) = claim.comparison.filter(|_| is_chosen) else { continue };
        let [low, high] = found.interval;
        let panel = format!("{}: difference in the claim's direction; dashes: margin", claim.paper);
        table.push(vec![
            panel.into(),
            "".into(),
            claim.name.into(),
            found.difference.into(),
            low.into(),
            high.into(),
            claim.margin.into(),
        ])?;
    }
    ensure!(!table.is_empty(), "{input}: no chosen claim was measured; expected one with a comparison");
    ensure!(
        table.len() <= MAX_ROWS,
        "{} claims; expected at most {MAX_ROWS}; choose some with --only TEXT",
        table.len()
    );
    Ok(table)
}
