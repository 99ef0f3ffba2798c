//! Comparison of two result files, query by query. `seed_comparison` has the verdicts on claims, over several seeds.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use crate::metrics::BootstrapUnits;
use crate::{Outcomes, Record, ResultLine};

/// Comparison of two models on one number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Task of the suite that measured the number, if any.
    pub task: Option<String>,
    /// Name of the benchmark ([`Record::benchmark`]).
    pub benchmark: String,
    /// Part of the data ([`Record::split`]).
    pub split: String,
    /// Variant of the protocol ([`Record::protocol`]).
    pub protocol: String,
    /// Name of the metric ([`Record::metric`]).
    pub metric: String,
    /// The first model's value.
    pub first: Option<f64>,
    /// The second model's value.
    pub second: Option<f64>,
    /// Number of queries of the first model, or of the second if only the second has the number.
    pub n: usize,
    /// Result of the comparison.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Both models were measured on the same queries.
    Paired {
        /// Value of the second model minus the value of the first.
        difference: f64,
        /// 95 % percentile bootstrap interval of the difference, resampling queries.
        interval: [f64; 2],
        /// Two-sided p-value of the hypothesis of no difference; see [`compare_results`].
        p: f64,
        /// Number of resamples.
        resamples: usize,
    },
    /// No paired comparison is possible.
    NotCompared {
        /// The reason.
        reason: String,
    },
}

/// Maximum number of resamples. With this many, the sampling error of a p of 0.05 is about 0.006 (two standard
/// errors).
const MAX_RESAMPLES: usize = 10_000;
/// Minimum number of resamples, used from 200,000 queries on to limit the time of a comparison.
const MIN_RESAMPLES: usize = 1_000;
/// Maximum number of resamples of a correlation. It is smaller because each resample has to be ranked.
const MAX_RANKED_RESAMPLES: usize = 2_000;
/// Approximate number of queries drawn in a comparison, over all resamples.
const TOTAL_DRAWS: usize = 200_000_000;

/// Compares the records of the two models for one key.
fn row(key: ComparisonKey<'_>, first: &[&Record], second: &[&Record], seed: u64) -> Comparison {
    let verdict = match (first, second) {
        ([first], [second]) => paired(first, second, seed),
        (_, []) => not_compared("only the first model has this number"),
        ([], _) => not_compared("only the second model has this number"),
        _ => not_compared("a model has several different numbers with this name"),
    };
    comparison(key, first, second, verdict)
}

fn comparison(key: ComparisonKey<'_>, first: &[&Record], second: &[&Record], verdict: Verdict) -> Comparison {
    let one = |records: &[&Record]| match records {
        [one] => Some(one.value),
        _ => None,
    };
    Comparison {
        task: None,
        benchmark: key.benchmark.into(),
        split: key.split.into(),
        protocol: key.protocol.into(),
        metric: key.metric.into(),
        first: one(first),
        second: one(second),
        n: first.first().or(second.first()).map_or(0, |record| record.n),
        verdict,
    }
}

/// Compares two result files number by number.
///
/// Lines are paired by task, benchmark, split, protocol, metric, data and settings. Numbers with the same name but
/// different data or settings are not compared; the row states the difference. `progress` receives the number of
/// finished names and the total.
///
/// The paired bootstrap (Efron and Tibshirani 1993, chapter 16) draws the same queries for both models in each of `R`
/// resamples. `R` is 10,000. For more than 20,000 queries `n` it is `2e8 / n`, but at least 1,000, and for correlations
/// it is at most 2,000. Let `d` be the differences of the resamples. Then
/// `p = min(1, 2 min(1 + #(d <= 0), 1 + #(d >= 0)) / (R + 1))`. With few equal differences the bootstrap alone gives a
/// p that is too small, so p is at least `2^(1 - m)` for `m` drawn units (queries, or clusters of queries). This is the
/// smallest p of the exact test that flips the signs of the differences. A resample without a value (a correlation of
/// equal values) counts in both tails and is left out of the interval. p is not corrected for multiple comparisons.
///
/// The same `seed` gives the same result.
pub fn compare_results(
    a: &[ResultLine],
    b: &[ResultLine],
    seed: u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Vec<Comparison> {
    let mut groups: BTreeMap<(String, ComparisonKey<'_>), ComparedLines<'_>> = BTreeMap::new();
    for (side, lines) in [a, b].into_iter().enumerate() {
        for line in lines {
            let next = groups.len();
            let (_, sides) = groups
                .entry((line.run(), ComparisonKey::of(&line.record)))
                .or_insert_with(|| (next, Default::default()));
            // A number that is repeated with another baseline counts once.
            let again = |it: &&ResultLine| {
                let (old, new) = (&it.record, &line.record);
                old.value == new.value && old.outcomes == new.outcomes && setting_difference(it, line).is_none()
            };
            if !sides[side].iter().any(again) {
                sides[side].push(line);
            }
        }
    }
    // Restore the order of the files.
    let mut rows: Vec<_> = groups.into_iter().collect();
    rows.sort_by_key(|(_, (order, _))| *order);
    let total = rows.len();
    let mut all = Vec::new();
    for (done, ((_, key), (_, [first, second]))) in rows.into_iter().enumerate() {
        progress(done, total);
        let task = first.iter().chain(&second).find_map(|line| line.task.as_ref()).map(|it| it.task.clone());
        let rows = compare_key(key, &first, &second, seed);
        all.extend(rows.into_iter().map(|it| Comparison { task: task.clone(), ..it }));
    }
    all
}

/// Position of the first line of a group, and the lines of the group in each file.
type ComparedLines<'a> = (usize, [Vec<&'a ResultLine>; 2]);

