//! From text to token ids.
//!
//! [`Tokenizer`] is CLIP's byte-pair encoding from the published merges, one of the same family trained on the user's
//! captions, or whatever a `tokenizer.json` of the `tokenizers` library describes. Texts for CLIP's family are first
//! cleaned as the published systems do (see `clean`); any other `tokenizer.json` brings its own normalisation.

mod clean;
mod clip;
mod hostile;
mod train;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use tokenizers::models::ModelWrapper;

use crate::batch::TokenBatch;
use crate::error::{Error, Result};
use crate::{files, guard};

/// Token ids of texts, between a start and an end token. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    model: tokenizers::Tokenizer,
    /// Of CLIP's family: texts are cleaned as the published systems do.
    clip: bool,
    vocab_size: usize,
    start: Option<u32>,
    end: u32,
}

impl Tokenizer {
    /// CLIP's byte pairs from a list of merges: the published `bpe_simple_vocab_16e6.txt.gz`, the same unpacked, or any
    /// `merges.txt`. `vocab_size` says how many merges are read: vocabulary = 256 bytes + 256 bytes at the end of a
    /// word + merges + start + end. `None` is CLIP's 49,408 (the published file holds far more merges than were used),
    /// or fewer where the file is shorter.
    ///
    /// # Errors
    /// An unreadable file, a line that is no pair, a pair of unknown tokens, a `vocab_size` below 514 or above what the
    /// file holds.
    pub fn from_merges(path: &Path, vocab_size: Option<usize>) -> Result<Self> {
        let place = path.display().to_string();
        let mut bytes = read_bounded(path)?;
        if bytes.starts_with(&GZIP_MAGIC) {
            // A small file can unpack to a thousand times its size.
            bytes = at_most(&place, flate2::read::MultiGzDecoder::new(bytes.as_slice()))?
                .map_err(|error| Error::format(&place, error.to_string(), MERGES_FILE))?;
        }
        let text = String::from_utf8(bytes).map_err(|error| Error::format(&place, error.to_string(), MERGES_FILE))?;
        Self::from_clip(&place, &clip::parse_merges(&place, &text, vocab_size)?)
    }

    /// Any tokenizer saved by the `tokenizers` library, Python's or [`Tokenizer::save`]. Its truncation and padding are
    /// ignored: the caller of [`Tokenizer::encode`] gives the context, a batch pads itself.
    ///
    /// # Errors
    /// An unreadable file, one of another format, or a tokenizer without an end-of-text token.
    pub fn from_tokenizer_json(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let model = hostile::parse(&place, &read_bounded(path)?)?;
        Self::new(&place, model)
    }

    /// Either of the two, by its name: `*.json` is a `tokenizer.json`, everything else a list of merges of CLIP's size.
    ///
    /// # Errors
    /// As [`Tokenizer::from_tokenizer_json`] and [`Tokenizer::from_merges`].
    pub fn open(path: &Path) -> Result<Self> {
        match path.extension() {
            Some(extension) if extension == "json" => Self::from_tokenizer_json(path),
            _ => Self::from_merges(path, None),
        }
    }

    /// Byte pairs of CLIP's family learnt from `captions` (Sennrich et al. 2016, "Neural machine translation of rare
    /// words with subword units"): again and again the most frequent pair of neighbours becomes a token, ties going to
    /// the pair with the smaller ids. Equal captions in any order give an equal tokenizer.
    ///
    /// `vocab_size` is an upper bound: no pair that occurs only once is merged.
    ///
    /// # Errors
    /// `vocab_size` below 514, the vocabulary without any merge.
    pub fn train<S: AsRef<str>>(captions: impl IntoIterator<Item = S>, vocab_size: usize) -> Result<Self> {
        let merges = clip::merges_of(vocab_size)?;
        Self::from_clip("the trained merges", &train::learn_merges(captions, merges)?)
    }

