//! The seeds stage: a model makes hierarchies with three instructions, each checked against all tiers below it.

use std::path::Path;

use conifer_data::Tiers;
use serde::Deserialize;

use super::captions::is_standard;
use super::stage::StageReport;
use super::work_folder::WorkFolder;
use super::{CaptionRow, DropCause, Pipeline, Stage, TIERS};
use crate::llm::{LlmApi, SeedPrompt};
use crate::{Error, Result};

/// Reads seeds from grounded JSONL, as `build hierarchies` writes it.
///
/// # Errors
/// The file cannot be read, or a line does not have four positive tiers.
pub fn read_seeds(path: &Path) -> Result<Vec<[String; TIERS]>> {
    let expected = "{\"tiers\": {\"positive\": [four texts from general to specific]}}";
    let invalid = |number: usize, found: String| {
        Error::invalid(format!("--seeds: line {} of `{}`", number + 1, path.display()), found, expected)
    };
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let seeds = lines.map(|(number, line)| {
        let row: SeedLine =
            serde_json::from_str(line).map_err(|error| invalid(number, conifer_data::error::in_one_line(&error)))?;
        let count = row.tiers.positive.len();
        <[String; TIERS]>::try_from(row.tiers.positive).map_err(|_| invalid(number, format!("{count} positive tiers")))
    });
    seeds.collect()
}

#[derive(Deserialize)]
struct SeedLine {
    tiers: Tiers,
}

pub(super) fn run(pipeline: &Pipeline<'_>, work: &WorkFolder) -> Result<StageReport> {
    if let Some(seeds) = &pipeline.settings.seed_hierarchies {
        return given(seeds, work);
    }
    let captions = work.rows::<CaptionRow>(Stage::Captions)?.take(pipeline.settings.seed_captions);
    pipeline.for_items(captions, None, Stage::Seeds, work, |row| {
        let tiers = match tiers(pipeline, &row.caption)? {
            Ok(tiers) => tiers,
            Err(cause) => return Ok(Err((cause, row.caption))),
        };
        Ok(Ok(row.with_tiers(tiers, Stage::Seeds, pipeline.maker(), vec![0; 3])))
    })
}

fn given(seeds: &[[String; TIERS]], work: &WorkFolder) -> Result<StageReport> {
    let by = "--seeds";
    let mut report = StageReport::new(Stage::Seeds, by);
    let mut file = work.create(Stage::Seeds)?;
    for (number, tiers) in seeds.iter().enumerate() {
        report.entered += 1;
        if !tiers.iter().all(|tier| is_standard(tier)) {
            report.drop(DropCause::Characters, &tiers.join(" => "));
            continue;
        }
        report.left += 1;
        let (id, caption) = (format!("seed{number}"), tiers[TIERS - 1].clone());
        let row = CaptionRow { id, photo: None, split: None, caption, other_language: false };
        file.write(&row.with_tiers(tiers.clone(), Stage::Seeds, by.to_owned(), Vec::new()))?;
    }
    file.finish()?;
    Ok(report)
}

fn tiers(pipeline: &Pipeline<'_>, caption: &str) -> Result<std::result::Result<[String; TIERS], DropCause>> {
    let Some(llm) = &pipeline.models.llm else { return Ok(Err(DropCause::EndpointDown)) };
    let begun = llm.api() == LlmApi::Completions;
    let mut tiers: [String; TIERS] = Default::default();
    caption.clone_into(&mut tiers[TIERS - 1]);
    for (tier, prompt) in [(2, SeedPrompt::Shorten), (1, SeedPrompt::FillBlank), (0, SeedPrompt::GeneralConcept)] {
        let answer = match llm.answer(&prompt.prompt(&tiers[tier + 1]), 0)? {
            Ok(answer) => answer,
            Err(cause) => return Ok(Err(cause)),
        };
        let Some(text) = prompt.quoted(&answer, begun) else { return Ok(Err(DropCause::NoQuotes)) };
        if !is_standard(&text) {
            return Ok(Err(DropCause::Characters));
        }
        tiers[tier] = text;
        for below in tier + 1..TIERS {
            if !pipeline.judge().is_more_general(&tiers[tier], &tiers[below])? {
                return Ok(Err(DropCause::NotEntailed));
            }
        }
    }
    Ok(Ok(tiers))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::fixtures::FixtureFolder;

    use super::*;

    #[test]
    fn seeds_have_four_tiers() {
        let folder = FixtureFolder::new();
        let read = |text: &str| read_seeds(&folder.write("seeds.jsonl", text));
        let line = r#"{"id": "1", "tiers": {"positive": ["a", "b", "c", "d"]}}"#;
        assert_eq!(read(&format!("{line}\n\n")).unwrap(), [["a", "b", "c", "d"].map(str::to_owned)]);
        let error = read(&format!("{line}\n{}", line.replace(", \"d\"", ""))).unwrap_err().to_string();
        assert!(error.contains("line 2 of ") && error.contains("3 positive tiers; expected {\"tiers\""), "{error}");
        assert!(read("{}").is_err());
    }
}
