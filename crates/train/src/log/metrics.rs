//! Reads and writes `metrics.jsonl`: one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use conifer_files::write_whole;

use super::StepRecord;
use crate::error::{Error, Result};

/// Name of the metrics file in the run folder.
pub const METRICS_FILE: &str = "metrics.jsonl";

/// The open file. Each record is written without buffering, so a killed process loses none.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Opens `folder/metrics.jsonl` to append after `step`. Records of later steps and a torn last line are removed
    /// first. The file is replaced atomically, so a crash during the removal loses no record.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(folder: &Path, step: u64) -> Result<Self> {
        let path = folder.join(METRICS_FILE);
        if path.exists() {
            let mut lines = Vec::new();
            for record in read_metrics(&path)?.iter().filter(|record| record.step <= step) {
                write_line(&mut lines, record).map_err(Error::io(&path))?;
            }
            write_whole(&path, &lines)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io(&path))?;
        Ok(Self { path, file })
    }

    /// Appends one record as a line.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&mut self, record: &StepRecord) -> Result<()> {
        let mut line = Vec::new();
        write_line(&mut line, record).map_err(Error::io(&self.path))?;
        self.file.write_all(&line).map_err(Error::io(&self.path))
    }
}

/// The records of a metrics file. A last line without a line break (torn by a crash) is skipped.
///
/// # Errors
/// If the file cannot be read, or a complete line is not a record.
pub fn read_metrics(path: &Path) -> Result<Vec<StepRecord>> {
    let mut reader = BufReader::new(File::open(path).map_err(Error::io(path))?);
    let mut records = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(Error::io(path))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let record = serde_json::from_slice(&line)
            .map_err(|error| Error::format(path, format!("line {number} is not a metrics record: {error}")))?;
        records.push(record);
    }
    Ok(records)
}

fn write_line(out: &mut Vec<u8>, record: &StepRecord) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}
