//! Completes a caption to a hierarchy by rules.

use std::sync::Arc;

use crate::clause::{Clause, NounPhrase, Predicate, PrepositionalPhrase, clause};
use crate::hypernyms::Hypernyms;
use crate::lexicon::words;
use crate::pipeline::DropCause;
use crate::tagger::{PartOfSpeech, Tagger, Token};
use crate::text::{join, word_count};

/// Minimum number of words by which the third tier is shorter than the caption (HierarCaps supplement, Sec. 2.1).
pub(crate) const FEWER_WORDS: usize = 2;
/// Minimum number of characters by which the third tier is shorter than the caption.
pub(crate) const FEWER_CHARS: usize = 10;

/// Makes the three tiers above a caption: a hypernym of its subject, the subject, and the caption without modifiers.
pub struct RuleCompleter {
    tagger: Arc<Tagger>,
    nouns: Arc<Hypernyms>,
    steps: usize,
}

impl RuleCompleter {
    /// Creates a completer with these is-a relations. The first tier is up to `steps` hypernyms above the subject.
    pub fn new(tagger: Arc<Tagger>, nouns: Arc<Hypernyms>, steps: usize) -> Self {
        Self { tagger, nouns, steps }
    }

    /// The first three tiers of a caption, from general to specific.
    ///
    /// # Errors
    /// The caption has no subject or a negated one, the subject has neither a hypernym nor a longer form, or no part of
    /// the caption is longer than the second tier and short enough for the third.
    pub fn complete(&self, caption: &str) -> Result<[String; 3], DropCause> {
        let tokens = self.tagger.tag(caption);
        let clause = clause(&tokens).ok_or(DropCause::NoNoun)?;
        let start = clause.subject.tokens().start;
        if tokens[start..clause.subject.tokens().end].iter().any(|it| words().is("negations", &it.lower)) {
            return Err(DropCause::NegatedSubject);
        }
        let wording = Wording { tokens: &tokens, clause: &clause };
        let mut ladder = self.subjects(&wording);
        // Without a hypernym, the subject is the first tier, and a longer form of it the second.
        let forms = wording.forms();
        let third = |above: &str| {
            let fits = |form: &&String| {
                word_count(form) + FEWER_WORDS <= word_count(caption)
                    && form.chars().count() + FEWER_CHARS <= caption.chars().count()
                    && word_count(form) > word_count(above)
                    && above.split(' ').all(|word| form.split(' ').any(|it| it == word))
            };
            forms.iter().find(fits).cloned()
        };
        if ladder.len() == 1 {
            let above = ladder[0].clone();
            let longer = forms.iter().rev().find(|form| word_count(form) > word_count(&above));
            ladder.push(longer.cloned().ok_or(DropCause::NoGeneralTier)?);
        }
        let [first, second] = [ladder.remove(0), ladder.remove(0)];
        let third = third(&second).ok_or(DropCause::NoThirdTier)?;
        Ok([first, second, third])
    }

    /// The forms of the subject, from general to specific: hypernym, noun, compound noun, noun with a partitive. For
    /// two subjects with a common hypernym, they are this hypernym and both subjects. Missing and repeated forms are
    /// left out.
    fn subjects(&self, wording: &Wording<'_>) -> Vec<String> {
        let (tokens, clause) = (wording.tokens, wording.clause);
        let named = clause.subject.named(tokens);
        let nouns: Vec<&str> = tokens[named.noun..=named.head()].iter().map(|it| it.lower.as_str()).collect();
        // The longest known end of a compound: "tennis player", "player".
        let known = (0..nouns.len()).find_map(|from| {
            let joined = nouns[from..].join(" ");
            self.nouns.singular(&joined).map(|singular| (joined.clone(), singular.into_owned()))
        });
        let (noun, singular) = known.unwrap_or_else(|| {
            let last = nouns[nouns.len() - 1].to_owned();
            (last.clone(), last)
        });
        let several = noun != singular || counts_several(&tokens[named.tokens.clone()]);
        let number = |word: &str| if several { self.nouns.plural(word) } else { word.to_owned() };
        let mut ladder: Vec<String> = Vec::new();
        let mut add = |text: String| {
            if !ladder.contains(&text) {
                ladder.push(text);
            }
        };
        if let Some(second) = &clause.second_subject {
            let other = tokens[second.named(tokens).head()].lower.as_str();
            let other_singular = self.nouns.singular(other);
            // The subject of "a man and a woman" is people; that of "a man and his dog" is the man.
            if let Some(other_singular) = other_singular
                && let Some(common) = self.common_hypernym(&singular, &other_singular)
            {
                add(self.nouns.plural(common));
                add(if singular == other_singular {
                    self.nouns.plural(&singular)
                } else {
                    format!("{noun} and {other}")
                });
                return ladder;
            }
        }
        if let Some(general) = self.general(&singular) {
            add(number(general));
        }
        add(noun.clone());
        if nouns.len() > 1 {
            add(nouns.join(" "));
        }
        let phrase = wording.bare(&clause.subject);
        if clause.subject.chunks.len() > 1 && phrase.ends_with(&noun) {
            add(phrase);
        }
        ladder
    }

