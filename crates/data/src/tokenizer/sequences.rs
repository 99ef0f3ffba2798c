//! Added tokens, decoding of ids, and encoding of pairs of texts, for models that write texts or compare two.

use tokenizers::AddedToken;

use super::{TokenModel, Tokenizer, cannot_encode};
use crate::error::{Error, Result};
use crate::guard;

impl Tokenizer {
    /// The same tokenizer with these tokens, which are never split. A token that it has keeps its id; the others get
    /// the ids after the largest one.
    ///
    /// # Errors
    /// A tokenizer of vectors, or one that the `tokenizers` library cannot extend.
    pub fn with_tokens(&self, tokens: &[&str]) -> Result<Self> {
        let failed = |error: String| Error::format("a tokenizer", error, "one that can be extended");
        let mut model = self.subwords()?.clone();
        model
            .add_special_tokens(tokens.iter().map(|token| AddedToken::from(*token, true)))
            .map_err(|error| failed(error.to_string()))?;
        Self::new("a tokenizer with more tokens", model)
    }

    /// The id of a token; `None` if the tokenizer does not have it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.subwords().ok()?.token_to_id(token)
    }

    /// The token with this id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.subwords().ok()?.id_to_token(id)
    }

    /// The text of these ids. Unknown ids and special tokens (start, end, padding) are left out.
    ///
    /// # Errors
    /// A tokenizer of vectors, or one whose decoder rejects the ids.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let model = self.subwords()?;
        let failed =
            |error: String| Error::format(format!("{} token ids", ids.len()), error, "ids that can be decoded");
        guard::catch_panic(|| model.decode(ids, true)).map_err(failed)?.map_err(|error| failed(error.to_string()))
    }

    /// Encodes two texts as one sequence with the special tokens of the tokenizer (`<s> A </s></s> B </s>` for BART).
    /// A pair of more than `context` tokens loses the last tokens before the end token.
    ///
    /// # Errors
    /// A tokenizer of vectors, a text that the tokenizer cannot represent, or a `context` below 1.
    pub fn encode_pair(&self, first: &str, second: &str, context: usize) -> Result<Vec<u32>> {
        let model = self.subwords()?;
        let encoding = guard::catch_panic(|| model.encode_fast((first, second), true))
            .map_err(|panic| cannot_encode(first, panic))?
            .map_err(|error| cannot_encode(first, error.to_string()))?;
        let mut ids = encoding.get_ids().to_vec();
        if ids.len() > context {
            let Some(room) = context.checked_sub(1) else {
                return Err(Error::invalid("context", context.to_string(), "at least 1"));
            };
            ids.truncate(room);
            ids.push(self.end_of_text());
        }
        Ok(ids)
    }

    fn subwords(&self) -> Result<&tokenizers::Tokenizer> {
        match &self.0.model {
            TokenModel::Subwords(model) => Ok(model),
            TokenModel::Texts(_) => Err(Error::format("a tokenizer", "texts with vectors", "one with tokens")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TEXTS: [&str; 4] = ["a dog", "a dog runs in snow.", "dogs run", "a dog and a cat"];

    #[test]
    fn added_tokens_are_not_split_and_keep_their_ids_on_disk() {
        let plain = Tokenizer::unigram(TEXTS, 60).unwrap();
        let more = plain.with_tokens(&["\u{2192}", "\u{2190}", "</s>"]).unwrap();
        assert_eq!(more.vocab_size(), plain.vocab_size() + 2);
        assert_eq!(more.end_of_text(), plain.end_of_text());
        let arrow = more.id("\u{2192}").unwrap();
        assert_eq!((arrow as usize, more.token(arrow).as_deref()), (plain.vocab_size(), Some("\u{2192}")));
        let ids = more.encode("a dog\u{2192}a cat", 20).unwrap();
        assert_eq!(ids.iter().filter(|&&id| id == arrow).count(), 1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        more.save(&path).unwrap();
        let again = Tokenizer::from_tokenizer_json(&path).unwrap();
        assert_eq!(again.encode("a dog\u{2192}a cat", 20).unwrap(), ids);
        assert_eq!(again.with_tokens(&["\u{2192}"]).unwrap().vocab_size(), more.vocab_size());
    }

    #[test]
    fn decoded_texts_are_those_that_were_encoded() {
        let tokenizer = Tokenizer::unigram(TEXTS, 60).unwrap();
        for text in ["a dog runs in snow.", "dogs", "cats and dogs", ""] {
            let ids = tokenizer.encode(text, 40).unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{ids:?}");
        }
        assert_eq!(tokenizer.decode(&[1_000_000]).unwrap(), "");
    }
}
