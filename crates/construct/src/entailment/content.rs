//! The content words of a text, which the entailment rules compare.

use crate::chunks::noun_chunks;
use crate::hypernyms::Hypernyms;
use crate::lexicon::words;
use crate::tagger::{PartOfSpeech, Tagger};

/// Kind of a content word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    /// Noun that is the head of a chunk.
    Head,
    /// Noun that modifies a noun.
    Modifier,
    /// Verb.
    Verb,
    /// Adjective or adverb.
    Quality,
}

/// A content word in its base form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentWord {
    /// Singular of a noun, base form of a verb or of an adjective in -ing ("smiling"), otherwise the word in lower
    /// case.
    pub(super) base: String,
    pub(super) kind: ContentKind,
    /// Chunk of a noun or adjective, counted from 0.
    pub(super) chunk: Option<usize>,
    /// True if a negation before the word applies to it.
    pub(super) negated: bool,
    /// Number in front of a head noun: `Some(2)` for "two dogs", `Some(1)` for "a dog".
    pub(super) number: Option<u32>,
}

/// Content words of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct TextContent {
    pub(super) words: Vec<ContentWord>,
}

/// Words that say nothing about the content of a picture.
const IGNORED: &[&str] = &[
    "front",
    "top",
    "next",
    "side",
    "background",
    "foreground",
    "middle",
    "picture",
    "photo",
    "view",
    "image",
    "other",
    "such",
    "while",
    "there",
];

impl TextContent {
    pub(super) fn of(text: &str, tagger: &Tagger, nouns: &Hypernyms) -> Self {
        let tokens = tagger.tag(text);
        let chunks = noun_chunks(&tokens);
        let chunk_of = |at: usize| chunks.iter().position(|chunk| chunk.tokens.contains(&at));
        let mut words_found = Vec::new();
        let mut negated = false;
        let mut at = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            let word = token.lower.as_str();
            if words().is("negations", word) {
                negated = true;
                at += 1;
                continue;
            }
            let chunk = chunk_of(at);
            let kind = match token.pos {
                PartOfSpeech::Noun => Some(ContentKind::Modifier),
                PartOfSpeech::Verb => Some(ContentKind::Verb),
                PartOfSpeech::Adjective => Some(ContentKind::Quality),
                // "outdoors" has content, "very" does not.
                PartOfSpeech::Adverb => (!words().is("adverbs", word)).then_some(ContentKind::Quality),
                PartOfSpeech::Number | PartOfSpeech::Determiner => None,
                _ => {
                    // A negation reaches to the end of the noun chunk or of the verb after it.
                    negated &= matches!(token.pos, PartOfSpeech::Auxiliary | PartOfSpeech::Particle);
                    None
                }
            };
            let Some(kind) = kind.filter(|_| !IGNORED.contains(&word)) else {
                at += 1;
                continue;
            };
            // A compound in the noun list counts as one word: "hot dog", "stop sign".
            let compound = if kind == ContentKind::Verb { None } else { compound_at(&tokens, at, nouns) };
            let (base, length) = match compound {
                Some((base, length)) => (base, length),
                None => (base_form(word, kind, nouns), 1),
            };
            let last = at + length - 1;
            let is_head = chunk.is_some_and(|it| chunks[it].head() == last) && tokens[last].pos == PartOfSpeech::Noun;
            let kind = if is_head { ContentKind::Head } else { kind };
            let number = chunk.filter(|_| is_head).and_then(|it| number(&tokens[chunks[it].tokens.clone()]));
            words_found.push(ContentWord { base, kind, chunk, negated, number });
            if is_head || kind == ContentKind::Verb {
                negated = false;
            }
            at += length;
        }
        Self { words: words_found }
    }

    /// The first head noun, else the first word.
    pub(super) fn main(&self) -> Option<&ContentWord> {
        self.words.iter().find(|word| word.kind == ContentKind::Head).or(self.words.first())
    }
}

/// The longest compound of the noun list that starts at a token, and its number of tokens.
fn compound_at(tokens: &[crate::tagger::Token], at: usize, nouns: &Hypernyms) -> Option<(String, usize)> {
    for length in [3, 2] {
        let Some(part) = tokens.get(at..at + length) else { continue };
        if part.iter().any(|it| it.pos == PartOfSpeech::Punctuation) {
            continue;
        }
        let joined = part.iter().map(|it| it.lower.as_str()).collect::<Vec<_>>().join(" ");
        if let Some(singular) = nouns.singular(&joined).filter(|it| nouns.is_listed(it)) {
            return Some((singular.into_owned(), length));
        }
    }
    None
}

fn base_form(word: &str, kind: ContentKind, nouns: &Hypernyms) -> String {
    match kind {
        ContentKind::Verb => words().verb_base(word).map_or_else(|| word.to_owned(), str::to_owned),
        ContentKind::Quality => match words().verb_base(word) {
            Some(base) if word.ends_with("ing") => base.to_owned(),
            _ => word.to_owned(),
        },
        _ => match nouns.singular(word) {
            Some(singular) => singular.into_owned(),
            None => word.strip_suffix('s').filter(|it| it.len() > 2 && !it.ends_with('s')).unwrap_or(word).to_owned(),
        },
    }
}

/// The first number of a chunk, in digits or as a word up to twelve. The articles "a" and "an" count as 1.
fn number(chunk: &[crate::tagger::Token]) -> Option<u32> {
    const WORDS: [&str; 13] =
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    chunk.iter().find_map(|token| match token.lower.as_str() {
        "a" | "an" => Some(1),
        word => {
            let index = WORDS.iter().position(|it| *it == word).and_then(|index| u32::try_from(index).ok());
            index.or_else(|| if token.pos == PartOfSpeech::Number { word.parse().ok() } else { None })
        }
    })
}