    /// The hypernym for the first tier. "living being" is skipped, because "people", "animal" and "plant" below it are
    /// more specific.
    fn general(&self, noun: &str) -> Option<&str> {
        (1..=self.steps).rev().filter_map(|steps| self.nouns.hypernym(noun, steps)).find(|it| *it != "living being")
    }

    fn common_hypernym(&self, a: &str, b: &str) -> Option<&str> {
        if a == b {
            return self.general(a);
        }
        let common = self.nouns.hypernym(a, 1)?;
        let suits = |common: &&str| self.nouns.is_a(b, common) && *common != b && *common != a;
        Some(common)
            .filter(suits)
            .or_else(|| self.nouns.hypernym(a, 2).filter(suits))
            .filter(|it| *it != "living being")
    }
}

/// True if a number or quantifier of the chunk says that there are several things.
fn counts_several(chunk: &[Token]) -> bool {
    chunk.iter().any(|token| {
        token.pos == PartOfSpeech::Number && token.lower != "1"
            || matches!(&*token.lower, "several" | "many" | "multiple" | "both" | "these" | "those" | "few" | "various")
    })
}

/// Texts made of the parts of a caption.
struct Wording<'a> {
    tokens: &'a [Token],
    clause: &'a Clause,
}

impl Wording<'_> {
    /// The caption without some of its parts, in several forms, the most specific first.
    fn forms(&self) -> Vec<String> {
        let Clause { subject, second_subject, attributes, predicate } = self.clause;
        let second = |full: bool| match second_subject {
            Some(second) if full => vec!["and".to_owned(), self.with_modifiers(second)],
            Some(second) => vec!["and".to_owned(), self.bare(second)],
            None => Vec::new(),
        };
        let whole = [vec![self.with_modifiers(subject)], second(true)].concat();
        let bare = [vec![self.bare(subject)], second(false)].concat();
        let mut forms: Vec<Vec<String>> = Vec::new();
        if let Some(predicate) = predicate {
            let Predicate { object, place, .. } = predicate;
            let verb = predicate.verb.iter().map(|at| self.tokens[*at].lower.clone()).collect::<Vec<_>>();
            let full_object: Vec<String> = object.iter().map(|it| self.full(it)).collect();
            let bare_object: Vec<String> = object.iter().map(|it| self.with_determiner(it)).collect();
            let full_place: Vec<String> = place.iter().flat_map(|it| self.prepositional(it, true)).collect();
            let bare_place: Vec<String> = place.iter().flat_map(|it| self.prepositional(it, false)).collect();
            let first: Vec<String> = attributes.first().map_or_else(Vec::new, |it| self.prepositional(it, false));
            let verb = if self.is_unfinished(predicate) && object.is_none() { Vec::new() } else { verb };
            forms.push([&whole[..], &verb, &full_object, &full_place].concat());
            forms.push([&whole[..], &verb, &bare_object, &bare_place].concat());
            forms.push([&bare[..], &verb, &bare_object, &bare_place].concat());
            if object.is_some() {
                forms.push([&whole[..], &verb, &bare_object].concat());
                forms.push([&bare[..], &verb, &bare_object].concat());
            } else if !self.is_unfinished(predicate) {
                forms.push([&whole[..], &verb].concat());
                forms.push([&bare[..], &verb].concat());
            }
            if !first.is_empty() {
                forms.push([&bare[..], &first].concat());
            }
        } else if let Some(first) = attributes.first() {
            forms.push([whole.clone(), self.prepositional(first, true)].concat());
            forms.push([whole.clone(), self.prepositional(first, false)].concat());
            forms.push([bare, self.prepositional(first, false)].concat());
        }
        forms.push(whole);
        forms.into_iter().map(|words| join(words.iter().map(String::as_str))).collect()
    }

    /// True if an infinitive completes the verb: "appears to be", "tries to catch".
    fn is_unfinished(&self, predicate: &Predicate) -> bool {
        let next = predicate.verb.last().and_then(|last| self.tokens.get(last + 1));
        next.is_some_and(|it| it.lower == "to")
    }

    fn prepositional(&self, phrase: &PrepositionalPhrase, full: bool) -> Vec<String> {
        let mut words: Vec<String> =
            self.tokens[phrase.preposition.clone()].iter().map(|it| it.lower.clone()).collect();
        words.push(if full { self.full(&phrase.object) } else { self.with_determiner(&phrase.object) });
        words
    }

    /// The phrase as written, in lower case.
    fn full(&self, phrase: &NounPhrase) -> String {
        join(self.tokens[phrase.tokens()].iter().map(|it| it.lower.as_str()))
    }

    /// The phrase without the determiner in front.
    fn with_modifiers(&self, phrase: &NounPhrase) -> String {
        let from = phrase.chunks[0].body.max(phrase.tokens().start);
        join(self.tokens[from..phrase.tokens().end].iter().map(|it| it.lower.as_str()))
    }

    /// The phrase without adjectives, with the determiners of its chunks.
    fn with_determiner(&self, phrase: &NounPhrase) -> String {
        self.shortened(phrase, true)
    }

    /// The phrase without adjectives and without the determiner in front.
    fn bare(&self, phrase: &NounPhrase) -> String {
        self.shortened(phrase, false)
    }

    fn shortened(&self, phrase: &NounPhrase, determiner: bool) -> String {
        let mut kept: Vec<&str> = Vec::new();
        for (number, chunk) in phrase.chunks.iter().enumerate() {
            if number > 0 {
                kept.push("of");
            }
            let noun = &self.tokens[chunk.noun].lower;
            for token in &self.tokens[chunk.tokens.start..chunk.body] {
                if determiner || number > 0 {
                    // Without the adjective the article may change: "an orange ball", "a ball".
                    kept.push(match token.lower.as_str() {
                        "a" | "an" => article(noun),
                        other => other,
                    });
                }
            }
            let owner = self.tokens[chunk.body..chunk.noun].iter().any(|it| it.pos == PartOfSpeech::Particle);
            kept.extend(self.tokens[chunk.body..=chunk.head()].iter().enumerate().filter_map(|(offset, token)| {
                let at = chunk.body + offset;
                let number = token.pos == PartOfSpeech::Number && (determiner || number > 0);
                // Keep the owner in "a child's toy", because the article belongs to it.
                (at >= chunk.noun || number || owner).then_some(token.lower.as_str())
            }));
        }
        join(kept)
    }
}

