use serde::Deserialize;
use serde_json::Value;

use crate::suite::Setting;
use crate::{Error, Outcomes, Record, Result};

/// A line of a result file, as `conifer eval --out` writes them.
#[derive(Clone, Debug)]
pub struct ResultLine {
    /// Its number, from 1.
    pub line: usize,
    /// The number that was measured.
    pub record: Record,
    /// How its task was run, where a suite ran it.
    pub task: Option<Setting>,
    /// Model, data and version.
    pub produced_by: Value,
    /// Hash of the data set, from `produced_by`.
    pub data_sha256: String,
}

/// What a line says of a setting.
pub(crate) struct Told {
    /// What two lines have to share.
    pub(crate) is: Value,
    /// The same for people.
    pub(crate) shown: String,
}

impl Told {
    fn of(is: &Value) -> Self {
        let shown = match is {
            Value::Null => "not set".into(),
            Value::String(text) => format!("`{text}`"),
            other => other.to_string(),
        };
        Self { is: is.clone(), shown }
    }

    /// A file or a set of prompts: its hash counts, its name is shown beside.
    fn hashed(is: &Value, name: &str) -> Self {
        match (is["sha256"].as_str(), is[name].as_str()) {
            (Some(hash), Some(name)) => {
                let short = hash.get(..12).unwrap_or(hash);
                Self { is: hash.into(), shown: format!("`{name}` (sha256 {short})") }
            }
            _ => Self::of(is),
        }
    }
}

impl ResultLine {
    /// What tells the runs of a suite apart, besides the settings that are compared by name; empty outside of suites.
    pub(crate) fn run(&self) -> String {
        self.task
            .as_ref()
            .map_or_else(String::new, |it| format!("{} {} {:?} {} {:?}", it.task, it.data, it.score, it.gate, it.steps))
    }

    /// The settings that two numbers have to share to be compared, always the same names in the same order; `None` for what the
    /// line does not say.
    pub(crate) fn told(&self) -> [(&'static str, Option<Told>); 4] {
        let by = &self.produced_by;
        let setting = |name: &str| by["settings"].get(name);
        let of_task = |value: Option<Value>| value.as_ref().map(Told::of);
        let crop = self.task.as_ref().and_then(|it| serde_json::to_value(it.crop).ok());
        [
            ("crop", setting("crop").map(Told::of).or_else(|| of_task(crop))),
            ("prompts", setting("prompts").map(|it| Told::hashed(it, "name"))),
            ("root_text", setting("root_text").or_else(|| by.get("root_text")).map(Told::of)),
            ("tree", setting("tree").map(|it| Told::hashed(it, "path"))),
        ]
    }
}

/// Most groups of a statistic: a file that names more is damaged, and would only cost memory.
const MOST_GROUPS: u32 = 10_000_000;

/// Faults of a file that are told; a file of another kind has one in every line.
const MOST_FAULTS: usize = 5;
/// Characters of a line that are shown.
const SHOWN: usize = 40;

/// Reads a result file, one JSON object a line; `file` is named in messages. Blank lines are skipped.
///
/// # Errors
/// Lines that are no records, that do not say on which data they were measured, or whose number is not what their outcomes give;
/// the first five are told, each with its line, and how many more there are.
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
            Err(Error::Results { file: file.into(), faults: "no line; expected one record a line".into() })
        }
        true => Ok(lines),
        false => {
            let more = faults.len().saturating_sub(MOST_FAULTS);
            faults.truncate(MOST_FAULTS);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            Err(Error::Results { file: file.into(), faults: faults.join("; ") + &more })
        }
    }
}

fn line(number: usize, text: &str) -> std::result::Result<ResultLine, String> {
    #[derive(Deserialize)]
    struct Around {
        task: Option<Setting>,
        produced_by: Option<Value>,
    }
    if !text.trim_start().starts_with('{') {
        return Err(format!("`{}`; expected a JSON object", text.trim().chars().take(SHOWN).collect::<String>()));
    }
    let record: Record = serde_json::from_str(text).map_err(|error| in_line(&error))?;
    let around: Around = serde_json::from_str(text).map_err(|error| in_line(&error))?;
    let produced_by = around.produced_by.ok_or("no `produced_by`; expected what `conifer eval --out` writes")?;
    let data_sha256 =
        produced_by["data_sha256"].as_str().ok_or("no `produced_by.data_sha256`; expected a text")?.into();
    if let Some(outcomes) = &record.outcomes {
        check(&record, outcomes)?;
    }
    Ok(ResultLine { line: number, record, task: around.task, produced_by, data_sha256 })
}

/// Line numbers of the parser are always 1.
fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

/// That the outcomes are whole and give the number they stand beside.
fn check(record: &Record, outcomes: &Outcomes) -> std::result::Result<(), String> {
    let (first, second) = match outcomes {
        Outcomes::Mean { values } => (values.len(), values.len()),
        Outcomes::MeanOfGroups { values, groups } => (values.len(), groups.len()),
        Outcomes::HarmonicMean { first, second } => (first.len(), second.len()),
        Outcomes::Spearman { found, truth } => (found.len(), truth.len()),
    };
    if first != second || first != record.n {
        return Err(format!("n is {}, but there are {first} and {second} outcomes; expected one a query", record.n));
    }
    if let Outcomes::MeanOfGroups { groups, .. } = outcomes
        && let Some(group) = groups.iter().find(|&&group| group >= MOST_GROUPS)
    {
        return Err(format!("a query is of group {group}; expected less than {MOST_GROUPS}"));
    }
    let value = outcomes.value();
    // Sums of other orders differ in the last digits.
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
    fn lines_are_read_and_faults_are_told_with_their_line() {
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
            "line 5: a query is of group 4000000000",
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
