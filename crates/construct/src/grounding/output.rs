//! Writes the result as grounded JSONL.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use conifer_data::grounded::PhraseRecord;
use conifer_files::NewFile;
use serde::Serialize;

use super::{GroundedPhoto, GroundingStage, PhraseKind};
use crate::pipeline::output::{absolute, relative};
use crate::pipeline::{StageReport, WorkFolder};
use crate::{Error, Result};

/// A line of grounded JSONL (`conifer_data::grounded`); boxes are fractions of the photo.
#[derive(Serialize)]
struct GroundedLine<'a> {
    id: &'a str,
    image: PathBuf,
    captions: &'a [String],
    phrases: Vec<PhraseRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    meta: GroundingMeta<'a>,
}

#[derive(Serialize)]
struct GroundingMeta<'a> {
    /// The rules, file or model that made the rows of each stage.
    provenance: &'a [StageMaker],
    /// How each phrase was found.
    kinds: Vec<PhraseKind>,
    /// Similarity of each phrase and its box.
    similarities: Vec<f32>,
}

#[derive(Serialize)]
struct StageMaker {
    stage: GroundingStage,
    by: String,
}

/// Writes the phrases of the keep stage. Returns the numbers of photos and phrases.
///
/// # Errors
/// The stage has not run, its file cannot be read, the path of a photo is not UTF-8, or the output cannot be written.
pub fn write_grounded(
    work: &WorkFolder<GroundingStage>,
    reports: &[StageReport<GroundingStage>],
    out: &Path,
) -> Result<(u64, u64)> {
    let provenance: Vec<StageMaker> =
        reports.iter().map(|it| StageMaker { stage: it.stage, by: it.by.clone() }).collect();
    let mut file = NewFile::create(out)?;
    let folder = absolute(out.parent().unwrap_or(Path::new("")));
    let (mut photos, mut phrases) = (0, 0);
    for row in work.rows::<GroundedPhoto>(GroundingStage::Keep)? {
        let row = row?;
        let line = GroundedLine {
            id: &row.id,
            image: relative(&folder, &absolute(&row.photo)),
            captions: &row.captions,
            phrases: row
                .phrases
                .iter()
                .map(|it| PhraseRecord {
                    text: it.text.clone(),
                    boxes: vec![it.bbox],
                    spans: it.spans.clone(),
                    part_of: None,
                    score: it.probability,
                    crop: None,
                    group_of: false,
                })
                .collect(),
            split: row.split.as_deref(),
            meta: GroundingMeta {
                provenance: &provenance,
                kinds: row.phrases.iter().map(|it| it.kind).collect(),
                similarities: row.phrases.iter().map(|it| it.similarity).collect(),
            },
        };
        let mut bytes = serde_json::to_vec(&line)
            .map_err(|error| Error::invalid(format!("photo of `{}`", row.id), error.to_string(), "a path in UTF-8"))?;
        bytes.push(b'\n');
        file.write_all(&bytes).map_err(Error::io("write", out))?;
        photos += 1;
        phrases += row.phrases.len() as u64;
    }
    file.finish()?;
    Ok((photos, phrases))
}
