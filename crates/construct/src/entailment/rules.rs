//! Scores of entailment by rules, without a model. The conditions on the tiers of a hierarchy are in `entailment` and
//! `pipeline::complete`.

use std::sync::Arc;

use super::content::{ContentKind, ContentWord, TextContent};
use super::{Entailment, EntailmentScores};
use crate::Result;
use crate::hypernyms::Hypernyms;
use crate::lexicon::words;
use crate::tagger::Tagger;

/// Share of the weight of the hypothesis that has to follow from the premise. Chosen before the first measurement on
/// HierarCaps, not tuned on it (example `entailment_table`, docs/construct.md).
const COVERED: f32 = 0.6;
/// Weight of a verb of the hypothesis. A head noun has weight 1.
const VERB_WEIGHT: f32 = 0.7;
/// Weight of a modifier, adjective or adverb of the hypothesis.
const MODIFIER_WEIGHT: f32 = 0.6;

/// Judges by content words. A word of the hypothesis follows if it is in the premise, or if it is a hypernym or a
/// synonym of a word there. The main word of the hypothesis and 60 % of the weight of its words have to follow. Two
/// numbers, colours, antonyms, activities or kinds in the same role contradict each other, and so does a negation of
/// one text only.
pub struct RuleEntailment {
    tagger: Arc<Tagger>,
    nouns: Arc<Hypernyms>,
}

impl RuleEntailment {
    /// Creates a judge with these is-a relations.
    pub fn new(tagger: Arc<Tagger>, nouns: Arc<Hypernyms>) -> Self {
        Self { tagger, nouns }
    }

    fn follows(&self, word: &ContentWord, from: &ContentWord) -> bool {
        if word.negated != from.negated {
            return false;
        }
        let counts = match (word.number, from.number) {
            (Some(wanted), Some(found)) => wanted == found || wanted == 1 && found > 1,
            (Some(wanted), None) => wanted == 1,
            (None, _) => true,
        };
        counts && self.is_kind(&from.base, &word.base)
    }

    /// True if `specific` equals `general`, or is a synonym or a kind of it.
    fn is_kind(&self, specific: &str, general: &str) -> bool {
        specific == general
            || words().synonyms(specific).contains(&general)
            || self.nouns.is_a(specific, general)
            || words().synonyms(general).iter().any(|it| self.nouns.is_a(specific, it))
    }

    /// True if a word of the hypothesis that does not follow from the premise excludes a word of the premise.
    fn excludes(&self, word: &ContentWord, premise: &TextContent, hypothesis: &TextContent) -> bool {
        let supported = |it: &&ContentWord| hypothesis.words.iter().any(|other| self.follows(other, it));
        premise.words.iter().any(|it| {
            let same_base = self.is_kind(&it.base, &word.base) || self.is_kind(&word.base, &it.base);
            if same_base && it.negated != word.negated {
                return true;
            }
            if same_base && let (Some(a), Some(b)) = (it.number, word.number) {
                return a != b;
            }
            if words().antonyms(&word.base).contains(&it.base.as_str()) {
                return true;
            }
            // A word of the premise that is also in the hypothesis is no alternative to `word`.
            if supported(&it) || same_base {
                return false;
            }
            match (word.kind, it.kind) {
                (ContentKind::Verb, ContentKind::Verb) => {
                    words().is("exclusive", &word.base) && words().is("exclusive", &it.base)
                }
                (ContentKind::Quality, ContentKind::Quality) => {
                    words().is("colours", &word.base) && words().is("colours", &it.base)
                }
                (ContentKind::Head | ContentKind::Modifier, ContentKind::Head | ContentKind::Modifier) => {
                    self.nouns.exclude_each_other(&word.base, &it.base)
                }
                _ => false,
            }
        })
    }

    /// Compares each word of the hypothesis with the premise.
    fn coverage(&self, premise: &TextContent, hypothesis: &TextContent) -> Coverage {
        let mut found = Coverage::default();
        for word in &hypothesis.words {
            let weight = match word.kind {
                ContentKind::Head => 1.0,
                ContentKind::Verb => VERB_WEIGHT,
                ContentKind::Modifier | ContentKind::Quality => MODIFIER_WEIGHT,
            };
            found.total += weight;
            if premise.words.iter().any(|it| self.follows(word, it)) {
                found.covered += weight;
            } else {
                found.conflict |= self.excludes(word, premise, hypothesis);
            }
        }
        let main = hypothesis.main();
        found.main = main.is_some_and(|main| premise.words.iter().any(|it| self.follows(main, it)));
        found
    }

