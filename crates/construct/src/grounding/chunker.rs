//! Finds the noun chunks of captions, by rules or in a file of another program.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::chunks::noun_chunks;
use crate::clause::is_partitive;
use crate::pipeline::work_folder::hash;
use crate::tagger::{Tagger, Token};
use crate::{Error, Result};

/// Finds the noun chunks of a caption.
pub enum Chunker {
    /// The tagger of this crate.
    Rules(Arc<Tagger>),
    /// Chunks that another program found: [`ChunkTable`].
    Table(ChunkTable),
}

/// Noun chunks of another program, by caption.
pub struct ChunkTable {
    name: String,
    chunks: HashMap<String, Vec<[usize; 2]>>,
}

/// A line of a file of chunks.
#[derive(Deserialize)]
struct ChunkLine {
    caption: String,
    /// Characters (Unicode scalar values), end excluded.
    chunks: Vec<[usize; 2]>,
}

impl ChunkTable {
    /// Reads a JSONL file with `{"caption": "A dog runs .", "chunks": [[0, 5]]}` in each line; chunks are characters
    /// (Unicode scalar values), end excluded. `bench/spacy_chunks.py` writes such a file.
    ///
    /// # Errors
    /// The file cannot be read, or a line has another form or a chunk outside its caption.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
        let mut chunks = HashMap::new();
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(Error::io("read", path))?;
            if line.trim().is_empty() {
                continue;
            }
            let expected = "{\"caption\": TEXT, \"chunks\": [[START, END], ...]} with characters of the caption";
            let place = || format!("--chunks: line {} of `{}`", number + 1, path.display());
            let line: ChunkLine = serde_json::from_str(&line)
                .map_err(|error| Error::invalid(place(), conifer_data::error::in_one_line(&error), expected))?;
            let length = line.caption.chars().count();
            if let Some(chunk) = line.chunks.iter().find(|[start, end]| start >= end || *end > length) {
                let found = format!("chunk {chunk:?} of a caption of {length} characters");
                return Err(Error::invalid(place(), found, expected));
            }
            chunks.insert(line.caption, line.chunks);
        }
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { name, chunks })
    }
}

impl Chunker {
    /// Name in reports.
    pub fn name(&self) -> String {
        match self {
            Self::Rules(_) => "rules".to_owned(),
            Self::Table(table) => table.name.clone(),
        }
    }

    /// The noun chunks of a caption, in order: characters (Unicode scalar values), end excluded. `None` if the table
    /// does not have the caption.
    pub fn chunks(&self, caption: &str) -> Option<Vec<Range<usize>>> {
        match self {
            Self::Rules(tagger) => Some(rule_chunks(tagger, caption)),
            Self::Table(table) => {
                let chunks = table.chunks.get(caption)?;
                Some(chunks.iter().map(|[start, end]| *start..*end).collect())
            }
        }
    }

    /// `rules`, or the SHA-256 of the table. The phrases stage is repeated if it changes.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Rules(_) => "rules".to_owned(),
            Self::Table(table) => {
                let mut lines: Vec<_> =
                    table.chunks.iter().map(|(caption, chunks)| format!("{caption} {chunks:?}")).collect();
                lines.sort_unstable();
                hash(&lines)
            }
        }
    }
}

/// Finds noun chunks with the tagger. A measure word forms one chunk with its object: "a group of people".
fn rule_chunks(tagger: &Tagger, caption: &str) -> Vec<Range<usize>> {
    let tokens = tagger.tag(caption);
    let places = token_places(caption, &tokens);
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for chunk in noun_chunks(&tokens) {
        let follows = |end: usize| chunk.tokens.start == end + 1 && tokens[end].lower == "of";
        match found.last_mut().filter(|before| open && follows(before.end)) {
            Some(before) => before.end = chunk.tokens.end,
            None => found.push(chunk.tokens.clone()),
        }
        open = is_partitive(&tokens[chunk.head()]);
    }
    found.into_iter().map(|tokens| places[tokens.start].start..places[tokens.end - 1].end).collect()
}

/// The characters of each token in the text that was tagged.
fn token_places(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let (mut byte, mut character) = (0, 0);
    tokens
        .iter()
        .map(|token| {
            let gap = text[byte..].find(&token.text).unwrap_or(0);
            character += text[byte..byte + gap].chars().count();
            let start = character;
            character += token.text.chars().count();
            byte += gap + token.text.len();
            start..character
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::fixtures::FixtureFolder;

    use super::*;

    fn texts(chunker: &Chunker, caption: &str) -> Vec<String> {
        let characters: Vec<char> = caption.chars().collect();
        chunker.chunks(caption).unwrap().into_iter().map(|it| characters[it].iter().collect()).collect()
    }

    #[test]
    fn chunks_are_characters_of_the_caption() {
        let rules = Chunker::Rules(Arc::default());
        for (caption, expected) in [
            ("A gr\u{fc}n child's toy,  on the table .", vec!["A gr\u{fc}n child's toy", "the table"]),
            // One phrase each, as in Flickr30k Entities.
            (
                "A group of young people walk on the side of a road .",
                vec!["A group of young people", "the side of a road"],
            ),
            ("Two slices of pizza and a cup", vec!["Two slices of pizza", "a cup"]),
            ("", vec![]),
        ] {
            assert_eq!(texts(&rules, caption), expected, "{caption}");
        }
    }

    #[test]
    fn tables_of_chunks_are_checked() {
        let folder = FixtureFolder::new();
        let read = |text: &str| ChunkTable::read(&folder.write("chunks.jsonl", text));
        let table = Chunker::Table(read("{\"caption\": \"a d\u{f6}g runs\", \"chunks\": [[0, 5]]}\n\n").unwrap());
        assert_eq!(texts(&table, "a d\u{f6}g runs"), ["a d\u{f6}g"]);
        assert_eq!(table.chunks("another"), None);
        for (text, said) in [
            ("{\"caption\": \"a dog\", \"chunks\": [[0, 6]]}", "chunk [0, 6] of a caption of 5 characters"),
            ("{\"caption\": \"a dog\", \"chunks\": [[2, 2]]}", "chunk [2, 2]"),
            ("\n{\"caption\": \"a dog\"}", "line 2 of "),
        ] {
            let error = read(text).err().unwrap().to_string();
            assert!(error.contains(said) && error.contains("expected {\"caption\": TEXT"), "{error}");
        }
    }
}
