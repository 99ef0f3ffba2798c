//! Checks on an untrusted `tokenizer.json` before the `tokenizers` library parses it.
//!
//! The library trusts its files. On damaged files it can panic, allocate as much memory as a length field requests, or
//! multiply the length of every text. Panics are caught by [`guard::catch_panic`]. The other two faults cannot be
//! caught, so this module checks the file for them.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::guard;

/// Maximum size in bytes of a `tokenizer.json` or a list of merges, also after decompression.
pub(super) const MAX_BYTES: u64 = 1 << 26;

/// Maximum ratio of normalised length to text length. The largest ratio of a published tokenizer (ALBERT) is 545.
const MAX_GROWTH: f64 = 4096.0;

const EXPECTED: &str = "a tokenizer.json of the tokenizers library";

/// The parts of the file that are checked. All other parts only have to be valid JSON.
#[derive(Deserialize)]
struct TokenizerParts {
    #[serde(default)]
    normalizer: Value,
}

/// Parses a `tokenizer.json`.
///
/// # Errors
/// The file is not JSON, its normaliser would make texts too long, the normaliser's tables exceed the file, or the
/// library rejects the file or panics.
pub(super) fn parse(place: &str, bytes: &[u8]) -> Result<tokenizers::Tokenizer> {
    let refused = |found: String| Error::format(place, found, EXPECTED);
    let parts: TokenizerParts = serde_json::from_slice(bytes).map_err(|error| refused(error.to_string()))?;
    let growth = growth(&parts.normalizer).map_err(refused)?;
    if growth > MAX_GROWTH {
        let expected = format!("one that makes them at most {MAX_GROWTH} times longer");
        return Err(Error::format(place, format!("a normalizer that makes texts {growth:.3e} times longer"), expected));
    }
    guard::catch_panic(|| tokenizers::Tokenizer::from_bytes(bytes))
        .map_err(refused)?
        .map_err(|error| refused(error.to_string()))
}

/// Upper bound of (bytes after) / (bytes before) for a normaliser, for texts of at least one byte.
///
/// The kind is detected by its keys instead of `type`, because the library does not require `type` either.
fn growth(normalizer: &Value) -> Result<f64, String> {
    if let Some(parts) = normalizer.get("normalizers").and_then(Value::as_array) {
        return parts.iter().try_fold(1.0, |product, part| Ok(product * growth(part)?));
    }
    let text = |key: &str| normalizer.get(key).and_then(Value::as_str);
    if let Some(content) = text("content") {
        let pattern = |kind: &str| normalizer.get("pattern").and_then(|it| it.get(kind)?.as_str());
        return match (pattern("String"), pattern("Regex")) {
            (Some(""), _) | (_, Some("")) => Err("a Replace normalizer with an empty pattern".to_owned()),
            (Some(pattern), _) => Ok((content.len() as f64 / pattern.len() as f64).max(1.0)),
            // A regular expression can match between any two bytes, and at both ends.
            _ => Ok(1.0 + content.len() as f64),
        };
    }
    if let Some(prefix) = text("prepend") {
        return Ok(1.0 + prefix.len() as f64);
    }
    if let Some(map) = normalizer.get("precompiled_charsmap") {
        return longest_rewrite(map.as_str().unwrap_or_default());
    }
    Ok(match text("type").unwrap_or_default() {
        // Worst case: U+FDFA (3 bytes) becomes 18 characters (33 bytes).
        "NFKC" | "NFKD" => 11.0,
        // Worst case: U+0390 (2 bytes) becomes three code points.
        "NFC" | "NFD" => 3.0,
        // Product of NFD, spaces around Chinese characters, and lower case.
        "BertNormalizer" | "Bert" => 6.0,
        "Lowercase" => 1.5,
        // Bytes above 127 become two-byte characters.
        "ByteLevel" => 2.0,
        _ => 1.0,
    })
}

