use serde::Deserialize;
use serde_json::Value;

use crate::suite::TaskSettings;
use crate::{Error, Outcomes, Record, Result};

/// A line of a result file written by `conifer eval run --out`.
#[derive(Clone, Debug)]
pub struct ResultLine {
    /// Number of the line in the file, from 1.
    pub line: usize,
    /// The measured number.
    pub record: Record,
    /// Settings of the task, if a suite measured the number.
    pub task: Option<TaskSettings>,
    /// Provenance: model, data, settings and version of conifer.
    pub produced_by: Value,
    /// SHA-256 of the data set, copied from `produced_by`.
    pub data_sha256: String,
}

/// A setting of a line, for comparison with another line.
pub(crate) struct ComparedSetting {
    /// Value that has to be equal in two lines for them to be compared.
    pub(crate) compared: Value,
    /// Value for display.
    pub(crate) shown: String,
}

impl ComparedSetting {
    fn of(value: &Value) -> Self {
        let shown = match value {
            Value::Null => "not set".into(),
            Value::String(text) => format!("`{text}`"),
            other => other.to_string(),
        };
        Self { compared: value.clone(), shown }
    }

    /// A setting that is a file or a set of prompts. Its hash is compared; its name is only displayed.
    fn hashed(value: &Value, name: &str) -> Self {
        match (value["sha256"].as_str(), value[name].as_str()) {
            (Some(hash), Some(name)) => {
                let short = hash.get(..12).unwrap_or(hash);
                Self { compared: hash.into(), shown: format!("`{name}` (sha256 {short})") }
            }
            _ => Self::of(value),
        }
    }
}

impl ResultLine {
    /// Identifies the run within a suite by task, data set, score, gate and steps. [`ResultLine::compared_settings`]
    /// does not contain these. Empty outside a suite.
    pub(crate) fn run(&self) -> String {
        self.task
            .as_ref()
            .map_or_else(String::new, |it| format!("{} {} {:?} {} {:?}", it.task, it.data, it.score, it.gate, it.steps))
    }

    /// Settings that must be equal for two numbers to be compared. The names and their order are fixed. The value is
    /// `None` if the line lacks the setting.
    pub(crate) fn compared_settings(&self) -> [(&'static str, Option<ComparedSetting>); 4] {
        let by = &self.produced_by;
        let setting = |name: &str| by["settings"].get(name);
        let of_task = |value: Option<Value>| value.as_ref().map(ComparedSetting::of);
        let crop = self.task.as_ref().and_then(|it| serde_json::to_value(it.crop).ok());
        [
            ("crop", setting("crop").map(ComparedSetting::of).or_else(|| of_task(crop))),
            ("prompts", setting("prompts").map(|it| ComparedSetting::hashed(it, "name"))),
            ("root_text", setting("root_text").or_else(|| by.get("root_text")).map(ComparedSetting::of)),
            ("tree", setting("tree").map(|it| ComparedSetting::hashed(it, "path"))),
        ]
    }
}

/// Exclusive upper bound on group indices. A larger index would allocate too much memory and indicates a damaged file.
const MAX_GROUPS: u32 = 10_000_000;

/// Maximum number of faults in a message. A file of another format has a fault in every line.
const MAX_FAULTS: usize = 5;
/// Number of characters of an invalid line that are shown.
const SHOWN_CHARS: usize = 40;

/// Reads a result file with one JSON object per line. Messages call it `file`. Blank lines are skipped.
///
/// # Errors
/// There are no lines; or a line is not a record, lacks the hash of its data, or has a value that does not match its
/// outcomes. The message lists the first five faults with their line numbers, and the number of further faults.
pub fn read_results(file: &str, text: &str) -> Result<Vec<ResultLine>> {
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        match line(at + 1, text) {
            Ok(line) => lines.push(line),
            Err(fault) => faults.push(format!("line {}: {fault}", at + 1)),
        }
    }
    match faults.is_empty() {
        true if lines.is_empty() => {
            Err(Error::Results { file: file.into(), faults: "no lines; expected one JSON record per line".into() })
        }
        true => Ok(lines),
        false => {
            let more = faults.len().saturating_sub(MAX_FAULTS);
            faults.truncate(MAX_FAULTS);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            Err(Error::Results { file: file.into(), faults: faults.join("; ") + &more })
        }
    }
}

