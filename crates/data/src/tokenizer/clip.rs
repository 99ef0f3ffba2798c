//! CLIP's vocabulary layout (Radford et al. 2021, released `simple_tokenizer`): 256 bytes, the same 256 bytes at the
//! end of a word, one token per merge in the order of the merges, start of text, end of text.

use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Lowercase, NFC, Replace, Sequence};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use crate::error::{Error, Result};

/// Marks the last token of a word.
pub(super) const END_OF_WORD: &str = "</w>";

const START_OF_TEXT: &str = "<|startoftext|>";
const END_OF_TEXT: &str = "<|endoftext|>";

/// Size of CLIP's vocabulary: 512 + 48,894 merges + 2.
const CLIP_VOCAB: usize = 49_408;

/// Splits text into contractions, runs of letters, single digits, and runs of other characters except white space.
/// (CLIP's own expression also contains the two special tokens; the library matches those before it applies this
/// expression.)
const WORD_PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

/// Number of merges in a vocabulary of this size.
pub(super) fn merges_of(vocab_size: usize) -> Result<usize> {
    vocab_size.checked_sub(2 * 256 + 2).ok_or_else(|| {
        Error::invalid(
            "vocab_size",
            vocab_size.to_string(),
            "at least 514: 256 bytes, 256 bytes at the end of a word, start, end",
        )
    })
}

/// Parses merges, two tokens per line. A first line that contains `#version` is skipped.
pub(super) fn parse_merges(place: &str, text: &str, vocab_size: Option<usize>) -> Result<Merges> {
    let count = merges_of(vocab_size.unwrap_or(CLIP_VOCAB))?;
    let title = usize::from(text.lines().next().is_some_and(|line| line.contains("#version")));
    let lines = text.lines().enumerate().skip(title);
    let merges: Merges = lines
        .filter(|(_, line)| !line.trim().is_empty())
        .take(count)
        .map(|(number, line)| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [left, right] => Ok((left.to_owned(), right.to_owned())),
            _ => {
                let shown: String = line.chars().take(60).collect();
                Err(Error::format(
                    format!("{place}, line {}", number + 1),
                    format!("{shown:?}"),
                    "two tokens separated by a space",
                ))
            }
        })
        .collect::<Result<_>>()?;
    match vocab_size {
        Some(size) if merges.len() < count => Err(Error::invalid(
            "vocab_size",
            size.to_string(),
            format!("at most {}: `{place}` holds {} merges", 514 + merges.len(), merges.len()),
        )),
        _ => Ok(merges),
    }
}

/// Builds a tokenizer with these merges. When it is saved and loaded by the `tokenizers` library, its normaliser does
/// the part of the cleaning that this library supports. The normaliser does not change text that is already clean.
pub(super) fn build(merges: &[(String, String)]) -> tokenizers::Result<Tokenizer> {
    let vocab: Vocab = base_tokens()
        .into_iter()
        .chain(merges.iter().map(|(left, right)| format!("{left}{right}")))
        .chain([START_OF_TEXT, END_OF_TEXT].map(str::to_owned))
        .zip(0..)
        .collect();
    let (start, end) = (vocab[START_OF_TEXT], vocab[END_OF_TEXT]);
    let model =
        BPE::builder().vocab_and_merges(vocab, merges.to_vec()).end_of_word_suffix(END_OF_WORD.to_owned()).build()?;
    let mut tokenizer = Tokenizer::new(model);
    let white_space = Replace::new(ReplacePattern::Regex(r"\s+".to_owned()), " ")?;
    tokenizer.with_normalizer(Some(Sequence::new(vec![NFC.into(), white_space.into(), Lowercase.into()])))?;
    tokenizer.with_pre_tokenizer(Some(words()?));
    tokenizer.with_post_processor(Some(RobertaProcessing::new(
        (END_OF_TEXT.to_owned(), end),
        (START_OF_TEXT.to_owned(), start),
    )));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    tokenizer.add_special_tokens([START_OF_TEXT, END_OF_TEXT].map(|token| AddedToken::from(token, true)))?;
    Ok(tokenizer)
}

/// Splits a text into words, and maps each word's bytes to the printable characters of [`byte_chars`].
pub(super) fn words() -> tokenizers::Result<PreTokenizerWrapper> {
    let split = Split::new(SplitPattern::Regex(WORD_PATTERN.to_owned()), SplitDelimiterBehavior::Removed, true)?;
    let bytes = ByteLevel::new(false, true, false);
    Ok(PreTokenizers::new(vec![split.into(), bytes.into()]).into())
}

/// The first 512 tokens: every byte, then every byte at the end of a word.
pub(super) fn base_tokens() -> Vec<String> {
    let bytes = byte_chars().map(String::from).collect::<Vec<_>>();
    let at_end = bytes.iter().map(|byte| format!("{byte}{END_OF_WORD}"));
    bytes.iter().cloned().chain(at_end).collect()
}

/// A printable character for each byte, in the order of CLIP's ids: first the bytes that are printable in Latin-1,
/// then the other 68 as U+0100 and up (the table of GPT-2).
fn byte_chars() -> impl Iterator<Item = char> {
    let printable = ('!'..='~').chain('¡'..='¬').chain('®'..='ÿ');
    printable.chain('\u{100}'..'\u{144}')
}
