//! The parts of a caption that a shorter caption may keep: its subject, its first predicate, and prepositional phrases.

use std::ops::Range;

use crate::chunks::{NounChunk, chunk_at};
use crate::lexicon::words;
use crate::tagger::{PartOfSpeech, Token};

/// A noun chunk with the chunks that `of` attaches to it: "a group of young people".
#[derive(Clone, Debug)]
pub(crate) struct NounPhrase {
    /// Chunks from left to right.
    pub(crate) chunks: Vec<NounChunk>,
}

/// A preposition with its noun phrase.
#[derive(Clone, Debug)]
pub(crate) struct PrepositionalPhrase {
    /// The preposition, several tokens for "in front of".
    pub(crate) preposition: Range<usize>,
    /// The noun phrase after the preposition.
    pub(crate) object: NounPhrase,
}

/// The first verb of a caption, with its object and a prepositional phrase.
#[derive(Clone, Debug)]
pub(crate) struct Predicate {
    /// The verb with adverbs and particles ("not walking", "lying down"), without auxiliaries.
    pub(crate) verb: Vec<usize>,
    /// Direct object.
    pub(crate) object: Option<NounPhrase>,
    /// The prepositional phrase right after the verb and its object.
    pub(crate) place: Option<PrepositionalPhrase>,
}

/// The subject of a caption and its predicate.
#[derive(Clone, Debug)]
pub(crate) struct Clause {
    /// The subject, or the first of two subjects joined by `and`.
    pub(crate) subject: NounPhrase,
    /// The second subject of "a man and a woman".
    pub(crate) second_subject: Option<NounPhrase>,
    /// Up to three prepositional phrases between the subject and the first verb: "in a red shirt".
    pub(crate) attributes: Vec<PrepositionalPhrase>,
    /// The first verb.
    pub(crate) predicate: Option<Predicate>,
}

impl NounPhrase {
    pub(crate) fn tokens(&self) -> Range<usize> {
        self.chunks[0].tokens.start..self.chunks[self.chunks.len() - 1].tokens.end
    }

    /// The chunk that names the thing, after measure words and containers: "people" of "a group of people", "slice" of
    /// "a slice with cheese".
    pub(crate) fn named(&self, tokens: &[Token]) -> &NounChunk {
        let mut at = 0;
        while at + 1 < self.chunks.len() && is_partitive(&tokens[self.chunks[at].head()]) {
            at += 1;
        }
        &self.chunks[at]
    }
}

pub(crate) fn is_partitive(token: &Token) -> bool {
    let singular = token.lower.strip_suffix('s').unwrap_or(&token.lower);
    [&*token.lower, singular].iter().any(|word| words().is("partitives", word) || words().is("photography", word))
}

/// Prepositions of several words, which are tried before single words.
const LONG_PREPOSITIONS: &[&[&str]] = &[
    &["in", "the", "middle", "of"],
    &["on", "the", "side", "of"],
    &["on", "the", "edge", "of"],
    &["at", "the", "edge", "of"],
    &["in", "front", "of"],
    &["on", "top", "of"],
    &["out", "of"],
    &["next", "to"],
    &["close", "to"],
    &["up", "to"],
    &["inside", "of"],
];

/// Prepositions that belong to the verb if no noun follows them: "lying down".
const PARTICLES: &[&str] = &["up", "down", "off", "out", "over", "around", "along", "past", "by"];

/// The clause of a caption; `None` if it has no noun that could be its subject.
pub(crate) fn clause(tokens: &[Token]) -> Option<Clause> {
    let (subject, mut at) = subject(tokens)?;
    let mut second_subject = None;
    if tokens.get(at).is_some_and(|it| matches!(&*it.lower, "and" | "&"))
        && let Some(second) = noun_phrase(tokens, at + 1)
    {
        at = second.tokens().end;
        second_subject = Some(second);
    }
    let mut attributes = Vec::new();
    let mut found = None;
    while at < tokens.len() {
        let token = &tokens[at];
        match token.pos {
            PartOfSpeech::Verb => {
                found = predicate(tokens, at);
                break;
            }
            PartOfSpeech::Preposition | PartOfSpeech::Adjective => match prepositional_phrase(tokens, at) {
                Some(phrase) if attributes.len() < 3 => {
                    at = phrase.object.tokens().end;
                    attributes.push(phrase);
                }
                _ => at += 1,
            },
            PartOfSpeech::Adverb
                if words().is("negations", &token.lower)
                    && tokens.get(at + 1).is_some_and(|it| it.pos == PartOfSpeech::Verb) =>
            {
                found = predicate(tokens, at + 1).map(|mut it| {
                    it.verb.insert(0, at);
                    it
                });
                break;
            }
            PartOfSpeech::Auxiliary | PartOfSpeech::Adverb => at += 1,
            PartOfSpeech::Subordinator if matches!(&*token.lower, "that" | "which" | "who") => at += 1,
            _ => break,
        }
    }
    Some(Clause { subject, second_subject, attributes, predicate: found })
}

