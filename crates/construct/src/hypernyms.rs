//! Is-a relations between nouns: a built-in list of common nouns of captions, and WordNet's nouns if the user has them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::wordnet::WordNetNouns;

/// Is-a relations between nouns. All nouns are singular and in lower case, unless a function says otherwise.
pub struct Hypernyms {
    /// Hypernyms of each built-in noun, the preferred one first.
    above: HashMap<&'static str, Vec<&'static str>>,
    /// All built-in hypernyms of each built-in noun, direct and indirect.
    all_above: HashMap<&'static str, HashSet<&'static str>>,
    /// Hyponyms of each built-in noun, in the order of the list.
    below: HashMap<&'static str, Vec<&'static str>>,
    /// Hypernyms whose hyponyms do not exclude each other: a man may be a chef.
    overlapping: HashSet<&'static str>,
    wordnet: Option<WordNetNouns>,
}

const NOUNS: &str = include_str!("lexicon/nouns.txt");

/// Irregular plurals of the built-in nouns.
const PLURALS: &[(&str, &str)] = &[
    ("people", "person"),
    ("men", "man"),
    ("women", "woman"),
    ("children", "child"),
    ("feet", "foot"),
    ("teeth", "tooth"),
    ("mice", "mouse"),
    ("geese", "goose"),
    ("oxen", "ox"),
    ("leaves", "leaf"),
    ("knives", "knife"),
    ("loaves", "loaf"),
    ("wolves", "wolf"),
    ("calves", "calf"),
    ("shelves", "shelf"),
    ("scarves", "scarf"),
    ("hooves", "hoof"),
    ("buses", "bus"),
    ("sheep", "sheep"),
    ("deer", "deer"),
    ("fish", "fish"),
    ("cattle", "cattle"),
];

/// Nouns whose plural equals the singular.
const UNCHANGED: &[&str] =
    &["sheep", "deer", "fish", "cattle", "moose", "bison", "elk", "salmon", "trout", "shrimp", "aircraft"];

