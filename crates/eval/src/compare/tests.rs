#![allow(clippy::unwrap_used)]
use super::*;
use crate::RecordKey;

fn record(metric: &str, outcomes: Outcomes) -> Record {
    Record::of(RecordKey { benchmark: "b", split: "all", protocol: "p", metric }, outcomes, None, 0)
}

/// Compares records as if they were the lines of two files without settings.
fn compare(a: &[Record], b: &[Record], seed: u64) -> Vec<Comparison> {
    let line = |(i, record): (usize, &Record)| ResultLine {
        line: i + 1,
        record: record.clone(),
        task: None,
        produced_by: serde_json::Value::Null,
        data_sha256: String::new(),
    };
    let lines = |records: &[Record]| records.iter().enumerate().map(line).collect::<Vec<_>>();
    compare_results(&lines(a), &lines(b), seed, &mut |_, _| {})
}

fn one(a: Outcomes, b: Outcomes) -> Comparison {
    compare(&[record("m", a)], &[record("m", b)], 0).remove(0)
}

fn number(it: &Comparison) -> (f64, [f64; 2], f64) {
    match it.verdict {
        Verdict::Paired { difference, interval, p, .. } => (difference, interval, p),
        Verdict::NotCompared { .. } => panic!("{it:?}"),
    }
}

fn reason(it: &Comparison) -> &str {
    match &it.verdict {
        Verdict::NotCompared { reason } => reason,
        Verdict::Paired { .. } => panic!("{it:?}"),
    }
}

#[test]
fn differences_worked_out_by_hand() {
    // The second model is better by 1 on every query and in every resample. p is the smallest value for three queries,
    // 2^-2.
    let it = one(vec![0.0, 0.0, 1.0].into(), vec![1.0, 1.0, 2.0].into());
    assert_eq!(number(&it), (1.0, [1.0, 1.0], 0.25));
    assert_eq!((it.first, it.second, it.n), (Some(1.0 / 3.0), Some(4.0 / 3.0), 3));
    // With enough queries, the number of resamples limits p.
    let it = one(vec![0.0; 20].into(), vec![1.0; 20].into());
    assert_eq!(number(&it).2, 2.0 / 10_001.0);
    assert_eq!(number(&one(vec![0.0; 2].into(), vec![1.0; 2].into())).2, 0.5);
    // Without any difference, all resamples count in both tails.
    assert_eq!(number(&one(vec![0.0, 1.0].into(), vec![0.0, 1.0].into())), (0.0, [0.0, 0.0], 1.0));

    // The differences are 1, 1 and -1. A resampled difference is at most 0 if the resample draws the last query two or
    // three times: 3 (1/3)^2 (2/3) + (1/3)^3 = 7/27. Otherwise it is positive. The two-sided p is 14/27 = 0.5185, with
    // a standard error of 0.009 for 10,000 draws.
    let (difference, interval, p) = number(&one(vec![0.0, 0.0, 1.0].into(), vec![1.0, 1.0, 0.0].into()));
    assert!((difference - 1.0 / 3.0).abs() < 1e-12 && interval == [-1.0, 1.0], "{interval:?}");
    assert!((p - 14.0 / 27.0).abs() < 0.03, "{p}");

    // Exchanging the models only changes the sign.
    let (back, _, q) = number(&one(vec![1.0, 1.0, 0.0].into(), vec![0.0, 0.0, 1.0].into()));
    assert_eq!((back, q), (-difference, p));
}

/// A small difference between two models on queries of very different difficulty can only be detected if the same
/// queries are drawn for both.
#[test]
fn the_same_queries_are_drawn_for_both() {
    let hard: Vec<f64> = (0..100).map(|i| f64::from(i % 10)).collect();
    let better: Vec<f64> = hard.iter().enumerate().map(|(i, v)| v + if i % 3 == 0 { 0.0 } else { 0.1 }).collect();
    let (difference, [low, high], p) = number(&one(hard.into(), better.into()));
    // 66 of 100 queries gain 0.1. The standard error is 0.1 sqrt(.66 .34 / 100) = 0.0047; the values themselves vary by
    // 2.9.
    assert!((difference - 0.066).abs() < 1e-12 && low > 0.05 && high < 0.08 && p < 0.001, "{low} {high} {p}");
}

#[test]
fn each_statistic_is_recomputed_per_resample() {
    let groups = vec![0, 0, 0, 1];
    let macros = |values: Vec<f64>| Outcomes::MeanOfGroups { values, groups: groups.clone() };
    let (difference, _, _) = number(&one(macros(vec![0.0; 4]), macros(vec![0.0, 0.0, 0.0, 1.0])));
    assert_eq!(difference, 0.5);
    let ranks = |found: Vec<f64>| Outcomes::Spearman { found, truth: vec![1.0, 2.0, 3.0, 4.0] };
    // In every resample with two distinct queries, the correlation is -1 for one model and 1 for the other. In 4
    // (1/4)^4 = 1 of 64 resamples all four draws are the same query. Such a resample has no correlation and counts in
    // both tails, so p would be 2/64 = 0.031, but the smallest p of four queries is 2^-3.
    let (difference, [low, high], p) = number(&one(ranks(vec![4.0, 3.0, 2.0, 1.0]), ranks(vec![1.0, 2.0, 3.0, 4.0])));
    let near_two = |it: f64| (it - 2.0).abs() < 1e-12;
    assert!(near_two(difference) && near_two(low) && near_two(high), "{difference} {low} {high}");
    assert_eq!(p, 0.125);
}