fn line(number: usize, text: &str) -> std::result::Result<ResultLine, String> {
    #[derive(Deserialize)]
    struct LineEnvelope {
        task: Option<TaskSettings>,
        produced_by: Option<Value>,
    }
    if !text.trim_start().starts_with('{') {
        return Err(format!("`{}`; expected a JSON object", text.trim().chars().take(SHOWN_CHARS).collect::<String>()));
    }
    let record: Record = serde_json::from_str(text).map_err(|error| in_line(&error))?;
    let envelope: LineEnvelope = serde_json::from_str(text).map_err(|error| in_line(&error))?;
    let produced_by =
        envelope.produced_by.ok_or("no `produced_by`; expected a file written by `conifer eval run --out`")?;
    let data_sha256 =
        produced_by["data_sha256"].as_str().ok_or("no `produced_by.data_sha256`; expected a string")?.into();
    if let Some(outcomes) = &record.outcomes {
        check(&record, outcomes)?;
    }
    Ok(ResultLine { line: number, record, task: envelope.task, produced_by, data_sha256 })
}

/// Removes the line number from an error of the JSON parser, because it is always 1: each line is parsed separately.
fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

/// Checks that the outcomes are complete and yield the value of the record.
fn check(record: &Record, outcomes: &Outcomes) -> std::result::Result<(), String> {
    let (first, second) = match outcomes {
        Outcomes::Mean { values } => (values.len(), values.len()),
        Outcomes::MeanOfGroups { values, groups } => (values.len(), groups.len()),
        Outcomes::HarmonicMean { first, second } => (first.len(), second.len()),
        Outcomes::Spearman { found, truth } => (found.len(), truth.len()),
        Outcomes::AveragePrecision { scores, positive } | Outcomes::RocAuc { scores, positive } => {
            (scores.len(), positive.len())
        }
    };
    if first != second || first != record.n {
        return Err(format!("n is {}, but there are {first} and {second} outcomes; expected one per query", record.n));
    }
    if let Outcomes::MeanOfGroups { groups, .. } = outcomes
        && let Some(group) = groups.iter().find(|&&group| group >= MAX_GROUPS)
    {
        return Err(format!("a query has group number {group}; expected less than {MAX_GROUPS}"));
    }
    let value = outcomes.value();
    // Tolerate differences in the last digits, because the order of summation may differ.
    if (value - record.value).abs() > 1e-6 * record.value.abs().max(1.0) {
        return Err(format!("the value is {}, but its outcomes give {value}", record.value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(value: f64, outcomes: &str, by: &str) -> String {
        format!(
            r#"{{"benchmark":"b","split":"all","protocol":"p","metric":"m","value":{value},"interval":null,"n":2,"baseline":null,"outcomes":{outcomes},"produced_by":{by}}}"#
        )
    }

    #[test]
    fn faults_are_reported_with_their_line() {
        let by = r#"{"data_sha256":"d"}"#;
        let good = text(0.5, r#"{"statistic":"mean","values":[0.0,1.0]}"#, by);
        let lines = read_results("a.jsonl", &format!("{good}\n\n{good}\n")).unwrap();
        assert_eq!(lines.iter().map(|it| it.line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((lines[0].data_sha256.as_str(), lines[0].record.value), ("d", 0.5));

        let torn = "{\"benchmark\":";
        let short = text(0.5, r#"{"statistic":"mean_of_groups","values":[0.0,1.0],"groups":[0]}"#, by);
        let wrong = text(0.9, r#"{"statistic":"mean","values":[0.0,1.0]}"#, by);
        let many = text(0.5, r#"{"statistic":"mean_of_groups","values":[0.0,1.0],"groups":[0,4000000000]}"#, by);
        let bare = text(0.5, "null", "{}");
        let all = [torn, &good, &short, &wrong, &many, &bare].join("\n");
        let message = read_results("a.jsonl", &all).unwrap_err().to_string();
        for words in [
            "a.jsonl: line 1: EOF",
            "line 3: n is 2, but there are 2 and 1 outcomes",
            "line 4: the value is 0.9, but its outcomes give 0.5",
            "line 5: a query has group number 4000000000",
            "line 6: no `produced_by.data_sha256`",
        ] {
            assert!(message.contains(words), "`{words}` is not in {message}");
        }
        assert!(!message.contains("line 2"), "{message}");
        let message = read_results("a.md", &"# Table 1\n".repeat(8)).unwrap_err().to_string();
        assert!(message.starts_with("a.md: line 1: `# Table 1`; expected a JSON object; line 2"), "{message}");
        assert!(message.ends_with("; and 3 more") && !message.contains("line 6"), "{message}");
        assert!(read_results("a.jsonl", "\n").unwrap_err().to_string().contains("no line"));
    }
}
