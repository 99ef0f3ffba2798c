//! Parts of speech of a caption, from word lists and neighbours. Captions need more than a list: their verbs are often
//! participles ("man riding a bike") and third persons that are also plural nouns ("a man rides a bike").

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::hypernyms::Hypernyms;
use crate::lexicon::words;
use crate::text::{is_word, split};

/// Part of speech of a word in its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartOfSpeech {
    /// Article, possessive or quantifier in front of a noun.
    Determiner,
    /// Number word or digits.
    Number,
    /// Adjective, or a participle in front of a noun.
    Adjective,
    /// Noun or name.
    Noun,
    /// Verb or participle.
    Verb,
    /// Form of be, have, do; modal verb.
    Auxiliary,
    /// Adverb.
    Adverb,
    /// Preposition or verb particle.
    Preposition,
    /// Pronoun.
    Pronoun,
    /// And, or, but.
    Conjunction,
    /// Relative pronoun, or a conjunction that opens a clause.
    Subordinator,
    /// Possessive `'s`, infinitive `to`.
    Particle,
    /// Punctuation.
    Punctuation,
}

/// A word or punctuation mark with its part of speech.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The word as written.
    pub text: String,
    /// The word in lower case.
    pub lower: String,
    /// Part of speech.
    pub pos: PartOfSpeech,
}

/// Tags the words of English captions.
#[derive(Default)]
pub struct Tagger {
    nouns: Arc<Hypernyms>,
}

impl Tagger {
    /// A tagger that knows these nouns.
    pub fn new(nouns: Arc<Hypernyms>) -> Self {
        Self { nouns }
    }

    /// The words and punctuation of a text with their parts of speech.
    pub fn tag(&self, text: &str) -> Vec<Token> {
        let token = |part: &str| {
            let lower = part.to_lowercase();
            Token { text: part.to_owned(), pos: self.likely(&lower), lower }
        };
        let mut tokens: Vec<Token> = split(text).into_iter().map(token).collect();
        close_classes(&mut tokens);
        for at in 0..tokens.len() {
            if let Some(pos) = corrected(&tokens, at) {
                tokens[at].pos = pos;
            }
        }
        tokens
    }

    /// The part of speech of a word without its neighbours.
    fn likely(&self, word: &str) -> PartOfSpeech {
        let noun = self.nouns.singular(word).is_some();
        if words().is("adjectives", word) {
            PartOfSpeech::Adjective
        } else if noun {
            PartOfSpeech::Noun
        } else if words().verb_base(word).is_some() {
            PartOfSpeech::Verb
        } else {
            of_ending(word)
        }
    }
}

/// Guesses the part of speech of a word in no list, from its ending.
fn of_ending(word: &str) -> PartOfSpeech {
    if !is_word(word) {
        return PartOfSpeech::Punctuation;
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return PartOfSpeech::Number;
    }
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.len() > ending.len() + 2 && word.ends_with(ending));
    if ends(&["ing"]) || words().verb_base(word).is_some() && ends(&["ed"]) {
        PartOfSpeech::Verb
    } else if ends(&["ly"]) {
        PartOfSpeech::Adverb
    } else if ends(&["ed", "ful", "ous", "less", "ish", "able", "ible"]) {
        PartOfSpeech::Adjective
    } else {
        PartOfSpeech::Noun
    }
}

/// The sections of the word lists whose words have one part of speech. The first section with a word decides.
const CLOSED_SECTIONS: &[(&str, PartOfSpeech)] = &[
    ("determiners", PartOfSpeech::Determiner),
    ("numbers", PartOfSpeech::Number),
    ("auxiliaries", PartOfSpeech::Auxiliary),
    ("prepositions", PartOfSpeech::Preposition),
    ("conjunctions", PartOfSpeech::Conjunction),
    ("subordinators", PartOfSpeech::Subordinator),
    ("pronouns", PartOfSpeech::Pronoun),
    ("adverbs", PartOfSpeech::Adverb),
    ("colours", PartOfSpeech::Adjective),
];

/// The words of [`CLOSED_SECTIONS`] in one map, so that a word needs one look-up instead of one per section.
static CLOSED: LazyLock<HashMap<&'static str, PartOfSpeech>> = LazyLock::new(|| {
    let words_of = |(section, pos): &(&str, PartOfSpeech)| {
        words().all(section).into_iter().map({
            let pos = *pos;
            move |word| (word, pos)
        })
    };
    CLOSED_SECTIONS.iter().rev().flat_map(words_of).collect()
});

/// Sets the part of speech of the words of closed classes.
fn close_classes(tokens: &mut [Token]) {
    let lists = words();
    for at in 0..tokens.len() {
        let word = tokens[at].lower.as_str();
        let pos = match word {
            "to" => {
                let verb = tokens.get(at + 1).is_some_and(|next| lists.verb_base(&next.lower) == Some(&next.lower));
                Some(if verb { PartOfSpeech::Particle } else { PartOfSpeech::Preposition })
            }
            "'s" | "\u{2019}s" => Some(PartOfSpeech::Particle),
            "her" => {
                let owns = tokens.get(at + 1).is_some_and(|next| {
                    matches!(next.pos, PartOfSpeech::Noun | PartOfSpeech::Adjective | PartOfSpeech::Number)
                });
                Some(if owns { PartOfSpeech::Determiner } else { PartOfSpeech::Pronoun })
            }
            "back" | "inside" | "outside" if at > 0 && tokens[at - 1].pos == PartOfSpeech::Determiner => {
                Some(PartOfSpeech::Noun)
            }
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => Some(PartOfSpeech::Number),
            _ => CLOSED.get(word).copied(),
        };
        if let Some(pos) = pos {
            tokens[at].pos = pos;
        }
    }
}

