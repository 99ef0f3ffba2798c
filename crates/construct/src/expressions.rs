//! Referring expressions: a noun chunk with the phrases and clauses after it that describe its noun, such as "a dog
//! with a red collar" or "a man riding a horse". Rules on parts of speech approximate the subtree of the noun in a
//! dependency tree.

use std::ops::Range;

use crate::chunks::chunk_at;
use crate::clause::{noun_phrase, prepositional_phrase};
use crate::lexicon::words;
use crate::tagger::{PartOfSpeech, Token, is_person};

/// Maximum number of tokens of an expression. Longer ones end at the last phrase that fits, so that the time for a text
/// is linear in its length.
const MAX_TOKENS: usize = 40;

/// One past the last token of the expression that begins with a noun chunk. `None` if the text after the chunk does not
/// describe its noun, or if `and` or `or` follows the chunk.
///
/// Prepositional phrases, participle clauses, relative clauses and adjectives with a prepositional phrase belong to the
/// noun, and so does a second object after `and` ("wearing a hat and a coat"), unless it is a person, who may be a second
/// subject. Finite verbs, other conjunctions, punctuation and the openings of other clauses end the expression. A phrase
/// that could belong to the verb or noun in front of the chunk is left out (see [`Governor`]).
pub(crate) fn expression_end(tokens: &[Token], chunk: &Range<usize>) -> Option<usize> {
    let text = &tokens[..tokens.len().min(chunk.start + MAX_TOKENS)];
    if text.len() <= chunk.end {
        return None;
    }
    let governor = Governor::of(&tokens[..chunk.start]);
    let is_person = is_person(&text[chunk.end - 1].lower);
    let mut reader = ExpressionReader { tokens: text, governor, is_person, has_part: false, has_verb: false };
    let mut end = chunk.end;
    while let Some(next) = reader.next_part(end) {
        end = next;
    }
    (end > chunk.end).then_some(end)
}

/// The word in front of a noun chunk that the phrase after the chunk may describe instead of the noun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Governor {
    /// No verb or preposition: the chunk is a subject. "a man in a hat".
    None,
    /// "throws a ball to a dog", "hits a ball with a bat": only `of` describes the ball.
    Verb,
    /// "a dog with a stick in its mouth": also a phrase with an owner describes the stick.
    With,
    /// "a man in a hat on a horse": only `of` describes the hat. "looks at a boy on a swing": a place describes a person.
    Preposition,
}

/// Prepositions of a place that can describe a person after another preposition.
const PLACES: &[&str] = &["in", "on", "at", "near", "beside", "behind", "by", "next", "with", "without"];

impl Governor {
    fn of(before: &[Token]) -> Self {
        match before.iter().rev().find(|it| it.pos != PartOfSpeech::Adverb) {
            Some(token) if token.pos == PartOfSpeech::Verb => Self::Verb,
            Some(token) if token.lower == "with" => Self::With,
            Some(token) if token.pos == PartOfSpeech::Preposition => Self::Preposition,
            _ => Self::None,
        }
    }
}

struct ExpressionReader<'a> {
    tokens: &'a [Token],
    governor: Governor,
    /// True if the noun is usually a subject.
    is_person: bool,
    /// True if a phrase or clause follows the chunk.
    has_part: bool,
    /// True after a participle or a relative clause, whose verb takes any preposition.
    has_verb: bool,
}

