//! Writes the hierarchies as grounded JSONL, or as a table in the layout of HierarCaps.

use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use conifer_data::Tiers;
use conifer_files::NewFile;
use serde::Serialize;

use super::{HierarchyRow, RowProvenance, WorkFolder};
use super::{Stage, review};
use crate::{Error, Result};

/// Number of rows of the review table.
const REVIEWED: usize = 100;

/// Format of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Grounded JSONL with tiers; the provenance is in `meta`.
    Jsonl,
    /// CSV with the columns positive, negative, image_url, and tiers joined by ` => `.
    Csv,
}

/// A line of grounded JSONL (`conifer_data::grounded`).
#[derive(Serialize)]
struct GroundedHierarchy<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<PathBuf>,
    captions: [&'a str; 1],
    tiers: Tiers,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    meta: HierarchyMeta<'a>,
}

#[derive(Serialize)]
struct HierarchyMeta<'a> {
    provenance: &'a [RowProvenance],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    other_language: bool,
}

/// Writes the hierarchies of the negatives stage, and a table for review beside the stages' files if there is none.
/// Returns the number of hierarchies.
///
/// # Errors
/// The stage has not run, its file cannot be read, the path of a photo is not UTF-8 (JSONL only), or a file cannot be
/// written.
pub fn write_output(work: &WorkFolder, out: &Path, format: OutputFormat, seed: u64) -> Result<u64> {
    let mut file = NewFile::create(out)?;
    let folder = absolute(out.parent().unwrap_or(Path::new("")));
    let mut count = 0;
    if format == OutputFormat::Csv {
        file.write_all(b"positive,negative,image_url\n").map_err(Error::io("write", out))?;
    }
    for row in work.rows::<HierarchyRow>(Stage::Negatives)? {
        let row = row?;
        let line = match format {
            OutputFormat::Jsonl => grounded(&row, &folder)?,
            OutputFormat::Csv => table_row(&row)?,
        };
        file.write_all(&line).map_err(Error::io("write", out))?;
        count += 1;
    }
    file.finish()?;
    let table = work.join("review.csv");
    // Never overwrite an existing review.csv: it may contain a reviewer's decisions.
    if !table.exists() {
        let rows = review::review_table(work.rows(Stage::Negatives)?, REVIEWED, seed)?;
        conifer_files::write_whole(&table, &rows)?;
    }
    Ok(count)
}

fn grounded(row: &HierarchyRow, folder: &Path) -> Result<Vec<u8>> {
    let record = GroundedHierarchy {
        id: &row.id,
        image: row.photo.as_deref().map(|photo| relative(folder, &absolute(photo))),
        captions: [&row.positive[row.positive.len() - 1]],
        tiers: Tiers { positive: row.positive.to_vec(), negative: row.negative.iter().flatten().cloned().collect() },
        split: row.split.as_deref(),
        meta: HierarchyMeta { provenance: &row.provenance, other_language: row.other_language },
    };
    let mut line = serde_json::to_vec(&record)
        .map_err(|error| Error::invalid(format!("photo of `{}`", row.id), error.to_string(), "a path in UTF-8"))?;
    line.push(b'\n');
    Ok(line)
}

fn table_row(row: &HierarchyRow) -> Result<Vec<u8>> {
    let photo = row.photo.as_deref().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let negative = row.negative.as_ref().map(|tiers| tiers.join(" => ")).unwrap_or_default();
    let fault = |error: String| Error::invalid(format!("row `{}`", row.id), error, "texts");
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record([row.positive.join(" => "), negative, photo]).map_err(|error| fault(error.to_string()))?;
    table.into_inner().map_err(|error| fault(error.to_string()))
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// The relative path from a folder to a file; both must be absolute.
pub(crate) fn relative(folder: &Path, file: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (folder.components().collect(), file.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}