    /// Scores of two analysed texts.
    fn scores(&self, premise: &TextContent, hypothesis: &TextContent) -> EntailmentScores {
        let Coverage { covered, total, conflict, main } = self.coverage(premise, hypothesis);
        if total == 0.0 {
            return EntailmentScores::default();
        }
        let share = covered / total;
        // Maps the threshold to 0.5.
        let scaled =
            if share < COVERED { 0.5 * share / COVERED } else { 0.5 + 0.5 * (share - COVERED) / (1.0 - COVERED) };
        let scaled = if share >= COVERED { scaled.max(0.51) } else { scaled };
        let entailment = match (conflict, main) {
            (true, _) => scaled.min(0.2),
            (false, false) => scaled.min(0.4),
            (false, true) => scaled,
        };
        EntailmentScores { entailment, contradiction: if conflict { 0.9 } else { 0.1 } }
    }
}

/// The weight of the words of a hypothesis that follow from a premise, the weight of all its words, and whether a word
/// excludes a word of the premise.
#[derive(Clone, Copy, Default)]
struct Coverage {
    covered: f32,
    total: f32,
    conflict: bool,
    /// True if the main word of the hypothesis follows.
    main: bool,
}

impl Entailment for RuleEntailment {
    fn name(&self) -> String {
        match self.nouns.has_wordnet() {
            true => "rules with WordNet".to_owned(),
            false => "rules".to_owned(),
        }
    }

    fn judge(&self, premise: &str, hypothesis: &str) -> Result<EntailmentScores> {
        let premise = TextContent::of(premise, &self.tagger, &self.nouns);
        let hypothesis = TextContent::of(hypothesis, &self.tagger, &self.nouns);
        Ok(self.scores(&premise, &hypothesis))
    }

    /// The rules accept a hypothesis with a small uncovered part, so two texts may follow from each other. Then the
    /// text with less uncovered weight is the general one.
    fn is_more_general(&self, general: &str, specific: &str) -> Result<bool> {
        let general = TextContent::of(general, &self.tagger, &self.nouns);
        let specific = TextContent::of(specific, &self.tagger, &self.nouns);
        let down = self.coverage(&general, &specific);
        let up = self.coverage(&specific, &general);
        let follows = self.scores(&specific, &general).entailment > 0.5;
        Ok(follows && down.total - down.covered > up.total - up.covered)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn judge() -> RuleEntailment {
        RuleEntailment::new(Arc::default(), Arc::default())
    }

    #[test]
    fn general_texts_follow_from_specific_ones() {
        let judge = judge();
        for (general, specific) in [
            ("animal", "dog"),
            ("dog", "A black dog"),
            ("dogs", "two dogs"),
            ("a dog", "two dogs running"),
            ("black dog", "A big black dog running through the snow."),
            ("man riding a bike", "A man in a red shirt rides a motorcycle down the street"),
            ("people", "two women"),
            ("sofa", "A red couch"),
        ] {
            assert!(judge.is_more_general(general, specific).unwrap(), "{general} <- {specific}");
        }
        for (general, specific) in [("dog", "animal"), ("cat", "a black dog"), ("dog", "dog"), ("two dogs", "a dog")] {
            assert!(!judge.is_more_general(general, specific).unwrap(), "{general} <- {specific}");
        }
    }

    #[test]
    fn alternatives_contradict_each_other() {
        let judge = judge();
        for (a, b) in [
            ("a dog", "a cat"),
            ("a red car", "a blue car"),
            ("two dogs", "three dogs"),
            ("a man sitting on a bench", "a man running on a bench"),
            ("a street with cars", "a street with no cars"),
            ("a small house", "a large house"),
            ("a man on a horse", "a woman on a horse"),
        ] {
            assert!(judge.contradict(a, b).unwrap() && judge.contradict(b, a).unwrap(), "{a}; {b}");
        }
        for (a, b) in
            [("a dog", "a black dog"), ("a man", "a chef"), ("a dog", "an animal"), ("a dog runs", "a dog barks")]
        {
            assert!(!judge.contradict(a, b).unwrap(), "{a}; {b}");
        }
    }

    #[test]
    fn texts_without_content_are_neutral() {
        for text in ["", "of the", "\u{1f600}"] {
            assert_eq!(judge().judge("a dog", text).unwrap(), EntailmentScores::default());
            assert!(judge().judge(text, "a dog").unwrap().entailment < 0.5);
        }
    }
}