impl ExpressionReader<'_> {
    /// One past the phrase or clause that starts at a token, if it belongs to the expression.
    fn next_part(&mut self, at: usize) -> Option<usize> {
        let pos = self.pos(at)?;
        let mut end = match pos {
            PartOfSpeech::Preposition => return self.attached(at).inspect(|_| self.has_part = true),
            // "a cup full of coffee"
            PartOfSpeech::Adjective => self.attached(at + 1),
            PartOfSpeech::Conjunction if self.has_part && self.tokens[at].lower != "but" => self.second_object(at + 1),
            _ => None,
        };
        if end.is_none() {
            let describes = self.has_verb || self.governor == Governor::None || self.is_person;
            end = if describes { self.participle_clause(at) } else { None };
            end = end.or_else(|| self.relative_clause(at));
            self.has_verb |= end.is_some();
        }
        self.has_part |= end.is_some();
        end
    }

    /// One past the prepositional phrase that starts at a token, if it describes the noun.
    fn attached(&self, at: usize) -> Option<usize> {
        let end = self.prepositional(at)?;
        let preposition = self.tokens[at].lower.as_str();
        let is_place = self.is_person && PLACES.contains(&preposition);
        let describes = match self.governor {
            Governor::None => true,
            _ if self.has_verb || preposition == "of" => true,
            Governor::Verb => false,
            Governor::With => is_place || self.has_owner(at),
            Governor::Preposition => is_place,
        };
        describes.then_some(end)
    }

    /// True if the object of a preposition begins with its owner: "in its mouth".
    fn has_owner(&self, preposition: usize) -> bool {
        let object = self.tokens.iter().skip(preposition).find(|it| it.pos != PartOfSpeech::Preposition);
        object.is_some_and(|it| matches!(it.lower.as_str(), "its" | "his" | "her" | "their"))
    }

    /// One past a noun phrase after a conjunction that is no second subject.
    fn second_object(&self, at: usize) -> Option<usize> {
        let end = noun_phrase(self.tokens, at)?.tokens().end;
        (!is_person(&self.tokens[end - 1].lower)).then_some(end)
    }

    /// One past "each other".
    fn each_other(&self, at: usize) -> Option<usize> {
        (self.is(at, "each") && self.is(at + 1, "other")).then_some(at + 2)
    }

    fn pos(&self, at: usize) -> Option<PartOfSpeech> {
        self.tokens.get(at).map(|it| it.pos)
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.tokens.get(at).is_some_and(|it| it.lower == word)
    }

    /// One past a preposition and its noun phrase or pronoun.
    fn prepositional(&self, at: usize) -> Option<usize> {
        if let Some(phrase) = prepositional_phrase(self.tokens, at) {
            let end = phrase.object.tokens().end;
            if !self.is(phrase.preposition.end - 1, "between") {
                return Some(end);
            }
            // "between a man and a woman"; "between two trees" has a plural.
            let second = if self.is(end, "and") { noun_phrase(self.tokens, end + 1) } else { None };
            let is_plural = self.tokens[end - 1].lower.ends_with('s');
            return second.map(|it| it.tokens().end).or(is_plural.then_some(end));
        }
        let mut end = at;
        while end < at + 2 && self.pos(end) == Some(PartOfSpeech::Preposition) {
            end += 1;
        }
        if end == at {
            return None;
        }
        let is_pronoun = self.pos(end) == Some(PartOfSpeech::Pronoun);
        if is_pronoun { Some(end + 1) } else { self.each_other(end) }
    }

    /// One past a participle with its particles and objects: "riding a horse", "dressed", "not wearing a hat".
    fn participle_clause(&self, start: usize) -> Option<usize> {
        let mut at = start;
        while self.pos(at) == Some(PartOfSpeech::Adverb) && at < start + 2 {
            at += 1;
        }
        // "a dog being walked"
        if self.is(at, "being") && self.pos(at + 1) == Some(PartOfSpeech::Verb) {
            return Some(self.verb_phrase(at + 1));
        }
        let token = self.tokens.get(at)?;
        if token.pos == PartOfSpeech::Verb && token.lower.ends_with("ing") {
            return Some(self.verb_phrase(at));
        }
        // A past participle has no object, a finite verb in the past may have one: "a ball held by a boy".
        let is_stative = words().is("participles", &token.lower);
        let is_passive = token.pos == PartOfSpeech::Verb && self.is(at + 1, "by");
        let ends = matches!(
            self.pos(at + 1),
            None | Some(PartOfSpeech::Preposition | PartOfSpeech::Adverb | PartOfSpeech::Punctuation)
        );
        // "a boy dressed as a pirate"
        let role = if self.is(at + 1, "as") { noun_phrase(self.tokens, at + 2) } else { None };
        match role {
            Some(role) if is_stative => Some(role.tokens().end),
            _ => ((is_stative && ends) || is_passive).then_some(at + 1),
        }
    }

    /// One past a verb with its adverbs and particles ("lying down"), infinitives ("trying to catch") and objects.
    fn verb_phrase(&self, verb: usize) -> usize {
        let mut at = verb + 1;
        loop {
            at = match self.pos(at) {
                Some(PartOfSpeech::Adverb) => at + 1,
                // "lying down ." but not "lying down the hill" or "looking at".
                Some(PartOfSpeech::Preposition)
                    if self.prepositional(at).is_none() && is_particle(&self.tokens[at].lower) =>
                {
                    at + 1
                }
                Some(PartOfSpeech::Particle) if self.is(at, "to") && self.pos(at + 1) == Some(PartOfSpeech::Verb) => {
                    at + 2
                }
                _ => break,
            };
        }
        let Some(object) = noun_phrase(self.tokens, at) else {
            if let Some(end) = self.each_other(at) {
                return end;
            }
            let is_object = matches!(self.pos(at), Some(PartOfSpeech::Pronoun | PartOfSpeech::Adjective));
            return if is_object { at + 1 } else { at };
        };
        let end = object.tokens().end;
        // "giving the dog a bath"
        let second = match self.pos(end) {
            Some(PartOfSpeech::Determiner) => chunk_at(self.tokens, end),
            _ => None,
        };
        second.map_or(end, |second| second.tokens.end)
    }

    /// One past a relative clause: "that is brown", "who wears a hat", "whose hat is red", "that a boy holds".
    fn relative_clause(&self, start: usize) -> Option<usize> {
        let pronoun = self.tokens.get(start).filter(|it| it.pos == PartOfSpeech::Subordinator)?;
        let describes = match pronoun.lower.as_str() {
            "that" | "which" => true,
            // After a preposition, a thing is the wrong noun: "a man on a horse who".
            "who" | "whom" | "whose" => {
                !matches!(self.governor, Governor::Preposition | Governor::With) || self.is_person
            }
            _ => false,
        };
        if !describes {
            return None;
        }
        let mut at = start + 1;
        if let Some(subject) = noun_phrase(self.tokens, at) {
            at = subject.tokens().end;
        } else if self.pos(at) == Some(PartOfSpeech::Pronoun) {
            at += 1;
        } else if pronoun.lower == "whose" {
            return None;
        }
        let verb = at;
        let mut has_auxiliary = false;
        while matches!(self.pos(at), Some(PartOfSpeech::Auxiliary | PartOfSpeech::Adverb)) {
            has_auxiliary |= self.pos(at) == Some(PartOfSpeech::Auxiliary);
            at += 1;
        }
        match self.pos(at) {
            Some(PartOfSpeech::Verb) => Some(self.verb_phrase(at)),
            _ if !has_auxiliary => None,
            _ => {
                let noun = noun_phrase(self.tokens, at).map(|it| it.tokens().end);
                let adjective = || (self.pos(at) == Some(PartOfSpeech::Adjective)).then_some(at + 1);
                // "who is outdoors"
                let adverb = || (at > verb + 1).then_some(at);
                noun.or_else(|| self.prepositional(at)).or_else(adjective).or_else(adverb)
            }
        }
    }
}