impl Default for Hypernyms {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Hypernyms {
    /// The built-in nouns, and those of `wordnet`.
    pub fn new(wordnet: Option<WordNetNouns>) -> Self {
        let mut nouns = Self {
            above: HashMap::new(),
            all_above: HashMap::new(),
            below: HashMap::new(),
            overlapping: HashSet::new(),
            wordnet,
        };
        for line in NOUNS.lines() {
            let Some((general, list)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else { continue };
            let general = match general.strip_prefix('!') {
                Some(general) => {
                    nouns.overlapping.insert(general);
                    general
                }
                None => general,
            };
            for specific in list.split(", ") {
                let above = nouns.above.entry(specific).or_default();
                if !above.contains(&general) {
                    above.push(general);
                    nouns.below.entry(general).or_default().push(specific);
                }
            }
        }
        nouns.all_above = nouns.above.keys().map(|noun| (*noun, nouns.collect_above(noun))).collect();
        nouns
    }

    /// True if WordNet is available.
    pub fn has_wordnet(&self) -> bool {
        self.wordnet.is_some()
    }

    /// True if the singular noun is known.
    pub fn contains(&self, noun: &str) -> bool {
        self.is_listed(noun) || self.wordnet.as_ref().is_some_and(|it| it.contains(noun))
    }

    /// True if the singular noun is in the built-in list.
    pub fn is_listed(&self, noun: &str) -> bool {
        self.above.contains_key(noun) || self.below.contains_key(noun)
    }

    /// The singular of a known noun, which may be plural; `None` if it is not known.
    pub fn singular<'a>(&'a self, noun: &'a str) -> Option<Cow<'a, str>> {
        if let Some((_, singular)) = PLURALS.iter().find(|(plural, _)| *plural == noun) {
            return Some(Cow::Borrowed(singular));
        }
        if self.is_listed(noun) {
            return Some(Cow::Borrowed(noun));
        }
        // Only the last word of a compound is plural: "fire men".
        if let Some((first, last)) = noun.rsplit_once(' ')
            && let Some((_, singular)) = PLURALS.iter().find(|(plural, _)| *plural == last)
        {
            let joined = format!("{first} {singular}");
            return self.contains(&joined).then_some(Cow::Owned(joined));
        }
        if let Some(stem) = noun.strip_suffix("men") {
            let man = format!("{stem}man");
            if self.contains(&man) {
                return Some(Cow::Owned(man));
            }
        }
        let regular = [("ies", "y"), ("ves", "f"), ("es", ""), ("s", "")].iter().find_map(|(ending, singular)| {
            let candidate = format!("{}{singular}", noun.strip_suffix(ending)?);
            (candidate.len() > 1 && self.contains(&candidate)).then_some(candidate)
        });
        if regular.is_some() {
            return regular.map(Cow::Owned);
        }
        let wordnet = self.wordnet.as_ref()?;
        match wordnet.irregular_singular(noun) {
            Some(singular) => Some(Cow::Borrowed(singular)),
            None => wordnet.contains(noun).then_some(Cow::Borrowed(noun)),
        }
    }

    /// The plural of a singular noun.
    pub fn plural(&self, noun: &str) -> String {
        let (first, last) = noun.rsplit_once(' ').map_or(("", noun), |(first, last)| (first, last));
        let plural = match PLURALS.iter().find(|(plural, singular)| *singular == last && plural != singular) {
            Some((plural, _)) => (*plural).to_owned(),
            None if UNCHANGED.contains(&last)
                || last.ends_with('s') && !last.ends_with("ss") && !last.ends_with("us") =>
            {
                last.to_owned()
            }
            None if last.ends_with("man") && last != "human" => format!("{}men", &last[..last.len() - 3]),
            None if ["ch", "sh", "x", "ss", "us"].iter().any(|end| last.ends_with(end)) => format!("{last}es"),
            None => match last.strip_suffix('y') {
                Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
                _ => format!("{last}s"),
            },
        };
        if first.is_empty() { plural } else { format!("{first} {plural}") }
    }

    /// True if `specific` is a kind of `general`, or the same noun.
    pub fn is_a(&self, specific: &str, general: &str) -> bool {
        specific == general
            || self.is_below(specific, general)
            || self.wordnet.as_ref().is_some_and(|it| {
                // If the built-in list has both nouns, it decides, because WordNet has too many senses of common words.
                !(self.is_listed(specific) && self.is_listed(general)) && it.is_a(specific, general)
            })
    }

    /// The hypernym that is `steps` (at least 1) above a noun, or the highest one if there are fewer. `None` if the
    /// noun has no hypernym.
    ///
    /// Above a noun that only WordNet has, the first step leads to the nearest built-in noun that is not too general,
    /// because WordNet has many technical nouns in between (dog, canine, carnivore, placental, mammal).
    pub fn hypernym(&self, noun: &str, steps: usize) -> Option<&str> {
        let mut found = match self.above.get(noun) {
            Some(above) => above.first().copied()?,
            None => {
                let wordnet = self.wordnet.as_ref()?;
                let mut above = wordnet.hypernyms(noun);
                above.find(|(_, word)| self.is_listed(word) && !self.is_too_general(word))?.1
            }
        };
        for _ in 1..steps {
            match self.above.get(found).and_then(|above| above.first()) {
                Some(above) => found = above,
                None => break,
            }
        }
        Some(found)
    }

    /// True for the most general built-in nouns.
    fn is_too_general(&self, noun: &str) -> bool {
        matches!(noun, "object" | "living being" | "thing" | "item" | "group" | "event")
    }

    /// Other nouns below the same hypernym, in the order of the list.
    pub fn siblings(&self, noun: &str) -> impl Iterator<Item = &'static str> {
        let above = self.above.get(noun).and_then(|above| above.first());
        let below = above.and_then(|above| self.below.get(above)).map_or(&[][..], Vec::as_slice);
        below.iter().copied().filter(move |it| *it != noun)
    }