/// Length in bytes of the longest replacement in a compiled sentencepiece map. The map has a 4-byte trie size, the
/// trie, and zero-terminated texts.
fn longest_rewrite(map: &str) -> Result<f64, String> {
    let wrong = |what: &str| format!("a Precompiled normalizer {what}");
    let bytes = base64(map).ok_or_else(|| wrong("whose map is not base64"))?;
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| wrong("with an empty map"))?;
    let trie = u32::from_le_bytes(*length) as usize;
    if trie > rest.len() {
        return Err(wrong(&format!("with a trie of {trie} bytes in a map of {}", bytes.len())));
    }
    if trie < 4 {
        return Err(wrong("with an empty trie"));
    }
    let longest = rest[trie..].split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0);
    Ok((longest as f64).max(1.0))
}

/// Decodes base64 in the standard alphabet.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut bits) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        group = group << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::super::Tokenizer;
    use super::*;

    fn encode_base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let group = chunk.iter().fold(0, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
            let letter = |i: usize| char::from(LETTERS[(group >> (18 - 6 * i) & 63) as usize]);
            text.extend((0..4).map(|i| if i <= chunk.len() { letter(i) } else { '=' }));
        }
        text
    }

    fn whole() -> String {
        Tokenizer::train(["a black dog", "a black cat"], 520).unwrap().to_json().unwrap()
    }

    /// Opens a tokenizer with one part replaced and encodes a text with it. Returns the error message.
    fn refused(part: &str, value: &Value) -> String {
        let mut json: Value = serde_json::from_str(&whole()).unwrap();
        json[part] = value.clone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, json.to_string()).unwrap();
        let started = Instant::now();
        let opened = Tokenizer::open(&path).and_then(|it| it.encode(&"a black dog ".repeat(20), 77));
        assert!(started.elapsed() < Duration::from_secs(20), "{value}");
        opened.map_err(|error| error.to_string()).expect_err(&value.to_string())
    }

    fn replace(kind: &str, pattern: &str, content: &str) -> Value {
        json!({ "type": "Replace", "pattern": { kind: pattern }, "content": content })
    }

    #[test]
    fn hostile_normalizers_are_rejected() {
        for kind in ["String", "Regex"] {
            let message = refused("normalizer", &replace(kind, "", "x"));
            assert!(message.contains("tokenizer.json: a Replace normalizer with an empty pattern"), "{message}");
        }
        // This chain makes a text 2^40 times longer.
        let chain = vec![replace("String", "a", "aa"); 40];
        for chain in [json!({ "type": "Sequence", "normalizers": chain }), json!({ "normalizers": chain })] {
            let message = refused("normalizer", &chain);
            assert!(message.contains("1.100e12 times longer; expected one that makes them at most 4096"), "{message}");
        }
        let message = refused("normalizer", &replace("Regex", "a?", &"b".repeat(5000)));
        assert!(message.contains("5.001e3 times longer"), "{message}");

        let precompiled = |map: &[u8]| json!({ "type": "Precompiled", "precompiled_charsmap": encode_base64(map) });
        let message = refused("normalizer", &json!({ "type": "Precompiled", "precompiled_charsmap": "" }));
        assert!(message.contains("with an empty map"), "{message}");
        let message = refused("normalizer", &json!({ "type": "Precompiled", "precompiled_charsmap": "*" }));
        assert!(message.contains("not base64"), "{message}");
        // The library would allocate 8 GB for this trie.
        let message = refused("normalizer", &precompiled(&[0xfc, 0xff, 0xff, 0xff, 1, 2, 3, 4]));
        assert!(message.contains("a trie of 4294967292 bytes in a map of 8"), "{message}");
        let message = refused("normalizer", &precompiled(&[0; 8]));
        assert!(message.contains("an empty trie"), "{message}");
        // The only unit of the trie points outside of the trie, so the library panics on any lookup.
        let message = refused("normalizer", &precompiled(&[&[4, 0, 0, 0, 0, 0xff, 0xff, 0xff][..], b"x\0"].concat()));
        assert!(message.contains("panicked"), "{message}");
        let long = [&[4, 0, 0, 0, 0, 0, 0, 0][..], &[b'x'; 10_000]].concat();
        assert!(refused("normalizer", &precompiled(&long)).contains("1.000e4 times longer"));
    }

    #[test]
    fn other_hostile_parts_are_rejected() {
        for (part, value) in [
            ("normalizer", json!({ "type": "Replace" })),
            ("pre_tokenizer", json!({ "type": "Nothing" })),
            ("model", json!({ "type": "BPE", "vocab": { "a": 0 }, "merges": ["a b c"] })),
            ("model", json!({ "type": "Unigram", "vocab": [], "unk_id": 7 })),
            ("model", Value::Null),
            ("decoder", json!({ "type": "Sequence", "decoders": 5 })),
            ("pre_tokenizer", json!({ "type": "FixedLength", "length": 0 })),
        ] {
            let message = refused(part, &value);
            assert!(message.contains("tokenizer.json") || message.contains("the tokenizer's model"), "{message}");
        }
    }

    /// Parsing a file that is truncated at any position returns an error and does not panic.
    #[test]
    fn every_truncation_is_an_error() {
        let whole = whole();
        let decoder = whole.find("\"decoder\"").unwrap();
        let places = (decoder..decoder + 150).chain((0..whole.len()).step_by(whole.len() / 150));
        for at in places.filter(|at| *at < whole.len() - 1 && whole.is_char_boundary(*at)) {
            let message = parse("t.json", &whole.as_bytes()[..at]).err().map(|error| error.to_string());
            assert!(message.as_ref().is_some_and(|it| it.contains("t.json")), "{at}: {message:?}");
            assert!(!message.unwrap_or_default().contains("panicked"), "{at}");
        }
        parse("t.json", whole.as_bytes()).unwrap();
    }

    /// Changes values within a valid document, so that the library's own parsers read them.
    #[test]
    fn damaged_values_do_not_panic() {
        let whole = whole();
        for (from, to) in [
            ("\"ByteLevel\"", "\"BPEDecoder\""),
            ("\"decoder\": {", "\"decoder\": [{"),
            ("\"trim_offsets\": true", "\"trim_offsets\": 1"),
            ("\"version\": \"1.0\"", "\"version\": \"9\""),
            ("\"Removed\"", "\"Doubled\""),
        ] {
            assert!(whole.contains(from), "{from}");
            // Some of the changed files are valid. Parsing must not panic.
            drop(parse("t.json", whole.replace(from, to).as_bytes()));
        }
    }

    #[test]
    fn published_normalizers_are_accepted() {
        let albert = json!({ "type": "Sequence", "normalizers": [
            replace("String", "``", "\""), replace("String", "''", "\""), { "type": "NFKD" }, { "type": "StripAccents" },
            { "type": "Lowercase" }, { "type": "Precompiled", "precompiled_charsmap":
                encode_base64(&[&[4, 0, 0, 0, 0, 0, 0, 0][..], &[b'x'; 33], &[0]].concat()) },
        ] });
        assert!((growth(&albert).unwrap() - 11.0 * 1.5 * 33.0).abs() < 1e-9);
        let llama = json!({ "normalizers": [{ "type": "Prepend", "prepend": "▁" }, replace("String", " ", "▁")] });
        assert!((growth(&llama).unwrap() - 12.0).abs() < 1e-9);
        assert!((growth(&Value::Null).unwrap() - 1.0).abs() < 1e-9);
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\0\xff\x80\x7f"] {
            assert_eq!(base64(&encode_base64(bytes)).unwrap(), bytes);
        }
    }

    /// 80 MiB of a single letter in a small gzip file.
    #[test]
    fn gzip_bomb_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("merges.txt.gz");
        let file = std::fs::File::create(&path).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        for _ in 0..80 {
            packed.write_all(&vec![b'a'; 1 << 20]).unwrap();
        }
        packed.finish().unwrap();
        let message = Tokenizer::open(&path).unwrap_err().to_string();
        assert!(message.contains("merges.txt.gz: more than 67108864 bytes"), "{message}");
    }
}
