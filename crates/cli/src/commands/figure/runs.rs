//! Training curves of run folders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, ensure};
use conifer_train::log::{METRICS_FILE, StepRecord, read_metrics};
use conifer_viz::figures::{FigureEntry, FigureTable};
use serde_json::{Map, Value};

use crate::arguments::FigureArgs;

/// Runs that differ only in their seed.
struct SeededRuns {
    name: String,
    config: toml::Table,
    logs: Vec<Vec<StepRecord>>,
}

/// Maximum number of logged values in a figure. With more, it would not be readable.
const MAX_CURVES: usize = 12;

/// For each logged value, one curve per group of runs whose configs differ only in the seed and the folder.
pub(super) fn training(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let mut groups: Vec<SeededRuns> = Vec::new();
    for input in &args.inputs {
        let folder = Path::new(input);
        let log = read_metrics(&folder.join(METRICS_FILE))
            .with_context(|| format!("{input}: expected the folder of a training run"))?;
        let path = folder.join("config.toml");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut config: toml::Table = toml::from_str(&text).with_context(|| path.display().to_string())?;
        config.remove("seed");
        if let Some(toml::Value::Table(train)) = config.get_mut("train") {
            train.remove("out");
        }
        match groups.iter_mut().find(|it| it.config == config) {
            Some(group) => {
                group.name = common_name(&group.name, &super::name_of(input));
                group.logs.push(log);
            }
            None => groups.push(SeededRuns { name: super::name_of(input), config, logs: vec![log] }),
        }
    }
    let is_chosen = |name: &str| args.only.is_empty() || args.only.iter().any(|it| name.contains(it.as_str()));
    let mut names = vec!["loss".to_owned()];
    for record in groups.iter().flat_map(|it| it.logs.iter().flatten()) {
        for name in record.terms.keys().map(|it| format!("term {it}")).chain(record.eval.keys().cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.retain(|it| is_chosen(it));
    ensure!(!names.is_empty(), "no curve has {} in its name", args.only.join(" or "));
    ensure!(
        names.len() <= MAX_CURVES,
        "{} curves; expected at most {MAX_CURVES}; choose some with --only TEXT; there are {}",
        names.len(),
        names.join(", ")
    );
    let mut table = FigureTable::new(entry.columns);
    for name in &names {
        for group in &groups {
            curve(&mut table, name, group)?;
        }
    }
    ensure!(!table.is_empty(), "the runs have no logged step; expected at least one");
    Ok(table)
}

/// Adds the mean and the range of a value over the runs of a group, for the steps that every run logged.
fn curve(table: &mut FigureTable, name: &str, group: &SeededRuns) -> anyhow::Result<()> {
    let of_log = |log: &Vec<StepRecord>| -> BTreeMap<u64, f64> {
        log.iter().filter_map(|it| Some((it.step, value(it, name).filter(|v| v.is_finite())?))).collect()
    };
    let logs: Vec<BTreeMap<u64, f64>> = group.logs.iter().map(of_log).collect();
    let steps: BTreeSet<u64> = logs.iter().flat_map(|it| it.keys().copied()).collect();
    for step in steps {
        let values: Vec<f64> = logs.iter().filter_map(|it| it.get(&step).copied()).collect();
        if values.len() < logs.len() {
            continue;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let numbers = [step as f64, mean, smallest, largest, values.len() as f64];
        let mut row = vec![name.into(), group.name.as_str().into()];
        row.extend(numbers.map(Into::into));
        table.push(row)?;
    }
    Ok(())
}

fn value(record: &StepRecord, name: &str) -> Option<f64> {
    let of = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_f64);
    match name.strip_prefix("term ") {
        Some(term) => of(&record.terms, term),
        None if name == "loss" => Some(record.loss),
        None => of(&record.eval, name),
    }
}

/// Longest common prefix of two run names, without trailing separators or `seed`. Returns the first name if nothing is
/// left.
fn common_name(a: &str, b: &str) -> String {
    let common: String = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let separators = ['-', '_', '.', ' '];
    let common = common.trim_end_matches(separators);
    let common = common.strip_suffix("seed").unwrap_or(common).trim_end_matches(separators);
    if common.is_empty() { a.to_owned() } else { common.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_seeds_are_shortened() {
        assert_eq!(common_name("clip-seed0", "clip-seed1"), "clip");
        assert_eq!(common_name("clip", "clip_1"), "clip");
        assert_eq!(common_name("a", "b"), "a");
        assert_eq!(common_name("seed-0", "seed-1"), "seed-0");
    }
}
