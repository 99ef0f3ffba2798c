//! The file of a slow stage while it runs, from which an interrupted run continues.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pipeline::work_folder::read_rows;
use crate::{Error, Result};

/// Finished rows of an unfinished stage. The first line is the key of the stage.
pub(super) struct PartialFile<T> {
    path: PathBuf,
    file: File,
    /// Number of finished rows.
    pub(super) rows: usize,
    kind: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> PartialFile<T> {
    /// Opens the file if it was begun with this key, or begins a new file. The rows of a group that a killed run left
    /// incomplete are dropped: the last bits of a similarity depend on its batch.
    pub(super) fn open(path: &Path, key: &str, group: usize) -> Result<Self> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').map(|at| at + 1).collect();
        let head = format!("{{\"key\":\"{key}\"}}\n");
        let io = |action| Error::io(action, path);
        if !text.starts_with(head.as_bytes()) {
            let mut file = File::create(path).map_err(io("create"))?;
            file.write_all(head.as_bytes()).map_err(io("write"))?;
            return Ok(Self { path: path.to_owned(), file, rows: 0, kind: PhantomData });
        }
        let file = OpenOptions::new().append(true).open(path).map_err(io("open"))?;
        let rows = (ends.len() - 1) / group * group;
        file.set_len(ends[rows] as u64).map_err(io("write"))?;
        Ok(Self { path: path.to_owned(), file, rows, kind: PhantomData })
    }

    pub(super) fn write(&mut self, rows: &[T]) -> Result<()> {
        let mut bytes = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut bytes, row).map_err(|error| {
                Error::invalid(format!("`{}`", self.path.display()), error.to_string(), "paths in UTF-8")
            })?;
            bytes.push(b'\n');
        }
        self.file.write_all(&bytes).map_err(Error::io("write", &self.path))
    }

    pub(super) fn rows(&self) -> Result<impl Iterator<Item = Result<T>> + use<T>> {
        let file = File::open(&self.path).map_err(Error::io("read", &self.path))?;
        let mut reader = BufReader::new(file);
        let mut head = String::new();
        reader.read_line(&mut head).map_err(Error::io("read", &self.path))?;
        Ok(read_rows(reader, self.path.clone()))
    }

    pub(super) fn remove(self) -> Result<()> {
        drop(self.file);
        std::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grounding::{PhotoBoxes, PhotoPhrases, PhraseKind, PhraseSpans, ScoredPhoto};

    type ScoredRows = PartialFile<ScoredPhoto>;

    fn row(id: &str) -> ScoredPhoto {
        let spans = vec![[0, 0, 5]];
        let phrases = vec![PhraseSpans { text: "a dog".to_owned(), kind: PhraseKind::Chunk, chunk: None, spans }];
        let photo = PhotoPhrases {
            id: id.to_owned(),
            photo: PathBuf::from("1.jpg"),
            split: None,
            captions: vec!["a dog".to_owned()],
            phrases,
        };
        let photo = PhotoBoxes { photo, width: 10, height: 10, boxes: vec![[0.0, 0.0, 1.0, 1.0]] };
        ScoredPhoto { photo, similarities: vec![vec![0.5]], foreign: Vec::new(), fault: None }
    }

    #[test]
    fn a_killed_run_keeps_its_complete_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part.jsonl");
        let mut file = ScoredRows::open(&path, "k", 1).unwrap();
        assert_eq!(file.rows, 0);
        file.write(&[row("1"), row("2")]).unwrap();
        drop(file);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut file = ScoredRows::open(&path, "k", 1).unwrap();
        assert_eq!(file.rows, 1);
        file.write(&[row("2")]).unwrap();
        let rows: Vec<_> = file.rows().unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(rows, [row("1"), row("2")]);
        // An incomplete group is dropped, and another key starts again.
        assert_eq!(ScoredRows::open(&path, "k", 3).unwrap().rows, 0);
        assert_eq!(ScoredRows::open(&path, "other", 1).unwrap().rows, 0);
    }
}
