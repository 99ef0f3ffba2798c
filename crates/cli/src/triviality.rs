//! Warns about metrics that are no better than a trivial baseline.

use conifer_eval::Record;

use crate::output::note;

/// Maximum number of metrics that a warning lists.
const MAX_NAMED: usize = 3;

/// A warning that lists the records no better than their trivial baseline, if there are any. A record with an interval
/// is better if its whole interval is.
pub(crate) fn trivial_records(records: &[Record]) -> Option<String> {
    let compared: Vec<_> = records.iter().filter_map(|it| Some((it, it.baseline.as_ref()?))).collect();
    let trivial: Vec<_> = compared.iter().filter(|(record, baseline)| !is_better(record, baseline.value)).collect();
    if trivial.is_empty() {
        return None;
    }
    let named: Vec<String> = trivial
        .iter()
        .take(MAX_NAMED)
        .map(|(it, baseline)| {
            let Record { benchmark, split, metric, value, .. } = it;
            format!("{benchmark} {split} {metric} {value:.3} (trivial: {:.3}, {})", baseline.value, baseline.name)
        })
        .collect();
    let more = trivial.len() - named.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(format!(
        "{} of {} numbers are not clearly better than a trivial answer: {}{more}",
        trivial.len(),
        compared.len(),
        named.join("; ")
    ))
}

/// Prints the warning of [`trivial_records`] to stderr.
pub(crate) fn warn_if_trivial(records: &[Record]) {
    if let Some(sentence) = trivial_records(records) {
        note(&format!("note: {sentence}"));
    }
}

fn is_better(record: &Record, trivial: f64) -> bool {
    let [low, high] = record.interval.unwrap_or([record.value; 2]);
    if smaller_is_better(&record.metric) { high < trivial } else { low > trivial }
}

/// Returns true for metrics of which smaller values are better: tree errors (TIE, LCA) and OT distances.
fn smaller_is_better(metric: &str) -> bool {
    ["TIE", "LCA", "OT "].iter().any(|it| metric.starts_with(it))
}

#[cfg(test)]
mod tests {
    use conifer_eval::Baseline;

    use super::*;

    #[test]
    fn metrics_no_better_than_trivial_are_listed() {
        let record = |metric: &str, value: f64, interval: Option<[f64; 2]>, trivial: f64| Record {
            benchmark: "b".into(),
            split: "all".into(),
            protocol: String::new(),
            metric: metric.into(),
            value,
            interval,
            n: 10,
            baseline: Baseline::chance(trivial),
            outcomes: None,
            clusters: None,
        };
        let good = [
            record("recall@10", 0.8, Some([0.7, 0.9]), 0.05),
            record("TIE", 1.0, Some([0.9, 1.1]), 4.0),
            Record { baseline: None, ..record("mean depth", 0.0, None, 0.0) },
        ];
        assert_eq!(trivial_records(&good), None);
        let bad = [record("recall@10", 0.06, Some([0.04, 0.08]), 0.05), record("TIE", 4.1, None, 4.0)];
        let warning = trivial_records(&[&good[..], &bad[..]].concat()).unwrap_or_default();
        assert!(
            warning.starts_with("2 of 4 numbers") && warning.contains("recall@10 0.060") && warning.contains("TIE"),
            "{warning}"
        );
        let many = trivial_records(&vec![bad[0].clone(); 5]).unwrap_or_default();
        assert!(many.ends_with("; and 2 more"), "{many}");
    }
}
