//! Cleans text before CLIP's byte-pair encoding: `ftfy.fix_text`, HTML unescaping, normalisation of white space, and
//! lower-casing.
//!
//! The published systems use ftfy. Its Rust port, `plsfix`, has 120 crates in its dependency tree (`cargo tree`;
//! mostly the ICU family), although this step leaves nearly every caption unchanged. The parts of ftfy that matter
//! for captions are implemented here:
//!
//! | ftfy 6 step | here |
//! |---|---|
//! | unescape HTML where the text has no `<` | same, by `html-escape` (entities with their semicolon) |
//! | UTF-8 read as Windows-1252 or Latin-1 | [`repair_mojibake`]; ftfy also handles rarer encodings |
//! | C1 controls as Windows-1252, ligatures, full and half width, quotes, controls | [`fold`], same characters |
//! | Unicode NFC | same |
//! | terminal escapes, lone surrogates | only the control character is removed; surrogates cannot occur in a Rust
//! string |
//!
//! Compared with ftfy 6.3.1, the token ids are equal for the 499 golden texts and for all 123,615 captions, phrases
//! and names of the public data files used here (7 of them are not ASCII, 96 contain `&`). Of 531 texts in twenty
//! languages that were decoded with the wrong encoding on purpose, 523 give equal ids; ftfy leaves the other eight
//! garbled.

use std::borrow::Cow;

use html_escape::decode_html_entities;
use tokenizers::NormalizedString;

/// Cleans a text for CLIP's encoding: repairs encoding errors, unescapes HTML (twice more, as published), collapses and
/// strips white space, and converts to lower case. The function is idempotent, unless the text was escaped more than
/// three times.
pub(super) fn clean(text: &str) -> String {
    let fixed = fix_text(text);
    let once = decode_html_entities(&fixed);
    let twice = decode_html_entities(&once);
    let mut result = String::with_capacity(twice.len());
    for word in twice.split_whitespace() {
        if !result.is_empty() {
            result.push(' ');
        }
        result.push_str(word);
    }
    result.to_lowercase()
}

fn fix_text(text: &str) -> Cow<'_, str> {
    let text = if text.contains('<') { Cow::Borrowed(text) } else { decode_html_entities(text) };
    // The steps below do not change printable ASCII or white space, so most captions return here.
    if text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t' | b'\n')) {
        return text;
    }
    let mut text = text.into_owned();
    // Text can be decoded with the wrong encoding more than once. At most three such errors are repaired.
    for _ in 0..3 {
        match repair_mojibake(&text) {
            Some(repaired) => text = repaired,
            None => break,
        }
    }
    let folded: String = text.chars().flat_map(fold).collect();
    let mut normalised = NormalizedString::from(folded);
    normalised.nfc();
    Cow::Owned(normalised.get().to_owned())
}

/// The characters of Windows-1252 at bytes 0x80..=0x9F. The five unassigned bytes map to the control character of the
/// same number.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Repairs characters that are UTF-8 decoded as Windows-1252 or Latin-1 ("schÃ¶n" becomes "schön"). Returns `None` if
/// the text contains no such characters.
fn repair_mojibake(text: &str) -> Option<String> {
    let mut result = String::with_capacity(text.len());
    let mut run = Vec::new();
    let mut changed = false;
    for c in text.chars().map(Some).chain([None]) {
        match c.and_then(high_byte) {
            Some(byte) => run.extend(c.map(|c| (c, byte))),
            None => {
                changed |= repair_run(&run, c, &mut result);
                run.clear();
                result.extend(c);
            }
        }
    }
    changed.then_some(result)
}

/// The byte 0x80..=0xFF that decodes to `c` in Windows-1252 or Latin-1.
fn high_byte(c: char) -> Option<u8> {
    match c {
        '\u{80}'..='\u{ff}' => Some(c as u8),
        _ => WINDOWS_1252.iter().position(|&w| w == c).map(|i| 0x80 + i as u8),
    }
}