/// Compares the lines with one key and task. Returns one row for each combination of data and settings.
fn compare_key(key: ComparisonKey<'_>, first: &[&ResultLine], second: &[&ResultLine], seed: u64) -> Vec<Comparison> {
    let row_of = |first: &[&ResultLine], second: &[&ResultLine]| row(key, &records(first), &records(second), seed);
    let (mut rows, mut alone, mut rest) = (Vec::new(), Vec::new(), second.to_vec());
    for like in group_by_settings(first) {
        let (with, without) =
            rest.into_iter().partition::<Vec<_>, _>(|line| setting_difference(like[0], line).is_none());
        rest = without;
        match with.as_slice() {
            [] => alone.push(like),
            with => rows.push(row_of(&like, with)),
        }
    }
    if rows.is_empty()
        && let ([one, ..], [other, ..]) = (alone.as_slice(), rest.as_slice())
        && let Some(reason) = setting_difference(one[0], other)
    {
        return vec![comparison(key, &records(first), &records(second), Verdict::NotCompared { reason })];
    }
    rows.extend(alone.iter().map(|first| row_of(first, &[])));
    rows.extend(group_by_settings(&rest).iter().map(|second| row_of(&[], second)));
    rows
}

fn records<'a>(lines: &[&'a ResultLine]) -> Vec<&'a Record> {
    lines.iter().map(|line| &line.record).collect()
}

/// Groups lines by data and settings. No group is empty.
fn group_by_settings<'a>(lines: &[&'a ResultLine]) -> Vec<Vec<&'a ResultLine>> {
    let mut groups: Vec<Vec<&ResultLine>> = Vec::new();
    for line in lines {
        match groups.iter_mut().find(|group| setting_difference(group[0], line).is_none()) {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    groups
}

/// Describes the difference in data or settings of two lines; `None` if there is none.
fn setting_difference(first: &ResultLine, second: &ResultLine) -> Option<String> {
    let (a, b) = (&first.data_sha256, &second.data_sha256);
    if a != b {
        return Some(format!(
            "other data: data_sha256 is `{a}` in the first file (line {}), `{b}` in the second (line {})",
            first.line, second.line
        ));
    }
    let differing =
        first.compared_settings().into_iter().zip(second.compared_settings()).find_map(|((name, a), (_, b))| {
            match (a, b) {
                // A setting that a file of an older version lacks is not a difference.
                (Some(a), Some(b)) if a.compared != b.compared => Some((name, a.shown, b.shown)),
                _ => None,
            }
        });
    let (name, a, b) = differing?;
    Some(format!("other settings: {name} is {a} in the first, {b} in the second"))
}

/// Table for display. The first row is the header.
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

/// Key of a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ComparisonKey<'a> {
    benchmark: &'a str,
    split: &'a str,
    protocol: &'a str,
    metric: &'a str,
}

impl<'a> ComparisonKey<'a> {
    fn of(record: &'a Record) -> Self {
        let Record { benchmark, split, protocol, metric, .. } = record;
        Self { benchmark, split, protocol, metric }
    }
}

fn not_compared(reason: &str) -> Verdict {
    Verdict::NotCompared { reason: reason.into() }
}

fn paired(first: &Record, second: &Record, seed: u64) -> Verdict {
    let (Some(a), Some(b)) = (&first.outcomes, &second.outcomes) else {
        return not_compared("no per-query outcomes");
    };
    if !a.pairs_with(b) || first.clusters != second.clusters {
        return not_compared("different queries");
    }
    let units = a.units(first.clusters.as_deref());
    if units.len() < 2 {
        return not_compared("fewer than two queries");
    }
    let most = if matches!(a, Outcomes::Spearman { .. }) { MAX_RANKED_RESAMPLES } else { MAX_RESAMPLES };
    let resamples = (TOTAL_DRAWS / a.len()).clamp(MIN_RESAMPLES, most);
    let mut differences = resampled(a, b, &units, resamples, seed);
    // NaN counts in both tails, because it is not evidence of a difference.
    let side = |wrong: fn(f64) -> bool| 1 + differences.iter().filter(|&&d| !wrong(d)).count();
    let tail = side(|d| d > 0.0).min(side(|d| d < 0.0));
    let least = (1.0 - units.len() as f64).exp2();
    let p = (2.0 * tail as f64 / (resamples + 1) as f64).max(least).min(1.0);
    differences.retain(|it| !it.is_nan());
    differences.sort_by(f64::total_cmp);
    let at = |q: f64| differences.get((differences.len().saturating_sub(1) as f64 * q).round() as usize).copied();
    let (Some(low), Some(high)) = (at(0.025), at(0.975)) else {
        return not_compared("no resample has a number");
    };
    Verdict::Paired { difference: b.value() - a.value(), interval: [low, high], p, resamples }
}

/// Second minus first on the same resampled queries. Each resample has a separate random stream, so the result does not
/// depend on the number of threads.
fn resampled(a: &Outcomes, b: &Outcomes, units: &BootstrapUnits, resamples: usize, seed: u64) -> Vec<f64> {
    let (a, b) = (a.draws(), b.draws());
    (0..resamples)
        .into_par_iter()
        .map_init(Vec::new, |rows, resample| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(resample as u64);
            units.draw(&mut rng, rows);
            b(rows) - a(rows)
        })
        .collect()
}

#[cfg(test)]
mod tests;
