//! Tokenizers, which convert texts to token ids, and ids of a generated text to text.
//!
//! [`Tokenizer`] is CLIP's byte-pair encoding with the published merges, the same encoding trained on the user's
//! captions, or any `tokenizer.json` of the `tokenizers` library. For CLIP's encoding, texts are first cleaned as in
//! the published systems (see `clean`). Any other `tokenizer.json` defines its own normalisation.
//!
//! For a model that reads vectors ([`Tokenizer::of_vectors`]) a token is a whole text.

mod clean;
mod clip;
mod hostile;
mod sequences;
mod train;
mod unigram;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use tokenizers::models::ModelWrapper;

use crate::batch::TokenBatch;
use crate::error::{Error, Result};
use crate::vectors::TextVectors;
use crate::{files, guard};

/// Encodes texts as token ids: a start token (if the vocabulary has one), the tokens of the text, and an end token. A
/// tokenizer of [`Tokenizer::of_vectors`] gives one id per text. Cheap to clone, and shared by threads.
#[derive(Clone)]
pub struct Tokenizer(Arc<TokenizerInner>);

struct TokenizerInner {
    model: TokenModel,
    /// True for CLIP's encoding, for which texts are cleaned.
    clip: bool,
    vocab_size: usize,
    start: Option<u32>,
    end: u32,
}

enum TokenModel {
    /// A token is a part of a word.
    Subwords(Box<tokenizers::Tokenizer>),
    /// A token is a whole text.
    Texts(Arc<TextVectors>),
}

/// The id that ends a text of [`TokenModel::Texts`]. Ids of texts start at 1.
const END_OF_TEXTS: u32 = 0;

impl Tokenizer {
    /// Loads CLIP's byte-pair encoding from a list of merges: the published `bpe_simple_vocab_16e6.txt.gz`, the same
    /// file decompressed, or any `merges.txt`. `vocab_size` determines the number of merges: vocabulary = 256 bytes +
    /// 256 bytes at the end of a word + merges + start + end. `None` means CLIP's 49,408, or fewer if the file is
    /// shorter. The published file contains far more merges than CLIP uses.
    ///
    /// # Errors
    /// The file is unreadable, a line is not a pair, a pair has unknown tokens, or `vocab_size` is below 514 or needs
    /// more merges than the file contains.
    pub fn from_merges(path: &Path, vocab_size: Option<usize>) -> Result<Self> {
        let place = path.display().to_string();
        let mut bytes = read_bounded(path)?;
        if bytes.starts_with(&GZIP_MAGIC) {
            // A small file can decompress to a thousand times its size.
            bytes = at_most(&place, flate2::read::MultiGzDecoder::new(bytes.as_slice()))?
                .map_err(|error| Error::format(&place, error.to_string(), MERGES_FILE))?;
        }
        let text = String::from_utf8(bytes).map_err(|error| Error::format(&place, error.to_string(), MERGES_FILE))?;
        Self::from_clip(&place, &clip::parse_merges(&place, &text, vocab_size)?)
    }

    /// Loads a tokenizer saved by the `tokenizers` library (Python's, or [`Tokenizer::save`]). Its truncation and
    /// padding settings are ignored: [`Tokenizer::encode`] takes the context length, and batches are padded
    /// separately.
    ///
    /// # Errors
    /// The file is unreadable or has another format, or the tokenizer has no end-of-text token.
    pub fn from_tokenizer_json(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let model = hostile::parse(&place, &read_bounded(path)?)?;
        Self::new(&place, model)
    }

    /// Loads a tokenizer by file name: `*.json` as a `tokenizer.json`, everything else as a list of merges with CLIP's
    /// vocabulary size.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::from_tokenizer_json`] and [`Tokenizer::from_merges`].
    pub fn open(path: &Path) -> Result<Self> {
        match path.extension() {
            Some(extension) if extension == "json" => Self::from_tokenizer_json(path),
            _ => Self::from_merges(path, None),
        }
    }

    /// Learns byte pairs in CLIP's layout from `captions` (Sennrich et al. 2016, "Neural machine translation of rare
    /// words with subword units"). Repeatedly merges the most frequent pair of adjacent tokens; ties go to the pair
    /// with the smaller ids. The same captions in any order give the same tokenizer.
    ///
    /// `vocab_size` is an upper bound, because pairs that occur only once are not merged.
    ///
    /// # Errors
    /// `vocab_size` is below 514, the size of the vocabulary without merges.
    pub fn train<S: AsRef<str>>(captions: impl IntoIterator<Item = S>, vocab_size: usize) -> Result<Self> {
        let merges = clip::merges_of(vocab_size)?;
        Self::from_clip("the trained merges", &train::learn_merges(captions, merges)?)
    }

    /// Encodes each text that has a vector as one id, for models that read vectors. [`Tokenizer::encode`] returns an
    /// error for other texts.
    pub fn of_vectors(texts: Arc<TextVectors>) -> Self {
        let vocab_size = texts.len() + 1;
        let model = TokenModel::Texts(texts);
        Self(Arc::new(TokenizerInner { model, clip: false, vocab_size, start: None, end: END_OF_TEXTS }))
    }

    /// The vectors of [`Tokenizer::of_vectors`]; `None` for any other tokenizer.
    pub fn text_vectors(&self) -> Option<&Arc<TextVectors>> {
        match &self.0.model {
            TokenModel::Texts(texts) => Some(texts),
            TokenModel::Subwords(_) => None,
        }
    }

