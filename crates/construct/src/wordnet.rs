//! The nouns of WordNet, with their senses, from a dictionary folder (`wndb(5WN)`).

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::{Error, Result};

/// Number of senses of a word that count; later ones are rare ("dog" also is a hot dog, and a chap).
const SENSES: usize = 2;

/// The nouns of WordNet.
pub struct WordNetNouns {
    synsets: Vec<Synset>,
    /// Synsets of a word, the most frequent sense first.
    senses: HashMap<String, Vec<u32>>,
    /// Singular of irregular plurals.
    irregular: HashMap<String, String>,
}

struct Synset {
    words: Vec<String>,
    hypernyms: Vec<u32>,
}

impl WordNetNouns {
    /// Reads `data.noun`, `index.noun` and, if it exists, `noun.exc` of a dictionary folder, such as
    /// `/usr/share/wordnet` of Debian's package `wordnet-base`.
    ///
    /// # Errors
    /// A file cannot be read, or a line has another format. The error names the line.
    pub fn read(folder: &Path) -> Result<Self> {
        let (data, index) = (folder.join("data.noun"), folder.join("index.noun"));
        let mut numbers = HashMap::new();
        let mut parsed = Vec::new();
        for_lines(&data, |line| {
            let (offset, words, hypernyms) = synset(line)?;
            numbers.insert(offset, u32::try_from(parsed.len()).ok()?);
            parsed.push((words, hypernyms));
            Some(())
        })?;
        let number = |offset: &String| numbers.get(offset).copied();
        let of = |(words, hypernyms): (Vec<String>, Vec<String>)| Synset {
            words,
            hypernyms: hypernyms.iter().filter_map(number).collect(),
        };
        let synsets = parsed.into_iter().map(of).collect();
        let mut senses = HashMap::new();
        for_lines(&index, |line| {
            let (word, offsets) = index_entry(line)?;
            senses.insert(word, offsets.iter().filter_map(number).collect());
            Some(())
        })?;
        let mut irregular = HashMap::new();
        let exceptions = folder.join("noun.exc");
        if exceptions.is_file() {
            for_lines(&exceptions, |line| {
                let (plural, singular) = line.split_once(' ')?;
                irregular.insert(plural.replace('_', " "), singular.split(' ').next()?.replace('_', " "));
                Some(())
            })?;
        }
        Ok(Self { synsets, senses, irregular })
    }

    /// True if the singular noun is in WordNet.
    pub fn contains(&self, noun: &str) -> bool {
        self.senses.contains_key(noun)
    }

    /// The singular of an irregular plural.
    pub fn irregular_singular(&self, plural: &str) -> Option<&str> {
        self.irregular.get(plural).map(String::as_str)
    }

    /// True if a frequent sense of `specific` is a frequent sense of `general` or below one.
    pub fn is_a(&self, specific: &str, general: &str) -> bool {
        let above: HashSet<u32> = self.frequent(general).iter().copied().collect();
        !above.is_empty() && self.ancestors(self.frequent(specific)).any(|(_, synset)| above.contains(&synset))
    }

    /// The words above the most frequent sense of a noun, nearest first, each with its number of steps.
    pub fn hypernyms<'a>(&'a self, noun: &str) -> impl Iterator<Item = (usize, &'a str)> {
        let first = self.frequent(noun).get(..1).unwrap_or_default();
        self.ancestors(first).filter_map(|(steps, synset)| {
            let word = self.synsets[synset as usize].words.first()?;
            (steps > 0).then_some((steps, word.as_str()))
        })
    }

    fn frequent(&self, noun: &str) -> &[u32] {
        let senses = self.senses.get(noun).map_or(&[][..], Vec::as_slice);
        &senses[..senses.len().min(SENSES)]
    }

    /// The synsets `from` and all their hypernyms, breadth first, each with its number of steps.
    fn ancestors(&self, from: &[u32]) -> impl Iterator<Item = (usize, u32)> {
        let mut seen: HashSet<u32> = from.iter().copied().collect();
        let mut queue: Vec<(usize, u32)> = from.iter().map(|synset| (0, *synset)).collect();
        let mut next = 0;
        while next < queue.len() {
            let (steps, synset) = queue[next];
            next += 1;
            for above in &self.synsets[synset as usize].hypernyms {
                if seen.insert(*above) {
                    queue.push((steps + 1, *above));
                }
            }
        }
        queue.into_iter()
    }
}

/// Calls `read` for every line but those of the licence at the top of the file, which are indented.
fn for_lines(path: &Path, mut read: impl FnMut(&str) -> Option<()>) -> Result<()> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    // In some editions the glosses are not UTF-8. The fields that are read are ASCII.
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        if line.starts_with("  ") || line.trim().is_empty() {
            continue;
        }
        read(line).ok_or_else(|| {
            let head: String = line.chars().take(60).collect();
            let place = format!("--wordnet: line {} of `{}`", number + 1, path.display());
            Error::invalid(place, format!("{head:?}"), "the format of WordNet 3.0, wndb(5WN)")
        })?;
    }
    Ok(())
}