#[test]
fn unpaired_numbers_have_a_reason() {
    assert_eq!(reason(&one(vec![0.0, 1.0].into(), vec![0.0, 1.0, 1.0].into())), "different queries");
    let spearman = |truth: Vec<f64>| Outcomes::Spearman { found: vec![1.0, 2.0], truth };
    assert_eq!(reason(&one(spearman(vec![1.0, 2.0]), spearman(vec![2.0, 1.0]))), "different queries");
    assert_eq!(reason(&one(vec![0.0].into(), vec![1.0].into())), "fewer than two queries");
    let bare = Record { outcomes: None, ..record("m", vec![0.0, 1.0].into()) };
    assert_eq!(
        reason(&compare(std::slice::from_ref(&bare), std::slice::from_ref(&bare), 0)[0]),
        "no per-query outcomes"
    );
    let (x, y) = (record("x", vec![0.0, 1.0].into()), record("y", vec![0.0, 1.0].into()));
    let only = compare(&[x.clone(), y.clone()], std::slice::from_ref(&y), 0);
    assert_eq!(reason(&only[0]), "only the first model has this number");
    assert_eq!(number(&only[1]).2, 1.0);
    let other = record("y", vec![1.0, 1.0].into());
    assert_eq!(
        reason(&compare(&[y.clone(), other], std::slice::from_ref(&y), 0)[0]),
        "a model has several different numbers with this name"
    );
    // A number that occurs twice, with different baselines, is compared once.
    assert_eq!(compare(&[y.clone(), y.clone()], &[y], 0).len(), 1);
}

fn line(data: &str, values: Vec<f64>) -> ResultLine {
    ResultLine {
        line: 7,
        record: record("m", values.into()),
        task: None,
        produced_by: serde_json::json!({ "data_sha256": data }),
        data_sha256: data.into(),
    }
}

fn results(a: &[ResultLine], b: &[ResultLine]) -> Vec<Comparison> {
    compare_results(a, b, 0, &mut |_, _| {})
}

#[test]
fn numbers_of_other_data_are_not_compared() {
    let a = [line("cats", vec![0.0, 0.0])];
    let all = results(&a, &[line("dogs", vec![0.0, 1.0])]);
    let why = reason(&all[0]);
    assert!(why.contains("other data") && why.contains("`cats`") && why.contains("`dogs`") && why.contains("line 7"));
    assert_eq!((all.len(), all[0].first, all[0].second), (1, Some(0.0), Some(0.5)));
    // If one file has two data sets, the comparison uses the data set that both files share.
    let both = [line("dogs", vec![0.0, 1.0]), line("cats", vec![1.0, 1.0])];
    let all = results(&a, &both);
    assert_eq!(all.len(), 2);
    assert_eq!(number(&all[0]).0, 1.0);
    assert_eq!(reason(&all[1]), "only the second model has this number");
    assert_eq!(comparison_table(&all).len(), 3);
}

#[test]
fn numbers_of_other_settings_are_not_compared() {
    let with = |name: &str, value: serde_json::Value| {
        let mut line = line("cats", vec![0.0, 1.0]);
        line.produced_by["settings"] = serde_json::json!({
            "crop": "center", "prompts": { "name": "photo", "sha256": "aa" }, "tree": null, "root_text": null, "seed": 0
        });
        line.produced_by["settings"][name] = value;
        line
    };
    let plain = || with("seed", 1.into());
    for (name, value, words) in [
        ("crop", serde_json::json!("squeeze"), "crop is `center` in the first, `squeeze` in the second"),
        (
            "prompts",
            serde_json::json!({ "name": "mine.txt", "sha256": "bb" }),
            "`photo` (sha256 aa) in the first, `mine.txt`",
        ),
        ("root_text", serde_json::json!("Eukarya"), "root_text is not set in the first, `Eukarya` in the second"),
        (
            "tree",
            serde_json::json!({ "path": "t.txt", "sha256": "cc" }),
            "tree is not set in the first, `t.txt` (sha256 cc)",
        ),
    ] {
        let all = results(&[plain()], &[with(name, value.clone())]);
        assert!(all.len() == 1 && reason(&all[0]).contains(words), "{all:?}");
        // Another line in the same file, with the same settings, is compared.
        let all = results(&[plain()], &[with(name, value), plain()]);
        assert_eq!((all.len(), number(&all[0]).2), (2, 1.0));
    }
    // Seeds and names of prompts are not compared, and a setting that an older file lacks is not a difference.
    let renamed = with("prompts", serde_json::json!({ "name": "copy.txt", "sha256": "aa" }));
    for other in [with("seed", 2.into()), renamed, line("cats", vec![0.0, 1.0])] {
        assert_eq!(number(&results(&[plain()], &[other])[0]).2, 1.0);
    }
}