/// The first noun phrase that does not follow a preposition or a verb, or else the first noun phrase, and the token
/// after it.
fn subject(tokens: &[Token]) -> Option<(NounPhrase, usize)> {
    let mut first = None;
    let mut at = 0;
    while at < tokens.len() {
        let Some(phrase) = noun_phrase(tokens, at) else {
            at += 1;
            continue;
        };
        let end = phrase.tokens().end;
        let governed = at > 0 && matches!(tokens[at - 1].pos, PartOfSpeech::Preposition | PartOfSpeech::Verb);
        let phrase = without_photography(phrase, tokens);
        if let Some(phrase) = phrase {
            if !governed {
                return Some((phrase, end));
            }
            first = first.or(Some((phrase, end)));
        }
        at = end;
    }
    first
}

/// "a picture of a dog" is about the dog. `None` if nothing is left.
fn without_photography(mut phrase: NounPhrase, tokens: &[Token]) -> Option<NounPhrase> {
    while phrase.chunks.first().is_some_and(|chunk| words().is("photography", &tokens[chunk.head()].lower)) {
        phrase.chunks.remove(0);
    }
    (!phrase.chunks.is_empty()).then_some(phrase)
}

/// The noun phrase that starts at a token.
pub(crate) fn noun_phrase(tokens: &[Token], start: usize) -> Option<NounPhrase> {
    let mut chunks = vec![chunk_at(tokens, start)?];
    loop {
        let end = chunks[chunks.len() - 1].tokens.end;
        let next = tokens.get(end).filter(|it| it.lower == "of").and_then(|_| chunk_at(tokens, end + 1));
        match next {
            Some(next) => chunks.push(next),
            None => return Some(NounPhrase { chunks }),
        }
    }
}

/// The preposition that starts at a token, with its noun phrase.
pub(crate) fn prepositional_phrase(tokens: &[Token], start: usize) -> Option<PrepositionalPhrase> {
    let says = |words: &[&str]| {
        words.iter().enumerate().all(|(i, word)| tokens.get(start + i).is_some_and(|it| it.lower == *word))
    };
    let end = match LONG_PREPOSITIONS.iter().find(|words| says(words)) {
        Some(words) => start + words.len(),
        None => {
            let mut end = start;
            // "down onto the ground", "up in the air"
            while end < start + 2 && tokens.get(end).is_some_and(|it| it.pos == PartOfSpeech::Preposition) {
                end += 1;
            }
            end
        }
    };
    if end == start {
        return None;
    }
    noun_phrase(tokens, end).map(|object| PrepositionalPhrase { preposition: start..end, object })
}

fn predicate(tokens: &[Token], start: usize) -> Option<Predicate> {
    let mut verb = vec![start];
    let mut at = start + 1;
    // "lying down on a bed", "running together": particles belong to the verb if no noun follows them.
    while let Some(token) = tokens.get(at) {
        let particle = match token.pos {
            PartOfSpeech::Adverb => !words().is("negations", &token.lower),
            PartOfSpeech::Preposition => {
                PARTICLES.contains(&&*token.lower)
                    && chunk_at(tokens, at + 1).is_none()
                    && prepositional_phrase(tokens, at).is_none()
            }
            _ => false,
        };
        if !particle || verb.len() > 2 {
            break;
        }
        verb.push(at);
        at += 1;
    }
    let object = noun_phrase(tokens, at);
    if let Some(object) = &object {
        at = object.tokens().end;
    }
    let place = prepositional_phrase(tokens, at);
    Some(Predicate { verb, object, place })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tagger::Tagger;

    fn shown(text: &str) -> String {
        let tokens = Tagger::default().tag(text);
        let words = |range: Range<usize>| tokens[range].iter().map(|it| &*it.lower).collect::<Vec<_>>().join(" ");
        let clause = clause(&tokens).unwrap();
        let mut parts = vec![words(clause.subject.tokens())];
        parts.extend(clause.second_subject.map(|it| words(it.tokens())));
        parts.extend(clause.attributes.iter().map(|it| words(it.preposition.start..it.object.tokens().end)));
        if let Some(it) = &clause.predicate {
            parts.push(it.verb.iter().map(|at| &*tokens[*at].lower).collect::<Vec<_>>().join(" "));
            parts.extend(it.object.iter().map(|it| words(it.tokens())));
            parts.extend(it.place.iter().map(|it| words(it.preposition.start..it.object.tokens().end)));
        }
        parts.join(" | ")
    }

    #[test]
    fn captions_are_split_into_clauses() {
        for (text, expected) in [
            (
                "A man in a red shirt is riding a horse on the beach .",
                "a man | in a red shirt | riding | a horse | on the beach",
            ),
            ("A group of people walk down the street", "a group of people | walk | down the street"),
            ("A close-up picture of a toilet in front of a wall", "a toilet | in front of a wall"),
            ("In the park two dogs are playing together", "two dogs | playing together"),
            ("A man and a woman sitting on a bench", "a man | a woman | sitting | on a bench"),
            ("There is a cat that is lying down on a bed", "a cat | lying | down on a bed"),
            ("A dog is not running", "a dog | not running"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert!(clause(&Tagger::default().tag("he is running fast")).is_none());
    }
}
