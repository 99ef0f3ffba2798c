//! A small SentencePiece vocabulary (Unigram) of a collection of texts, for a T5 that starts from random weights.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Tokenizer, hostile};
use crate::error::{Error, Result};

/// Tokens with fixed ids, those of T5: padding, end, unknown.
const SPECIAL: [&str; 3] = ["<pad>", "</s>", "<unk>"];
/// SentencePiece's mark at the beginning of a word.
const WORD_START: char = '\u{2581}';

impl Tokenizer {
    /// Makes a Unigram tokenizer in the layout of T5 (id 0 padding, 1 end, 2 unknown; a text has no start token). Its
    /// pieces are all characters of `texts` and the most frequent words; ties go to the word that sorts first. The
    /// same texts in any order give the same tokenizer.
    ///
    /// A piece that occurs n times has the score ln(n / N), where N is the number of all pieces; a character has ln(1 /
    /// N) - 1, so that a word is always one piece. Unlike SentencePiece, parts of words are no pieces: a word outside
    /// the vocabulary becomes its characters.
    ///
    /// `vocab_size` is an upper bound, because words that occur only once are no pieces.
    ///
    /// # Errors
    /// `vocab_size` is too small for the characters.
    pub fn unigram<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, vocab_size: usize) -> Result<Self> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for text in texts {
            for word in text.as_ref().split_whitespace() {
                for piece in parts(word) {
                    *counts.entry(piece).or_default() += 1;
                }
            }
        }
        let mut characters: Vec<char> = counts.keys().flat_map(|piece| piece.chars()).chain([WORD_START]).collect();
        characters.sort_unstable();
        characters.dedup();
        let least = SPECIAL.len() + characters.len();
        let Some(room) = vocab_size.checked_sub(least) else {
            let expected = format!("at least {least}: special tokens and the characters of the texts");
            return Err(Error::invalid("vocab_size", vocab_size.to_string(), expected));
        };
        let total = counts.values().sum::<u64>().max(1) as f64;
        let mut words: Vec<(String, u64)> =
            counts.into_iter().filter(|(piece, count)| *count > 1 && piece.chars().nth(1).is_some()).collect();
        words.sort_by(|(a, first), (b, second)| second.cmp(first).then_with(|| a.cmp(b)));
        words.truncate(room);
        let mut pieces: Vec<(String, f64)> = SPECIAL.iter().map(|token| ((*token).to_owned(), 0.0)).collect();
        pieces.extend(words.into_iter().map(|(piece, count)| (piece, (count as f64 / total).ln())));
        pieces.extend(characters.into_iter().map(|it| (it.to_string(), -total.ln() - 1.0)));
        let text = layout(&pieces).to_string();
        Self::new("the vocabulary of the texts", hostile::parse("the vocabulary of the texts", text.as_bytes())?)
    }
}

/// The runs of letters and digits of a word, and the characters between them. The first part starts with
/// [`WORD_START`].
fn parts(word: &str) -> Vec<String> {
    let mut found = vec![String::from(WORD_START)];
    let mut in_run = true;
    for letter in word.chars() {
        match (letter.is_alphanumeric(), found.last_mut()) {
            (true, Some(run)) if in_run => run.push(letter),
            // Punctuation at the beginning of a word shares the part with `WORD_START`.
            (false, Some(first)) if first.len() == WORD_START.len_utf8() && first.starts_with(WORD_START) => {
                first.push(letter);
            }
            _ => found.push(letter.to_string()),
        }
        in_run = letter.is_alphanumeric();
    }
    found
}

/// The content of `tokenizer.json`.
fn layout(pieces: &[(String, f64)]) -> serde_json::Value {
    let metaspace =
        json!({ "type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always", "split": true });
    let added = SPECIAL.iter().enumerate().map(|(id, content)| {
        json!({
            "id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false,
        })
    });
    let end = json!({ "SpecialToken": { "id": SPECIAL[1], "type_id": 0 } });
    let sequence = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, &metaspace] },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [sequence("A"), end],
            "pair": [sequence("A"), end, sequence("B"), end],
            "special_tokens": { SPECIAL[1]: { "id": SPECIAL[1], "ids": [1], "tokens": [SPECIAL[1]] } },
        },
        "decoder": metaspace,
        "model": { "type": "Unigram", "unk_id": 2, "vocab": pieces, "byte_fallback": false },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn frequent_words_are_one_piece_and_others_are_characters() {
        let texts = ["a dog, a dog", "a dog runs"];
        let tokenizer = Tokenizer::unigram(texts, 100).unwrap();
        // By hand: 3 "▁dog" and "▁a" each, "," and "▁runs" once; single characters are no words.
        assert_eq!(parts("(dog,"), ["\u{2581}(", "dog", ","]);
        assert_eq!(tokenizer.id("\u{2581}a"), Some(3));
        assert_eq!(tokenizer.id("\u{2581}dog"), Some(4));
        assert_eq!(tokenizer.id("\u{2581}runs"), None);
        assert_eq!(tokenizer.encode("a dog", 10).unwrap(), [3, 4, 1]);
        assert_eq!(tokenizer.encode("runs", 10).unwrap().len(), 1 + 4 + 1);
        assert_eq!(tokenizer.encode("\u{4e00}", 10).unwrap().last(), Some(&1));
        let json = |texts: [&str; 2]| Tokenizer::unigram(texts, 100).unwrap().to_json().unwrap();
        assert_eq!(json(texts), json([texts[1], texts[0]]));
        let error = Tokenizer::unigram(texts, 5).unwrap_err().to_string();
        assert!(error.contains("`vocab_size` is 5; expected at least 13"), "{error}");
    }
}
