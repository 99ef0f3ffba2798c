//! Negative tiers by rules. Each contradicts the positive tier of the same level, and the positive tier above follows
//! from it.

use std::sync::Arc;

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Result;
use crate::chunks::noun_chunks;
use crate::completer::article;
use crate::entailment::Entailment;
use crate::hypernyms::Hypernyms;
use crate::lexicon::words;
use crate::pipeline::{DropCause, TIERS};
use crate::tagger::{PartOfSpeech, Tagger, Token};
use crate::text::join;

/// Maximum number of exchanges tried for a tier. HierarCaps tries eight texts of a model, which are more expensive.
const TRIES: usize = 24;

/// Makes negative tiers by exchanging a word for one that excludes it (a kind, a colour, a number, an activity, an
/// antonym), or else by negating a noun.
pub struct RuleNegatives {
    tagger: Arc<Tagger>,
    nouns: Arc<Hypernyms>,
    general: Vec<&'static str>,
}

/// A replacement for some tokens of a text.
struct Exchange {
    /// Tokens that are replaced.
    at: std::ops::Range<usize>,
    with: String,
}

impl RuleNegatives {
    /// Creates the rules with these is-a relations.
    pub fn new(tagger: Arc<Tagger>, nouns: Arc<Hypernyms>) -> Self {
        let general = nouns.general_nouns().collect();
        Self { tagger, nouns, general }
    }

    /// The negative tiers of a hierarchy, with the number of the try that made each. The same `key` gives the same
    /// tiers.
    ///
    /// # Errors
    /// The inner error is [`DropCause::NoNegative`] if no try gave a valid tier. The outer error is one of the judge.
    pub fn negatives(
        &self,
        tiers: &[String; TIERS],
        key: [u8; 32],
        judge: &dyn Entailment,
    ) -> Result<std::result::Result<[(String, u32); TIERS], DropCause>> {
        let mut rng = ChaCha8Rng::from_seed(key);
        let mut negatives: [(String, u32); TIERS] = Default::default();
        for (tier, negative) in negatives.iter_mut().enumerate() {
            let (mut candidates, negated) = self.candidates(tiers, tier);
            candidates.shuffle(&mut rng);
            candidates.truncate(TRIES);
            // Try negations last: they are valid, but a model learns less from them than from an exchange.
            candidates.extend(negated);
            let mut found = None;
            for (number, candidate) in (0..).zip(candidates) {
                if is_negative(tiers, tier, &candidate, judge)? {
                    found = Some((candidate, number));
                    break;
                }
            }
            match found {
                Some(found) => *negative = found,
                None => return Ok(Err(DropCause::NoNegative)),
            }
        }
        Ok(Ok(negatives))
    }

    /// Texts with one exchange, and texts with one negation.
    fn candidates(&self, tiers: &[String; TIERS], tier: usize) -> (Vec<String>, Vec<String>) {
        let tokens = self.tagger.tag(&tiers[tier]);
        if tier == 0 {
            return (self.other_concepts(&tokens), Vec::new());
        }
        let kept: Vec<String> = self.tagger.tag(&tiers[tier - 1]).into_iter().map(|it| it.lower).collect();
        let mut exchanges = self.exchanges(&tokens);
        // An exchange must replace a word that the tier above does not have.
        let says_new = |it: &Exchange| tokens[it.at.clone()].iter().any(|token| !kept.contains(&token.lower));
        exchanges.retain(says_new);
        let negated = if tier > 1 { negations(&tokens) } else { Vec::new() };
        let text = |it: &Exchange| exchanged(&tokens, it);
        (exchanges.iter().map(text).collect(), negated.iter().map(text).collect())
    }

    /// General nouns that exclude the noun of the first tier: the whole tier if it is a known noun, else its last word.
    fn other_concepts(&self, tokens: &[Token]) -> Vec<String> {
        let text = join(tokens.iter().map(|it| it.lower.as_str()));
        let last = tokens.last().map(|it| it.lower.clone()).unwrap_or_default();
        let (singular, several) = match self.nouns.singular(&text).or_else(|| self.nouns.singular(&last)) {
            Some(singular) => (singular.to_string(), singular != text && singular != last),
            None => (last, false),
        };
        let others = self.general.iter().filter(|it| self.nouns.exclude_each_other(it, &singular));
        others.map(|it| if several { self.nouns.plural(it) } else { (*it).to_owned() }).collect()
    }

