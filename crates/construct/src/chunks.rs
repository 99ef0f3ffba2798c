//! Noun chunks: a noun with the determiners and modifiers in front of it.

use std::ops::Range;

use crate::lexicon::words;
use crate::tagger::{PartOfSpeech, Token};

/// A noun chunk of a tagged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NounChunk {
    /// Tokens of the chunk.
    pub tokens: Range<usize>,
    /// First token after the determiners.
    pub body: usize,
    /// First token of the head noun; several tokens only if the noun is a compound (`tennis racket`).
    pub noun: usize,
}

impl NounChunk {
    /// The last token, which is the head.
    pub fn head(&self) -> usize {
        self.tokens.end - 1
    }
}

/// The noun chunks of a tagged text, in order. They do not overlap.
pub fn noun_chunks(tokens: &[Token]) -> Vec<NounChunk> {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match chunk_at(tokens, at) {
            Some(chunk) => {
                at = chunk.tokens.end;
                chunks.push(chunk);
            }
            None => at += 1,
        }
    }
    chunks
}

/// The chunk that starts at a token.
pub(crate) fn chunk_at(tokens: &[Token], start: usize) -> Option<NounChunk> {
    let pos = |at: usize| tokens.get(at).map(|token| token.pos);
    let mut at = start;
    while pos(at) == Some(PartOfSpeech::Determiner) {
        at += 1;
    }
    let body = at;
    let mut noun = None;
    let mut colour = None;
    loop {
        match pos(at) {
            Some(PartOfSpeech::Noun) => {
                noun = noun.or(Some(at));
                at += 1;
            }
            Some(PartOfSpeech::Adjective | PartOfSpeech::Number) if noun.is_none() => {
                if words().is("colours", &tokens[at].lower) {
                    colour = Some(at);
                }
                at += 1;
            }
            // "black and white dog", "big, brown dog", "very big dog"
            Some(PartOfSpeech::Conjunction | PartOfSpeech::Adverb)
                if noun.is_none() && joins_adjectives(tokens, at, body) =>
            {
                at += 1;
            }
            Some(PartOfSpeech::Punctuation)
                if noun.is_none() && tokens[at].lower == "," && joins_adjectives(tokens, at, body) =>
            {
                at += 1;
            }
            // "the child's red toy": the owner is a modifier.
            Some(PartOfSpeech::Particle) if noun.is_some() && tokens[at].lower.ends_with('s') => {
                let rest = chunk_at(tokens, at + 1).filter(|rest| rest.body == at + 1)?;
                return Some(NounChunk { tokens: start..rest.tokens.end, body, noun: rest.noun });
            }
            _ => break,
        }
    }
    match (noun, colour) {
        (Some(noun), _) => Some(NounChunk { tokens: start..at, body, noun }),
        // "a man in red"
        (None, Some(colour)) => Some(NounChunk { tokens: start..colour + 1, body, noun: colour }),
        (None, None) => None,
    }
}

/// True if a conjunction or a comma stands between two adjectives, or if an adverb other than a negation stands in
/// front of an adjective.
fn joins_adjectives(tokens: &[Token], at: usize, body: usize) -> bool {
    let adjective = |at: usize| tokens.get(at).is_some_and(|it| it.pos == PartOfSpeech::Adjective);
    let before = at > body && adjective(at - 1);
    let after = adjective(at + 1);
    match tokens[at].pos {
        PartOfSpeech::Adverb => after && !words().is("negations", &tokens[at].lower),
        _ => before && after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tagger::Tagger;

    #[test]
    fn chunks_end_with_their_noun() {
        for (text, expected) in [
            ("A black and white dog runs in the deep snow .", vec!["A black and white dog", "the deep snow"]),
            ("two soccer players in red chase a ball", vec!["two soccer players", "red", "a ball"]),
            ("the child's red toy on a table", vec!["the child 's red toy", "a table"]),
            ("a man, a woman and their dogs", vec!["a man", "a woman", "their dogs"]),
            ("he is running", vec![]),
        ] {
            let tokens = Tagger::default().tag(text);
            let found: Vec<String> = noun_chunks(&tokens)
                .into_iter()
                .map(|chunk| tokens[chunk.tokens].iter().map(|it| &*it.text).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