    /// Writes a `tokenizer.json`, which [`Tokenizer::from_tokenizer_json`] and Python's `tokenizers` read. The file
    /// appears whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write_whole(path, self.to_json()?.as_bytes())
    }

    /// The content of its `tokenizer.json`.
    ///
    /// # Errors
    /// A part of it that has no such form.
    pub fn to_json(&self) -> Result<String> {
        let failed = |error: tokenizers::Error| {
            Error::format("a tokenizer", error.to_string(), "one that can be written as tokenizer.json")
        };
        self.0.model.to_string(true).map_err(failed)
    }

    /// Start, the text's tokens, end; never more than `context` ids: a text that is too long loses its last tokens,
    /// never the end token.
    ///
    /// # Errors
    /// `context` has no room for start and end, or the model of a `tokenizer.json` cannot represent the text.
    pub fn encode(&self, text: &str, context: usize) -> Result<Vec<u32>> {
        let Inner { model, clip, start, end, .. } = &*self.0;
        let least = usize::from(start.is_some()) + 1;
        let Some(room) = context.checked_sub(least) else {
            return Err(Error::config("context", context.to_string(), format!("at least {least}")));
        };
        let cleaned = clip.then(|| clean::clean(text));
        let encoding = guard::catch_panic(|| model.encode_fast(cleaned.as_deref().unwrap_or(text), false))
            .map_err(|panic| cannot_encode(text, panic))?
            .map_err(|error| cannot_encode(text, error.to_string()))?;
        let tokens = encoding.get_ids().iter().take(room);
        Ok(start.iter().chain(tokens).chain([end]).copied().collect())
    }

    /// Many texts at once, on all cores, one row each in the same order.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_batch<S: AsRef<str> + Sync>(&self, texts: &[S], context: usize) -> Result<TokenBatch> {
        let rows: Vec<_> = texts.par_iter().map(|text| self.encode(text.as_ref(), context)).collect::<Result<_>>()?;
        Ok(TokenBatch::from_rows(&rows, self.end_of_text()))
    }

    /// One more than the largest id: rows of an embedding table.
    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    /// The token before each text; `None` where there is none (T5).
    pub fn start_of_text(&self) -> Option<u32> {
        self.0.start
    }

    /// The token after each text, whose place is where CLIP's text encoder is read. The largest id in CLIP's family.
    pub fn end_of_text(&self) -> u32 {
        self.0.end
    }

    fn from_clip(place: &str, merges: &[(String, String)]) -> Result<Self> {
        let model = clip::build(merges).map_err(|error| Error::format(place, error.to_string(), MERGES_FILE))?;
        Self::new(place, model)
    }

    fn new(place: &str, mut model: tokenizers::Tokenizer) -> Result<Self> {
        let invalid = |found: String| Error::format(place, found, "a tokenizer that ends each text with one token");
        model.with_padding(None);
        model.with_truncation(None).map_err(|error| invalid(error.to_string()))?;
        // What surrounds a text is asked of the tokenizer itself, so that BERT's [CLS] and [SEP] or T5's lone </s> work
        // as well.
        let sample = guard::catch_panic(|| model.encode("a", true))
            .map_err(invalid)?
            .map_err(|error| invalid(format!("it cannot encode \"a\": {error}")))?;
        let ids: Vec<_> = sample.get_ids().iter().copied().zip(sample.get_special_tokens_mask()).collect();
        let special = |(id, mask): &(u32, &u32)| (**mask == 1).then_some(*id);
        let before: Vec<_> = ids.iter().map_while(special).collect();
        let after: Vec<_> = ids.iter().rev().map_while(special).collect();
        let (start, end) = match (before.as_slice(), after.as_slice()) {
            ([], [end]) => (None, *end),
            ([start], [end]) => (Some(*start), *end),
            _ => {
                let (before, after) = (before.len(), after.len());
                return Err(invalid(format!("the tokenizer puts {before} tokens before and {after} after a text")));
            }
        };
        let clip = match model.get_model() {
            ModelWrapper::BPE(bpe) => bpe.end_of_word_suffix.as_deref() == Some(clip::END_OF_WORD),
            _ => false,
        };
        let vocab_size = model.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        Ok(Self(Arc::new(Inner { model, clip, vocab_size, start, end })))
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("end_of_text", &self.end_of_text())
            .finish_non_exhaustive()
    }
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

const MERGES_FILE: &str = "byte pairs, two tokens a line, as in CLIP's bpe_simple_vocab_16e6.txt";

fn cannot_encode(text: &str, error: String) -> Error {
    let start: String = text.chars().take(40).collect();
    Error::format(format!("text {start:?}"), error, "a text that the tokenizer's model can represent")
}

/// The bytes of a file that is not larger than a tokenizer can be.
fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
    at_most(&path.display().to_string(), file)?.map_err(Error::io("read", path))
}

/// All bytes of a reader; an error of its own if there are more than a tokenizer can have.
fn at_most(place: &str, reader: impl Read) -> Result<std::io::Result<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = reader.take(hostile::MOST_BYTES + 1).read_to_end(&mut bytes);
    if bytes.len() as u64 > hostile::MOST_BYTES {
        let expected = format!("at most {} bytes, several times the largest published tokenizer", hostile::MOST_BYTES);
        return Err(Error::format(place, format!("more than {} bytes", hostile::MOST_BYTES), expected));
    }
    Ok(read.map(|_| bytes))
}

#[cfg(test)]
mod tests;