/// The corrected part of speech of an open-class word, from its neighbours; `None` if it stays as it is.
fn corrected(tokens: &[Token], at: usize) -> Option<PartOfSpeech> {
    use PartOfSpeech::{
        Adjective, Adverb, Determiner, Noun, Number, Particle, Preposition, Pronoun, Punctuation, Verb,
    };
    let token = &tokens[at];
    if !matches!(token.pos, Noun | Verb | Adjective) || words().is("colours", &token.lower) {
        return None;
    }
    let before = at.checked_sub(1).map(|it| &tokens[it]);
    let after = tokens.get(at + 1);
    let is_before = |kinds: &[PartOfSpeech]| before.is_some_and(|it| kinds.contains(&it.pos));
    let is_after = |kinds: &[PartOfSpeech]| after.is_some_and(|it| kinds.contains(&it.pos));
    let base = words().verb_base(&token.lower);
    let ends_a_verb = after.is_none() || is_after(&[Determiner, Preposition, Adverb, Pronoun, Punctuation, Number]);
    let participle = token.lower.ends_with("ing") || token.lower.ends_with("ed");
    let after_colour = before.is_some_and(|it| words().is("colours", &it.lower));
    let opens_a_noun = is_before(&[Determiner, Adjective, Number]) || before.is_some_and(|it| it.lower == "'s");
    // "a man in red rides a bike"
    if opens_a_noun && !(after_colour && base.is_some() && ends_a_verb) {
        // "a smiling boy", but "a run in the park", "the painting".
        let modifies = is_after(&[Noun, Adjective]) || after.is_some_and(|it| words().verb_base(&it.lower).is_some());
        return match (token.pos, participle) {
            (Verb | Noun, true) if modifies && base.is_some() => Some(Adjective),
            (Verb, _) if !modifies && !is_before(&[Adjective, Number]) => Some(Noun),
            (Verb, false) => Some(Noun),
            _ => None,
        };
    }
    if before.is_some_and(|it| it.pos == Particle && it.lower == "to") {
        return base.map(|_| Verb);
    }
    // After a preposition, a verb form is a noun, and a participle in front of a noun is an adjective: "on fishing
    // boats".
    if is_before(&[Preposition]) {
        return match (token.pos, participle) {
            (Verb, false) => Some(Noun),
            (Verb | Noun, true) if is_after(&[Noun]) => Some(Adjective),
            _ => None,
        };
    }
    let base_form = base?;
    let noun_like = words().is("nounlike", base_form) && !participle;
    // "tennis bats on the ground", but "a boy bats a ball"
    if noun_like && !is_after(&[Determiner]) && !before.is_some_and(|it| is_person(&it.lower)) {
        return None;
    }
    if participle && token.pos != Verb && is_before(&[Noun, Adverb]) && (ends_a_verb || is_after(&[Adjective])) {
        return Some(Verb);
    }
    let before_is_plural =
        before.is_some_and(|it| it.lower.ends_with('s') && !it.lower.ends_with("ss") || PLURALS.contains(&&*it.lower));
    // "a man rides a bike": a singular subject is followed by the third person, a plural subject by the base form.
    let third_person = token.lower.ends_with('s') && !before_is_plural;
    let plural = base_form == token.lower && before_is_plural;
    (token.pos == Noun
        && (third_person || plural)
        && is_before(&[Noun, Adverb])
        && (ends_a_verb || is_after(&[Adjective])))
    .then_some(Verb)
}

/// Plurals without -s that are often subjects in captions.
const PLURALS: &[&str] = &["men", "women", "people", "children", "policemen", "firemen", "sheep", "cattle", "geese"];

/// True for nouns that are usually subjects.
pub(crate) fn is_person(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    PLURALS.contains(&word)
        || matches!(
            singular,
            "man"
                | "woman"
                | "boy"
                | "girl"
                | "person"
                | "child"
                | "kid"
                | "guy"
                | "lady"
                | "dog"
                | "skier"
                | "surfer"
                | "biker"
                | "player"
                | "snowboarder"
                | "skateboarder"
                | "cyclist"
                | "toddler"
                | "baby"
                | "someone"
                | "adult"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter per token.
    fn tags(text: &str) -> String {
        let letter = |token: Token| match token.pos {
            PartOfSpeech::Determiner => 'D',
            PartOfSpeech::Number => '#',
            PartOfSpeech::Adjective => 'A',
            PartOfSpeech::Noun => 'N',
            PartOfSpeech::Verb => 'V',
            PartOfSpeech::Auxiliary => 'X',
            PartOfSpeech::Adverb => 'R',
            PartOfSpeech::Preposition => 'P',
            PartOfSpeech::Pronoun => 'O',
            PartOfSpeech::Conjunction => 'C',
            PartOfSpeech::Subordinator => 'S',
            PartOfSpeech::Particle => 'T',
            PartOfSpeech::Punctuation => '.',
        };
        Tagger::default().tag(text).into_iter().map(letter).collect()
    }

    #[test]
    fn captions_are_tagged() {
        for (text, expected) in [
            ("A man rides a yellow bike over a ramp.", "DNVDANPDN."),
            ("Two dogs play in the snow", "#NVPDN"),
            ("a smiling boy slides down a green slide", "DANVPDAN"),
            ("A person snowboarding down a snowy hill", "DNVPDAN"),
            ("The big black dog is jumping to catch a ball .", "DAANXVTVDN."),
            ("a boy with his toy", "DNPDN"),
            ("a soccer player in red", "DNNPA"),
            ("the child 's U.S. flag", "DNTN.N"),
        ] {
            assert_eq!(tags(text), expected, "{text}");
        }
    }
}