    /// The built-in nouns that have hyponyms, except the most general ones such as "object".
    pub fn general_nouns(&self) -> impl Iterator<Item = &'static str> {
        NOUNS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let general = line.split_once(": ")?.0.trim_start_matches('!');
            (!self.is_too_general(general)).then_some(general)
        })
    }

    /// True if nothing is a kind of both nouns: neither is a kind of the other, and they have no common hypernym or the
    /// hyponyms of their nearest common hypernym exclude each other. False if one of them is not a built-in noun.
    pub fn exclude_each_other(&self, a: &str, b: &str) -> bool {
        if !self.is_listed(a) || !self.is_listed(b) || self.is_below(a, b) || self.is_below(b, a) || a == b {
            return false;
        }
        let above = |noun: &str| self.all_above.get(noun);
        let common: Vec<&str> = match (above(a), above(b)) {
            (Some(a), Some(b)) => a.intersection(b).copied().collect(),
            _ => Vec::new(),
        };
        let is_lowest = |noun: &&&str| !common.iter().any(|other| self.is_below(other, noun));
        // Almost nothing in a photo is two different kinds of one of these at the same time.
        let apart = |noun: &str| matches!(noun, "object" | "living being" | "place");
        !common.iter().filter(is_lowest).any(|it| self.overlapping.contains(it) && !apart(it))
    }

    fn is_below(&self, specific: &str, general: &str) -> bool {
        self.all_above.get(specific).is_some_and(|above| above.contains(general))
    }

    /// All direct and indirect built-in hypernyms of a built-in noun.
    fn collect_above(&self, noun: &str) -> HashSet<&'static str> {
        let mut found = HashSet::new();
        let mut next: Vec<&str> = vec![noun];
        while let Some(noun) = next.pop() {
            for above in self.above.get(noun).into_iter().flatten() {
                if found.insert(*above) {
                    next.push(above);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_are_below_their_hypernyms() {
        let nouns = Hypernyms::default();
        assert!(nouns.is_a("poodle", "dog") && nouns.is_a("poodle", "animal") && nouns.is_a("dog", "dog"));
        assert!(!nouns.is_a("dog", "poodle") && !nouns.is_a("dog", "cat"));
        assert_eq!(nouns.hypernym("poodle", 1), Some("dog"));
        assert_eq!(nouns.hypernym("poodle", 2), Some("animal"));
        assert_eq!(nouns.hypernym("poodle", 9), Some("living being"));
        assert_eq!(nouns.hypernym("living being", 1), None);
        assert_eq!(nouns.hypernym("quark", 1), None);
    }

    #[test]
    fn hypernyms_have_no_cycle() {
        let nouns = Hypernyms::default();
        for (noun, above) in &nouns.all_above {
            assert!(!above.contains(noun), "{noun}");
        }
    }

    #[test]
    fn plurals_and_singulars() {
        let nouns = Hypernyms::default();
        for (singular, plural) in [
            ("dog", "dogs"),
            ("bus", "buses"),
            ("policeman", "policemen"),
            ("puppy", "puppies"),
            ("toy", "toys"),
            ("person", "people"),
            ("sheep", "sheep"),
            ("knife", "knives"),
            ("soccer player", "soccer players"),
        ] {
            assert_eq!(nouns.plural(singular), plural);
            assert_eq!(nouns.singular(plural).as_deref(), Some(singular));
        }
        assert_eq!(nouns.singular("jeans").as_deref(), Some("jeans"));
        assert_eq!(nouns.singular("quarks"), None);
    }

    #[test]
    fn roles_overlap_and_species_exclude_each_other() {
        let nouns = Hypernyms::default();
        assert!(nouns.exclude_each_other("dog", "cat") && nouns.exclude_each_other("poodle", "cat"));
        assert!(nouns.exclude_each_other("dog", "truck"));
        assert!(!nouns.exclude_each_other("man", "chef") && !nouns.exclude_each_other("dog", "poodle"));
        assert!(!nouns.exclude_each_other("dog", "quark"));
    }
}