/// Appends `run` to `result` with its valid UTF-8 parts decoded. Returns whether any part was decoded. `next` is the
/// character after the run.
fn repair_run(run: &[(char, u8)], next: Option<char>, result: &mut String) -> bool {
    let bytes: Vec<u8> = run.iter().map(|&(_, byte)| byte).collect();
    let mut rest = run;
    let mut changed = false;
    for chunk in bytes.utf8_chunks() {
        let (valid, after) = rest.split_at(chunk.valid().len());
        let (invalid, after) = after.split_at(chunk.invalid().len());
        rest = after;
        let next = invalid.first().or(rest.first()).map(|&(c, _)| c).or(next);
        if is_mojibake(valid, result.chars().next_back(), next) {
            changed = true;
            result.push_str(chunk.valid());
        } else {
            result.extend(valid.iter().map(|(c, _)| c));
        }
        result.extend(invalid.iter().map(|(c, _)| c));
    }
    changed
}

/// True if a valid UTF-8 sequence is a decoding error. Sequences of three or more bytes almost always are, and so are
/// pairs that begin with `Â` or `Ã`. Other pairs can be a capital letter followed by punctuation ("CAFÉ™"): they are
/// kept if the second character is punctuation, unless a lower-case letter is next to them.
fn is_mojibake(read_as: &[(char, u8)], before: Option<char>, after: Option<char>) -> bool {
    const AFTER_A_CAPITAL: &str = "‚„…†‡‰‹‘’“”•–—™›\u{a0}¡§©«®°»¿´·";
    match read_as {
        [] => false,
        [(_, lead), (mark, _)] => {
            let in_word = before.is_some_and(char::is_lowercase) || after.is_some_and(char::is_lowercase);
            *lead <= 0xC3 || in_word || !AFTER_A_CAPITAL.contains(*mark)
        }
        _ => true,
    }
}

/// Replaces one character by a simpler equivalent; control characters are removed.
fn fold(c: char) -> impl Iterator<Item = char> {
    let plain = match c {
        '\u{80}'..='\u{9f}' => WINDOWS_1252[c as usize - 0x80].to_string(),
        '\u{2bc}' | '‘'..='‛' => "'".to_owned(),
        '“'..='‟' => "\"".to_owned(),
        'ŉ' => "'n".to_owned(),
        'Ĳ' | 'ĳ' | 'Ǆ'..='ǌ' | 'Ǳ'..='ǳ' | 'ﬀ'..='ﬆ' => compatible(c),
        '\u{3000}' | '\u{ff01}'..='\u{ffef}' => compatible(c),
        '\0'..='\x08' | '\x0b' | '\x0e'..='\x1f' | '\x7f' => String::new(),
        '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffc}' => String::new(),
        _ => c.to_string(),
    };
    plain.chars().collect::<Vec<_>>().into_iter()
}

/// Unicode NFKC of one character.
fn compatible(c: char) -> String {
    let mut text = NormalizedString::from(c.to_string());
    text.nfkc();
    text.get().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: Python `ftfy.fix_text` 6.3.1, `html.unescape` twice, `" ".join(t.split()).lower()`.
    #[test]
    fn agrees_with_ftfy() {
        for (text, expected) in [
            ("", ""),
            (" \t\n ", ""),
            ("A  Dog\r\nruns", "a dog runs"),
            ("“Ça” va’s", "\"ça\" va's"),
            ("schÃ¶n, â€œquoteâ€\u{9d}", "schön, \"quote\""),
            ("doubly mangled: schÃƒÂ¶n", "doubly mangled: schön"),
            ("CAFÉ™ and MÉTÉO» stay", "café™ and météo» stay"),
            ("Ã©tÃ© and déjà", "été and déjà"),
            ("gÄ™Å›lÄ… jaÅºÅ„ Å“uvre", "gęślą jaźń œuvre"),
            ("Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "привет"),
            ("ä½\u{a0}å¥½", "你好"),
            ("ðŸ˜€", "😀"),
            ("ﬁne ｆｕｌｌ　ｗｉｄｔｈ ｶﾞ", "fine full width ガ"),
            ("e\u{301}", "é"),
            ("zero\u{feff}width\u{0}nul", "zerowidthnul"),
            ("&lt;b&gt; &amp;amp;amp; &eacute; &#233; &nosuch; AT&T", "<b> & é é &nosuch; at&t"),
            ("<b> &amp;amp; &quot;", "<b> & \""),
            ("50 \u{80} \u{85}", "50 € …"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn is_idempotent() {
        for text in ["schÃ¶n &amp; “gut”", "A \u{3000} b ﬁ", "CAFÉ™", "日本語"] {
            assert_eq!(clean(&clean(text)), clean(text));
        }
    }
}
