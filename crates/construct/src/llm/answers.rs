//! Answers of a model on disk: a JSONL file that is only appended to.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Stored answers by key.
pub(super) struct AnswerStore {
    path: PathBuf,
    state: Mutex<AnswerState>,
}

struct AnswerState {
    answers: HashMap<String, StoredAnswer>,
    file: File,
}

/// An answer with its token counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredAnswer {
    pub(super) text: String,
    pub(super) prompt_tokens: u64,
    pub(super) answer_tokens: u64,
}

#[derive(Serialize, Deserialize)]
struct AnswerLine {
    key: String,
    #[serde(flatten)]
    answer: StoredAnswer,
}

impl AnswerStore {
    /// Opens or creates the file. A last line that a killed run left incomplete is dropped.
    pub(super) fn open(path: &Path) -> Result<Self> {
        conifer_files::create_parent(path)?;
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).open(path).map_err(Error::io("open", path))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(Error::io("read", path))?;
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if complete < text.len() {
            file.set_len(complete as u64).map_err(Error::io("write", path))?;
        }
        let mut answers = HashMap::new();
        for (number, line) in
            text[..complete].split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty())
        {
            let line: AnswerLine = serde_json::from_slice(line).map_err(|error| {
                let place = format!("line {} of `{}`", number + 1, path.display());
                Error::invalid(place, error.to_string(), "an answer that conifer stored; delete the line to ask again")
            })?;
            answers.insert(line.key, line.answer);
        }
        Ok(Self { path: path.to_owned(), state: Mutex::new(AnswerState { answers, file }) })
    }

    pub(super) fn get(&self, key: &str) -> Option<StoredAnswer> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).answers.get(key).cloned()
    }

    pub(super) fn put(&self, key: String, answer: StoredAnswer) -> Result<()> {
        let mut line = serde_json::to_vec(&AnswerLine { key: key.clone(), answer: answer.clone() }).unwrap_or_default();
        line.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per line: a killed run leaves at most one incomplete line.
        state.file.write_all(&line).map_err(Error::io("write", &self.path))?;
        state.answers.insert(key, answer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn incomplete_last_lines_are_dropped_and_other_faults_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("llm/answers.jsonl");
        let answer = |text: &str| StoredAnswer { text: text.to_owned(), prompt_tokens: 1, answer_tokens: 2 };
        let store = AnswerStore::open(&path).unwrap();
        store.put("a".to_owned(), answer("one\ntwo")).unwrap();
        store.put("b".to_owned(), answer("three")).unwrap();
        drop(store);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        let store = AnswerStore::open(&path).unwrap();
        assert_eq!((store.get("a"), store.get("b")), (Some(answer("one\ntwo")), None));
        store.put("b".to_owned(), answer("four")).unwrap();
        assert_eq!(AnswerStore::open(&path).unwrap().get("b"), Some(answer("four")));
        std::fs::write(&path, b"{}\n").unwrap();
        let text = AnswerStore::open(&path).err().unwrap().to_string();
        assert!(text.contains("line 1 of ") && text.contains("delete the line"), "{text}");
    }
}