/// The indefinite article in front of a word, by its spelling.
pub(crate) fn article(word: &str) -> &'static str {
    let vowel = word.starts_with(['a', 'e', 'i', 'o', 'u'])
        && !["uni", "use", "eu", "one", "uk"].iter().any(|it| word.starts_with(it));
    if vowel { "an" } else { "a" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers(caption: &str) -> String {
        let completer = RuleCompleter::new(Arc::default(), Arc::default(), 1);
        match completer.complete(caption) {
            Ok(tiers) => tiers.join(" => "),
            Err(cause) => cause.name().to_owned(),
        }
    }

    #[test]
    fn captions_are_completed() {
        for (caption, expected) in [
            (
                "A black Honda motorcycle parked in front of a garage .",
                "motorcycle => honda motorcycle => honda motorcycle parked in front of a garage",
            ),
            (
                "Two big dogs are running through the deep snow near a wooden fence .",
                "animals => dogs => two big dogs running through the deep snow",
            ),
            (
                "A group of young people in red shirts are walking down the street together .",
                "people => group of people => group of young people walking down the street",
            ),
            (
                "A man and a woman are sitting on a wooden bench in the park .",
                "people => man and woman => man and woman sitting on a wooden bench",
            ),
            (
                "People are standing around a table that is full of food .",
                "people => people standing => people standing around a table",
            ),
            ("He is running and she is sitting while they are looking at him .", "no_noun"),
            ("No people are standing on the long white beach in winter .", "negated_subject"),
        ] {
            assert_eq!(tiers(caption), expected, "{caption}");
        }
    }

    #[test]
    fn articles_follow_the_next_word() {
        assert_eq!(["apple", "uniform", "dog", "umbrella"].map(article), ["an", "a", "a", "an"]);
    }
}