    /// Every exchange of one word or compound noun of a text.
    fn exchanges(&self, tokens: &[Token]) -> Vec<Exchange> {
        let lists = words();
        let mut found = Vec::new();
        for chunk in noun_chunks(tokens) {
            self.exchange_noun(tokens, chunk.noun, chunk.head(), &mut found);
        }
        for (at, token) in tokens.iter().enumerate() {
            let word = token.lower.as_str();
            let mut put = |with: &str| found.push(Exchange { at: at..at + 1, with: with.to_owned() });
            if token.pos != PartOfSpeech::Noun {
                lists.antonyms(word).iter().for_each(|other| put(other));
            }
            match token.pos {
                PartOfSpeech::Adjective if lists.is("colours", word) => {
                    const COLOURS: [&str; 8] = ["red", "blue", "green", "yellow", "white", "black", "brown", "pink"];
                    let same = |other: &str| other == word || lists.synonyms(word).contains(&other);
                    COLOURS.iter().filter(|it| !same(it)).for_each(|it| put(it));
                }
                PartOfSpeech::Number => {
                    const NUMBERS: [&str; 4] = ["two", "three", "four", "five"];
                    NUMBERS
                        .iter()
                        .filter(|it| **it != word && !word.starts_with(|c: char| c.is_ascii_digit()))
                        .for_each(|it| put(it));
                }
                PartOfSpeech::Verb => {
                    if let Some(base) = lists.verb_base(word).filter(|base| lists.is("exclusive", base)) {
                        for other in lists.all("exclusive").into_iter().filter(|it| *it != base) {
                            if let Some(form) = same_form(word, base, other) {
                                put(&form);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Exchanges of the noun of a chunk for its antonyms and its siblings.
    fn exchange_noun(&self, tokens: &[Token], noun: usize, head: usize, found: &mut Vec<Exchange>) {
        for from in noun..=head {
            let joined = tokens[from..=head].iter().map(|it| it.lower.as_str()).collect::<Vec<_>>().join(" ");
            let Some(singular) = self.nouns.singular(&joined) else { continue };
            let several = *singular != *joined;
            let mut put = |other: &str| {
                let with = if several { self.nouns.plural(other) } else { other.to_owned() };
                found.push(Exchange { at: from..head + 1, with });
            };
            words().antonyms(&singular).iter().copied().filter(|it| self.nouns.is_listed(it)).for_each(&mut put);
            let excluded = |it: &&str| self.nouns.exclude_each_other(it, &singular);
            self.nouns.siblings(&singular).filter(excluded).for_each(&mut put);
            return;
        }
    }
}

/// Negations of single noun chunks: "with no glasses".
fn negations(tokens: &[Token]) -> Vec<Exchange> {
    let chunks = noun_chunks(tokens);
    // Do not negate the subject.
    let negate = |chunk: &crate::NounChunk| Exchange {
        at: chunk.tokens.start..chunk.noun,
        with: join(["no"].into_iter().chain(tokens[chunk.body..chunk.noun].iter().map(|it| it.text.as_str()))),
    };
    chunks.iter().skip(1).filter(|chunk| chunk.noun > chunk.tokens.start).map(negate).collect()
}

/// The conditions on a negative tier: it contradicts the positive tier, and the tier above follows from it.
///
/// # Errors
/// Returns the errors of the judge.
pub(crate) fn is_negative(
    tiers: &[String; TIERS],
    tier: usize,
    candidate: &str,
    judge: &dyn Entailment,
) -> Result<bool> {
    if !judge.contradict(&tiers[tier], candidate)? {
        return Ok(false);
    }
    if tier > 0 && !judge.is_more_general(&tiers[tier - 1], candidate)? {
        return Ok(false);
    }
    // The general tiers must be wrong for the whole caption: "food" is no negative of "person" in "a man eating a
    // cake".
    Ok(tier > 1 || judge.judge(&tiers[TIERS - 1], candidate)?.entailment <= 0.5)
}

/// The form of another verb that corresponds to `form`, a form of `base`; `None` if `form` is irregular ("sat").
fn same_form(form: &str, base: &str, other: &str) -> Option<String> {
    if form == base {
        return Some(other.to_owned());
    }
    // The -ing form also replaces a past participle, because the past participle of the other verb may be irregular: "a
    // car parked" becomes "a car driving".
    if form.ends_with("ing") || form.ends_with("ed") {
        return Some(participle(other));
    }
    (form.ends_with('s')).then(|| match other.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if ["ch", "sh", "x", "ss"].iter().any(|end| other.ends_with(end)) => format!("{other}es"),
        _ => format!("{other}s"),
    })
}

fn participle(verb: &str) -> String {
    match verb {
        "lie" => "lying".to_owned(),
        "sit" | "run" | "swim" => format!("{verb}{}ing", &verb[verb.len() - 1..]),
        _ => match verb.strip_suffix('e') {
            Some(stem) if !verb.ends_with("ee") => format!("{stem}ing"),
            _ => format!("{verb}ing"),
        },
    }
}

/// The text with one exchange, and the articles `a` and `an` corrected.
fn exchanged(tokens: &[Token], exchange: &Exchange) -> String {
    let mut parts: Vec<&str> = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        if at == exchange.at.start {
            parts.push(&exchange.with);
        } else if !exchange.at.contains(&at) {
            parts.push(&token.text);
        }
    }
    for at in 0..parts.len().saturating_sub(1) {
        let fixed = article(parts[at + 1]);
        match parts[at] {
            "a" | "an" => parts[at] = fixed,
            "A" | "An" => parts[at] = if fixed == "a" { "A" } else { "An" },
            _ => {}
        }
    }
    join(parts)
}

/// The seed of the random choices for a row, which depends only on the seed of the run and the id of the row.
pub(crate) fn key_of(seed: u64, id: &str) -> [u8; 32] {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new_with_prefix(seed.to_le_bytes());
    hash.update(id.as_bytes());
    hash.finalize().into()
}

/// A number in `0..bound` for the id of a row, for samples that do not depend on the order of rows.
pub(crate) fn draw(seed: u64, id: &str, bound: usize) -> usize {
    ChaCha8Rng::from_seed(key_of(seed, id)).random_range(0..bound.max(1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entailment::RuleEntailment;

    #[test]
    fn negatives_contradict_their_tier_and_keep_the_one_above() {
        let (tagger, nouns): (Arc<Tagger>, Arc<Hypernyms>) = Default::default();
        let judge = RuleEntailment::new(Arc::clone(&tagger), Arc::clone(&nouns));
        let rules = RuleNegatives::new(tagger, nouns);
        for tiers in [
            ["animal", "dog", "dog running through the snow", "A big black dog is running through the deep snow ."],
            [
                "people",
                "man and woman",
                "man and woman sitting on a bench",
                "A man and a woman are sitting on a red bench in the park .",
            ],
            ["vehicle", "motorcycle", "motorcycle parked", "An old red motorcycle parked in front of two houses ."],
        ] {
            let tiers = tiers.map(str::to_owned);
            let negatives = rules.negatives(&tiers, key_of(1, "a"), &judge).unwrap().unwrap();
            for (tier, (negative, _)) in negatives.iter().enumerate() {
                assert!(judge.contradict(&tiers[tier], negative).unwrap(), "{negative} beside {}", tiers[tier]);
                if tier > 0 {
                    assert!(judge.is_more_general(&tiers[tier - 1], negative).unwrap(), "{negative}");
                }
            }
            assert_eq!(negatives, rules.negatives(&tiers, key_of(1, "a"), &judge).unwrap().unwrap());
        }
    }

    #[test]
    fn a_text_that_no_rule_can_change_has_no_negative() {
        let (tagger, nouns): (Arc<Tagger>, Arc<Hypernyms>) = Default::default();
        let judge = RuleEntailment::new(Arc::clone(&tagger), Arc::clone(&nouns));
        let tiers = ["quark", "strange quark", "strange quark there", "a very strange quark that was there"];
        let negatives =
            RuleNegatives::new(tagger, nouns).negatives(&tiers.map(str::to_owned), [0; 32], &judge).unwrap();
        assert!(matches!(negatives, Err(DropCause::NoNegative)));
    }

    #[test]
    fn exchanged_words_keep_their_form() {
        assert_eq!(same_form("sitting", "sit", "swim").as_deref(), Some("swimming"));
        assert_eq!(same_form("sits", "sit", "fly").as_deref(), Some("flies"));
        assert_eq!(same_form("parked", "park", "drive").as_deref(), Some("driving"));
        assert_eq!(same_form("sat", "sit", "run"), None);
        let tokens = Tagger::default().tag("A dog on a couch.");
        let exchange = Exchange { at: 1..2, with: "elephant".to_owned() };
        assert_eq!(exchanged(&tokens, &exchange), "An elephant on a couch.");
    }
}
