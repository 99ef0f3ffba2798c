//! The folder of the files of the stages: `STAGE.jsonl`, and `stages.json` with the key and the report of each finished
//! stage.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use conifer_data::error::in_one_line;
use conifer_files::NewFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Stage, StageKind, StageReport};
use crate::{Error, Result};

/// A work folder.
pub struct WorkFolder<S = Stage> {
    path: PathBuf,
    stages: BTreeMap<S, FinishedStage<S>>,
}

/// A finished stage, as in `stages.json`.
#[derive(Clone, Serialize, Deserialize)]
struct FinishedStage<S> {
    /// Hash of all inputs and settings that determined the file of the stage.
    key: String,
    report: StageReport<S>,
}

impl<S: StageKind> WorkFolder<S> {
    /// Opens or creates the folder.
    ///
    /// # Errors
    /// The folder cannot be created, or its `stages.json` cannot be read or was not written by conifer.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(Error::io("create", path))?;
        let list = path.join("stages.json");
        let stages = match std::fs::read(&list) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let expected = "the list of stages that conifer wrote; delete the file to run all stages again";
                Error::invalid(format!("`{}`", list.display()), in_one_line(&error), expected)
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Error::io("read", &list)(error)),
        };
        Ok(Self { path: path.to_owned(), stages })
    }

    /// The file of a stage.
    pub fn file(&self, stage: S) -> PathBuf {
        self.path.join(format!("{}.jsonl", stage.name()))
    }

    /// A path in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The reports of the finished stages, in order.
    pub fn reports(&self) -> Vec<StageReport<S>> {
        self.stages.values().map(|it| it.report.clone()).collect()
    }

    /// The report of a stage that was made from the same inputs, if its file exists and no caption is without an
    /// answer.
    pub(crate) fn finished(&self, stage: S, key: &str) -> Option<StageReport<S>> {
        let finished = self.stages.get(&stage).filter(|it| it.key == key && self.file(stage).is_file())?;
        // A stage with captions that got no answer is repeated.
        (finished.report.without_answer() == 0).then(|| StageReport { reused: true, ..finished.report.clone() })
    }

    /// The key of a stage, for the stages that read its file. It includes the number of rows, because a repeated run
    /// may add some.
    pub(crate) fn key(&self, stage: S) -> Option<String> {
        let finished = self.stages.get(&stage).filter(|_| self.file(stage).is_file())?;
        Some(format!("{} {}", finished.key, finished.report.left))
    }

    pub(crate) fn finish(&mut self, stage: S, key: String, report: &StageReport<S>) -> Result<()> {
        self.stages.insert(stage, FinishedStage { key, report: report.clone() });
        let bytes = serde_json::to_vec_pretty(&self.stages).unwrap_or_default();
        Ok(conifer_files::write_whole(&self.path.join("stages.json"), &bytes)?)
    }

    /// The rows of a stage's file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn rows<T: DeserializeOwned>(&self, stage: S) -> Result<impl Iterator<Item = Result<T>> + use<S, T>> {
        let path = self.file(stage);
        let file = File::open(&path).map_err(Error::io("read", &path))?;
        Ok(read_rows(BufReader::new(file), path))
    }

    /// Starts the file of a stage.
    pub(crate) fn create(&self, stage: S) -> Result<RowFile> {
        let path = self.file(stage);
        Ok(RowFile { file: NewFile::create(&path)?, path })
    }
}

/// Reads one JSON object per line; `path` names the file in errors.
pub(crate) fn read_rows<T: DeserializeOwned>(reader: impl BufRead, path: PathBuf) -> impl Iterator<Item = Result<T>> {
    reader.lines().enumerate().filter_map(move |(number, line)| match line {
        Err(error) => Some(Err(Error::io("read", &path)(error))),
        Ok(line) if line.trim().is_empty() => None,
        Ok(line) => Some(serde_json::from_str(&line).map_err(|error| {
            let place = format!("line {} of `{}`", number + 1, path.display());
            Error::invalid(place, in_one_line(&error), "a row of this stage; delete the file to run the stage again")
        })),
    })
}

/// A stage's file under construction. It replaces the old one when it is complete.
pub(crate) struct RowFile {
    file: NewFile,
    path: PathBuf,
}

impl RowFile {
    pub(crate) fn write(&mut self, row: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(row).map_err(|error| {
            Error::invalid(format!("`{}`", self.path.display()), error.to_string(), "paths in UTF-8")
        })?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(Error::io("write", &self.path))
    }

    pub(crate) fn finish(self) -> Result<()> {
        Ok(self.file.finish()?)
    }
}

/// SHA-256 of texts, in hexadecimal.
pub(crate) fn hash(parts: &[String]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}
