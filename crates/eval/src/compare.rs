use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use crate::metrics::Units;
use crate::{Error, Outcomes, Record, Result, ResultLine};

/// Two models on the same number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The task of a suite, where one ran it.
    pub task: Option<String>,
    /// As in [`Record::benchmark`].
    pub benchmark: String,
    /// As in [`Record::split`].
    pub split: String,
    /// As in [`Record::protocol`].
    pub protocol: String,
    /// As in [`Record::metric`].
    pub metric: String,
    /// The first model's value.
    pub first: Option<f64>,
    /// The second model's value.
    pub second: Option<f64>,
    /// Number of queries of the first, or of the second where only it has the number.
    pub n: usize,
    /// What can be said of the difference.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What can be said of a difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Both were measured on the same queries.
    Paired {
        /// Second minus first.
        difference: f64,
        /// Its 95 % percentile bootstrap interval, resampling queries.
        interval: [f64; 2],
        /// Two-sided p of no difference; see [`compare`].
        p: f64,
        /// Resamples drawn; the smallest p is 2 / (resamples + 1).
        resamples: usize,
    },
    /// There is no paired comparison.
    NotCompared {
        /// Why.
        reason: String,
    },
}

/// Resamples of a comparison: a p of 0.05 is then known to within 0.004 (two standard errors).
const MOST_RESAMPLES: usize = 10_000;
/// With many queries fewer do, so that a comparison takes seconds, not minutes: the difference is then all but normal, and what
/// 1000 resamples leave open is far below what would change a conclusion.
const LEAST_RESAMPLES: usize = 1_000;
/// Queries drawn in a comparison, about.
const DRAWS: usize = 200_000_000;

/// Compares two models number by number: records are paired by benchmark, split, protocol and metric.
///
/// The paired bootstrap (Efron and Tibshirani 1993, chapter 16) draws the same queries for both models, `R` times: 10,000, or
/// `2e8 / n` and at least 1,000 where `n` is above 20,000. With `d` the differences of the resamples,
/// `p = min(1, 2 min(1 + #(d <= 0), 1 + #(d >= 0)) / (R + 1))`, so the smallest p is `2 / (R + 1)`. A resample without a
/// number (a correlation of equal values) counts on both sides, and is left out of the interval. p is of one comparison: nothing corrects for their number.
///
/// Deterministic in `seed`.
pub fn compare(a: &[Record], b: &[Record], seed: u64) -> Vec<Comparison> {
    let mut names: BTreeMap<Names<'_>, [Vec<&Record>; 2]> = BTreeMap::new();
    for (side, records) in [a, b].into_iter().enumerate() {
        for record in records {
            let same = &mut names.entry(Names::of(record)).or_default()[side];
            // A number that stands there again, beside another trivial answer, is one number.
            if !same.iter().any(|it| it.value == record.value && it.outcomes == record.outcomes) {
                same.push(record);
            }
        }
    }
    // In the order of the files.
    let mut rows: Vec<(Names<'_>, [Vec<&Record>; 2])> = names.into_iter().collect();
    let position = |names: &Names<'_>| a.iter().chain(b).position(|record| Names::of(record) == *names);
    rows.sort_by_key(|(names, _)| position(names));
    rows.into_iter()
        .map(|(names, [first, second])| {
            let verdict = match (first.as_slice(), second.as_slice()) {
                ([first], [second]) => paired(first, second, seed),
                (_, []) => not("only the first model has this number"),
                ([], _) => not("only the second model has this number"),
                _ => not("a model has several different numbers of this name"),
            };
            let one = |records: &[&Record]| match records {
                [one] => Some(one.value),
                _ => None,
            };
            Comparison {
                task: None,
                benchmark: names.benchmark.into(),
                split: names.split.into(),
                protocol: names.protocol.into(),
                metric: names.metric.into(),
                first: one(&first),
                second: one(&second),
                n: first.first().or(second.first()).map_or(0, |record| record.n),
                verdict,
            }
        })
        .collect()
}

/// Compares two result files: lines are paired by task, settings and data, then as [`compare`] does.
///
/// # Errors
/// A number that both files have, but of different data (`data_sha256`): such numbers do not compare.
pub fn compare_results(a: &[ResultLine], b: &[ResultLine], seed: u64) -> Result<Vec<Comparison>> {
    refuse_other_data(a, b)?;
    let mut groups: BTreeMap<(String, &str), Group> = BTreeMap::new();
    for (side, lines) in [a, b].into_iter().enumerate() {
        for line in lines {
            let next = groups.len();
            let (_, sides) =
                groups.entry((setting(line), &line.data_sha256)).or_insert_with(|| (next, Default::default()));
            sides[side].push(line.record.clone());
        }
    }
    let task = |line: &ResultLine| line.task.as_ref().map(|it| it.task.clone());
    let tasks: BTreeMap<String, Option<String>> = a.iter().chain(b).map(|line| (setting(line), task(line))).collect();
    // In the order of the files.
    let mut rows: Vec<_> = groups.into_iter().collect();
    rows.sort_by_key(|(_, (order, _))| *order);
    let mut all = Vec::new();
    for ((setting, _), (_, [first, second])) in rows {
        let task = tasks.get(&setting).cloned().flatten();
        all.extend(compare(&first, &second, seed).into_iter().map(|it| Comparison { task: task.clone(), ..it }));
    }
    Ok(all)
}

/// Where a group of lines first stood, and its records in either file.
type Group = (usize, [Vec<Record>; 2]);

/// Everything that decides what a line's number means, but for its names and its data; seeds do not.
fn setting(line: &ResultLine) -> String {
    line.task.as_ref().map_or_else(String::new, |it| {
        let (crop, score) = (it.crop, it.score);
        let prompts = (&it.prompts, &it.prompts_of);
        format!("{} {} {prompts:?} {crop:?} {score:?} {} {:?} {}", it.task, it.data, it.gate, it.steps, it.partial)
    })
}

fn refuse_other_data(a: &[ResultLine], b: &[ResultLine]) -> Result<()> {
    let mut data: BTreeMap<(String, Names<'_>), [Vec<&ResultLine>; 2]> = BTreeMap::new();
    for (side, lines) in [a, b].into_iter().enumerate() {
        for line in lines {
            data.entry((setting(line), Names::of(&line.record))).or_default()[side].push(line);
        }
    }
    for [first, second] in data.values() {
        let shared = first.iter().any(|line| second.iter().any(|other| line.data_sha256 == other.data_sha256));
        if let ([line, ..], [other, ..], false) = (first.as_slice(), second.as_slice(), shared) {
            let what = line.task.as_ref().map_or(&line.record.benchmark, |it| &it.task);
            return Err(Error::Argument {
                name: format!("data_sha256 of {what}"),
                found: format!(
                    "`{}` in the first file (line {}) and `{}` in the second (line {})",
                    line.data_sha256, line.line, other.data_sha256, other.line
                ),
                expected: "the same data: other numbers do not compare".into(),
            });
        }
    }
    Ok(())
}

/// Rows of cells for people, the head first.
pub fn comparison_table(comparisons: &[Comparison]) -> Vec<Vec<String>> {
    let head = [
        "task",
        "benchmark",
        "split",
        "protocol",
        "metric",
        "first",
        "second",
        "second - first",
        "95 % interval",
        "p",
        "n",
    ];
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |it| format!("{it:.4}"));
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(comparisons.iter().map(|it| {
        let (difference, interval, p) = match &it.verdict {
            Verdict::Paired { difference, interval: [low, high], p, .. } => {
                (format!("{difference:+.4}"), format!("{low:+.4} .. {high:+.4}"), format!("{p:.4}"))
            }
            Verdict::NotCompared { reason } => ("-".into(), reason.clone(), "-".into()),
        };
        vec![
            it.task.clone().unwrap_or_default(),
            it.benchmark.clone(),
            it.split.clone(),
            it.protocol.clone(),
            it.metric.clone(),
            number(it.first),
            number(it.second),
            difference,
            interval,
            p,
            it.n.to_string(),
        ]
    }));
    rows
}

/// What a number is called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Names<'a> {
    benchmark: &'a str,
    split: &'a str,
    protocol: &'a str,
    metric: &'a str,
}