/// `offset lex_filenum n w_cnt (word lex_id)... p_cnt (symbol offset pos source/target)... | gloss`; `w_cnt` is
/// hexadecimal. Returns the offset, the words and the offsets of the hypernyms; `None` if the line is not a noun synset
/// of this form.
fn synset(line: &str) -> Option<(String, Vec<String>, Vec<String>)> {
    let mut fields = line.split(" | ").next()?.split_whitespace();
    let offset = fields.next()?.to_owned();
    let (_, kind) = (fields.next()?, fields.next()?);
    if kind != "n" {
        return None;
    }
    let mut words = Vec::new();
    for _ in 0..usize::from_str_radix(fields.next()?, 16).ok()? {
        words.push(fields.next()?.replace('_', " ").to_lowercase());
        fields.next()?;
    }
    let mut hypernyms = Vec::new();
    for _ in 0..fields.next()?.parse::<usize>().ok()? {
        let (symbol, target) = (fields.next()?, fields.next()?);
        fields.next()?;
        fields.next()?;
        if matches!(symbol, "@" | "@i") {
            hypernyms.push(target.to_owned());
        }
    }
    Some((offset, words, hypernyms))
}

/// `lemma n synset_cnt p_cnt symbol... sense_cnt tagsense_cnt offset...`, the most frequent sense first.
fn index_entry(line: &str) -> Option<(String, Vec<String>)> {
    let mut fields = line.split_whitespace();
    let word = fields.next()?.replace('_', " ");
    if fields.next()? != "n" {
        return None;
    }
    let count: usize = fields.next()?.parse().ok()?;
    let symbols: usize = fields.next()?.parse().ok()?;
    let offsets: Vec<String> = fields.skip(symbols + 2).map(str::to_owned).collect();
    (offsets.len() == count).then_some((word, offsets))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::fixtures::FixtureFolder;

    use super::*;

    /// Made-up lines in the format of WordNet 3.0: "spot" is a place and, less often, an animal.
    const DATA: &str = "  1 This software and database is being provided to you.\n\
        00000001 03 n 01 entity 0 000 | all\n\
        00000002 05 n 02 animal 0 wild_animal 0 001 @ 00000001 n 0000 | moves\n\
        00000003 05 n 01 spot 0 001 @ 00000002 n 0000 | barks\n\
        00000004 15 n 01 spot 0 001 @ 00000001 n 0000 | a place\n";
    const INDEX: &str = "  1 licence\n\
        animal n 1 2 @ ~ 1 1 00000002\n\
        entity n 1 1 ~ 1 1 00000001\n\
        spot n 2 1 @ 2 1 00000004 00000003\n\
        wild_animal n 1 1 @ 1 0 00000002\n";

    fn wordnet() -> WordNetNouns {
        let folder = FixtureFolder::new();
        folder.write("data.noun", DATA);
        folder.write("index.noun", INDEX);
        folder.write("noun.exc", "spotta spot\n");
        WordNetNouns::read(folder.path()).unwrap()
    }

    #[test]
    fn frequent_senses_count() {
        let nouns = wordnet();
        assert!(nouns.is_a("spot", "animal") && nouns.is_a("spot", "wild animal") && nouns.is_a("spot", "spot"));
        assert!(!nouns.is_a("animal", "spot") && !nouns.is_a("absent", "entity"));
        assert_eq!(nouns.hypernyms("spot").collect::<Vec<_>>(), [(1, "entity")]);
        assert_eq!(nouns.hypernyms("wild animal").collect::<Vec<_>>(), [(1, "entity")]);
        assert_eq!(nouns.irregular_singular("spotta"), Some("spot"));
        assert!(nouns.contains("spot") && !nouns.contains("spots"));
    }

    #[test]
    fn faults_name_the_line() {
        let folder = FixtureFolder::new();
        let read = |data: &str, index: &str| {
            folder.write("data.noun", data);
            folder.write("index.noun", index);
            WordNetNouns::read(folder.path()).err().unwrap().to_string()
        };
        assert!(read(&DATA.replace("15 n", "15 v"), INDEX).contains("line 5 of "));
        let text = read(DATA, &INDEX.replace("spot n 2", "spot n 3"));
        assert!(text.contains("line 4 of ") && text.contains("index.noun") && text.contains("wndb(5WN)"), "{text}");
        let text = WordNetNouns::read(Path::new("absent")).err().unwrap().to_string();
        assert!(text.contains("cannot read `absent/data.noun`"), "{text}");
    }
}
