//! Finds the noun chunks and referring expressions of captions, by rules or in a file of another program.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::chunks::noun_chunks;
use crate::clause::is_partitive;
use crate::expressions::expression_end;
use crate::pipeline::work_folder::hash;
use crate::tagger::{Tagger, Token};
use crate::{Error, Result};

/// Finds the noun chunks and referring expressions of a caption.
pub enum Chunker {
    /// The tagger of this crate.
    Rules(Arc<Tagger>),
    /// Chunks that another program found: [`ChunkTable`].
    Table(ChunkTable),
}

/// Noun chunks of another program, by caption.
pub struct ChunkTable {
    name: String,
    chunks: HashMap<String, Vec<CaptionChunk>>,
}

/// A noun chunk of a caption. Ranges are characters (Unicode scalar values), end excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptionChunk {
    /// The noun chunk: "a dog".
    pub range: Range<usize>,
    /// The chunk with what describes its noun: "a dog with a red collar". `None` if this is the chunk itself.
    pub expression: Option<Range<usize>>,
}

/// A line of a file of chunks.
#[derive(Deserialize)]
struct ChunkLine {
    caption: String,
    /// Characters (Unicode scalar values), end excluded.
    chunks: Vec<[usize; 2]>,
    /// One for each chunk, or none at all.
    #[serde(default)]
    expressions: Vec<Option<[usize; 2]>>,
}

impl ChunkLine {
    /// `Err` describes a chunk or an expression outside its caption, or expressions that do not fit the chunks.
    fn read(self) -> std::result::Result<(String, Vec<CaptionChunk>), String> {
        let length = self.caption.chars().count();
        if let Some(chunk) = self.chunks.iter().find(|[start, end]| start >= end || *end > length) {
            return Err(format!("chunk {chunk:?} of a caption of {length} characters"));
        }
        if !self.expressions.is_empty() && self.expressions.len() != self.chunks.len() {
            return Err(format!("{} expressions for {} chunks", self.expressions.len(), self.chunks.len()));
        }
        let mut expressions = self.expressions.into_iter();
        let mut found = Vec::with_capacity(self.chunks.len());
        for [start, end] in self.chunks {
            let expression = expressions.next().flatten();
            if let Some([from, to]) = expression.filter(|&[from, to]| from > start || to < end || to > length) {
                return Err(format!(
                    "expression [{from}, {to}] of chunk [{start}, {end}] of a caption of {length} characters"
                ));
            }
            let expression = expression.map(|[from, to]| from..to).filter(|it| *it != (start..end));
            found.push(CaptionChunk { range: start..end, expression });
        }
        Ok((self.caption, found))
    }
}

impl ChunkTable {
    /// Reads a JSONL file with `{"caption": "A dog runs .", "chunks": [[0, 5]]}` in each line; chunks are characters
    /// (Unicode scalar values), end excluded. `"expressions": [[0, 10], null]` may add the referring expression of each
    /// chunk, which contains it. `bench/spacy_chunks.py` writes such a file.
    ///
    /// # Errors
    /// The file cannot be read, or a line has another form, or a chunk or expression outside its caption.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
        let mut chunks = HashMap::new();
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(Error::io("read", path))?;
            if line.trim().is_empty() {
                continue;
            }
            let expected = "{\"caption\": TEXT, \"chunks\": [[START, END], ...]} with characters of the caption, and \
                            perhaps \"expressions\" with null or a range around each chunk";
            let place = || format!("--chunks: line {} of `{}`", number + 1, path.display());
            let line: ChunkLine = serde_json::from_str(&line)
                .map_err(|error| Error::invalid(place(), conifer_data::error::in_one_line(&error), expected))?;
            let (caption, found) = line.read().map_err(|found| Error::invalid(place(), found, expected))?;
            chunks.insert(caption, found);
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

    /// The noun chunks of a caption, in order, with their expressions. `None` if the table does not have the caption.
    pub fn chunks(&self, caption: &str) -> Option<Vec<CaptionChunk>> {
        match self {
            Self::Rules(tagger) => Some(rule_chunks(tagger, caption)),
            Self::Table(table) => table.chunks.get(caption).cloned(),
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
fn rule_chunks(tagger: &Tagger, caption: &str) -> Vec<CaptionChunk> {
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
    let characters = |tokens: Range<usize>| places[tokens.start].start..places[tokens.end - 1].end;
    let with_expression = |chunk: Range<usize>| CaptionChunk {
        expression: expression_end(&tokens, &chunk).map(|end| characters(chunk.start..end)),
        range: characters(chunk),
    };
    found.into_iter().map(with_expression).collect()
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
        chunker.chunks(caption).unwrap().into_iter().map(|it| characters[it.range].iter().collect()).collect()
    }

    fn expressions(chunker: &Chunker, caption: &str) -> Vec<Option<String>> {
        let characters: Vec<char> = caption.chars().collect();
        let text = |range: Range<usize>| characters[range].iter().collect();
        chunker.chunks(caption).unwrap().into_iter().map(|it| it.expression.map(text)).collect()
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
    fn expressions_are_characters_of_the_caption() {
        let rules = Chunker::Rules(Arc::default());
        let some = |text: &str| Some(text.to_owned());
        for (caption, expected) in [
            ("A gr\u{fc}n dog  with a ball .", vec![some("A gr\u{fc}n dog  with a ball"), None]),
            ("A group of people in a boat are waving .", vec![some("A group of people in a boat"), None]),
            ("", vec![]),
        ] {
            assert_eq!(expressions(&rules, caption), expected, "{caption}");
        }
    }

    #[test]
    fn tables_of_chunks_are_checked() {
        let folder = FixtureFolder::new();
        let read = |text: &str| ChunkTable::read(&folder.write("chunks.jsonl", text));
        let table = Chunker::Table(read("{\"caption\": \"a d\u{f6}g runs\", \"chunks\": [[0, 5]]}\n\n").unwrap());
        assert_eq!(texts(&table, "a d\u{f6}g runs"), ["a d\u{f6}g"]);
        assert_eq!(table.chunks("another"), None);
        let line = r#"{"caption": "a dog in a park", "chunks": [[0, 5], [9, 15]], "expressions": [[0, 15], null]}"#;
        let table = Chunker::Table(read(line).unwrap());
        assert_eq!(expressions(&table, "a dog in a park"), [Some("a dog in a park".to_owned()), None]);
        for (text, said) in [
            ("{\"caption\": \"a dog\", \"chunks\": [[0, 6]]}", "chunk [0, 6] of a caption of 5 characters"),
            ("{\"caption\": \"a dog\", \"chunks\": [[2, 2]]}", "chunk [2, 2]"),
            ("\n{\"caption\": \"a dog\"}", "line 2 of "),
            (
                r#"{"caption": "a dog", "chunks": [[0, 5]], "expressions": [[0, 5], null]}"#,
                "2 expressions for 1 chunks",
            ),
            (
                r#"{"caption": "a dog in a park", "chunks": [[0, 5]], "expressions": [[0, 16]]}"#,
                "expression [0, 16] of chunk [0, 5] of a caption of 15 characters",
            ),
            (
                r#"{"caption": "a dog in a park", "chunks": [[0, 5]], "expressions": [[2, 15]]}"#,
                "expression [2, 15] of chunk [0, 5]",
            ),
        ] {
            let error = read(text).err().unwrap().to_string();
            assert!(error.contains(said) && error.contains("expected {\"caption\": TEXT"), "{error}");
        }
    }
}