impl<'a> Names<'a> {
    fn of(record: &'a Record) -> Self {
        let Record { benchmark, split, protocol, metric, .. } = record;
        Self { benchmark, split, protocol, metric }
    }
}

fn not(reason: &str) -> Verdict {
    Verdict::NotCompared { reason: reason.into() }
}

fn paired(first: &Record, second: &Record, seed: u64) -> Verdict {
    let (Some(a), Some(b)) = (&first.outcomes, &second.outcomes) else {
        return not("no per-query outcomes");
    };
    if !a.pairs_with(b) || first.clusters != second.clusters {
        return not("different queries");
    }
    let units = a.units(first.clusters.as_deref());
    if units.len() < 2 {
        return not("fewer than two queries");
    }
    let resamples = (DRAWS / a.len()).clamp(LEAST_RESAMPLES, MOST_RESAMPLES);
    let mut differences = resampled(a, b, &units, resamples, seed);
    // NaN on both sides: it speaks for no difference.
    let side = |wrong: fn(f64) -> bool| 1 + differences.iter().filter(|&&d| !wrong(d)).count();
    let tail = side(|d| d > 0.0).min(side(|d| d < 0.0));
    let p = (2.0 * tail as f64 / (resamples + 1) as f64).min(1.0);
    differences.retain(|it| !it.is_nan());
    differences.sort_by(f64::total_cmp);
    let at = |q: f64| differences.get((differences.len().saturating_sub(1) as f64 * q).round() as usize).copied();
    let (Some(low), Some(high)) = (at(0.025), at(0.975)) else {
        return not("no resample has a number");
    };
    Verdict::Paired { difference: b.value() - a.value(), interval: [low, high], p, resamples }
}

/// Second minus first on the same resampled queries. Every resample has a stream of its own, so that threads change nothing.
fn resampled(a: &Outcomes, b: &Outcomes, units: &Units, resamples: usize, seed: u64) -> Vec<f64> {
    (0..resamples)
        .into_par_iter()
        .map_init(Vec::new, |rows, resample| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(resample as u64);
            units.draw(&mut rng, rows);
            b.over(rows) - a.over(rows)
        })
        .collect()
}

#[cfg(test)]
mod tests;
