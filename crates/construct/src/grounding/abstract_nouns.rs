use std::collections::HashSet;
use std::path::Path;

use crate::hypernyms::Hypernyms;
use crate::pipeline::work_folder::hash;
use crate::{Error, Result};

/// Head nouns of phrases that cannot be in a box.
pub struct AbstractNouns(HashSet<String>);

static BUILT_IN: &str = include_str!("../lexicon/abstract_nouns.txt");

impl Default for AbstractNouns {
    /// The built-in list.
    fn default() -> Self {
        Self::parse(BUILT_IN)
    }
}

impl AbstractNouns {
    /// Reads a file with one noun per line, singular; lines that start with `#` are comments.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string(path).map_err(Error::io("read", path))?))
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(str::to_lowercase).collect())
    }

    /// True if the last word of a phrase, or its singular, is in the list.
    pub fn contains(&self, phrase: &str, nouns: &Hypernyms) -> bool {
        let Some(head) = phrase.split_whitespace().next_back().map(str::to_lowercase) else { return false };
        let singular = nouns.singular(&head).map(|it| it.into_owned());
        let stem = head.strip_suffix('s').map(str::to_owned);
        [Some(head), singular, stem].into_iter().flatten().any(|word| self.0.contains(&word))
    }

    pub(super) fn identity(&self) -> String {
        let mut words: Vec<String> = self.0.iter().cloned().collect();
        words.sort_unstable();
        hash(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abstract_nouns_are_recognised_by_their_head() {
        let nouns = Hypernyms::default();
        let list = AbstractNouns::default();
        for (phrase, expected) in [
            ("the distance", true),
            ("deep thoughts", true),
            ("a time machine", false),
            ("two dogs", false),
            ("", false),
        ] {
            assert_eq!(list.contains(phrase, &nouns), expected, "{phrase}");
        }
        let own = AbstractNouns::parse("# comment\n\nDog\n");
        assert!(own.contains("two dogs", &nouns) && !own.contains("the distance", &nouns));
    }
}