/// True for prepositions that can stand without a noun, as parts of a verb.
fn is_particle(word: &str) -> bool {
    matches!(
        word,
        "up" | "down"
            | "off"
            | "out"
            | "over"
            | "around"
            | "along"
            | "past"
            | "by"
            | "in"
            | "on"
            | "inside"
            | "outside"
            | "through"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::chunks::noun_chunks;
    use crate::tagger::Tagger;

    /// The expressions of a text, in the order of their chunks.
    fn expressions(text: &str) -> Vec<String> {
        let tokens = Tagger::default().tag(text);
        noun_chunks(&tokens)
            .iter()
            .filter_map(|chunk| {
                let end = expression_end(&tokens, &chunk.tokens)?;
                assert!(end > chunk.tokens.end && end <= tokens.len());
                Some(tokens[chunk.tokens.start..end].iter().map(|it| &*it.text).collect::<Vec<_>>().join(" "))
            })
            .collect()
    }

    #[test]
    fn expressions_of_captions() {
        for (text, expected) in [
            // Prepositional phrases of the subject.
            ("A dog with a red collar on the grass .", vec!["A dog with a red collar on the grass"]),
            ("A man in a red shirt rides a bike .", vec!["A man in a red shirt"]),
            ("A woman behind him smiles .", vec!["A woman behind him"]),
            ("A cat between a chair and a table sleeps .", vec!["A cat between a chair and a table"]),
            // Participle clauses.
            ("A man riding a horse .", vec!["A man riding a horse"]),
            (
                "A brown dog running through the deep snow near a fence .",
                vec!["A brown dog running through the deep snow near a fence"],
            ),
            ("A boy lying down on a bed looks at a cat .", vec!["A boy lying down on a bed"]),
            ("A dog not wearing a leash jumps .", vec!["A dog not wearing a leash"]),
            ("A dog trying to catch a ball .", vec!["A dog trying to catch a ball"]),
            ("A girl dressed in pink rides a bike .", vec!["A girl dressed in pink"]),
            ("Two boys facing each other are laughing .", vec!["Two boys facing each other"]),
            ("A man wearing a hat and a coat rides a bike .", vec!["A man wearing a hat and a coat"]),
            ("A boy dressed as a pirate runs .", vec!["A boy dressed as a pirate"]),
            ("A cart pulled by a horse is on the road .", vec!["A cart pulled by a horse"]),
            // Relative clauses.
            ("A dog that is brown runs .", vec!["A dog that is brown"]),
            ("A man who wears a hat walks .", vec!["A man who wears a hat"]),
            ("A ball that a boy is holding .", vec!["A ball that a boy is holding"]),
            // Adjectives with a prepositional phrase.
            ("A glass full of water .", vec!["A glass full of water"]),
            // Finite verbs, conjunctions, punctuation and subordinate clauses end an expression.
            ("A man is riding a horse .", vec![]),
            ("Two dogs play in the snow .", vec![]),
            ("A man and a woman sit .", vec![]),
            ("A man with a beard and a woman in a dress walk .", vec!["A man with a beard", "a woman in a dress"]),
            ("A girl in a dress , smiling at a dog .", vec!["A girl in a dress"]),
            ("A man holding a cup while a dog sleeps .", vec!["A man holding a cup"]),
            // A phrase that belongs to the verb or to another noun is left out.
            ("A man throws a ball to a dog .", vec![]),
            ("A boy hits a ball with a bat .", vec![]),
            ("A dog with a stick in its mouth runs .", vec!["A dog with a stick in its mouth", "a stick in its mouth"]),
            ("A woman looks at a boy on a swing .", vec!["a boy on a swing"]),
            ("A man in a hat on a horse smiles .", vec!["A man in a hat on a horse"]),
            ("A woman watches a man riding a bike .", vec!["a man riding a bike"]),
            ("The dog sits on the roof of a house in the sun .", vec!["the roof of a house"]),
        ] {
            assert_eq!(expressions(text), expected, "{text}");
        }
    }

    #[test]
    fn odd_texts_have_expressions_within_the_text() {
        for text in
            ["", ".", "and", "of the", "running through", "A", "A man in", "A man riding", "he is running", "that who"]
        {
            expressions(text);
        }
        assert_eq!(expressions("running quickly ."), Vec::<String>::new());
        assert_eq!(expressions("Ein Hund l\u{e4}uft im Schnee").iter().filter(|it| it.is_empty()).count(), 0);
        // Japanese has no spaces: one token, no phrase after it.
        assert_eq!(expressions("\u{72d7}\u{304c}\u{8d70}\u{308b}"), Vec::<String>::new());
        assert_eq!(expressions("A caf\u{e9} with \u{fc}ber chairs ."), ["A caf\u{e9} with \u{fc}ber chairs"]);
    }

    #[test]
    fn long_texts_take_linear_time() {
        let started = std::time::Instant::now();
        for part in ["a dog in a park ", "a man who is with a dog that is on a horse ", "dog ", "with ", "riding "] {
            let count = 10_000 / part.split(' ').count();
            for expression in expressions(&part.repeat(count)) {
                assert!(expression.split(' ').count() <= MAX_TOKENS, "{expression}");
            }
        }
        // Reading each expression to the end of the text would take minutes.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
