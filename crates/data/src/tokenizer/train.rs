//! Learns byte pairs from captions, deterministically and in CLIP's layout. The trainer of the `tokenizers` library is
//! not used: it iterates over randomly seeded hash maps, and numbers tokens in a different order from CLIP.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use tokenizers::models::bpe::Merges;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::{clean, clip};
use crate::error::{Error, Result};

type TokenPair = (u32, u32);

/// Learns at most `merges` pairs, most frequent first.
pub(super) fn learn_merges<S: AsRef<str>>(captions: impl IntoIterator<Item = S>, merges: usize) -> Result<Merges> {
    let mut tokens = clip::base_tokens();
    let mut ids: HashMap<String, u32> = tokens.iter().cloned().zip(0..).collect();
    let mut corpus = Corpus::new(count_words(captions)?, &ids);
    let mut learnt = Merges::new();
    while learnt.len() < merges
        && let Some((left, right)) = corpus.most_frequent()
    {
        let parts = (tokens[left as usize].clone(), tokens[right as usize].clone());
        let token = format!("{}{}", parts.0, parts.1);
        // Skip a pair whose concatenation is already a token ("ab" + "c" after "a" + "bc"): two merges with the same
        // token would leave a gap in the ids.
        if ids.contains_key(&token) {
            continue;
        }
        let id = tokens.len() as u32;
        corpus.merge((left, right), id);
        ids.insert(token.clone(), id);
        tokens.push(token);
        learnt.push(parts);
    }
    Ok(learnt)
}

/// Counts words, split as in CLIP, with bytes as printable characters. The map is sorted, so the order of the
/// captions has no influence.
fn count_words<S: AsRef<str>>(captions: impl IntoIterator<Item = S>) -> Result<BTreeMap<String, u64>> {
    let failed =
        |error: tokenizers::Error| Error::format("captions", error.to_string(), "texts that can be cut into words");
    let splitter = clip::words().map_err(failed)?;
    let mut counts = BTreeMap::new();
    for caption in captions {
        let mut text = PreTokenizedString::from(clean::clean(caption.as_ref()));
        splitter.pre_tokenize(&mut text).map_err(failed)?;
        for (word, _, _) in text.get_splits(OffsetReferential::Original, OffsetType::None) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// The words as token sequences, with the frequency of each pair of adjacent tokens.
struct Corpus {
    words: Vec<(Vec<u32>, u64)>,
    counts: HashMap<TokenPair, u64>,
    /// Words that contain the pair, or contained it before a merge.
    words_with: HashMap<TokenPair, BTreeSet<usize>>,
    /// Candidate pairs by frequency. Entries with an outdated count are skipped.
    queue: BinaryHeap<(u64, Reverse<TokenPair>)>,
}

impl Corpus {
    fn new(words: BTreeMap<String, u64>, ids: &HashMap<String, u32>) -> Self {
        let words = words.into_iter().map(|(word, count)| {
            let last = word.chars().count().saturating_sub(1);
            let tokens = word.chars().enumerate().map(|(i, byte)| {
                ids[&if i == last { format!("{byte}{}", clip::END_OF_WORD) } else { byte.to_string() }]
            });
            (tokens.collect(), count)
        });
        let mut corpus = Self {
            words: words.collect(),
            counts: HashMap::new(),
            words_with: HashMap::new(),
            queue: BinaryHeap::new(),
        };
        for word in 0..corpus.words.len() {
            corpus.count(word);
        }
        corpus.queue = corpus.counts.iter().map(|(&pair, &count)| (count, Reverse(pair))).collect();
        corpus
    }

    /// Removes and returns the most frequent pair; `None` if no pair occurs at least twice.
    fn most_frequent(&mut self) -> Option<TokenPair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            if count < 2 {
                return None;
            }
            if self.counts.get(&pair) == Some(&count) {
                return Some(pair);
            }
        }
        None
    }

    fn merge(&mut self, pair: TokenPair, token: u32) {
        let mut touched = BTreeSet::new();
        for word in self.words_with.remove(&pair).unwrap_or_default() {
            touched.extend(self.uncount(word));
            let tokens = &mut self.words[word].0;
            let mut merged = Vec::with_capacity(tokens.len());
            let mut rest = tokens.as_slice();
            while let [first, after @ ..] = rest {
                let together = after.first().is_some_and(|&second| (*first, second) == pair);
                merged.push(if together { token } else { *first });
                rest = &after[usize::from(together)..];
            }
            *tokens = merged;
            touched.extend(self.count(word));
        }
        for pair in touched {
            if let Some(&count) = self.counts.get(&pair) {
                self.queue.push((count, Reverse(pair)));
            }
        }
    }

    /// Adds the pairs of a word to the counts, and returns the pairs.
    fn count(&mut self, word: usize) -> Vec<TokenPair> {
        let (tokens, times) = &self.words[word];
        let pairs: Vec<TokenPair> = tokens.windows(2).map(|w| (w[0], w[1])).collect();
        for pair in &pairs {
            *self.counts.entry(*pair).or_default() += times;
            self.words_with.entry(*pair).or_default().insert(word);
        }
        pairs
    }

    /// Subtracts the pairs of a word from the counts, and returns the pairs.
    fn uncount(&mut self, word: usize) -> Vec<TokenPair> {
        let (tokens, times) = &self.words[word];
        let pairs: Vec<TokenPair> = tokens.windows(2).map(|w| (w[0], w[1])).collect();
        for pair in &pairs {
            if let Some(count) = self.counts.get_mut(pair) {
                *count -= times;
            }
        }
        pairs
    }
}