    /// Writes a `tokenizer.json` atomically. [`Tokenizer::from_tokenizer_json`] and Python's `tokenizers` can read
    /// it.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::to_json`], and an error if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write_whole(path, self.to_json()?.as_bytes())
    }

    /// The content of the `tokenizer.json`.
    ///
    /// # Errors
    /// A part of the tokenizer cannot be serialised, or the tokenizer is one of [`Tokenizer::of_vectors`].
    pub fn to_json(&self) -> Result<String> {
        let failed = |error: tokenizers::Error| {
            Error::format("a tokenizer", error.to_string(), "one that can be written as tokenizer.json")
        };
        match &self.0.model {
            TokenModel::Subwords(model) => model.to_string(true).map_err(failed),
            TokenModel::Texts(texts) => Err(failed(format!("{} texts with vectors", texts.len()).into())),
        }
    }

    /// Encodes a text as start token (if there is one), text tokens, end token. The result has at most `context` ids: a
    /// longer text loses its last tokens, but never the end token. For a tokenizer of [`Tokenizer::of_vectors`] the
    /// result is the id of the text, and `context` is ignored.
    ///
    /// # Errors
    /// `context` is too small for start and end, the model of a `tokenizer.json` cannot represent the text, or the text
    /// has no vector.
    pub fn encode(&self, text: &str, context: usize) -> Result<Vec<u32>> {
        let TokenizerInner { model, clip, start, end, .. } = &*self.0;
        let model = match model {
            TokenModel::Subwords(model) => model,
            TokenModel::Texts(texts) => return texts.id(text).map(|id| vec![id]).ok_or_else(|| no_vector(text, texts)),
        };
        let least = usize::from(start.is_some()) + 1;
        let Some(room) = context.checked_sub(least) else {
            return Err(Error::invalid("context", context.to_string(), format!("at least {least}")));
        };
        let cleaned = clip.then(|| clean::clean(text));
        let encoding = guard::catch_panic(|| model.encode_fast(cleaned.as_deref().unwrap_or(text), false))
            .map_err(|panic| cannot_encode(text, panic))?
            .map_err(|error| cannot_encode(text, error.to_string()))?;
        let tokens = encoding.get_ids().iter().take(room);
        Ok(start.iter().chain(tokens).chain([end]).copied().collect())
    }

    /// Encodes texts in parallel on all cores. The result has one row per text, in the same order.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    pub fn encode_batch<S: AsRef<str> + Sync>(&self, texts: &[S], context: usize) -> Result<TokenBatch> {
        let rows: Vec<_> = texts.par_iter().map(|text| self.encode(text.as_ref(), context)).collect::<Result<_>>()?;
        Ok(TokenBatch::from_rows(&rows, self.end_of_text()))
    }

    /// Largest id plus one: the number of rows of an embedding table.
    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    /// The token before each text; `None` if the tokenizer adds none (T5).
    pub fn start_of_text(&self) -> Option<u32> {
        self.0.start
    }

    /// The token after each text. CLIP's text encoder reads its output at this position. It is the largest id in
    /// CLIP's encoding.
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
        // Encode a sample text to find the tokens around it. This also works for BERT's [CLS] and [SEP] and for T5's
        // single </s>.
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
                return Err(invalid(format!("the tokenizer adds {before} tokens before and {after} after a text")));
            }
        };
        let clip = match model.get_model() {
            ModelWrapper::BPE(bpe) => bpe.end_of_word_suffix.as_deref() == Some(clip::END_OF_WORD),
            _ => false,
        };
        let vocab_size = model.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        let model = TokenModel::Subwords(Box::new(model));
        Ok(Self(Arc::new(TokenizerInner { model, clip, vocab_size, start, end })))
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

const MERGES_FILE: &str = "byte pairs, two tokens per line, as in CLIP's bpe_simple_vocab_16e6.txt";

fn cannot_encode(text: &str, error: String) -> Error {
    let start: String = text.chars().take(40).collect();
    Error::format(format!("text {start:?}"), error, "a text that the tokenizer's model can represent")
}

fn no_vector(text: &str, texts: &TextVectors) -> Error {
    let start: String = text.chars().take(40).collect();
    let expected = match texts.len() {
        0 => "a vector instead of a text: this model reads vectors and has no text encoder".to_owned(),
        count => format!("one of the {count} texts with a vector: this model has no text encoder"),
    };
    Error::format(format!("text {start:?}"), "it has no vector", expected)
}

/// Reads a file of at most [`hostile::MAX_BYTES`] bytes.
fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
    at_most(&path.display().to_string(), file)?.map_err(Error::io("read", path))
}

/// Reads all bytes of a reader; an error if there are more than [`hostile::MAX_BYTES`].
fn at_most(place: &str, reader: impl Read) -> Result<std::io::Result<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = reader.take(hostile::MAX_BYTES + 1).read_to_end(&mut bytes);
    if bytes.len() as u64 > hostile::MAX_BYTES {
        let expected = format!("at most {} bytes, several times the largest published tokenizer", hostile::MAX_BYTES);
        return Err(Error::format(place, format!("more than {} bytes", hostile::MAX_BYTES), expected));
    }
    Ok(read.map(|_| bytes))
}

#[cfg(test)]
mod tests;
