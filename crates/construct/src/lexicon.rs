//! Word lists of the rules, by role.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Roles of words that do not depend on the sentence.
pub(crate) struct WordLists {
    sections: HashMap<&'static str, HashSet<&'static str>>,
    /// The antonyms of each word. Every pair is stored in both directions.
    antonyms: HashMap<&'static str, Vec<&'static str>>,
    /// The synonyms of each word in captions. Every pair is stored in both directions.
    synonyms: HashMap<&'static str, Vec<&'static str>>,
}

static WORDS: &str = include_str!("lexicon/words.txt");

/// The built-in word lists.
pub(crate) fn words() -> &'static WordLists {
    static LISTS: LazyLock<WordLists> = LazyLock::new(WordLists::parse);
    &LISTS
}

impl WordLists {
    /// True if `word`, which must be in lower case, is in `section` of `words.txt`.
    pub(crate) fn is(&self, section: &str, word: &str) -> bool {
        self.sections.get(section).is_some_and(|words| words.contains(word))
    }

    /// The words of a section, sorted.
    pub(crate) fn all(&self, section: &str) -> Vec<&'static str> {
        let mut words: Vec<_> = self.sections.get(section).into_iter().flatten().copied().collect();
        words.sort_unstable();
        words
    }

    /// The words that exclude this one.
    pub(crate) fn antonyms(&self, word: &str) -> &[&'static str] {
        self.antonyms.get(word).map_or(&[], Vec::as_slice)
    }

    /// The words that mean the same as this one.
    pub(crate) fn synonyms(&self, word: &str) -> &[&'static str] {
        self.synonyms.get(word).map_or(&[], Vec::as_slice)
    }

    /// The base form of a verb form, if the base form is in the list of verbs.
    pub(crate) fn verb_base(&self, form: &str) -> Option<&'static str> {
        let verbs = self.sections.get("verbs")?;
        let known = |base: &str| verbs.get(base).copied();
        if let Some((_, base)) = IRREGULAR_VERBS.iter().find(|(irregular, _)| *irregular == form) {
            return known(base);
        }
        known(form).or_else(|| {
            ["ing", "ed", "es", "s"].iter().find_map(|ending| {
                let stem = form.strip_suffix(ending)?;
                if stem.len() < 2 {
                    return None;
                }
                let undoubled = || {
                    let last = stem.chars().last()?;
                    let short = stem.strip_suffix(last)?;
                    if short.ends_with(last) { known(short) } else { None }
                };
                let with_y = || known(&format!("{}y", stem.strip_suffix('i')?));
                let with_e = || if *ending == "s" { None } else { known(&format!("{stem}e")) };
                known(stem).or_else(with_e).or_else(undoubled).or_else(with_y)
            })
        })
    }

    fn parse() -> Self {
        let mut sections = HashMap::new();
        let mut pairs: HashMap<&str, HashMap<&str, Vec<&str>>> = HashMap::new();
        for line in WORDS.lines().filter(|line| !line.starts_with('#')) {
            let Some((section, list)) = line.split_once(": ") else { continue };
            let list: HashSet<&str> = list.split(", ").collect();
            let of_section = pairs.entry(section).or_default();
            let mut sorted: Vec<_> = list.iter().filter_map(|entry| entry.split_once('/')).collect();
            sorted.sort_unstable();
            for (left, right) in sorted {
                of_section.entry(left).or_default().push(right);
                of_section.entry(right).or_default().push(left);
            }
            sections.insert(section, list);
        }
        let mut take = |section| pairs.remove(section).unwrap_or_default();
        Self { antonyms: take("antonyms"), synonyms: take("synonyms"), sections }
    }
}

/// Irregular forms of verbs in captions, with their base forms.
const IRREGULAR_VERBS: &[(&str, &str)] = &[
    ("sat", "sit"),
    ("stood", "stand"),
    ("ran", "run"),
    ("rode", "ride"),
    ("held", "hold"),
    ("wore", "wear"),
    ("worn", "wear"),
    ("ate", "eat"),
    ("eaten", "eat"),
    ("drank", "drink"),
    ("flew", "fly"),
    ("flown", "fly"),
    ("lying", "lie"),
    ("laying", "lie"),
    ("lays", "lie"),
    ("laid", "lay"),
    ("made", "make"),
    ("taken", "take"),
    ("took", "take"),
    ("caught", "catch"),
    ("threw", "throw"),
    ("thrown", "throw"),
    ("hung", "hang"),
    ("swam", "swim"),
    ("shown", "show"),
    ("driven", "drive"),
    ("drove", "drive"),
    ("written", "write"),
    ("tying", "tie"),
    ("left", "leave"),
    ("seen", "see"),
    ("getting", "get"),
    ("going", "go"),
    ("doing", "do"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_forms_of_verbs() {
        for (form, base) in [
            ("running", "run"),
            ("rides", "ride"),
            ("riding", "ride"),
            ("carried", "carry"),
            ("carries", "carry"),
            ("catches", "catch"),
            ("sat", "sit"),
            ("lying", "lie"),
            ("play", "play"),
        ] {
            assert_eq!(words().verb_base(form), Some(base), "{form}");
        }
        for other in ["building", "dogs", "is", "red", ""] {
            assert_eq!(words().verb_base(other).filter(|base| *base != "build"), None, "{other}");
        }
    }

    #[test]
    fn pairs_hold_in_both_orders() {
        assert!(words().antonyms("small").contains(&"large") && words().antonyms("large").contains(&"small"));
        assert!(words().synonyms("sofa").contains(&"couch"));
        assert!(words().is("colours", "red") && !words().is("colours", "dog"));
    }
}
